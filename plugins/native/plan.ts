/** The native query plan: parsed from the body's bytes, because its times are integers that a double cannot hold. */
import { asciiText } from '../../kernel/decode/numbers.ts'
import { SvcError } from '../../kernel/errors.ts'
import { JsonError, JsonReader } from './json-reader.ts'

export interface Plan {
  measurement: string
  /** Nanoseconds, start included, end not. */
  start?: bigint
  end?: bigint
  /** Each must be equal. */
  tags: Record<string, string>
  fields?: string[]
  limit?: number
  offset: number
}

const QUOTE = 34
const SHOWN = 64
const INTEGER = /^-?\d{1,20}$/

/** @throws BAD_REQUEST naming the member. */
export function parsePlan(body: Uint8Array): Plan {
  let path = ''
  try {
    const reader = new JsonReader(body)
    const plan: Plan = { measurement: '', tags: Object.create(null) as Record<string, string>, offset: 0 }
    const members: Record<string, () => void> = Object.assign(Object.create(null), {
      measurement: () => (plan.measurement = reader.string()),
      range: () => {
        each(reader, (name) => {
          path = `range.${name.slice(0, SHOWN)}`
          if (name === 'start') plan.start = nanos(reader)
          else if (name === 'end') plan.end = nanos(reader)
          else throw new JsonError('unknown key; a range has start and end', reader.at)
        })
      },
      tags: () => {
        each(reader, (name) => {
          path = `tags.${name.slice(0, SHOWN)}`
          plan.tags[name] = reader.string()
        })
      },
      fields: () => {
        plan.fields = []
        reader.expect(91)
        while (reader.more(93, plan.fields.length === 0)) {
          path = `fields[${plan.fields.length}]`
          plan.fields.push(reader.string())
        }
      },
      limit: () => (plan.limit = count(reader)),
      offset: () => (plan.offset = count(reader)),
    })
    each(reader, (name) => {
      path = name.slice(0, SHOWN)
      const member = members[name]
      if (member === undefined) throw new JsonError('unknown key; a query has measurement, range, tags, fields, limit and offset', reader.at)
      member()
    })
    path = ''
    reader.end()
    path = 'measurement'
    if (plan.measurement === '') throw new JsonError('a query needs the name of a measurement', 0)
    path = 'range'
    if (plan.start !== undefined && plan.end !== undefined && plan.start > plan.end) throw new JsonError('start is after end', 0)
    return plan
  } catch (error) {
    if (!(error instanceof JsonError)) throw error
    throw new SvcError('BAD_REQUEST', `cannot read query: ${path === '' ? '' : `${path}: `}${error.message}`, { cause: error })
  }
}

/** The members of an object, each once. */
function each(reader: JsonReader, member: (name: string) => void): void {
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
function nanos(reader: JsonReader): bigint {
  const text = reader.peek() === QUOTE ? reader.string() : numberText(reader)
  const value = INTEGER.test(text) ? BigInt(text) : undefined
  if (value === undefined || value !== BigInt.asIntN(64, value))
    throw new JsonError(`"${text.slice(0, SHOWN)}" is not an integer of nanoseconds within 64 bits`, reader.at)
  return value
}

function count(reader: JsonReader): number {
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
