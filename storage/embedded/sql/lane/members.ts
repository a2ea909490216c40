import type { Node } from '../ast.ts'

/** Whether the node has no member besides those. */
export function only(node: Node, known: ReadonlySet<string>): boolean {
  for (const key in node) if (!known.has(key)) return false
  return true
}

/** A plain call: neither DISTINCT nor FILTER nor a schema. */
export const CALL: ReadonlySet<string> = new Set(['class', 'type', 'alias', 'function_name', 'children', 'order_bys', 'query_location'])

/** A call that may be written as an operator. */
export const OPERATION: ReadonlySet<string> = new Set([...CALL, 'is_operator'])
