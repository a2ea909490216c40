/** Text of dates and times to nanoseconds since the Unix epoch, exactly. */

const DATE_TIME = /^([+-]?\d{4,6})-(\d{1,2})-(\d{1,2})(?:[T ]+(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?)?\s*(Z|z|[+-]\d{1,2}(?::?\d{2})?|UTC)?$/

/** The times DuckDB's TIMESTAMP_NS has a literal for; beyond them epoch_ns is compared, which is exact everywhere. */
const FIRST_LITERAL = -9_223_286_400_000_000_000n
const LAST_LITERAL = 9_223_372_036_854_775_806n

/** The message for times that 64 bits of nanoseconds cannot hold. */
export const OUT_OF_RANGE = 'cannot compute a time: the result is outside 1677-09-21 to 2262-04-11, which nanoseconds in 64 bits can hold'

/** Whether DuckDB's TIMESTAMP_NS has a literal for it. @param ns nanoseconds since the Unix epoch. */
export const fits = (ns: bigint): boolean => ns >= FIRST_LITERAL && ns <= LAST_LITERAL

/** A date or a time as its text says it. */
export interface ParsedTime {
  /** Wall-clock nanoseconds, as if the zone were UTC. */
  local: bigint
  /** Minutes east of UTC, undefined when the text has no zone. */
  offset: number | undefined
  dateOnly: boolean
  fractionDigits: number
}

/** RFC 3339 and the forms SQL takes beside it; undefined for text that is no date. */
export function parseTime(text: string): ParsedTime | undefined {
  // Blanks at the end within the expression would be tried by the square of their number.
  const match = DATE_TIME.exec(text.trim())
  if (match === null) return undefined
  const [, year, month, day, hour = '0', minute = '0', second = '0', fraction = '', zone] = match
  const [y, mo, d, h, mi, s] = [year, month, day, hour, minute, second].map(Number)
  if (mo < 1 || mo > 12 || d < 1 || d > daysInMonth(y, mo) || h > 23 || mi > 59 || s > 59) return undefined
  const seconds = BigInt(daysFromCivil(y, mo, d)) * 86_400n + BigInt(h * 3600 + mi * 60 + s)
  return {
    local: seconds * 1_000_000_000n + BigInt(fraction.padEnd(9, '0')),
    offset: zone === undefined ? undefined : zoneMinutes(zone),
    dateOnly: match[4] === undefined,
    fractionDigits: fraction.length,
  }
}

/** The instant that text means; without a zone it is read as UTC. */
export function parseInstant(text: string): bigint | undefined {
  const time = parseTime(text)
  return time === undefined ? undefined : time.local - BigInt(time.offset ?? 0) * 60_000_000_000n
}

function zoneMinutes(zone: string): number {
  if (zone === 'Z' || zone === 'z' || zone === 'UTC') return 0
  const digits = zone.slice(1).replace(':', '')
  const hours = Number(digits.length > 2 ? digits.slice(0, -2) : digits)
  const minutes = digits.length > 2 ? Number(digits.slice(-2)) : 0
  return (zone[0] === '-' ? -1 : 1) * (hours * 60 + minutes)
}

/** Days since 1970-01-01 of a proleptic Gregorian date. */
export function daysFromCivil(year: number, month: number, day: number): number {
  const y = month <= 2 ? year - 1 : year
  const era = Math.floor(y / 400)
  const yearOfEra = y - era * 400
  const dayOfYear = Math.floor((153 * (month + (month > 2 ? -3 : 9)) + 2) / 5) + day - 1
  return era * 146_097 + yearOfEra * 365 + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100) + dayOfYear - 719_468
}

/** The proleptic Gregorian date of a day. @param days since 1970-01-01. @returns `month` and `day` from 1 on. */
export function civilFromDays(days: number): { year: number; month: number; day: number } {
  const shifted = days + 719_468
  const era = Math.floor(shifted / 146_097)
  const dayOfEra = shifted - era * 146_097
  const yearOfEra = Math.floor((dayOfEra - Math.floor(dayOfEra / 1460) + Math.floor(dayOfEra / 36_524) - Math.floor(dayOfEra / 146_096)) / 365)
  const dayOfYear = dayOfEra - (365 * yearOfEra + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100))
  const shiftedMonth = Math.floor((5 * dayOfYear + 2) / 153)
  const month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
  return { year: yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, day: dayOfYear - Math.floor((153 * shiftedMonth + 2) / 5) + 1 }
}

/** 28 to 31. @param month 1 to 12. */
export function daysInMonth(year: number, month: number): number {
  return month === 2 ? ((year % 4 === 0 && year % 100 !== 0) || year % 400 === 0 ? 29 : 28) : [4, 6, 9, 11].includes(month) ? 30 : 31
}

/** The quotient, rounded down. @param b above 0. */
export function floorDiv(a: bigint, b: bigint): bigint {
  const q = a / b
  return a % b < 0n ? q - 1n : q
}
