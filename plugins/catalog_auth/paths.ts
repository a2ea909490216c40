/** The catalog's routes, and which paths are theirs. */
import { namespaceProblem } from 'svcdb'

export const CONFIG = '/v1/config'
export const NAMESPACES_LIST = '/v1/namespaces'
export const NAMESPACE = '/v1/namespaces/:namespace'
export const CONTEXT = '/auth/context'

const PATTERNS: ReadonlySet<string> = new Set([CONFIG, NAMESPACES_LIST, NAMESPACE, CONTEXT])
const FIXED: ReadonlySet<string> = new Set([CONFIG, NAMESPACES_LIST, CONTEXT])
const ONE_NAMESPACE = /^\/v1\/namespaces\/([^/]+)$/

/** Whether a route's pattern, as authorizers and observers are told it, is one of the catalog's. */
export function isCatalogResource(resource: string): boolean {
  return PATTERNS.has(resource)
}

/** Whether a request's path is one of the catalog's, spelt plainly: an encoded spelling is served, but its URL carries no token. */
export function isCatalogPath(path: string): boolean {
  return FIXED.has(path) || ONE_NAMESPACE.test(path)
}

/** Whether a path is one of those that are about no namespace in particular. */
export function isGeneralPath(path: string): boolean {
  return FIXED.has(path)
}

/** The namespace that a path is about; undefined for other paths, and for what can be no namespace's name. */
export function namespaceOfPath(path: string): string | undefined {
  const part = ONE_NAMESPACE.exec(path)?.[1]
  if (part === undefined) return undefined
  let name: string
  try {
    name = decodeURIComponent(part)
  } catch {
    return undefined // the router refuses the path
  }
  return namespaceProblem(name) === undefined ? name : undefined
}
