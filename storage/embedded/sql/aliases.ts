/**
 * What aliases of a select list stand for where they are used again: the binder writes each out. `SELECT x AS a, a + a AS b, b + b AS c` doubles with each,
 * and a few dozen of those would take all memory, or for ever.
 */
import { constantInteger, type Node, walk } from './ast.ts'
import { foldName } from './names.ts'
import { NATIVE } from './plugin-functions/expand.ts'
import type { Printer } from './printer.ts'
import type { Scope } from './scope.ts'

/** Of queries within others, which are asked for with each of these. */
const known = new WeakMap<Node, number>()

/** @param select a query that is not changed any more. @returns nodes that its aliases stand for beyond those that are there; it may be Infinity. */
export function aliasedNodes(select: Node): number {
  const before = known.get(select)
  if (before !== undefined) return before
  const sizes = new Map<string, number>()
  let more = 0
  const written = (part: unknown): number => {
    if (typeof part !== 'object' || part === null) return 0
    if (Array.isArray(part)) return part.reduce<number>((nodes, each) => nodes + written(each), 0)
    const node = part as Node
    const size = node.class === 'COLUMN_REF' && node.column_names.length === 1 ? sizes.get(foldName(String(node.column_names[0]))) : undefined
    if (size !== undefined) {
      more += size - 1
      return size
    }
    let nodes = node.type === 'SELECT_NODE' ? 1 + aliasedNodes(node) : typeof node.class === 'string' ? 1 : 0
    for (const key in node) if (typeof node[key] === 'object') nodes += written(node[key])
    return nodes
  }
  for (const item of (select.select_list ?? []) as Node[]) {
    const size = written(item)
    if (typeof item.alias === 'string') sizes.set(foldName(item.alias), size)
  }
  if (sizes.size > 0) for (const key in select) if (key !== 'select_list' && key !== 'from_table' && key !== 'cte_map') written(select[key])
  known.set(select, more)
  return more
}

/** Functions whose values differ from call to call. */
export const VOLATILE: ReadonlySet<string> = new Set(['random', 'gen_random_uuid', 'uuid', 'uuidv4', 'uuidv7'])

/** Tells the scope of a query what aliases there are, and which of them mean one item wherever they are used again. */
export function nameAliases(select: Node, scope: Scope): void {
  const names = ((select.select_list ?? []) as Node[]).map(({ alias }) => (typeof alias === 'string' ? foldName(alias) : undefined))
  const all = new Set<string>()
  const others = new Set<string>()
  for (const name of names) if (name !== undefined) (all.has(name) ? others : all).add(name)
  // A key is known by its alias: what it stands for need not be the same to DuckDB.
  for (const key of (select.group_expressions ?? []) as Node[]) {
    const name = key.class === 'COLUMN_REF' ? foldName(String(key.column_names.at(-1))) : names[Number(constantInteger(key) ?? 0n) - 1]
    if (name !== undefined) others.add(name)
  }
  scope.aliases = all
  scope.single = new Set([...all].filter((name) => !others.has(name)))
}

/** Notes an item that has a check of a divisor: to DuckDB that is a side effect, for which it lets no alias stand. */
export function noteChecked(item: Node, text: string, scope: Scope): void {
  const name = foldName(String(item.alias))
  if (!scope.single.has(name)) return
  let isRepeatable = true
  walk(item, (node) => {
    if (node.class === 'SUBQUERY' || node[NATIVE] !== undefined || VOLATILE.has(foldName(String(node.function_name)))) isRepeatable = false
  })
  if (isRepeatable) scope.written.set(name, text)
}

/** What an alias stands for, where it is to be written in its place. Columns and relations go before aliases, and names within a lambda may be those of its parameters. */
export function writtenOut(p: Printer, name: string, scope: Scope): string | undefined {
  const folded = foldName(name)
  const text = scope.written.get(folded)
  if (text === undefined || scope.natural || scope.parameters.length > 0) return undefined
  if (scope.sources.some(({ complete, alias, columns }) => !complete || alias === folded || columns.has(folded))) return undefined
  p.rewrites++
  p.divisorChecks++
  return `(${text})`
}

/** Prints where DuckDB reads no alias, or one that may have any side effect. */
export function withoutWritten<T>(scope: Scope, print: () => T): T {
  const { written } = scope
  scope.written = new Map()
  try {
    return print()
  } finally {
    scope.written = written
  }
}
