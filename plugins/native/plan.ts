/** The native query plan: parsed from the body's bytes, because its times are integers that a double cannot hold. */
import { SvcError } from 'svcdb/lib/errors'
import { count, each, MissingMember, nanos, SHOWN } from './json-members.ts'
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

/** @throws BAD_REQUEST naming the member, INVALID_BODY where one is missing. */
export function parsePlan(body: Uint8Array): Plan {
  let path = ''
  let named = false
  try {
    const reader = new JsonReader(body)
    const plan: Plan = { measurement: '', tags: Object.create(null) as Record<string, string>, offset: 0 }
    const members: Record<string, () => void> = Object.assign(Object.create(null), {
      measurement: () => {
        named = true
        plan.measurement = reader.string()
      },
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
    if (plan.measurement === '') throw new (named ? JsonError : MissingMember)('a query needs the name of a measurement', 0)
    path = 'range'
    if (plan.start !== undefined && plan.end !== undefined && plan.start > plan.end) throw new JsonError('start is after end', 0)
    return plan
  } catch (error) {
    if (!(error instanceof JsonError)) throw error
    throw new SvcError(error instanceof MissingMember ? error.code : 'BAD_REQUEST', `cannot read query: ${path === '' ? '' : `${path}: `}${error.message}`, {
      cause: error,
    })
  }
}
