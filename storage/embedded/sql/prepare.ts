/** A caller's text to the statement that runs: sort it, parse it, bind values, print it. */
import type { SqlParameter } from '../../../kernel/storage.ts'
import { parse, refuse } from './ast.ts'
import { isBounded } from './bounds.ts'
import { showColumns, showTables } from './catalog.ts'
import { printExpr } from './expr.ts'
import type { SqlHost } from './host.ts'
import { checkText, checkTree, DEFAULT_LIMITS } from './limits.ts'
import { bindParameters, checkCount, parameterNames } from './parameters.ts'
import { Printer, type Printers, type Scan } from './printer.ts'
import { mentionedNames, printQuery } from './select.ts'
import type { StatementRunner } from './statement.ts'
import { classifyStatement, type Explain } from './tokens.ts'

export interface PreparedSql {
  /** What to give to DuckDB; for an EXPLAIN the statement to explain. */
  sql: string
  explain: Explain
  /** The scans of measurements in it. */
  scans: Scan[]
  /** Names of the parameters by number; undefined for one that the text does not use. */
  parameters: readonly (string | undefined)[]
  /** Where it is to run, if not on the host's connection: it is not bounded by the rows it reads. */
  runner?: StatementRunner
}

export interface PrepareOptions {
  /** By number; undefined leaves a parameter open, and without any all are. */
  parameters?: readonly (SqlParameter | undefined)[]
  /** Tags among the result's columns may come as ENUM. */
  enumResults?: boolean
}

const PRINTERS: Printers = { expr: printExpr, query: printQuery }

/** @throws SQL_ERROR with a reason the caller can act on. */
export async function prepareSql(host: SqlHost, namespace: string, text: string, { parameters, enumResults }: PrepareOptions = {}): Promise<PreparedSql> {
  const limits = host.limits ?? DEFAULT_LIMITS
  checkText(text, limits)
  if (text.includes('\0')) throw refuse('cannot parse the query: it contains a NUL character')
  const statement = classifyStatement(text)
  if (statement.kind === 'tables' || statement.kind === 'columns') checkCount([], parameters ?? [])
  const bare = (): Printer => new Printer(host, namespace, { columns: new Map(), rows: new Set(), worked: undefined }, PRINTERS)
  switch (statement.kind) {
    case 'tables':
      return { sql: showTables(bare().all()), explain: statement.explain, scans: [], parameters: [] }
    case 'columns':
      return { sql: showColumns(bare().measurement(statement.name)), explain: statement.explain, scans: [], parameters: [] }
    default: {
      const { tree, parameters: map } = await parse(host, statement.text)
      const names = parameterNames(map)
      if (parameters !== undefined) checkCount(names, parameters)
      bindParameters(tree, names, parameters ?? [])
      const apart = isBounded(tree, checkTree(tree, limits)) ? undefined : host.apart?.()
      const runner = apart?.runner
      const printer = new Printer(apart?.host ?? host, namespace, mentionedNames(tree), PRINTERS)
      if (enumResults === true && statement.kind === 'query') printer.answer = tree
      const { text: sql } = printQuery(printer, tree, undefined)
      if (statement.kind === 'query') return { sql, explain: statement.explain, scans: printer.scans, parameters: names, runner }
      const described = `SELECT column_name, column_type AS data_type, "null" AS is_nullable FROM (DESCRIBE ${sql})`
      return { sql: described, explain: statement.explain, scans: [], parameters: names, runner }
    }
  }
}
