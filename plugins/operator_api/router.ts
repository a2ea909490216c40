/** Which operation a method and a path name. */
import type { Operation } from './operation.ts'
import { PARAMETERS } from './operation.ts'

interface Found {
  operation: Operation
  params: Record<string, string>
}

export class Router {
  private readonly routes: { parts: readonly string[]; operation: Operation }[]

  constructor(operations: readonly Operation[]) {
    // Words before parameters: /runs/waiting is no run.
    this.routes = operations
      .map((operation) => ({ parts: operation.path.split('/'), operation }))
      .sort((a, b) => Number(a.operation.path.includes('{')) - Number(b.operation.path.includes('{')))
  }

  /** @param path as it came, without the query. @returns the methods that it answers to, where none of its operations has this one. */
  find(method: string, path: string): Found | { methods: readonly string[] } {
    const parts = path.split('/')
    const fitting = this.routes.filter((route) => fits(route.parts, parts))
    const words = fitting.filter(({ operation }) => !operation.path.includes('{'))
    const of = words.length > 0 ? words : fitting
    const wanted = method === 'HEAD' ? 'GET' : method
    const found = of.find(({ operation }) => operation.method === wanted)
    if (found === undefined) return { methods: [...new Set(of.map(({ operation }) => operation.method))].sort() }
    const params: Record<string, string> = {}
    for (const [at, part] of found.parts.entries()) if (part.startsWith('{')) params[part.slice(1, -1)] = parameterOf(part.slice(1, -1), parts[at])
    return { operation: found.operation, params }
  }
}

function fits(route: readonly string[], parts: readonly string[]): boolean {
  return route.length === parts.length && route.every((part, at) => (part.startsWith('{') ? parts[at] !== '' : part === parts[at]))
}

/** In the one form that it has; what cannot be decoded stays as it came, and is no id then. */
function parameterOf(name: string, part: string): string {
  let text = part
  try {
    text = decodeURIComponent(part)
  } catch {}
  return PARAMETERS[name].canonical?.(text) ?? text
}
