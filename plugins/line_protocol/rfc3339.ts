/** Times as InfluxDB 2 takes them in bodies. */

const FORM = /^(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?([Zz]|[+-]\d\d:\d\d)$/
const FIRST = -(2n ** 63n)
const LAST = 2n ** 63n - 1n

/** @returns nanoseconds since the epoch, or the first or last that there are for times beyond them; undefined for what is no such time. */
export function nanosOf(text: string): bigint | undefined {
  const match = FORM.exec(text)
  if (match === null) return undefined
  const [, seconds, fraction = '', zone] = match
  const ms = Date.parse(`${seconds.toUpperCase()}${zone.toUpperCase()}`)
  if (Number.isNaN(ms)) return undefined
  const nanos = BigInt(ms) * 1_000_000n + BigInt(fraction.padEnd(9, '0'))
  return nanos < FIRST ? FIRST : nanos > LAST ? LAST : nanos
}
