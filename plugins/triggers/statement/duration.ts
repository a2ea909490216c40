/** Durations of statements: `90s`, `5 minutes`, `1h 30m`. */

const UNITS: readonly [bigint, readonly string[]][] = [
  [1n, ['ns', 'nanosecond', 'nanoseconds']],
  [1_000n, ['us', 'microsecond', 'microseconds']],
  [1_000_000n, ['ms', 'millisecond', 'milliseconds']],
  [1_000_000_000n, ['s', 'sec', 'secs', 'second', 'seconds']],
  [60_000_000_000n, ['m', 'min', 'mins', 'minute', 'minutes']],
  [3_600_000_000_000n, ['h', 'hour', 'hours']],
  [86_400_000_000_000n, ['d', 'day', 'days']],
  [604_800_000_000_000n, ['w', 'week', 'weeks']],
]
const BY_NAME = new Map(UNITS.flatMap(([nanos, names]) => names.map((name) => [name, nanos] as const)))
const PART = /[ ]*([0-9]{1,18})[ ]*([A-Za-z]+)[ ]*/y

export const DURATION_UNITS = 'ns, us, ms, s, m, h, d, w'

/** Nanoseconds; undefined for a text that is none. */
export function durationOf(text: string): bigint | undefined {
  if (text.length > 100) return undefined
  let sum: bigint | undefined
  PART.lastIndex = 0
  for (let at = 0; at < text.length; at = PART.lastIndex) {
    PART.lastIndex = at
    const part = PART.exec(text)
    const unit = part === null ? undefined : BY_NAME.get(part[2].toLowerCase())
    if (part === null || unit === undefined) return undefined
    sum = (sum ?? 0n) + BigInt(part[1]) * unit
  }
  return sum
}

/** The shortest text of one unit: `5m`, `90s`. */
export function durationText(nanos: bigint): string {
  if (nanos === 0n) return '0s'
  for (const [unit, [name]] of UNITS.toReversed()) if (nanos % unit === 0n) return `${nanos / unit}${name}`
  return `${nanos}ns`
}
