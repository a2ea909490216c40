/** Number and duration literals. Each reader answers a number, or the text of what is wrong. */
import { quote } from './go-text.ts'

const MAX_INT64 = 2n ** 63n - 1n
const MAX_UINT64 = 2n ** 64n - 1n
const MAX_DURATION_SECONDS = 2 ** 63 / 1e9
const HEX = /^0[xX](_?[0-9a-fA-F])+$/
const OCTAL = /^0(_?[0-7])+$/
const FLOAT = /^(\d(_?\d)*(\.(\d(_?\d)*)?)?|\.\d(_?\d)*)([eE][+-]?\d(_?\d)*)?$/
/** From the largest down, the order in which a duration has them; in milliseconds. */
const UNITS: readonly [string, bigint][] = [
  ['y', 31_536_000_000n],
  ['w', 604_800_000n],
  ['d', 86_400_000n],
  ['h', 3_600_000n],
  ['m', 60_000n],
  ['s', 1000n],
  ['ms', 1n],
]

/** Decimal, 0x hexadecimal, octal with a leading 0, floats, Inf and NaN; underscores between digits. */
export function readNumber(text: string): number | string {
  const lower = text.toLowerCase()
  if (lower === 'inf') return Infinity
  if (lower === 'nan') return NaN
  const plain = text.replaceAll('_', '')
  const integer = HEX.test(text) ? BigInt(plain) : OCTAL.test(text) ? BigInt(`0o${plain.slice(1)}`) : undefined
  if (integer !== undefined && integer <= MAX_INT64) return Number(integer)
  const failed = (cause: string) => `error parsing number: strconv.ParseFloat: parsing ${quote(text)}: ${cause}`
  if (!FLOAT.test(text)) return failed('invalid syntax')
  const value = Number(plain)
  return Number.isFinite(value) ? value : failed('value out of range')
}

/** "1h30m" in seconds. */
export function readDuration(text: string): number | string {
  const invalid = `not a valid duration string: ${quote(text)}`
  if (!/^\d/.test(text)) return invalid
  let total = 0n
  let last = -1
  for (const [, digits, unit] of text.matchAll(/(\d+)(\D*)/g)) {
    const count = BigInt(digits)
    if (count > MAX_UINT64 || unit === '') return invalid
    const place = UNITS.findIndex(([name]) => name === unit)
    if (place < 0) return `unknown unit ${quote(unit)} in duration ${quote(text)}`
    if (place <= last) return invalid
    last = place
    total += count * UNITS[place][1]
    if (total * 1_000_000n > MAX_INT64) return 'duration out of range'
  }
  const ms = Number(total)
  return Math.floor(ms / 1000) + (ms % 1000) / 1000
}

/** More than 64 bits of nanoseconds, or no number. */
export function durationOutOfRange(seconds: number): boolean {
  return !(Math.abs(seconds) <= MAX_DURATION_SECONDS)
}

/** Whole milliseconds of a duration that is kept in nanoseconds. */
export function toMs(seconds: number): number {
  const ns = seconds * 1e9
  const whole = ns < 0 ? -Math.floor(0.5 - ns) : Math.floor(ns + 0.5)
  return Math.trunc(whole / 1e6) + 0
}
