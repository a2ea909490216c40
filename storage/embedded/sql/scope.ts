/** Names: what FROM brings in, which column a reference means, and what kind of value an expression surely has. */

import type { FunctionSpec } from '../threads/function-spec.ts'
import { constantInteger, type Node, walk } from './ast.ts'
import { isSchema } from './catalog.ts'
import type { SqlMeasurement, SqlMeasurementColumn, TagHint } from './host.ts'
import { foldName } from './names.ts'
import { NATIVE } from './plugin-functions/expand.ts'
import { kindOfTimeCall, kindOfTimeCast, kindOfWord, mixed, type TimeKind } from './time-kind.ts'

/** What is known of a value without DuckDB's binder: enough to type literals and to tell float from exact division. */
export type Kind = TimeKind | 'float' | 'exact' | 'text' | 'bool' | 'other'

export interface SourceColumn {
  /** Of a measurement's column its own. */
  name: string
  /** The one that the statement knows it by. */
  public: string
  kind: Kind | undefined
  column?: SqlMeasurementColumn
}

export interface Source {
  /** Lower case. */
  alias: string
  columns: Map<string, SourceColumn>
  /** All columns are in `columns`. */
  complete: boolean
  measurement?: SqlMeasurement
  /** Of a listing of information_schema: the column with names of tables, which `tags` has conditions on. */
  tableName?: string | undefined
  /** Of measurements: what pruning found. */
  time: [bigint, bigint]
  tags: TagHint[]
  /** Tags that are grouped by. */
  grouped: Set<string>
}

export interface Output {
  name: string | undefined
  kind: Kind | undefined
}

export interface Scope {
  sources: Source[]
  parent: Scope | undefined
  /** Columns joined by USING, lower case; natural joins make every unqualified name uncertain. */
  using: Set<string>
  natural: boolean
  /** Every join of the FROM clause is an inner one. */
  inner: boolean
  /** Names that mean something else for now: lambda parameters, and in ORDER BY and the like the aliases of the select list. */
  hidden: Set<string>[]
  /** Those of `hidden` that are parameters of lambdas. */
  parameters: Set<string>[]
  /** Of the select list: after the columns of FROM they are in reach of other clauses. */
  aliases: ReadonlySet<string>
  /** Those of them that may be written out: no other item has the name, and no key of GROUP BY is meant by it. */
  single: ReadonlySet<string>
  /** Of these, so far: what stands for them, as it is printed (aliases.ts). */
  written: Map<string, string>
  /** Calls and casts of the select list and of GROUP BY, as they are printed. */
  printed: Map<string, string>
  /** Subqueries behind FROM that have no alias, so far. */
  unnamed: number
}

export function newScope(parent: Scope | undefined): Scope {
  return {
    sources: [],
    parent,
    using: new Set(),
    natural: false,
    inner: true,
    hidden: [],
    parameters: [],
    aliases: new Set(),
    single: new Set(),
    written: new Map(),
    printed: new Map(),
    unnamed: 0,
  }
}

/** As DuckDB calls those of one FROM: the second is unnamed_subquery2. */
export function unnamedSubquery(scope: Scope): string {
  const number = ++scope.unnamed
  return number === 1 ? 'unnamed_subquery' : `unnamed_subquery${number}`
}

/** Whether some relation in reach surely has a column of that name, or a lambda a parameter. */
export function isKnownColumn(name: string, scope: Scope | undefined): boolean {
  const folded = foldName(name)
  for (let at = scope; at !== undefined; at = at.parent) {
    if (at.hidden.some((hidden) => hidden.has(folded)) || at.aliases.has(folded) || at.sources.some((source) => source.columns.has(folded))) return true
  }
  return false
}

/** The sources of this scope alone that a reference can mean; several only for a column that USING has merged. */
export function resolveHere(names: readonly string[], scope: Scope): { source: Source; column: SourceColumn }[] {
  const lower = names.map(foldName)
  if (lower.length === 3 && isSchema(lower[0]) && !scope.sources.some(({ alias }) => alias === lower[0])) lower.shift()
  if (lower.length === 2) {
    const found = scope.sources.filter((source) => source.alias === lower[0])
    const column = found.length === 1 ? found[0].columns.get(lower[1]) : undefined
    return column === undefined ? [] : [{ source: found[0], column }]
  }
  if (lower.length !== 1 || scope.natural || scope.hidden.some((names) => names.has(lower[0]))) return []
  const found = scope.sources.flatMap((source) => {
    const column = source.columns.get(lower[0])
    return column === undefined ? [] : [{ source, column }]
  })
  if (found.length > 1 || scope.using.has(lower[0])) return scope.using.has(lower[0]) && scope.inner ? found : []
  return found
}

/** The column a reference means, looked for from the inside out; undefined when it is not certain. */
export function resolve(names: readonly string[], scope: Scope | undefined): { source: Source; column: SourceColumn } | undefined {
  for (let at = scope; at !== undefined; at = at.parent) {
    if (names.length === 1 && at.hidden.some((hidden) => hidden.has(foldName(names[0])))) return undefined
    const found = resolveHere(names, at)
    if (found.length > 0) return found[0]
    if (at.sources.some((source) => !source.complete)) return undefined
  }
  return undefined
}

const FLOAT_FUNCTIONS = new Set(
  'avg mean favg fsum kahan_sum sumkahan stddev stddev_pop stddev_samp var_pop var_samp variance corr covar_pop covar_samp sqrt cbrt ln log log10 log2 exp sin cos tan asin acos atan atan2 pi random degrees radians pow power ^ ** / entropy kurtosis skewness sem epoch'.split(
    ' ',
  ),
)
const EXACT_FUNCTIONS = new Set(
  'count count_star row_number rank dense_rank ntile length len strlen date_diff datediff date_part epoch_ns epoch_us epoch_ms approx_count_distinct count_if'.split(
    ' ',
  ),
)
/** Functions that answer a value of their first argument's kind. */
const SAME_KIND = new Set(
  'min max any_value first last arg_min arg_max argmin argmax min_by max_by first_value last_value nth_value lag lead abs sum median mode coalesce round floor ceil trunc'.split(
    ' ',
  ),
)
const ARITHMETIC = new Set(['+', '-', '*', '%', '//', 'mod', 'divide', 'add', 'subtract', 'multiply'])
const EXACT_TYPES = new Set(['TINYINT', 'SMALLINT', 'INTEGER', 'BIGINT', 'HUGEINT', 'UTINYINT', 'USMALLINT', 'UINTEGER', 'UBIGINT', 'UHUGEINT', 'DECIMAL'])

export function kindOfColumn(column: SqlMeasurementColumn): Kind {
  if (column.role === 'time') return 'time'
  if (column.role === 'tag') return 'text'
  switch (column.type) {
    case 'float64':
      return 'float'
    case 'int64':
    case 'uint64':
    case 'decimal':
      return 'exact'
    case 'bool':
      return 'bool'
    case 'string':
      return 'text'
    default:
      return 'other'
  }
}

/** Whether the name of a clock, such as current_date, surely is that: no column and no parameter of a lambda can be meant. */
export function isClockWord(names: readonly string[], scope: Scope): boolean {
  if (kindOfWord(names) === undefined) return false
  for (let at: Scope | undefined = scope; at !== undefined; at = at.parent) {
    if (at.hidden.some((hidden) => hidden.has(foldName(names[0]))) || at.sources.some((source) => !source.complete)) return false
  }
  return resolve(names, scope) === undefined
}

/** Whether the expression reads a column that is called like a clock (`current_date`): then it is no constant. */
export function readsClockColumn(node: Node, scope: Scope): boolean {
  let found = false
  walk(node, (each) => {
    if (each.class === 'COLUMN_REF' && kindOfWord(each.column_names) !== undefined && isKnownColumn(each.column_names[0], scope)) found = true
  })
  return found
}

/** What a scalar subquery answers, known once it is printed. */
const subqueryKinds = new WeakMap<Node, Kind>()

export function noteSubquery(node: Node, outputs: readonly Output[] | undefined): void {
  const kind = outputs?.length === 1 && node.subquery_type === 'SCALAR' ? outputs[0].kind : undefined
  if (kind !== undefined) subqueryKinds.set(node, kind)
}

/** Undefined when only the binder can tell. */
export function kindOf(node: Node, scope: Scope): Kind | undefined {
  switch (node.class) {
    case 'COLUMN_REF': {
      if (isClockWord(node.column_names, scope)) return kindOfWord(node.column_names)
      return resolve(node.column_names, scope)?.column.kind
    }
    case 'CONSTANT':
      if (constantInteger(node) !== undefined) return 'exact'
      return kindOfType(node.value?.type?.id)
    case 'CAST':
      return kindOfType(node.cast_type?.id) ?? kindOfTimeCast(node)
    case 'CASE': {
      const results = [...(node.case_checks as Node[]).map((check) => check.then_expr as Node), node.else_expr as Node | undefined]
      return mixed(
        results.filter((result) => result !== undefined),
        (result) => kindOf(result, scope),
      )
    }
    case 'OPERATOR':
      return node.type === 'OPERATOR_COALESCE' ? mixed(node.children, (child) => kindOf(child, scope)) : undefined
    case 'SUBQUERY':
      return subqueryKinds.get(node)
    case 'COMPARISON':
    case 'CONJUNCTION':
    case 'BETWEEN':
      return 'bool'
    case 'FUNCTION':
    case 'WINDOW': {
      const plugin = node[NATIVE] as FunctionSpec | undefined
      if (plugin !== undefined) return plugin.returns === 'TIMESTAMP_NS' ? 'time' : (kindOfType(plugin.returns) ?? 'other')
      const name = foldName(String(node.function_name))
      const children = (node.children ?? []) as Node[]
      // Each child once, or the time would double with every level.
      const known = new Map<Node, Kind | undefined>()
      const kind = (child: Node): Kind | undefined => {
        if (!known.has(child)) known.set(child, kindOf(child, scope))
        return known.get(child)
      }
      const timed = kindOfTimeCall(name, children, kind)
      if (timed !== undefined) return timed
      if (FLOAT_FUNCTIONS.has(name)) return 'float'
      if (EXACT_FUNCTIONS.has(name)) return 'exact'
      if (SAME_KIND.has(name) && children.length > 0) return kind(children[0])
      if (ARITHMETIC.has(name)) {
        const kinds = children.map(kind)
        if (kinds.includes('float') && kinds.every((kind) => kind === 'float' || kind === 'exact' || kind === undefined)) return 'float'
        return kinds.every((kind) => kind === 'exact') ? 'exact' : undefined
      }
      return undefined
    }
    default:
      return undefined
  }
}

function kindOfType(id: string | undefined): Kind | undefined {
  if (id === 'DOUBLE' || id === 'FLOAT') return 'float'
  if (id === 'VARCHAR') return 'text'
  if (id === 'BOOLEAN') return 'bool'
  return id !== undefined && EXACT_TYPES.has(id) ? 'exact' : undefined
}
