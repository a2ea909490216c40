/** Spans of time: the width grammar of `time_bucket` and the text of INTERVAL literals (spec 001, "Rollup": width units). */

/** Calendar parts apart from the fixed one, since a month has no length and a day may have 23 or 25 hours. */
export interface Span {
  months: number
  days: number
  ns: bigint
}

type Part = [part: 'months' | 'days' | 'ns', size: bigint]

const DAY_NS = 86_400_000_000_000n

/** `m` is always the minute, a month is `mo`. The long names are those of SQL's INTERVAL. */
const UNITS = new Map<string, Part>()
const define = (part: Part, names: string): void => {
  for (const name of names.split(' ')) UNITS.set(name, part)
}
define(['ns', 1n], 'ns nanosecond nanoseconds')
define(['ns', 1_000n], 'us usec usecs microsecond microseconds')
define(['ns', 1_000_000n], 'ms msec msecs millisecond milliseconds')
define(['ns', 1_000_000_000n], 's sec secs second seconds')
define(['ns', 60_000_000_000n], 'm min mins minute minutes')
define(['ns', 3_600_000_000_000n], 'h hr hrs hour hours')
define(['days', 1n], 'd day days')
define(['days', 7n], 'w week weeks')
define(['months', 1n], 'mo mon mons month months')
define(['months', 3n], 'quarter quarters')
define(['months', 12n], 'y yr yrs year years')
define(['months', 120n], 'decade decades')
define(['months', 1200n], 'century centuries')

/** Of an INTERVAL: 32 bits of months and of days; longer numbers mean nothing. */
const MAX_CALENDAR = 2 ** 31 - 1
const MAX_DIGITS = 20

const ITEM = /\s*([+-]?\d+(?:\.\d+)?)\s*([A-Za-z]+)/y
const CLOCK = /\s*([+-]?)(\d{1,12}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?/y

/** Reads '5m', '1 hour 30 minutes', '1 day 02:00:00'. Undefined when the text is anything else; fractions only of fixed units. */
export function parseSpan(text: string): Span | undefined {
  const span: Span = { months: 0, days: 0, ns: 0n }
  let at = 0
  const source = text.trimEnd()
  if (source.trim() === '') return undefined
  while (at < source.length) {
    CLOCK.lastIndex = at
    const clock = CLOCK.exec(source)
    if (clock !== null) {
      const [, sign, hours, minutes, seconds = '0', fraction = ''] = clock
      const ns = ((BigInt(hours) * 60n + BigInt(minutes)) * 60n + BigInt(seconds)) * 1_000_000_000n + BigInt(fraction.padEnd(9, '0'))
      span.ns += sign === '-' ? -ns : ns
      at = CLOCK.lastIndex
      continue
    }
    ITEM.lastIndex = at
    const item = ITEM.exec(source)
    const unit = item === null ? undefined : UNITS.get(foldAscii(item[2]))
    if (item === null || unit === undefined) return undefined
    if (!addTo(span, item[1], unit)) return undefined
    at = ITEM.lastIndex
  }
  return span
}

function addTo(span: Span, digits: string, [part, size]: Part): boolean {
  const dot = digits.indexOf('.')
  if (dot < 0) {
    if (digits.length > MAX_DIGITS) return false
    if (part === 'ns') span.ns += BigInt(digits) * size
    else span[part] += Number(digits) * Number(size)
    return Math.abs(span.months) <= MAX_CALENDAR && Math.abs(span.days) <= MAX_CALENDAR
  }
  if (part !== 'ns' || digits.length > 2 * MAX_DIGITS) return false
  const decimals = digits.length - dot - 1
  const scaled = BigInt(digits.replace('.', '')) * size
  const divisor = 10n ** BigInt(decimals)
  if (scaled % divisor !== 0n) return false
  span.ns += scaled / divisor
  return true
}

/** The length in nanoseconds of a span without months, a day taken as 24 hours. */
export function fixedLength(span: Span): bigint | undefined {
  return span.months === 0 ? BigInt(span.days) * DAY_NS + span.ns : undefined
}

/** In lower case, by the letters of ASCII alone. */
export function foldAscii(text: string): string {
  return /[A-Z]/.test(text) ? text.replace(/[A-Z]/g, (letter) => String.fromCharCode(letter.charCodeAt(0) + 32)) : text
}
