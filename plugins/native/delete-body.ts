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
  if (start !== undefined && end === undefined) refuseOtherUnit(start, now, reader.at)
  return {
    measurement,
    matchers: [...tags].map(([tag, value]) => ({ tag, op: '=' as const, value })),
    ...(start === undefined ? {} : { start }),
    ...(end === undefined ? {} : { end: end === AFTER_ALL ? end : end + 1n }),
  }
}

/** A start of another unit is a moment of 1970: with an open end it would take all points instead of the newest. */
function refuseOtherUnit(start: bigint, now: bigint, at: number): void {
  for (const [unit, length] of Object.entries(OTHER_UNITS)) {
    const meant = start * length
    if (meant <= PLAUSIBLE || meant > now) continue
    const time = new Date(Number(meant / 1_000_000n)).toISOString()
    throw new JsonError(
      `without an end, a start of ${start} ns, in 1970, takes all points; if it is ${unit}, ${time}, write ${meant}; if it is nanoseconds, give an end too`,
      at,
    )
  }
}
