/** Instants that can be read off the tree: literals, now(), and those plus or minus an INTERVAL. */
import { constantInteger, constantNumber, constantText, type Node } from './ast.ts'
import { civilFromDays, daysFromCivil, daysInMonth, floorDiv, parseInstant, parseTime } from './instant.ts'
import { foldName } from './names.ts'
import { parseSpan, type Span } from './width.ts'

const DAY = 86_400_000_000_000n
const NOW = new Set(['now', 'get_current_timestamp', 'transaction_timestamp'])
const NOW_WORDS = new Set(['current_timestamp', 'localtimestamp'])
const EXACT_CASTS = new Set(['TIMESTAMP', 'TIMESTAMP_NS', 'TIMESTAMP WITH TIME ZONE'])

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
  return foldTime(node, now)
}

function foldTime(node: Node, now: bigint): bigint | undefined {
  if (node.class === 'CAST' && node.try_cast !== true) return foldCast(node, now)
  if (node.class === 'COLUMN_REF') {
    const word = node.column_names.length === 1 ? foldName(String(node.column_names[0])) : ''
    return NOW_WORDS.has(word) ? now : word === 'current_date' ? floorDiv(now, DAY) * DAY : undefined
  }
  if (node.class !== 'FUNCTION' || node.schema !== undefined) return undefined
  const name = foldName(String(node.function_name))
  const args = (node.children ?? []) as Node[]
  if (NOW.has(name) && args.length === 0) return now
  if (name === 'today' && args.length === 0) return floorDiv(now, DAY) * DAY
  if (name === 'make_timestamp_ns' && args.length === 1) return constantInteger(args[0])
  if ((name !== '+' && name !== '-') || args.length !== 2) return undefined
  const left = foldTime(args[0], now)
  const span = foldSpan(args[1])
  if (left !== undefined && span !== undefined) return addSpan(left, span, name === '-' ? -1 : 1)
  if (name === '-') return undefined
  const right = foldTime(args[1], now)
  const first = foldSpan(args[0])
  return right !== undefined && first !== undefined ? addSpan(right, first, 1) : undefined
}

function foldCast(node: Node, now: bigint): bigint | undefined {
  const id = String(node.cast_type?.id)
  const text = constantText(node.child)
  if (text !== undefined) {
    const time = parseTime(text)
    if (time === undefined || (id === 'DATE' && (!time.dateOnly || time.offset !== undefined))) return undefined
    return EXACT_CASTS.has(id) || id === 'DATE' ? parseInstant(text) : undefined
  }
  const child = foldTime(node.child, now)
  if (child === undefined) return undefined
  return EXACT_CASTS.has(id) ? child : id === 'DATE' ? floorDiv(child, DAY) * DAY : undefined
}

/** INTERVAL '...', or the functions the parser makes of INTERVAL 5 DAY. */
export function foldSpan(node: Node): Span | undefined {
  if (node.class === 'CAST' && node.cast_type?.id === 'INTERVAL') {
    const text = constantText(node.child)
    return text === undefined ? undefined : parseSpan(text)
  }
  const unit = node.class === 'FUNCTION' ? INTERVAL_FUNCTIONS[foldName(String(node.function_name))] : undefined
  if (unit === undefined || node.children?.length !== 1) return undefined
  let value = node.children[0] as Node
  while ((value.class === 'CAST' || value.function_name === 'trunc') && value.alias === undefined) value = value.child ?? value.children[0]
  const number = constantNumber(value)
  return number !== undefined && Number.isInteger(number) ? parseSpan(`${number} ${unit}`) : undefined
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
