/**
 * What aliases of a select list stand for where they are used again: the binder writes each out. `SELECT x AS a, a + a AS b, b + b AS c` doubles with each,
 * and a few dozen of those would take all memory, or for ever.
 */
import type { Node } from './ast.ts'
import { foldName } from './names.ts'

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
