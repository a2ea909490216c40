/** A caller's text to the statement that runs: sort it, parse it, bind values, print it. */
import type { SqlParameter } from 'svcdb'
import { DEFAULT_LIMITS } from '../sql-limits.ts'
import { type Node, parse, refuse } from './ast.ts'
import { isBounded } from './bounds.ts'
import { showColumns, showTables } from './catalog.ts'
import { printExpr } from './expr.ts'
import type { SqlHost } from './host.ts'
import { checkText, checkTree } from './limits.ts'
import { mentionedNames } from './mentions.ts'
import type { Names } from './names.ts'
import { newestScans, type ScanFrom } from './newest-from.ts'
import { bindParameters, checkNone, parameterNames, valuesOf } from './parameters.ts'
import { expandFunctions } from './plugin-functions/expand.ts'
import { type Matches, type Mentioned, NamesWanted, Printer, type Printers, type Scan } from './printer.ts'
import { printQuery } from './select.ts'
import { unites } from './staged.ts'
import { runnerOn, type StatementRunner } from './statement.ts'
import { withFirstRows } from './time-order.ts'
import { classifyStatement, type Explain } from './tokens.ts'

export interface PreparedSql {
  /** What to give to DuckDB; for an EXPLAIN the statement to explain. */
  sql: string
  explain: Explain
  /** The scans of measurements in it. */
  scans: Scan[]
  /** Names of the parameters by number; undefined for one that the text does not use. */
  parameters: readonly (string | undefined)[]
  /** It may have a UNION. */
  unites?: boolean | undefined
  /** Where the statement has generated names; none where all of its text is ours. */
  names?: Names
  /** A statement that is described and not run: the answer's first column has its names. */
  describes?: string
  /** Where it is to run, if not on the host's connection: it is not bounded by the rows it reads. */
  runner?: StatementRunner | undefined
}

interface PrepareOptions {
  /** By number or by name; undefined leaves a parameter open, and without any all are. */
  parameters?: readonly (SqlParameter | undefined)[] | ReadonlyMap<string, SqlParameter>
  /** Tags among the result's columns may come as ENUM. */
  enumResults?: boolean
  /** Where its results are copied to beyond what it reads, it is not bounded, whatever it consists of. */
  apart?: boolean
  /** Its first rows, so many at most, whatever LIMIT and OFFSET it has. */
  firstRows?: number | undefined
}

const PRINTERS: Printers = { expr: printExpr, query: printQuery }

/** @throws SQL_ERROR with a reason the caller can act on. */
export async function prepareSql(
  host: SqlHost,
  namespace: string,
  text: string,
  { parameters, enumResults, apart, firstRows }: PrepareOptions = {},
): Promise<PreparedSql> {
  const limits = host.limits ?? DEFAULT_LIMITS
  checkText(text, limits)
  if (text.includes('\0')) throw refuse('cannot parse the query: it contains a NUL character')
  const statement = classifyStatement(text)
  if (statement.kind === 'tables' || statement.kind === 'columns') checkNone(parameters)
  const bare = (): Printer =>
    new Printer(host, namespace, '', { columns: new Map(), rows: new Set(), worked: undefined, expressions: false }, PRINTERS, new Map())
  switch (statement.kind) {
    case 'tables':
      return { sql: showTables(bare().all()), explain: statement.explain, scans: [], parameters: [] }
    case 'columns':
      return { sql: showColumns(bare().measurement(statement.name)), explain: statement.explain, scans: [], parameters: [] }
    default: {
      const { tree: parsed, parameters: map } = await parse(host, statement.text)
      const names = parameterNames(map)
      bindParameters(parsed, names, valuesOf(names, parameters))
      const tree = firstRows === undefined ? parsed : withFirstRows(parsed, firstRows)
      if (host.functions !== undefined) await expandFunctions(tree, host.functions, limits, (text) => parse(host, text))
      const nodes = checkTree(tree, limits)
      const bounded = apart !== true && isBounded(tree, nodes)
      const enums = enumResults === true && statement.kind === 'query'
      const scans = await newestScans(host, namespace, tree)
      const { sql, printer, runner } = await printed(host, namespace, statement.text, tree, { enums, bounded, scans })
      const query = { explain: statement.explain, parameters: names, names: printer.names, runner, unites: unites(text) }
      if (statement.kind === 'query') return { ...query, sql, scans: printer.scans }
      const described = `SELECT column_name, column_type AS data_type, "null" AS is_nullable FROM (DESCRIBE ${sql})`
      return { ...query, sql: described, scans: [], describes: sql }
    }
  }
}

interface Printed {
  sql: string
  printer: Printer
  runner: StatementRunner | undefined
}

async function onlyValue<T>(runner: StatementRunner, sql: string): Promise<T> {
  const statement = await runner.open(sql, { textBytes: false, histograms: () => false })
  let value: T | undefined
  for await (const { columns } of statement.rows()) value = columns[0].values[0] as T
  return value as T
}

/** As often as a statement may ask which names satisfy a condition. */
const MAX_MATCHES = 64

interface PrintOptions {
  enums: boolean
  bounded: boolean
  scans: ReadonlyMap<Node, ScanFrom>
}

async function printed(host: SqlHost, namespace: string, text: string, tree: Node, { enums, bounded, scans }: PrintOptions): Promise<Printed> {
  const mentioned: Mentioned = mentionedNames(tree)
  const matches: Matches = new Map()
  for (;;) {
    const apart = bounded ? undefined : host.apart?.()
    const printer = new Printer(apart?.host ?? host, namespace, text, mentioned, PRINTERS, matches)
    if (enums) printer.answer = tree
    printer.newest = scans
    try {
      return { sql: printQuery(printer, tree, undefined).text, printer, runner: apart?.runner }
    } catch (error) {
      if (!(error instanceof NamesWanted)) throw error
      if (matches.size >= MAX_MATCHES) throw refuse(`cannot run this query: more than ${MAX_MATCHES} patterns of columns are not allowed`)
      // The condition is the caller's as well.
      matches.set(error.sql, await onlyValue<string[]>(host.apart?.().runner ?? runnerOn(host.connection), error.sql))
    }
  }
}
