/**
 * Times that can be read off the tree: literals, now(), and what arithmetic and truncation make of them. Exact, so that a predicate compares with the very
 * nanosecond; what DuckDB would compute in another way (fractions of months, casts that round) is left to it.
 */

import { bucketOf, civilFromDays, daysFromCivil, daysInMonth, floorDiv, parseInstant, parseSpan, parseTime, type Span, zoneOf } from 'svcdb/lib/time-buckets'
import { constantInteger, constantNumber, constantText, decimalText, type Node } from './ast.ts'
import { bucketing } from './bucket.ts'
import { foldName } from './names.ts'
import { truncate, truncationOf } from './truncation.ts'

const DAY = 86_400_000_000_000n
const MICRO = 1_000n

/** What DuckDB has it as: nanoseconds, microseconds without or with a zone (always UTC here), or a date. */
type InstantType = 'ns' | 'us' | 'zoned' | 'date'

interface Instant {
  /** Since the epoch; of any size. */
  ns: bigint
  type: InstantType
}

const CLOCKS: Record<string, InstantType> = {
  now: 'zoned',
  get_current_timestamp: 'zoned',
  transaction_timestamp: 'zoned',
  current_localtimestamp: 'us',
  today: 'date',
  current_date: 'date',
}
const CLOCK_WORDS: Record<string, InstantType> = { current_timestamp: 'zoned', localtimestamp: 'us', current_date: 'date' }
const CASTS: Record<string, InstantType> = { TIMESTAMP: 'us', TIMESTAMP_NS: 'ns', 'TIMESTAMP WITH TIME ZONE': 'zoned', DATE: 'date' }

const INTERVAL_FUNCTIONS: Record<string, string> = {
  to_years: 'years',
  to_quarters: 'quarters',
  to_months: 'months',
  to_weeks: 'weeks',
  to_days: 'days',
  to_hours: 'hours',
  to_minutes: 'minutes',
  to_seconds: 'seconds',
  to_milliseconds: 'milliseconds',
  to_microseconds: 'microseconds',
}

/** Nanoseconds since the epoch of an expression that is compared with a time, else undefined. Integers and strings count as times here. */
export function foldInstant(node: Node | undefined, now: bigint): bigint | undefined {
  if (node === undefined) return undefined
  const integer = constantInteger(node)
  if (integer !== undefined) return integer
  const text = constantText(node)
  if (text !== undefined) return parseInstant(text)
  return foldTime(node, now)?.ns
}

/** The time that an expression surely is. */
export function foldTime(node: Node, now: bigint): Instant | undefined {
  if (node.class === 'CAST' && node.try_cast !== true) return foldCast(node, now)
  const clock = foldClock(node, now)
  if (clock !== undefined || node.class !== 'FUNCTION' || !isBuiltIn(node)) return clock
  const name = foldName(String(node.function_name))
  return Object.hasOwn(CALLS, name) ? CALLS[name]((node.children ?? []) as Node[], now) : undefined
}

/** now() and its other names. */
export function foldClock(node: Node, now: bigint): Instant | undefined {
  if (node.class === 'COLUMN_REF') {
    const word = node.column_names.length === 1 ? foldName(String(node.column_names[0])) : ''
    return Object.hasOwn(CLOCK_WORDS, word) ? clockAs(now, CLOCK_WORDS[word]) : undefined
  }
  const name = node.class === 'FUNCTION' && node.children === undefined && isBuiltIn(node) ? foldName(String(node.function_name)) : ''
  return Object.hasOwn(CLOCKS, name) ? clockAs(now, CLOCKS[name]) : undefined
}

const isBuiltIn = (node: Node): boolean => (node.schema === undefined || node.schema === 'main') && node.catalog === undefined

const clockAs = (now: bigint, type: InstantType): Instant => ({ ns: floorTo(now, type === 'date' ? DAY : MICRO), type })

const floorTo = (ns: bigint, step: bigint): bigint => floorDiv(ns, step) * step

/** @returns in the precision of the type. */
function typed(ns: bigint, type: InstantType): Instant {
  return { ns: type === 'ns' ? ns : floorTo(ns, type === 'date' ? DAY : MICRO), type }
}

function foldCast(node: Node, now: bigint): Instant | undefined {
  const type = CASTS[String(node.cast_type?.id)]
  if (type === undefined) return undefined
  const text = constantText(node.child)
  if (text !== undefined) {
    const time = parseTime(text)
    if (time === undefined || (type === 'date' && (!time.dateOnly || time.offset !== undefined))) return undefined
    return { ns: parseInstant(text) as bigint, type: type === 'us' && time.fractionDigits > 6 ? 'ns' : type }
  }
  const child = foldTime(node.child, now)
  return child === undefined ? undefined : typed(child.ns, type)
}

type Fold = (args: Node[], now: bigint) => Instant | undefined

const CALLS: Record<string, Fold> = {
  '+': (args, now) => (args.length === 2 ? (sum(args[0], args[1], 1, now) ?? sum(args[1], args[0], 1, now)) : undefined),
  '-': (args, now) => (args.length === 2 ? sum(args[0], args[1], -1, now) : undefined),
  date_add: (args, now) => (args.length === 2 ? sum(args[0], args[1], 1, now) : undefined),
  ago([span, ...more], now) {
    const by = span === undefined || more.length > 0 ? undefined : foldSpan(span)
    return by === undefined ? undefined : { ns: addSpan(clockAs(now, 'zoned').ns, by, -1), type: 'zoned' }
  },
  date_trunc: foldTrunc,
  datetrunc: foldTrunc,
  time_bucket: foldBucket,
  timezone: foldZone,
  make_timestamp_ns: (args) => fromInteger(args, 1n, 'ns'),
  make_timestamp_ms: (args) => fromInteger(args, 1_000_000n, 'us'),
  epoch_ms: (args) => fromInteger(args, 1_000_000n, 'us'),
  make_timestamp: (args) => (args.length === 1 ? fromInteger(args, MICRO, 'us') : fromParts(args, 'us')),
  make_timestamptz: (args) => (args.length === 1 ? fromInteger(args, MICRO, 'zoned') : fromParts(args, 'zoned')),
  to_timestamp: (args) => (args.length === 1 ? fromSeconds(args[0]) : undefined),
  make_date: (args) => (args.length === 3 ? fromParts(args, 'date') : undefined),
}

/** A time and an interval, or a date and days. */
function sum(left: Node, right: Node, sign: 1 | -1, now: bigint): Instant | undefined {
  const time = foldTime(left, now)
  if (time === undefined) return undefined
  const days = time.type === 'date' ? foldInteger(right) : undefined
  if (days !== undefined) return { ns: time.ns + BigInt(sign) * days * DAY, type: 'date' }
  const span = foldSpan(right)
  return span === undefined ? undefined : { ns: addSpan(time.ns, span, sign), type: time.type === 'date' ? 'us' : time.type }
}

function foldTrunc([unit, time, ...more]: Node[], now: bigint): Instant | undefined {
  if (time === undefined || more.length > 0) return undefined
  const truncation = truncationOf(constantText(unit))
  const at = truncation === undefined ? undefined : foldTime(time, now)
  if (truncation === undefined || at === undefined) return undefined
  return { ns: truncate(at.ns, truncation), type: at.type === 'date' ? 'us' : at.type }
}

function foldBucket([width, time, zone, origin, ...more]: Node[], now: bigint): Instant | undefined {
  if (time === undefined || more.length > 0) return undefined
  const span = constantText(width) ?? foldSpan(width)
  const [zoneName, originText] = [zone === undefined ? '' : constantText(zone), origin === undefined ? undefined : constantText(origin)]
  const at = foldTime(time, now)
  if (span === undefined || at === undefined || zoneName === undefined || (origin !== undefined && originText === undefined)) return undefined
  return { ns: bucketOf(at.ns, bucketing(span, zoneName, originText, now))[0], type: 'ns' }
}

/** AT TIME ZONE of an instant: the wall clock there. The other way round a wall clock may be skipped or repeated; DuckDB decides that. */
function foldZone([zone, time, ...more]: Node[], now: bigint): Instant | undefined {
  const name = constantText(zone)
  const at = name === undefined || time === undefined || more.length > 0 ? undefined : foldTime(time, now)
  const clocks = at?.type === 'zoned' && /^[A-Za-z]+(\/[A-Za-z_]+)*$/.test(name as string) ? zoneOf(name as string) : undefined
  return at === undefined || clocks === undefined || !inJavaScript(at.ns) ? undefined : { ns: clocks.toLocal(at.ns), type: 'us' }
}

/** Dates that the runtime knows zones of. */
const inJavaScript = (ns: bigint): boolean => ns > -8_640_000_000_000_000n * 1_000_000n && ns < 8_640_000_000_000_000n * 1_000_000n

function fromInteger(args: Node[], unit: bigint, type: InstantType): Instant | undefined {
  const value = args.length === 1 ? foldInteger(args[0]) : undefined
  return value === undefined ? undefined : { ns: value * unit, type }
}

/** DuckDB takes seconds as a double and rounds its product to microseconds: up to here that is exact. Beyond, and at a half, it is left to DuckDB. */
const EXACT_SECONDS = 2 ** 53 / 1e6
/** A decimal of so many digits is the nearest double to DuckDB as well. */
const EXACT_DIGITS = 15

function fromSeconds(node: Node): Instant | undefined {
  const integer = foldInteger(node)
  if (integer === undefined && node.value?.type?.id === 'DECIMAL' && !(Number(node.value.type.type_info?.width) <= EXACT_DIGITS)) return undefined
  const seconds = integer === undefined ? constantNumber(node) : Number(integer)
  if (seconds === undefined || !(Math.abs(seconds) < EXACT_SECONDS)) return undefined
  const micros = seconds * 1e6
  const rounded = Math.round(micros)
  return Math.abs(rounded - micros) === 0.5 ? undefined : { ns: BigInt(rounded) * MICRO, type: 'zoned' }
}

function fromParts(args: Node[], type: InstantType): Instant | undefined {
  const parts = args.map(foldInteger)
  if ((parts.length !== 3 && parts.length !== 6) || parts.some((part) => part === undefined || part < 0n || part > 9999n)) return undefined
  const [year, month, day, hour = 0, minute = 0, second = 0] = parts.map(Number)
  if (month < 1 || month > 12 || day < 1 || day > daysInMonth(year, month) || hour > 23 || minute > 59 || second > 59) return undefined
  return { ns: (BigInt(daysFromCivil(year, month, day)) * 86_400n + BigInt(hour * 3600 + minute * 60 + second)) * 1_000_000_000n, type }
}

/** Integers, and sums and products of them. */
function foldInteger(node: Node | undefined): bigint | undefined {
  const integer = constantInteger(node)
  if (integer !== undefined || node?.class !== 'FUNCTION' || node.schema !== undefined) return integer
  const values = ((node.children ?? []) as Node[]).map(foldInteger)
  const [a, b] = values
  if (a === undefined || values.length > 2 || values.includes(undefined)) return undefined
  switch (String(node.function_name)) {
    case '+':
      return small(a + (b ?? 0n))
    case '-':
      return small(b === undefined ? -a : a - b)
    case '*':
      return b === undefined ? undefined : small(a * b)
    default:
      return undefined
  }
}

/** Beyond 32 bits DuckDB may find an overflow. */
const small = (value: bigint): bigint | undefined => (BigInt.asIntN(32, value) === value ? value : undefined)

/** INTERVAL '...', the functions the parser makes of INTERVAL 5 DAY, and sums and multiples of those. */
export function foldSpan(node: Node): Span | undefined {
  if (node.class === 'CAST' && node.cast_type?.id === 'INTERVAL' && node.try_cast !== true) {
    const text = constantText(node.child)
    return text === undefined ? foldSpan(node.child) : parseSpan(text)
  }
  if (node.class !== 'FUNCTION' || node.schema !== undefined || node.catalog !== undefined) return undefined
  const name = foldName(String(node.function_name))
  const args = (node.children ?? []) as Node[]
  const unit = Object.hasOwn(INTERVAL_FUNCTIONS, name) && args.length === 1 ? INTERVAL_FUNCTIONS[name] : undefined
  if (unit !== undefined) {
    const count = quantity(args[0], unit === 'seconds' || unit === 'milliseconds')
    return count === undefined ? undefined : parseSpan(`${count} ${unit}`)
  }
  if (name === '*' && args.length === 2) return multiple(args[0], args[1]) ?? multiple(args[1], args[0])
  if ((name !== '+' && name !== '-') || args.length === 0) return undefined
  const spans = args.map(foldSpan)
  if (spans.includes(undefined)) return undefined
  const [a, b] = spans as Span[]
  const sign = name === '-' ? -1 : 1
  if (b === undefined) return inRange({ months: sign * a.months, days: sign * a.days, ns: BigInt(sign) * a.ns })
  return inRange({ months: a.months + sign * b.months, days: a.days + sign * b.days, ns: a.ns + BigInt(sign) * b.ns })
}

function multiple(factor: Node, interval: Node): Span | undefined {
  const n = foldInteger(factor)
  const span = n === undefined || small(n) === undefined ? undefined : foldSpan(interval)
  if (n === undefined || span === undefined) return undefined
  return inRange({ months: Number(n) * span.months, days: Number(n) * span.days, ns: n * span.ns })
}

/** What an INTERVAL of DuckDB can hold: 32 bits of months and days, 64 of microseconds. */
function inRange(span: Span): Span | undefined {
  const fits = Math.abs(span.months) < 2 ** 31 && Math.abs(span.days) < 2 ** 31 && BigInt.asIntN(64, span.ns / MICRO) === span.ns / MICRO
  return fits ? span : undefined
}

const NUMBER_TYPES = new Set(['DOUBLE', 'INTEGER', 'BIGINT'])

/** The digits of a count of units, through the casts and the truncation that the parser puts around it. */
function quantity(node: Node, fractions: boolean): string | undefined {
  let [value, truncated, whole] = [node, false, false]
  for (;;) {
    if (value.class === 'CAST' && NUMBER_TYPES.has(value.cast_type?.id) && value.try_cast !== true) {
      whole ||= !truncated && value.cast_type.id !== 'DOUBLE' && value.child?.function_name !== 'trunc'
      value = value.child
    } else if (value.function_name === 'trunc' && value.children?.length === 1) {
      truncated = true
      value = value.children[0]
    } else break
  }
  const integer = foldInteger(value)
  if (integer !== undefined) return String(integer)
  const digits =
    value.class === 'CONSTANT' && value.value?.is_null === false && value.value.type?.id === 'DECIMAL' ? decimalText(value.value) : constantText(value)
  const match = /^\s*([+-]?\d{1,18})(\.\d{0,18})?\s*$/.exec(digits ?? '')
  if (match === null) return undefined
  const fraction = (match[2] ?? '').replace(/\.?0*$/, '')
  if (fraction === '' || truncated) return match[1]
  return fractions && !whole ? match[1] + fraction : undefined
}

/** Months by the calendar (the day is cut to the month's length, as SQL does), then days and time. */
export function addSpan(ns: bigint, span: Span, sign: 1 | -1): bigint {
  let days = Number(floorDiv(ns, DAY))
  const rest = ns - BigInt(days) * DAY
  if (span.months !== 0) {
    const { year, month, day } = civilFromDays(days)
    const total = year * 12 + month - 1 + sign * span.months
    const y = Math.floor(total / 12)
    const m = (((total % 12) + 12) % 12) + 1
    days = daysFromCivil(y, m, Math.min(day, daysInMonth(y, m)))
  }
  days += sign * span.days
  return BigInt(days) * DAY + rest + BigInt(sign) * span.ns
}
