/**
 * Which statements are bounded by the rows they read: they may run on an engine thread, beside others. All of their memory is in buffers that DuckDB
 * counts, or a small constant for each group or row, and no step of theirs takes longer than an interruption may wait. Everything that is not known to
 * be so runs in an engine process, which can be ended from outside. A list of what is allowed, chosen by hand: what a newer DuckDB or a change of ours
 * adds is not on it.
 */

import type { FunctionSpec } from '../threads/function-spec.ts'
import { aliasedNodes } from './aliases.ts'
import { constantInteger, constantText, type Node } from './ast.ts'
import { copiesOf } from './copies.ts'
import { foldName } from './names.ts'
import { NATIVE } from './plugin-functions/expand.ts'
import { LATEST_TIME } from './tokens.ts'

const words = (text: string): ReadonlySet<string> => new Set(text.trim().split(/\s+/))

/** Scalar functions whose result is a number, a short text or one of their arguments, and whose cost is linear in these. */
const SCALARS = words(`
  abs acos acosh add age asin asinh atan atan2 atanh cbrt ceil ceiling century char_length character_length cos cosh cot current_date
  current_localtime current_localtimestamp date_add date_bin date_diff date_part date_sub date_trunc datediff datepart datesub datetrunc day dayname
  dayofmonth dayofweek dayofyear days_in_month decade degrees divide ends_with epoch epoch_ms epoch_ns epoch_us era even exp floor get_current_time
  get_current_timestamp greatest hash histogram_avg histogram_count histogram_fraction histogram_quantile histogram_stddev histogram_stdvar
  histogram_sum hour isfinite isinf isnan isodow isoyear julian last_day least len length ln log log10 log2 make_date make_time make_timestamp
  make_timestamp_ms make_timestamp_ns make_timestamptz microsecond millennium millisecond minute mod month monthname multiply nanosecond now nullif
  octet_length ord pi pow power prefix quarter radians random round round_even roundbankers second sign signbit sin sinh sqrt starts_with
  strlen subtract suffix tan tanh time_bucket timezone timezone_hour timezone_minute to_days to_hours to_microseconds to_milliseconds
  to_minutes to_months to_quarters to_seconds to_timestamp to_weeks to_years today transaction_timestamp trunc typeof unicode week weekday weekofyear
  xor year yearweek
`)

/** Those that make a text, no longer than their longest argument. */
const TEXTS = words(`
  lcase left lower ltrim right rtrim substr substring trim ucase upper
`)

const OPERATORS = words('% & * ** + - / // << >> ^ ^@ | ~ && @')

/** Aggregates whose state is a constant, or one value. */
const AGGREGATES = words(`
  any_value arbitrary arg_max arg_max_null arg_min arg_min_null argmax argmin avg bit_and bit_or bit_xor bool_and bool_or corr count count_if count_star
  countif covar_pop covar_samp favg first fsum kahan_sum kurtosis kurtosis_pop last max max_by mean min min_by product regr_avgx regr_avgy regr_count
  regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy sem skewness stddev stddev_pop stddev_samp sum sum_no_overflow sumkahan var_pop var_samp
  variance
`)

/** Of these as many values as the argument behind all others says, and room for so many for each group. */
const EXTREMES = words('arg_max arg_max_null arg_min arg_min_null argmax argmin max max_by min min_by')
const MAX_EXTREMES = 100n

const WINDOWS = words(`
  cume_dist dense_rank first_value lag last_value lead nth_value ntile percent_rank rank rank_dense row_number
`)

/** Those whose result may be a text, of which each row gets a copy. */
const TEXT_WINDOWS = words(`
  any_value arbitrary arg_max arg_max_null arg_min arg_min_null argmax argmin first first_value lag last last_value lead max max_by min min_by nth_value
`)

const CASTS: ReadonlySet<string> = new Set([
  ...'BOOLEAN TINYINT SMALLINT INTEGER BIGINT HUGEINT UTINYINT USMALLINT UINTEGER UBIGINT FLOAT DOUBLE DECIMAL VARCHAR DATE TIME INTERVAL'.split(' '),
  ...['TIMESTAMP', 'TIMESTAMP_S', 'TIMESTAMP_MS', 'TIMESTAMP_NS', 'TIMESTAMP WITH TIME ZONE', 'TIME WITH TIME ZONE'],
])

const EXPRESSIONS = words('COLUMN_REF CONSTANT CAST COMPARISON BETWEEN CONJUNCTION CASE OPERATOR FUNCTION WINDOW SUBQUERY STAR POSITIONAL_REFERENCE PARAMETER')
const OPERATOR_TYPES = words(
  'OPERATOR_NOT OPERATOR_IS_NULL OPERATOR_IS_NOT_NULL OPERATOR_COALESCE OPERATOR_TRY GROUPING_FUNCTION COMPARE_IN COMPARE_NOT_IN STRUCT_EXTRACT',
)
/** With a constant pattern; the costs of others are not linear, or a pattern is compiled for each row. */
const PATTERNS = words('~~ !~~ ~~* !~~* contains')
/** With a constant text to look for: DuckDB compares it at each place where it may begin. */
const SEARCHES = words('instr position strpos')
const REGEXES = words('~ regexp_matches regexp_full_match regexp_extract')
const EXTRACTION = 'regexp_extract'
const FORMATS = words('strftime strptime try_strptime')
const CONCATENATIONS = words('|| concat concat_ws')
const EQUALITIES = words('COMPARE_EQUAL COMPARE_NOT_DISTINCT_FROM')
const DIVISIONS = words('/ // % mod divide')
const SERIES = words('range generate_series')

/** Statements of dashboards have some 20 to 200 nodes; the binder and the optimizer take up to some 50 ms for these (measured). */
const MAX_NODES = 3000
const MAX_SELECTS = 24
const MAX_JOINS = 8
const MAX_SUBQUERIES = 8
const MAX_GROUPING_SETS = 16
/** The binder and the optimizer take the third power of these: some 20 ms. */
const MAX_DEPTH = 64
/** Nodes that aliases of select lists stand for where they are used again. */
const MAX_ALIASED = 1000
/** The optimizer looks for what follows from equal values, by the third power of these. */
const MAX_EQUALITIES = 32
/** Each may bring thousands of columns. */
const MAX_STARS = 8
/** Each makes a text for each of 2048 rows at a time, which DuckDB does not count: 16 MiB where texts have 8 kB. */
const MAX_TEXTS = 8
/** Each may double a text, if its argument is such a text twice. */
const MAX_CONCATENATIONS = 4
/** A division by an unknown number is printed with its operands several times. */
const MAX_NESTED_DIVISIONS = 3
/** Nodes as often as one may be written out; the binder and the optimizer take up to 20 us for one that is. */
const MAX_WRITTEN = 100_000
/** What fails within each is computed again for each row, with those within it. */
const MAX_TRIES = 4
const MAX_CONSTANT_LENGTH = 16_384
const MAX_PATTERN_LENGTH = 256
/** Of all regular expressions; a class of letters takes 3 ms to compile, without a look at interruptions. */
const MAX_REGEXES_LENGTH = 1024
/** Of all formats of times; a letter of theirs may become twelve. */
const MAX_FORMATS_LENGTH = 1024
const MAX_SERIES_ROWS = 100_000n

/** @param nodes of the tree, as `checkTree` counts them. */
export function isBounded(tree: Node, nodes: number): boolean {
  return nodes <= MAX_NODES && new Bounds().allows(tree, 0, 0) && nodes * copiesOf(tree) <= MAX_WRITTEN
}

class Bounds {
  private selects = 0
  private joins = 0
  private subqueries = 0
  private concatenations = 0
  private texts = 0
  private formats = 0
  private regexes = 0
  private equalities = 0
  private stars = 0
  private aliased = 0
  private tries = 0

  allows(part: unknown, divisions: number, depth: number): boolean {
    if (typeof part !== 'object' || part === null) return true
    if (Array.isArray(part)) return part.every((each) => this.allows(each, divisions, depth))
    const node = part as Node
    if (node.type === 'TABLE_FUNCTION') return isShortSeries(node.function)
    if (typeof node.class === 'string' ? !this.expression(node) : typeof node.type === 'string' && !this.query(node)) return false
    const inner = DIVISIONS.has(String(node.function_name)) ? divisions + 1 : divisions
    const level = typeof node.class === 'string' ? depth + 1 : depth
    if (inner > MAX_NESTED_DIVISIONS || level > MAX_DEPTH) return false
    for (const key in node) if (typeof node[key] === 'object' && !this.allows(node[key], inner, level)) return false
    return true
  }

  /** Parts of queries, and of what stands behind FROM. */
  private query(node: Node): boolean {
    switch (node.type) {
      case 'SELECT_NODE':
        return (
          ++this.selects <= MAX_SELECTS &&
          ((node.group_sets ?? []) as unknown[]).length <= MAX_GROUPING_SETS &&
          (this.aliased += aliasedNodes(node)) <= MAX_ALIASED
        )
      case 'JOIN':
        return ++this.joins <= MAX_JOINS && isEquiJoin(node)
      case 'RECURSIVE_CTE_NODE':
      case 'PIVOT':
      case 'LIMIT_PERCENT_MODIFIER':
        return false
      default:
        return true
    }
  }

  private expression(node: Node): boolean {
    if (!EXPRESSIONS.has(node.class)) return false
    switch (node.class) {
      case 'CONSTANT':
        return typeof node.value?.value !== 'string' || node.value.value.length <= MAX_CONSTANT_LENGTH
      case 'CAST':
        return CASTS.has(String(node.cast_type?.id))
      case 'OPERATOR':
        return OPERATOR_TYPES.has(node.type) && (node.type !== 'OPERATOR_TRY' || ++this.tries <= MAX_TRIES)
      case 'SUBQUERY':
        return ++this.subqueries <= MAX_SUBQUERIES
      case 'STAR':
        return node.columns !== true && ++this.stars <= MAX_STARS
      case 'COMPARISON':
        return !EQUALITIES.has(node.type) || node.left?.class === 'CONSTANT' || node.right?.class === 'CONSTANT' || ++this.equalities <= MAX_EQUALITIES
      case 'FUNCTION':
        return this.call(node)
      case 'WINDOW':
        return isBoundedWindow(node) && (!TEXT_WINDOWS.has(foldName(String(node.function_name))) || this.text())
      default:
        return true
    }
  }

  private call(node: Node): boolean {
    const plugin = node[NATIVE] as FunctionSpec | undefined
    if (plugin !== undefined) return plugin.bounded === true
    const name = foldName(String(node.function_name))
    const children = (node.children ?? []) as Node[]
    if (name === LATEST_TIME) return true
    if (AGGREGATES.has(name)) return node.order_bys?.orders === undefined && isFewExtremes(name, children)
    if (CONCATENATIONS.has(name)) return (this.concatenations += children.length - 1) <= MAX_CONCATENATIONS && this.text()
    if (PATTERNS.has(name)) return isPlainPattern(constantText(children[1]))
    if (SEARCHES.has(name)) return isShort(constantText(children[1]))
    if (REGEXES.has(name)) return this.regex(constantText(children[1])) && (name !== EXTRACTION || this.text())
    if (FORMATS.has(name)) return this.format(children)
    if (TEXTS.has(name)) return this.text()
    return SCALARS.has(name) || OPERATORS.has(name)
  }

  private text(): boolean {
    return ++this.texts <= MAX_TEXTS
  }

  private regex(pattern: string | undefined): boolean {
    return isShort(pattern) && (this.regexes += pattern.length) <= MAX_REGEXES_LENGTH
  }

  private format(children: readonly Node[]): boolean {
    const length = Math.min(...children.map((child) => constantText(child)?.length ?? Number.POSITIVE_INFINITY))
    return length <= MAX_PATTERN_LENGTH && (this.formats += length) <= MAX_FORMATS_LENGTH
  }
}

/** Without `_`, which makes DuckDB try every way to match, and without escapes. */
function isPlainPattern(pattern: string | undefined): boolean {
  return isShort(pattern) && !/[_\\]/.test(pattern)
}

function isShort(pattern: string | undefined): pattern is string {
  return pattern !== undefined && pattern.length <= MAX_PATTERN_LENGTH
}

/** The whole partition, or rows around each one; not what needs a sorted copy for each row. */
function isBoundedWindow(node: Node): boolean {
  const name = foldName(String(node.function_name))
  if (node.distinct === true || node.arg_orders !== undefined || node.exclude_clause !== undefined) return false
  return WINDOWS.has(name) || (AGGREGATES.has(name) && isFewExtremes(name, (node.children ?? []) as Node[]))
}

function isFewExtremes(name: string, children: readonly Node[]): boolean {
  if (!EXTREMES.has(name) || children.length <= (name === 'max' || name === 'min' ? 1 : 2)) return true
  const values = constantInteger(children.at(-1))
  return values !== undefined && values <= MAX_EXTREMES
}

/** Rows of two tables meet only where columns of theirs are equal. */
function isEquiJoin({ ref_type: ref, condition, using_columns: using }: Node): boolean {
  if (ref === 'NATURAL' || (using as unknown[] | undefined)?.length) return true
  if (ref !== 'REGULAR' && ref !== 'ASOF') return false
  const parts = condition?.type === 'CONJUNCTION_AND' ? (condition.children as Node[]) : [condition]
  return parts.some((part) => part?.type === 'COMPARE_EQUAL' && part.left?.class === 'COLUMN_REF' && part.right?.class === 'COLUMN_REF')
}

/** range(n), generate_series(from, to [, step]) of few constant integers. */
function isShortSeries(call: Node | undefined): boolean {
  if (!SERIES.has(foldName(String(call?.function_name)))) return false
  const numbers = ((call?.children ?? []) as Node[]).map(constantInteger)
  if (numbers.length === 0 || numbers.some((each) => each === undefined)) return false
  const [from, to] = (numbers.length === 1 ? [0n, ...numbers] : numbers) as bigint[]
  return to - from <= MAX_SERIES_ROWS && from - to <= MAX_SERIES_ROWS
}
