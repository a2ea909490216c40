/** Scalar functions by the names that DuckDB's binder gives them. What is not here is refused. */
import { bucketOf } from 'svcdb/lib/time-buckets'
import { type BucketSpec, bucketingOf } from '../../embedded/sql/bind.ts'
import { bounded, fitted, floorDiv } from './casts.ts'
import type { Expr, Inputs } from './expr.ts'
import { integerLiteral, textLiteral } from './literals.ts'
import { clickHouseType, isFloat, isInteger, isTimestamp, type Range, raise, rangeOf, type SqlType } from './types.ts'

interface Call {
  name: string
  args: readonly Expr[]
  type: SqlType
  inputs: Inputs
}

/** Undefined: not for these arguments. */
type Scalar = (call: Call) => string | (Partial<Expr> & { text: string }) | undefined

const SECOND = 1_000_000_000n
const DAY = 86_400n * SECOND
/** Of the calendar that ClickHouse computes with, microseconds. */
const CALENDAR: Range = [-2_208_988_800_000_000n, 10_413_791_999_999_999n]

const template =
  (form: string): Scalar =>
  ({ args }) =>
    form.replace(/\$(\d)/g, (_, i: string) => args[Number(i)].text)

/** Of floats only. */
const overFloat =
  (form: string, numbers = true): Scalar =>
  (call) =>
    call.args.every(({ type }) => type.id === 'DOUBLE')
      ? { text: template(form)(call) as string, numbers: numbers && call.args.every((arg) => arg.numbers) }
      : undefined

const overText =
  (form: string): Scalar =>
  (call) =>
    call.args.every(({ type }) => type.id === 'VARCHAR') ? template(form)(call) : undefined

function arithmetic(sign: '+' | '-' | '*'): Scalar {
  return ({ args, type }) => {
    const [a, b] = args
    if (args.length === 1) {
      if (sign === '+') return a
      if (isFloat(type)) return { text: `negate(${a.text})`, numbers: a.numbers === true }
      if (!isInteger(type) && type.id !== 'DECIMAL') return undefined
      const range = a.range ?? rangeOf(type)
      return fit(`negate(${wide(a.text, type)})`, `negate(${a.text})`, type, range && [-range[1], -range[0]])
    }
    if (args.every((arg) => isFloat(arg.type)) && isFloat(type)) return `(${a.text} ${sign} ${b.text})`
    if (type.id === 'DATE' && a.type.id === 'DATE' && isInteger(b.type)) return fitted(`toInt64(${a.text}) ${sign} toInt64(${b.text})`, undefined, type)
    if (sign === '-' && a.type.id === 'DATE' && b.type.id === 'DATE') return `(toInt64(${a.text}) - toInt64(${b.text}))`
    if (isTimestamp(type) || type.id === 'DATE') return shifted(sign, a, b, type)
    if (!isInteger(type) && type.id !== 'DECIMAL') return undefined
    if (![a, b].every((arg) => isInteger(arg.type) || arg.type.id === 'DECIMAL')) return undefined
    const floored = sign === '-' ? floorOf(a, b) : undefined
    if (floored !== undefined) return floored
    const step = sign === '-' && type.id === 'BIGINT' ? remainderOf(a, b) : undefined
    const range = step === undefined ? combined(sign, a, b) : a.range
    const cut = step === undefined ? {} : { cut: { of: a, step } }
    return {
      ...cut,
      ...fit(`${wide(a.text, type)} ${sign} ${wide(b.text, type)}`, `${a.text} ${sign} ${b.text}`, type, range),
    }
  }
}

/** `x - x % n` is no farther from zero than x. @returns n */
function remainderOf(a: Expr, b: Expr): bigint | undefined {
  const head = `toInt64(moduloOrZero(${a.text}, toInt64(`
  const step = b.text.startsWith(head) ? /^(\d+)\)\)\)$/.exec(b.text.slice(head.length))?.[1] : undefined
  return step === undefined ? undefined : BigInt(step)
}

/** `x - x % n - CASE WHEN x % n < 0 THEN n ELSE 0 END`, which buckets are printed as: rounded down, with one comparison for those that have no room. */
function floorOf({ cut }: Expr, b: Expr): Expr | undefined {
  if (cut === undefined) return undefined
  const { of, step } = cut
  const rest = `toInt64(moduloOrZero(${of.text}, toInt64(${step})))`
  if (b.text !== `CAST(if(ifNull((${rest} < toInt64(0)), 0), toInt64(${step}), toInt64(0)) AS Nullable(Int64))`) return undefined
  const least = (rangeOf(of.type) as Range)[0] + step
  const text = `${of.text} - toInt64(positiveModulo(${of.text}, toInt64(${step})))`
  const safe = of.range !== undefined && of.range[0] >= least
  const guard = safe ? '' : ` + throwIf(ifNull(${of.text} < toInt64('${least}'), 0), 'out of range')`
  return {
    text: `toInt64(${text}${guard})`,
    type: of.type,
    range: of.range === undefined ? undefined : [of.range[0] - step > least - step ? of.range[0] - step : least - step, of.range[1]],
  }
}

function combined(sign: string, a: Expr, b: Expr): Range | undefined {
  const [x, y] = [a.range ?? rangeOf(a.type), b.range ?? rangeOf(b.type)]
  if (x === undefined || y === undefined) return undefined
  if (sign === '+') return [x[0] + y[0], x[1] + y[1]]
  if (sign === '-') return [x[0] - y[1], x[1] - y[0]]
  const corners = [x[0] * y[0], x[0] * y[1], x[1] * y[0], x[1] * y[1]]
  return [corners.reduce((p, q) => (p < q ? p : q)), corners.reduce((p, q) => (p > q ? p : q))]
}

const wide = (text: string, type: SqlType): string => `${/HUGEINT|DECIMAL/.test(type.id) ? 'toInt256' : 'toInt128'}(${text})`

/** @param narrow the same without room for an overflow, for where there is none. */
function fit(text: string, narrow: string, type: SqlType, range: Range | undefined): Expr {
  const room = rangeOf(type) as Range
  if (range !== undefined && range[0] >= room[0] && range[1] <= room[1]) return { text: `to${clickHouseType(type)}(${narrow})`, type, range }
  return type.id === 'DECIMAL' ? bounded(`(${text})`, type, false, range) : fitted(text, range, type)
}

/** A time and a constant interval. */
function shifted(sign: string, a: Expr, b: Expr, type: SqlType): Expr | undefined {
  const [time, by] = a.type.id === 'INTERVAL' ? [b, a] : [a, b]
  const span = by.constant?.value
  if (by.type.id !== 'INTERVAL' || typeof span !== 'string' || !isTimestamp(type) || time.type.id !== type.id) return undefined
  const [months, days, micros] = JSON.parse(span) as [number, number, string]
  const factor = sign === '-' ? -1n : 1n
  const unit = type.id === 'TIMESTAMP_NS' ? 1000n : 1n
  const shift = factor * (BigInt(days) * (DAY / 1000n) + BigInt(micros)) * unit
  const from = months === 0 ? time.text : months_(time.text, Number(factor) * months, unit)
  const range: Range | undefined = months === 0 && time.range !== undefined ? [time.range[0] + shift, time.range[1] + shift] : undefined
  return fitted(`toInt128(${from}) + ${integerLiteral(shift, 'Int128')}`, range, type)
}

function months_(text: string, months: number, unit: bigint): string {
  const micros = unit === 1n ? text : floorDiv(text, unit)
  const moved = `toUnixTimestamp64Micro(addMonths(${calendar(micros)}, ${months}))`
  if (unit === 1n) return moved
  return `(toInt128(${moved}) * 1000 + positiveModulo(${text}, toInt64(1000)))`
}

/** Microseconds as a time of ClickHouse's calendar. */
function calendar(micros: string): string {
  const outside = `ifNull(${micros} < toInt64(${CALENDAR[0]}) OR ${micros} > toInt64(${CALENDAR[1]}), 0)`
  return `fromUnixTimestamp64Micro(if(throwIf(${outside}, 'a date outside of the years 1900 to 2299') = 0, ${micros}, NULL), 'UTC')`
}

const microsOf = ({ text, type }: Expr): string | undefined =>
  type.id === 'DATE' ? `toInt64(${text}) * 86400000000` : type.id === 'TIMESTAMP' || type.id === 'TIMESTAMP WITH TIME ZONE' ? text : undefined

const part =
  (form: string): Scalar =>
  ({ args }) => {
    const micros = args.length === 1 ? microsOf(args[0]) : undefined
    return micros === undefined ? undefined : `toInt64(${form.replace('$', () => calendar(micros))})`
  }

const UNITS: Record<string, bigint> = {
  ...{ microsecond: 1n, microseconds: 1n, millisecond: 1000n, milliseconds: 1000n, second: 1_000_000n, seconds: 1_000_000n },
  ...{ minute: 60_000_000n, minutes: 60_000_000n, hour: 3_600_000_000n, hours: 3_600_000_000n, day: 86_400_000_000n, days: 86_400_000_000n },
}

/** Of microseconds, down to whole units. */
const truncated: Scalar = ({ args: [unit, time], type }) => {
  const micros = microsOf(time)
  const name = String(unit.constant?.value).toLowerCase()
  if (micros === undefined || !/^TIMESTAMP/.test(type.id)) return undefined
  const step = UNITS[name]
  if (step !== undefined) return `toInt64(${micros} - toInt64(positiveModulo(${micros}, toInt64(${step}))))`
  if (name === 'week' || name === 'weeks') return `toInt64(${micros} - toInt64(positiveModulo(${micros} - 345600000000, toInt64(604800000000))))`
  const starts: Record<string, string> = { month: 'toMonth($)', quarter: 'toQuarter($) * 3 - 2', year: '1' }
  const month = starts[name.replace(/s$/, '')]
  if (month === undefined) return undefined
  const at = calendar(micros)
  return `(toInt64(toInt32(makeDate32(toYear(${at}), ${month.replace('$', () => at)}, 1))) * 86400000000)`
}

/** Ascending, NULL last. */
const sortedList: Scalar = ({ args: [list, order, nulls] }) => {
  const ascending = order === undefined || /^(ORDER_DEFAULT|ASC|ASCENDING)$/.test(String(order.constant?.value))
  const last = nulls === undefined || /^(ORDER_DEFAULT|NULLS LAST)$/.test(String(nulls.constant?.value))
  return ascending && last && list.type.item !== undefined && !isFloat(list.type.item) ? `arraySort(${list.text})` : undefined
}

/** Starts of buckets are found here, with the zones of this process; ClickHouse looks among them. */
const MAX_BUCKETS = 20_000

const bucket: Scalar = ({ args: [time, spec], inputs }) => {
  const given = spec.constant?.value
  const range = time.range
  if (typeof given !== 'string' || range === undefined) return undefined
  const low = range[0] > inputs.times[0] ? range[0] : inputs.times[0]
  const high = range[1] < inputs.times[1] ? range[1] : inputs.times[1]
  if (low > high) return { text: time.text }
  const buckets = bucketingOf(JSON.parse(given) as BucketSpec)
  const starts: string[] = []
  let first: bigint | undefined
  for (let at = low; at <= high; ) {
    const [start, end] = bucketOf(at, buckets)
    first ??= start
    starts.push(`'${start}'`)
    if (starts.length > MAX_BUCKETS) raise(`room for more than ${MAX_BUCKETS} buckets of a calendar; take a wider one, or a condition of _time`)
    at = end
  }
  return { text: `roundDown(${time.text}, CAST([${starts.join(', ')}] AS Array(Int64)))`, range: [first ?? low, high] }
}

/** `date_part('month', time)`. */
const datePart: Scalar = (call) => {
  const [unit, ...args] = call.args
  const name = String(unit.constant?.value).toLowerCase().replace(/s$/, '')
  const own = { dow: 'dayofweek', doy: 'dayofyear', minutes: 'minute' }[name] ?? name
  return PARTS.has(own) ? SCALARS[own]({ ...call, args }) : undefined
}

const PARTS = new Set('year month day hour minute second quarter dayofyear isodow dayofweek week isoyear epoch'.split(' '))

const LIKE_CASES: Record<string, string> = { '~~': 'like', '!~~': 'notLike', '~~*': 'ilike', '!~~*': 'notILike' }

/** A backslash escapes in ClickHouse's patterns, and nothing does in DuckDB's. */
const like: Scalar = ({ name, args: [text, pattern] }) => {
  const value = pattern.constant?.value
  const own = typeof value === 'string' ? textLiteral(value.replaceAll('\\', '\\\\')) : undefined
  return own === undefined ? undefined : `${LIKE_CASES[name]}(${text.text}, ${own})`
}

const match =
  (form: (pattern: string) => string): Scalar =>
  ({ args }) => {
    const value = args[1]?.constant?.value
    return args.length === 2 && typeof value === 'string' ? `match(${args[0].text}, ${textLiteral(form(value))})` : undefined
  }

const rounding =
  (form: string): Scalar =>
  ({ args, type }) => {
    if (args.length !== 1) return undefined
    const [x] = args
    if (isInteger(x.type) && isInteger(type)) return x
    return x.type.id === 'DOUBLE' ? { text: form.replaceAll('$', () => x.text), numbers: x.numbers === true } : undefined
  }

/** Halves away from zero, as in C. */
const AWAY = '(trunc($) + if(abs($ - trunc($)) >= 0.5, sign($), 0))'

const round: Scalar = (call) => {
  const { args } = call
  if (args.length === 1) return rounding(AWAY)(call)
  const digits = args[1].constant?.value
  const [x] = args
  if (x.type.id !== 'DOUBLE' || typeof digits !== 'bigint' || digits < 0n || digits > 15n) return undefined
  const unit = `toFloat64(${10n ** digits})`
  const rounded = AWAY.replaceAll('$', () => `(${x.text} * ${unit})`)
  return { text: `if(isFinite(${x.text} * ${unit}), ${rounded} / ${unit}, ${x.text})`, numbers: x.numbers === true }
}

/** An error where DuckDB has one. */
const checked =
  (form: string, wrong: string, message: string): Scalar =>
  ({ args: [x], args }) =>
    args.length === 1 && x.type.id === 'DOUBLE'
      ? `if(throwIf(ifNull(${x.text} ${wrong}, 0), '${message}') = 0, ${form.replace('$', () => x.text)}, NULL)`
      : undefined

const division: Scalar = ({ name, args: [a, b], type }) => {
  const remainder = name === '%' || name === 'mod'
  if (name === '/' || name === 'divide') {
    if (isFloat(type)) return `(${a.text} / ${b.text})`
    if (name === '/') return undefined
  }
  if (isFloat(type)) return remainder ? `modulo(${a.text}, ${b.text})` : undefined
  if (!isInteger(type)) return undefined
  const to = `to${clickHouseType(type)}`
  const [x, divisor] = [a.range ?? (rangeOf(type) as Range), b.constant?.value]
  const positive = typeof divisor === 'bigint' && divisor > 0n ? divisor : undefined
  if (remainder) {
    const most = positive === undefined ? undefined : positive - 1n
    const range: Range | undefined = most === undefined ? undefined : [x[0] >= 0n ? 0n : -most, x[1] <= 0n ? 0n : most]
    return { text: `${to}(moduloOrZero(${a.text}, ${b.text}))`, ...(range && { range }) }
  }
  // Only the least number over -1 does not fit.
  if (positive !== undefined) return { text: `${to}(intDivOrZero(${a.text}, ${b.text}))`, range: [x[0] / positive, x[1] / positive] }
  return fitted(`intDivOrZero(${wide(a.text, type)}, ${wide(b.text, type)})`, undefined, type)
}

const extreme =
  (name: string): Scalar =>
  ({ args, type }) =>
    args.every((arg) => arg.type.id === type.id && !(isFloat(type) && arg.numbers !== true)) ? `${name}(${args.map(({ text }) => text).join(', ')})` : undefined

const same: Scalar = ({ args }) => (args.length === 1 ? { text: args[0].text, range: args[0].range } : undefined)

/** `__svc_floor(ns, step, anchor)`. */
const floorTo: Scalar = ({ args: [ns, step, anchor] }) => {
  const [by, from] = [step.constant?.value, anchor.constant?.value]
  if (typeof by !== 'bigint' || typeof from !== 'bigint') return undefined
  return fitted(
    `toInt128(${ns.text}) - positiveModulo(toInt128(${ns.text}) - ${integerLiteral(from, 'Int128')}, ${integerLiteral(by, 'Int128')})`,
    undefined,
    ns.type,
  )
}

/** Of `substring(text, start, length)` with constants: elsewhere the two do not agree on what lies before the first character. */
const substring: Scalar = ({ args: [text, start, length] }) => {
  const [from, many] = [start?.constant?.value, length?.constant?.value]
  if (text.type.id !== 'VARCHAR' || typeof from !== 'bigint' || from < 1n) return undefined
  if (length === undefined) return `substringUTF8(${text.text}, ${from})`
  return typeof many === 'bigint' && many >= 0n ? `substringUTF8(${text.text}, ${from}, ${many})` : undefined
}

const ending =
  (form: string): Scalar =>
  ({ args: [text, count] }) => {
    const many = count?.constant?.value
    return typeof many === 'bigint' && many >= 0n && many < 2n ** 31n ? form.replace('$0', () => text.text).replace('$1', String(many)) : undefined
  }

const interval =
  (months: number, days: number, micros: bigint): Scalar =>
  ({ args }) => {
    const count = args[0]?.constant?.value
    if (typeof count !== 'bigint' && !Number.isInteger(count)) return undefined
    const n = BigInt(count as bigint | number)
    return { text: '', constant: { value: JSON.stringify([Number(n) * months, Number(n) * days, String(n * micros)]) } }
  }

export const SCALARS: Record<string, Scalar> = {
  '+': arithmetic('+'),
  add: arithmetic('+'),
  '-': arithmetic('-'),
  subtract: arithmetic('-'),
  '*': arithmetic('*'),
  multiply: arithmetic('*'),
  '/': division,
  '//': division,
  divide: division,
  '%': division,
  mod: division,
  '~~': like,
  '!~~': like,
  '~~*': like,
  '!~~*': like,
  prefix: overText('startsWith($0, $1)'),
  starts_with: overText('startsWith($0, $1)'),
  '^@': overText('startsWith($0, $1)'),
  suffix: overText('endsWith($0, $1)'),
  ends_with: overText('endsWith($0, $1)'),
  contains: overText('(position($0, $1) > 0)'),
  regexp_matches: match((pattern) => pattern),
  regexp_full_match: match((pattern) => `^(?:${pattern})$`),
  lower: overText('lowerUTF8($0)'),
  lcase: overText('lowerUTF8($0)'),
  upper: overText('upperUTF8($0)'),
  ucase: overText('upperUTF8($0)'),
  length: overText('toInt64(lengthUTF8($0))'),
  len: overText('toInt64(lengthUTF8($0))'),
  char_length: overText('toInt64(lengthUTF8($0))'),
  character_length: overText('toInt64(lengthUTF8($0))'),
  strlen: overText('toInt64(length($0))'),
  '||': ({ args }) => (args.every(({ type }) => type.id === 'VARCHAR') ? `concat(${args.map(({ text }) => text).join(', ')})` : undefined),
  concat: ({ args }) =>
    args.length > 0 && args.every(({ type }) => type.id === 'VARCHAR') ? `concat(${args.map(({ text }) => `ifNull(${text}, '')`).join(', ')}, '')` : undefined,
  substring,
  substr: substring,
  left: ending('substringUTF8($0, 1, $1)'),
  replace: overText('replaceAll($0, $1, $2)'),
  reverse: overText('reverseUTF8($0)'),
  trim: ({ args }) => (args.length === 1 ? `trimBoth(${args[0].text})` : undefined),
  ltrim: ({ args }) => (args.length === 1 ? `trimLeft(${args[0].text})` : undefined),
  rtrim: ({ args }) => (args.length === 1 ? `trimRight(${args[0].text})` : undefined),
  md5: overText('lower(hex(MD5($0)))'),
  abs: ({ args: [x], type }) => {
    if (isFloat(type)) return { text: `abs(${x.text})`, numbers: x.numbers === true }
    if (!isInteger(type)) return undefined
    return fitted(`abs(${wide(x.text, type)})`, undefined, type)
  },
  sign: ({ args: [x] }) => (isFloat(x.type) && x.numbers !== true ? undefined : { text: `toInt8(sign(${x.text}))`, range: [-1n, 1n] }),
  ceil: rounding('ceil($)'),
  ceiling: rounding('ceil($)'),
  floor: rounding('floor($)'),
  trunc: rounding('trunc($)'),
  round,
  sqrt: checked('sqrt($)', '< 0', 'cannot take square root of a negative number'),
  ln: checked('log($)', '<= 0', 'cannot take logarithm of zero or of a negative number'),
  log2: checked('log2($)', '<= 0', 'cannot take logarithm of zero or of a negative number'),
  log10: checked('log10($)', '<= 0', 'cannot take logarithm of zero or of a negative number'),
  log: checked('log10($)', '<= 0', 'cannot take logarithm of zero or of a negative number'),
  exp: overFloat('exp($0)'),
  sin: overFloat('sin($0)', false),
  cos: overFloat('cos($0)', false),
  tan: overFloat('tan($0)', false),
  atan: overFloat('atan($0)'),
  pow: overFloat('pow($0, $1)', false),
  power: overFloat('pow($0, $1)', false),
  '^': overFloat('pow($0, $1)', false),
  '**': overFloat('pow($0, $1)', false),
  degrees: overFloat('degrees($0)'),
  radians: overFloat('radians($0)'),
  pi: () => ({ text: 'pi()', numbers: true }),
  isnan: overFloat('isNaN($0)', false),
  isinf: overFloat('isInfinite($0)', false),
  isfinite: overFloat('isFinite($0)', false),
  greatest: extreme('greatest'),
  least: extreme('least'),
  epoch_ns: ({ args: [x] }) => (x.type.id === 'TIMESTAMP_NS' ? { text: x.text, range: x.range } : undefined),
  epoch_us: ({ args: [x] }) => {
    const micros = microsOf(x)
    return micros === undefined ? undefined : { text: `(${micros})` }
  },
  epoch: ({ args: [x] }) => {
    const micros = microsOf(x)
    return micros === undefined ? undefined : { text: `(toFloat64(${micros}) / 1000000)`, numbers: true }
  },
  make_timestamp_ns: same,
  make_timestamp: same,
  make_timestamptz: same,
  list_sort: sortedList,
  __svc_bucket: bucket,
  __svc_floor: floorTo,
  __svc_microseconds: ({ args: [x] }) => floorDiv(x.text, 1000n),
  date_part: datePart,
  datepart: datePart,
  date_trunc: truncated,
  datetrunc: truncated,
  year: part('toYear($)'),
  month: part('toMonth($)'),
  day: part('toDayOfMonth($)'),
  dayofmonth: part('toDayOfMonth($)'),
  hour: part('toHour($)'),
  minute: part('toMinute($)'),
  second: part('toSecond($)'),
  quarter: part('toQuarter($)'),
  dayofyear: part('toDayOfYear($)'),
  isodow: part('toDayOfWeek($)'),
  dayofweek: part('modulo(toDayOfWeek($), 7)'),
  weekday: part('modulo(toDayOfWeek($), 7)'),
  week: part('toISOWeek($)'),
  weekofyear: part('toISOWeek($)'),
  isoyear: part('toISOYear($)'),
  to_years: interval(12, 0, 0n),
  to_months: interval(1, 0, 0n),
  to_weeks: interval(0, 7, 0n),
  to_days: interval(0, 1, 0n),
  to_hours: interval(0, 0, 3_600_000_000n),
  to_minutes: interval(0, 0, 60_000_000n),
  to_seconds: interval(0, 0, 1_000_000n),
}

/** Those of which constants are computed before a statement runs: results are hardly longer than arguments. */
export const COMPUTED: ReadonlySet<string> = new Set([...Object.keys(SCALARS).filter((name) => name !== 'replace'), 'error'])
