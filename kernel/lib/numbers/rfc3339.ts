/** Times as RFC 3339 writes them, to the nanosecond. */

const FORM = /^(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?([Zz]|[+-]\d\d:\d\d)$/

/** @returns nanoseconds since the Unix epoch, which may need more than 64 bits; undefined for what is no such time. */
export function rfc3339Nanos(text: string): bigint | undefined {
  const match = FORM.exec(text)
  if (match === null) return undefined
  const [, date, time, fraction = '', zone] = match
  const local = Date.parse(`${date}T${time}Z`)
  // Date.parse takes the 30th of February for a day of March, and 24:00 for the next midnight.
  if (Number.isNaN(local) || new Date(local).toISOString().slice(0, 19) !== `${date}T${time}`) return undefined
  const ms = Date.parse(`${date}T${time}${zone.toUpperCase()}`)
  return Number.isNaN(ms) ? undefined : BigInt(ms) * 1_000_000n + BigInt(fraction.padEnd(9, '0'))
}
