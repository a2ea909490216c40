/** What the bodies of queries and deletes are made of: members of an object, each once, and integers that a double cannot hold. */
import { asciiText } from 'svcdb/lib/numbers'
import { JsonError, type JsonReader } from './json-reader.ts'

/** A member that must be there is not. */
export class MissingMember extends JsonError {
  readonly code = 'INVALID_BODY'
}

/** Characters of a caller's text that an error repeats. */
export const SHOWN = 64
const QUOTE = 34
const INTEGER = /^-?\d{1,20}$/

/** The members of an object, each once. */
export function each(reader: JsonReader, member: (name: string) => void): void {
  const seen = new Set<string>()
  if (!reader.take(123)) throw reader.unexpected('an object')
  for (let first = true; reader.more(125, first); first = false) {
    const name = reader.key()
    if (seen.has(name)) throw new JsonError(`key "${name.slice(0, SHOWN)}" occurs twice`, reader.at)
    seen.add(name)
    member(name)
  }
}

/** A 64-bit integer, as a number or, for clients whose numbers are doubles, as a string of digits. */
export function nanos(reader: JsonReader): bigint {
  const text = reader.peek() === QUOTE ? reader.string() : numberText(reader)
  const value = INTEGER.test(text) ? BigInt(text) : undefined
  if (value === undefined || value !== BigInt.asIntN(64, value))
    throw new JsonError(`"${text.slice(0, SHOWN)}" is not an integer of nanoseconds within 64 bits`, reader.at)
  return value
}

export function count(reader: JsonReader): number {
  const text = numberText(reader)
  const value = /^\d{1,15}$/.test(text) ? Number(text) : -1
  if (value < 0) throw new JsonError(`${text.slice(0, SHOWN)} is not a count`, reader.at)
  return value
}

function numberText(reader: JsonReader): string {
  const c = reader.peek()
  if (c !== 45 && !(c > 47 && c < 58)) throw reader.unexpected('an integer')
  const start = reader.at
  return asciiText(reader.bytes, start, reader.numberEnd())
}
