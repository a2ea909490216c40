/**
 * How often DuckDB may write out one expression of a statement: its macros and its aliases have their operands as often as these are named, and a condition that it moves into a
 * subquery has what the subquery's columns stand for, level by level. Pure.
 */
import type { Node } from './ast.ts'
import { foldName } from './names.ts'

/** Macros of DuckDB's, by how often they name an operand. */
const MACROS: ReadonlyMap<string, number> = new Map([
  ['nullif', 2],
  ['round_even', 3],
  ['roundbankers', 3],
  ['split_part', 2],
])

/** @param tree a query. @returns how often at most, as far as select lists say: it may be Infinity. */
export function copiesOf(tree: Node): number {
  const selects: Select[] = []
  const copies = spread(tree, selects)
  // Without another query around it, what an expression names twice is there twice.
  return selects.length === 1 && !selects[0].repeats ? 1 : copies
}

interface Select {
  /** It has macros, or an alias is used again. */
  repeats: boolean
  /** How often one of its names or constants is written at most. */
  most: number
}

/** Of queries that stand beside each other the most, and of one within another the product. */
function spread(part: unknown, selects: Select[]): number {
  if (typeof part !== 'object' || part === null) return 1
  const node = part as Node
  let most = 1
  // Each may read what those before it are.
  let product = 1
  for (const { value } of (node.cte_map?.map ?? []) as Node[]) product *= spread(value, selects)
  for (const key in node) if (key !== 'cte_map' && typeof node[key] === 'object') most = Math.max(most, spread(node[key], selects))
  return product * most * (node.type === 'SELECT_NODE' ? ofSelect(node, selects) : 1)
}

function ofSelect(node: Node, selects: Select[]): number {
  const aliases = new Map<string, number>()
  const select: Select = { repeats: false, most: 1 }
  selects.push(select)
  let most = 1
  for (const item of (node.select_list ?? []) as Node[]) {
    const columns = new Map<string, number>()
    count(item, 1, columns, aliases, select)
    const copies = Math.max(1, ...columns.values())
    if (typeof item.alias === 'string') aliases.set(foldName(item.alias), copies)
    most = Math.max(most, copies)
  }
  // What a condition names twice is there twice.
  for (const key in node) if (key !== 'select_list' && key !== 'cte_map') count(node[key], 1, new Map(), aliases, select)
  return Math.max(most, select.most)
}

/** Adds how often each column is named, and of constants how often one is. */
function count(part: unknown, times: number, columns: Map<string, number>, aliases: ReadonlyMap<string, number>, select: Select): void {
  if (typeof part !== 'object' || part === null) return
  const node = part as Node
  if (node.class === 'COLUMN_REF') {
    const name = foldName(String(node.column_names.at(-1)))
    const alias = node.column_names.length === 1 ? aliases.get(name) : undefined
    if (alias !== undefined) select.repeats = true
    const copies = times * (alias ?? 1)
    select.most = Math.max(select.most, copies)
    columns.set(name, (columns.get(name) ?? 0) + copies)
    return
  }
  if (node.class === 'CONSTANT') {
    select.most = Math.max(select.most, times)
    columns.set('', Math.max(columns.get('') ?? 0, times))
  }
  const macro = node.class === 'FUNCTION' ? MACROS.get(foldName(String(node.function_name))) : undefined
  if (macro !== undefined) select.repeats = true
  const each = times * (macro ?? 1)
  for (const key in node) if (typeof node[key] === 'object') count(node[key], each, columns, aliases, select)
}
