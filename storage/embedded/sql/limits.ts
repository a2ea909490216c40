/**
 * How large a statement may be, before anything works on it. DuckDB's parser, its serializer and its binder take memory that no limit of DuckDB counts
 * and do not look at interrupts, so what is too large is refused: the text before it is parsed, the tree before it is printed or bound.
 */
import type { SqlLimits } from '../sql-limits.ts'
import { aliasedNodes } from './aliases.ts'
import { type Node, refuse } from './ast.ts'
import { foldName } from './names.ts'
import { parserCopies } from './parser-copies.ts'

/** The parser takes a quarter of a megabyte for each level of these, and half a second for a thousand. */
const NESTED_OPERATION = /\b(?:intersect|except)\b/gi

/** The parser takes half a second for 5,000 keys of one GROUP BY, and the square of that for more. */
const NODES_OF_KEY = 4

/** At most, or it is refused as a tree. */
const WORDS_OF_NODE = 3

/** The parser takes 200 bytes and a microsecond for a key of a grouping set; CUBE of 15 keys has some 500,000, and DuckDB takes no larger one. */
const MEMBERS_OF_NODE = 25

/** @throws SQL_ERROR naming the limit. */
export function checkText(text: string, limits: Readonly<SqlLimits>): void {
  // UTF-8 has at most three bytes for a unit of UTF-16.
  const bytes = text.length * 3 <= limits.textBytes ? 0 : Buffer.byteLength(text)
  if (bytes > limits.textBytes)
    throw refuse(`cannot run a query of ${bytes} bytes: at most ${limits.textBytes} are allowed; shorten it, or raise [database] sql_max_text_bytes`)
  let operations = 0
  for (const _ of text.matchAll(NESTED_OPERATION)) if (++operations > limits.depth) throw tooDeep(limits)
  const keys = Math.ceil(limits.nodes / NODES_OF_KEY)
  const words = WORDS_OF_NODE * limits.nodes
  const members = MEMBERS_OF_NODE * limits.nodes
  const copies = parserCopies(text, keys, words)
  if (copies.pivots) throw noPivot()
  if (copies.keys > keys) throw refuse(`cannot run this query: GROUP BY has more than ${keys} keys; group by fewer, or raise [database] sql_max_nodes`)
  if (copies.members > members)
    throw refuse(
      `cannot run this query: its grouping sets have more than ${members} keys in all; use fewer or smaller ROLLUP, CUBE and GROUPING SETS, or raise [database] sql_max_nodes`,
    )
  if (copies.repeated > words)
    throw refuse(
      `cannot run this query: with what CASE compares written out for each WHEN, and each window for each OVER, it has more than ${limits.nodes} parts; simplify it, or raise [database] sql_max_nodes`,
    )
}

/** What pivots is refused wherever it is found. */
export const noPivot = (): Error =>
  refuse('cannot run this query: PIVOT and UNPIVOT are not supported; use FILTER clauses or UNION ALL, and write a column of that name in double quotes')

/** @param tree a query. @returns its nodes. @throws SQL_ERROR naming the limit. */
export function checkTree(tree: Node, limits: Readonly<SqlLimits>): number {
  return weigh(tree, new Map(), 0, limits)
}

/** Nodes of a part of the tree. @param ctes what a reference stands for, by the name in lower case. */
function weigh(part: unknown, ctes: ReadonlyMap<string, number>, depth: number, limits: Readonly<SqlLimits>): number {
  if (typeof part !== 'object' || part === null) return 0
  if (Array.isArray(part)) return checked(sum(part, ctes, depth, limits), limits)
  const node = part as Node
  const isNode = typeof node.class === 'string' || typeof node.type === 'string'
  const level = isNode ? depth + 1 : depth
  if (level > limits.depth) throw tooDeep(limits)
  const visible = node.cte_map === undefined ? ctes : withCtes(node.cte_map, ctes, level, limits)
  let nodes = isNode ? 1 : 0
  if (node.type === 'SELECT_NODE') nodes += aliasedNodes(node)
  if (node.type === 'BASE_TABLE') nodes += visible.get(foldName(String(node.table_name))) ?? 0
  for (const key in node) if (typeof node[key] === 'object') nodes += weigh(node[key], visible, level, limits)
  return checked(nodes, limits)
}

function sum(list: readonly unknown[], ctes: ReadonlyMap<string, number>, depth: number, limits: Readonly<SqlLimits>): number {
  let nodes = 0
  for (const each of list) nodes += weigh(each, ctes, depth, limits)
  return nodes
}

/** A later one may refer to those before it, and each of its references to all that these refer to. */
function withCtes(map: Node, outer: ReadonlyMap<string, number>, depth: number, limits: Readonly<SqlLimits>): ReadonlyMap<string, number> {
  const own = (map.map ?? []) as Node[]
  // Most queries have none.
  if (own.length === 0) return outer
  const ctes = new Map(outer)
  for (const { key, value } of own) ctes.set(foldName(String(key)), weigh(value, ctes, depth, limits))
  return ctes
}

function checked(nodes: number, limits: Readonly<SqlLimits>): number {
  if (nodes > limits.nodes)
    throw refuse(
      `cannot run this query: with its common table expressions and aliases written out it has more than ${limits.nodes} parts; simplify it, or raise [database] sql_max_nodes`,
    )
  return nodes
}

const tooDeep = ({ depth }: Readonly<SqlLimits>): Error =>
  refuse(`cannot run this query: it nests more than ${depth} levels deep; nest less, or raise [database] sql_max_depth`)
