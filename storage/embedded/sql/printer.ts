/**
 * From the tree back to SQL, in one pass that is the gate as well: only what is printed here runs. Measurements become relations
 * of the host, time literals become exact, divisions refuse a zero, `time_bucket` and the analytic functions become what DuckDB has.
 * `expr.ts` prints expressions, `select.ts` queries; this file holds what they share.
 */
import { inNamespace } from '../../common/names.ts'
import { ident, literal, type Node, refuse } from './ast.ts'
import type { RelationRequest, SqlHost, SqlMeasurement } from './host.ts'
import { foldName, Names } from './names.ts'
import type { ScanFrom } from './newest-from.ts'
import type { Output, Scope } from './scope.ts'

/** A scan of the statement, for EXPLAIN. */
export type Scan = RelationRequest

/** Names anywhere in the statement, lower case: parts of column references, and those that may mean a table's whole row. */
export interface Mentioned {
  /** How often. */
  columns: ReadonlyMap<string, number>
  rows: ReadonlySet<string>
  /** Columns that an expression works on as text, so that an ENUM in their place could show; undefined: any column. */
  worked: ReadonlySet<string> | undefined
  /** One of the names may be what DuckDB calls an expression: `max(x)`. */
  expressions: boolean
}

export interface Cte {
  /** As it is compared. */
  name: string
  /** What DuckDB calls it: generated, and used once in a statement. */
  readonly relation: string
  /** The names given to its columns. */
  readonly aliases: readonly string[]
  outputs: Output[] | undefined
}

/** The text of one statement may not grow beyond this: a guard against expressions that multiply when they are rewritten. */
const MAX_PRINTED = 8 << 20

/** Which of some names satisfy a lambda: DuckDB is asked, the statement printed again with the answer. */
export class NamesWanted extends Error {
  readonly sql: string

  constructor(sql: string) {
    super('the names that satisfy a condition are not known yet')
    this.sql = sql
  }
}

export type Matches = Map<string, readonly string[]>

/** What prints expressions and queries, which nest in each other: given to the printer, so that the modules need not import each other. */
export interface Printers {
  expr(p: Printer, node: Node, scope: Scope): string
  query(p: Printer, node: Node, parent: Scope | undefined): { text: string; outputs: Output[] | undefined }
}

export class Printer {
  private readonly printers: Printers
  readonly host: SqlHost
  readonly namespace: string
  readonly now: bigint
  readonly mentioned: Mentioned
  /** Of this statement. */
  readonly names: Names
  private readonly matches: Matches
  readonly scans: Scan[] = []
  /** Those visible where the printer is, the innermost last. */
  readonly ctes: Cte[] = []
  /** Counts rewritten nodes: a select item that was rewritten keeps the name it had. */
  rewrites = 0
  /** Checks of divisors so far. */
  divisorChecks = 0
  /** The query whose select list is the answer, if its tags may come as ENUM. */
  answer: Node | undefined
  /** Of queries for newest rows, where their scans begin. */
  newest: ReadonlyMap<Node, ScanFrom> | undefined
  /** Prints for a reader (column names): nothing is rewritten, nothing checked. */
  plain = false
  private byLower: Map<string, SqlMeasurement[]> | undefined
  /** Mentions in conditions that are not printed, because a scan settles them. */
  private readonly settled = new Map<string, number>()
  private printed = 0
  private cteCount = 0

  /** @param matches what was asked for so far; `NamesWanted` asks for more. */
  constructor(host: SqlHost, namespace: string, text: string, mentioned: Mentioned, printers: Printers, matches: Matches) {
    this.printers = printers
    this.host = host
    this.namespace = namespace
    this.now = host.now()
    this.mentioned = mentioned
    this.names = new Names(text)
    this.matches = matches
  }

  /** An expression within another part of the statement. */
  expr(node: Node, scope: Scope): string {
    return this.printers.expr(this, node, scope)
  }

  /** A query within an expression. */
  query(node: Node, parent: Scope): { text: string; outputs: Output[] | undefined } {
    return this.printers.query(this, node, parent)
  }

  /** A CTE that is not visible yet. */
  newCte(name: string, aliases: readonly string[]): Cte {
    return { name: foldName(name), relation: `cte_${++this.cteCount}`, aliases, outputs: undefined }
  }

  /** The measurement of that name: exactly, else without regard to case if there is only one such. */
  measurement(name: string): SqlMeasurement {
    const exact = this.host.measurement(this.namespace, name)
    if (exact !== undefined) return exact
    this.index()
    const similar = this.byLower!.get(foldName(name)) ?? []
    if (similar.length === 1) return similar[0]
    if (similar.length > 1)
      throw refuse(`cannot read measurement "${name}": ${similar.map((m) => `"${m.name}"`).join(' and ')} differ from it in case only; write the exact name`)
    throw refuse(`cannot read measurement "${name}": there is none of that name${inNamespace(this.namespace)}; SHOW TABLES lists them`)
  }

  all(): SqlMeasurement[] {
    return this.host.measurements(this.namespace)
  }

  private index(): void {
    if (this.byLower !== undefined) return
    this.byLower = new Map()
    for (const measurement of this.all()) {
      const lower = foldName(measurement.name)
      const same = this.byLower.get(lower)
      if (same === undefined) this.byLower.set(lower, [measurement])
      else same.push(measurement)
    }
  }

  /** Whether a column of that name is needed beyond what the scans settle. */
  mentions(name: string): boolean {
    const lower = foldName(name)
    return (this.mentioned.columns.get(lower) ?? 0) > (this.settled.get(lower) ?? 0)
  }

  settle(names: ReadonlyMap<string, number>): void {
    for (const [name, times] of names) this.settled.set(name, (this.settled.get(name) ?? 0) + times)
  }

  /** A name as DuckDB is given it; in plain text as it was. */
  ident(name: string): string {
    if (!this.plain) return this.names.of(name)
    return /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) ? name : ident(name)
  }

  /** The names that satisfy a lambda. @throws NamesWanted */
  matching(names: readonly string[], lambda: string): readonly string[] {
    const sql = `SELECT list_filter([${names.map(literal).join(', ')}]::VARCHAR[], ${lambda})`
    const found = this.matches.get(sql)
    if (found === undefined) throw new NamesWanted(sql)
    return found
  }

  /** Accounts for text that was put into the statement. */
  put(text: string): string {
    this.printed += text.length
    if (this.printed > MAX_PRINTED * 8 || text.length > MAX_PRINTED) throw refuse('cannot run this query: it is too large; split it or nest less')
    return text
  }
}
