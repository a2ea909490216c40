/**
 * The last guard: before a statement answers, what DuckDB would read is compared with what the statement may read.
 *
 * - The printed text may call `read_parquet` only with a list of files that the statement's own relations gave, and a row source only by a number that
 *   was made for it. (DuckDB's plans name neither.)
 * - Every scan of DuckDB's plan, as it is before it is optimized, must be such a call, a table function of the allow-list, or a set of rows that the statement itself makes. A name that DuckDB
 *   has looked up for itself is none of these: it shows as PARQUET_SCAN, DUCKDB_TABLES, SEQ_SCAN and so on.
 *
 * The printer is made so that this never happens; the guard does not trust it.
 */
import { createHash } from 'node:crypto'
import type { DuckDBConnection } from '@duckdb/node-api'
import { SvcError } from 'svcdb/lib/errors'
import type { Node } from './ast.ts'
import { TABLE_FUNCTIONS } from './functions.ts'
import { foldName } from './names.ts'
import { ALONE, type Place } from './place.ts'

/** What a statement may read. */
export interface PlanBounds {
  /** The row-source function's name. */
  source: string
  /** Whether one of its relations gave the file; a path as it stands in the text. */
  isFile(path: string): boolean
  /** Whether the call of a row source was made for it. */
  isSource(call: string): boolean
  /** Tables that relations read, as `schema.name`, of hosts that have such. */
  tables?: ReadonlySet<string>
  /** Counts and logs. @param reason says what was about to be read; not for the caller. */
  refused(reason: string): void
}

const READER = 'read_parquet'
/** Operators of a plan, besides scans, that can only work on the rows they are given or make. */
const OPERATORS = new Set(
  `aggregate any_join asof_join chunk_get column_data_get comparison_join cross_product cte cte_ref cte_scan delim_get delim_join dependent_join distinct
  dummy_scan empty_result except expression_get expression_scan filter hash_join intersect join limit limit_percent materialized_cte order_by positional_join
  projection rec_cte rec_cte_scan sample top_n union unnest window`.split(/\s+/),
)

/** Digests of statements whose plans were found in order, the oldest first: a plan's scans follow from the text. */
const KEPT = 4096
const passed = new Set<string>()

/** @param connection whose `explain_output` is 'all'. @throws SQL_ERROR that says nothing of what would have been read; errors of DuckDB's binder. */
export async function guardPlan(sql: string, bounds: PlanBounds, connection: DuckDBConnection, place: Place = ALONE): Promise<void> {
  const refuse = (reason: string): SvcError => {
    bounds.refused(reason)
    return new SvcError('SQL_ERROR', 'cannot run this query: its plan is not one that is allowed here; this is a fault of the server, please report the query')
  }
  const text = strayCall(sql, bounds)
  if (text !== undefined) throw refuse(text)
  const digest = bounds.tables === undefined && !NAMES_TABLES.test(sql) ? createHash('sha256').update(shapeOf(sql)).digest('base64') : undefined
  if (digest !== undefined && passed.delete(digest)) {
    passed.add(digest)
    return
  }
  const rows = await place.planning(() => explain(sql, connection))
  // As the binder made it: the optimizer takes scans away and still answers from what the files say of themselves.
  const plan = rows.find(([kind]) => kind === 'logical_plan')
  const stray = plan === undefined ? 'unknown: no plan' : strayScan(JSON.parse(String(plan[1])), bounds)
  if (stray !== undefined) throw refuse(`scan ${stray}`)
  if (digest === undefined) return
  passed.add(digest)
  if (passed.size > KEPT) passed.delete(passed.values().next().value as string)
}

/** Functions that take a table's name as a text. */
const NAMES_TABLES = /\bquery(?:_table)?\s*\(/i
const LITERAL = /'(?:[^']|'')*'|"(?:[^"]|"")*"|\b\d+(?:\.\d+)?\b/g

/** A statement without its literals and its lists of files: what a plan scans does not depend on them, and dashboards ask the same with other times and tags. */
function shapeOf(sql: string): string {
  return sql.replace(LITERAL, (token) => (token.startsWith('"') ? token : token.startsWith("'") ? "''" : '0')).replace(/''(?:, '')+/g, "''")
}

/** Parameters that are open stand for NULL: what a statement reads does not depend on them. */
async function explain(sql: string, connection: DuckDBConnection): Promise<unknown[][]> {
  const closed = sql.includes('$') ? sql.replace(PARAMETER, (token) => (token.startsWith('$') ? 'NULL' : token)) : sql
  return (await connection.runAndReadAll(`EXPLAIN (FORMAT JSON) ${closed}`)).getRows()
}

const PARAMETER = /'(?:[^']|'')*'|"(?:[^"]|"")*"|\$\d+/g
const CALL = /'(?:[^']|'')*'|"(?:[^"]|"")*"|\b(\w+)\s*\(/g
const FILES = /\[((?:'(?:[^']|'')*'(?:, )?)+)\], hive_partitioning = false\)/y
const FILE = /'((?:[^']|'')*)'/g

/** A call of a reader or a row source that is not one of the statement's relations. */
function strayCall(sql: string, bounds: PlanBounds): string | undefined {
  for (const match of sql.matchAll(CALL)) {
    const name = match[1] === undefined ? undefined : foldName(match[1])
    if (name === bounds.source) {
      const call = sql.slice(match.index, sql.indexOf(')', match.index) + 1)
      if (!bounds.isSource(call)) return `call ${call}`
    } else if (name === READER) {
      FILES.lastIndex = match.index + match[0].length
      const files = FILES.exec(sql)
      if (files === null) return `call of ${READER} that is no list of files`
      for (const [, file] of files[1].matchAll(FILE)) if (!bounds.isFile(file.replaceAll("''", "'"))) return `file ${file}`
    }
  }
  return undefined
}

function strayScan(plan: unknown, bounds: PlanBounds): string | undefined {
  const waiting = [plan].flat() as Node[]
  for (let node = waiting.pop(); node !== undefined; node = waiting.pop()) {
    const { name, children = [], extra_info: info = {} } = node
    const operator = foldName(String(name))
    if (info.Table !== undefined) {
      if (bounds.tables?.has(String(info.Table)) !== true) return `${name} ${info.Table}`
    } else if (operator !== READER && operator !== bounds.source && !TABLE_FUNCTIONS.has(operator) && !OPERATORS.has(operator)) return String(name)
    for (const child of children) waiting.push(child)
  }
  return undefined
}
