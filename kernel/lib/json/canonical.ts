/** RFC 8785: members sorted by their UTF-16 code units, no spaces, numbers as ECMAScript prints them. */

/** Arrays and objects within one another: what is written on a short stack can be read again on a long one. */
const MAX_DEPTH = 512

/**
 * @public Canonical JSON. Members that are undefined are left out.
 * @throws Error for what JSON has no form for, integers that a number does not hold exactly, and what is nested more than 512 deep.
 */
export function canonical(value: unknown): string {
  return written(value, 1)
}

/** @param depth that an array or object here has. */
function written(value: unknown, depth: number): string {
  if (typeof value === 'string') return textOf(value)
  if (typeof value === 'number') return numberOf(value)
  if (value === null || typeof value === 'boolean') return String(value)
  if (typeof value !== 'object') throw new Error(`cannot write a ${typeof value} as JSON: there is none there`)
  if (depth > MAX_DEPTH) throw new Error(`cannot write a value as JSON: it is nested more than ${MAX_DEPTH} deep; flatten it`)
  let text = ''
  if (Array.isArray(value)) {
    // Holes as well: there is no JSON for them.
    for (let i = 0; i < value.length; i++) text += i === 0 ? written(value[i], depth + 1) : `,${written(value[i], depth + 1)}`
    return `[${text}]`
  }
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null) throw new Error('cannot write an object of a class as JSON: give its members')
  const members = value as Record<string, unknown>
  for (const name of sorted(Object.keys(members))) {
    const member = members[name]
    if (member !== undefined) text += `${text === '' ? '' : ','}${textOf(name)}:${written(member, depth + 1)}`
  }
  return `{${text}}`
}

/** Mostly they are. */
function sorted(names: string[]): string[] {
  for (let i = 1; i < names.length; i++) if (names[i - 1] > names[i]) return names.sort()
  return names
}

/** Needs no escape. */
const PLAIN = /^[ !#-[\]-~]*$/

function textOf(value: string): string {
  if (PLAIN.test(value)) return `"${value}"`
  if (!value.isWellFormed()) throw new Error('cannot write text as JSON: it has half of a surrogate pair')
  return JSON.stringify(value)
}

function numberOf(value: number): string {
  if (!Number.isFinite(value)) throw new Error(`cannot write ${value} as JSON: it is no finite number`)
  if (Number.isInteger(value) && !Number.isSafeInteger(value)) throw new Error(`cannot write ${value} as JSON: integers are exact up to 2^53 - 1`)
  return JSON.stringify(value)
}
