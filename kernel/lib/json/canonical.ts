/** RFC 8785: members sorted by their UTF-16 code units, no spaces, numbers as ECMAScript prints them. */
const LONE_SURROGATE = /\p{Surrogate}/u

/** @public Canonical JSON. Members that are undefined are left out. @throws Error for what JSON has no form for, and integers that a number does not hold exactly. */
export function canonical(value: unknown): string {
  if (value === null || typeof value === 'boolean') return String(value)
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw new Error(`cannot write ${value} as JSON: it is no finite number`)
    if (Number.isInteger(value) && !Number.isSafeInteger(value)) throw new Error(`cannot write ${value} as JSON: integers are exact up to 2^53 - 1`)
    return JSON.stringify(value)
  }
  if (typeof value === 'string') {
    if (LONE_SURROGATE.test(value)) throw new Error('cannot write text as JSON: it has half of a surrogate pair')
    return JSON.stringify(value)
  }
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (typeof value !== 'object') throw new Error(`cannot write a ${typeof value} as JSON: there is none there`)
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null) throw new Error('cannot write an object of a class as JSON: give its members')
  const members = Object.entries(value)
    .filter(([, member]) => member !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${members.map(([name, member]) => `${canonical(name)}:${canonical(member)}`).join(',')}}`
}
