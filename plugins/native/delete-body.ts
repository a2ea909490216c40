/**
 * Bodies of deletes, parsed from their bytes as query plans are. A range stands in `range` or beside it; both its ends are included, so that
 * the half-open range of the storage ends one nanosecond later.
 */
import type { DeleteRequest } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { each, MissingMember, nanos, SHOWN } from './json-members.ts'
import { JsonError, JsonReader } from './json-reader.ts'

export type Deletion = Omit<DeleteRequest, 'namespace'>

/** No point lies here, so a range that ends before it holds all. */
const AFTER_ALL = 2n ** 63n - 1n

/** Nanoseconds of the units that clients take for nanoseconds. */
const OTHER_UNITS = { seconds: 1_000_000_000n, milliseconds: 1_000_000n, microseconds: 1000n }
/** 2001, in nanoseconds: a time of another unit that is later, and not in the future, was hardly meant as a moment of 1970. */
const PLAUSIBLE = 10n ** 18n
/** An end may lie ahead. */
const YEAR = 366n * 86_400n * 1_000_000_000n

/**
 * @param now nanoseconds.
 * @throws BAD_REQUEST naming the member, INVALID_BODY where one is missing.
 */
export function parseDelete(body: Uint8Array, now: bigint): Deletion {
  return parse(body, (reader, at) => deletion(reader, '', at, now))
}

/**
 * @param now nanoseconds.
 * @throws BAD_REQUEST naming the item and the member: nothing of the batch is to be deleted then.
 */
export function parseDeleteBatch(body: Uint8Array, maxDeletes: number, now: bigint): Deletion[] {
  return parse(body, (reader, at) => {
    const deletions: Deletion[] = []
    let listed = false
    each(reader, (name) => {
      at(name)
      if (name !== 'deletes') throw new JsonError('unknown key; a batch has deletes', reader.at)
      listed = true
      reader.expect(91)
      while (reader.more(93, deletions.length === 0)) {
        at('deletes')
        if (deletions.length === maxDeletes)
          throw new JsonError(`there are more than ${maxDeletes}, native.max_deletes_per_batch; send several batches`, reader.at)
        const item = `deletes[${deletions.length}]`
        at(item)
        deletions.push(deletion(reader, `${item}.`, at, now))
      }
    })
    at('deletes')
    if (!listed) throw new MissingMember('a batch needs a list of deletes', reader.at)
    if (deletions.length === 0) throw new JsonError('a batch needs at least one', reader.at)
    return deletions
  })
}

type Place = (path: string) => void

function parse<T>(body: Uint8Array, read: (reader: JsonReader, at: Place) => T): T {
  let path = ''
  try {
    const reader = new JsonReader(body)
    const result = read(reader, (place) => {
      path = place
    })
    path = ''
    reader.end()
    return result
  } catch (error) {
    if (!(error instanceof JsonError)) throw error
    throw new SvcError(error instanceof MissingMember ? error.code : 'BAD_REQUEST', `cannot read delete: ${path === '' ? '' : `${path}: `}${error.message}`, {
      cause: error,
    })
  }
}

function deletion(reader: JsonReader, prefix: string, at: Place, now: bigint): Deletion {
  let measurement: string | undefined
  let start: bigint | undefined
  let end: bigint | undefined
  const tags = new Map<string, string>()
  const bound = (name: string) => {
    if ((name === 'start' ? start : end) !== undefined) throw new JsonError('the bound is given twice, in range and beside it', reader.at)
    if (name === 'start') start = nanos(reader)
    else end = nanos(reader)
  }
  each(reader, (name) => {
    const path = prefix + name.slice(0, SHOWN)
    at(path)
    if (name === 'measurement') measurement = reader.string()
    else if (name === 'start' || name === 'end') bound(name)
    else if (name === 'range') {
      each(reader, (member) => {
        at(`${path}.${member.slice(0, SHOWN)}`)
        if (member !== 'start' && member !== 'end') throw new JsonError('unknown key; a range has start and end', reader.at)
        bound(member)
      })
    } else if (name === 'tags') {
      each(reader, (tag) => {
        at(`${path}.${tag.slice(0, SHOWN)}`)
        tags.set(tag, reader.string())
      })
    } else throw new JsonError('unknown key; a delete has measurement, tags, and range or start and end', reader.at)
  })
  at(`${prefix}measurement`)
  if (measurement === undefined) throw new MissingMember('a delete needs the name of a measurement', reader.at)
  if (measurement === '') throw new JsonError('a delete needs the name of a measurement', reader.at)
  at(`${prefix}range`)
  if (start !== undefined && end !== undefined && start > end) throw new JsonError('start is after end', reader.at)
  refuseOtherUnit(start, end, now, reader.at)
  return {
    measurement,
    matchers: [...tags].map(([tag, value]) => ({ tag, op: '=' as const, value })),
    ...(start === undefined ? {} : { start }),
    ...(end === undefined ? {} : { end: end === AFTER_ALL ? end : end + 1n }),
  }
}

/**
 * Times of another unit are moments of 1970: with an open end all points would be taken instead of the newest, and up to such an end none. Beside a start that is
 * of no other unit, such as 0, an end is meant.
 */
function refuseOtherUnit(start: bigint | undefined, end: bigint | undefined, now: bigint, at: number): void {
  for (const [unit, length] of Object.entries(OTHER_UNITS)) {
    if (start !== undefined && !isMeant(start * length, now)) continue
    if (end !== undefined && !isMeant(end * length, now + YEAR)) continue
    const time = end ?? start
    if (time === undefined) return
    const meant = `${new Date(Number((time * length) / 1_000_000n)).toISOString()}, write ${time * length}`
    throw new JsonError(
      end === undefined
        ? `without an end, a start of ${time} ns, in 1970, takes all points; if it is ${unit}, ${meant}; if it is nanoseconds, give an end too`
        : `an end of ${time} ns is in 1970; if it is ${unit}, ${meant}; if it is nanoseconds, let start be 0`,
      at,
    )
  }
}

const isMeant = (time: bigint, last: bigint): boolean => time > PLAUSIBLE && time <= last
