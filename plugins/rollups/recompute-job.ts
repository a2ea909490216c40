/**
 * Beside the data: computes buckets of rollups of one source out of one scan, and compares them with what the targets have. The answer is what is to be written and what
 * is to go, over one snapshot. It takes as many buckets as it may, and says how far it came.
 */
import type { FieldInfo, Job, JobIo, Reader } from 'svcdb'
import { classify, type ErrorCode, SvcError } from 'svcdb/lib/errors'
import type { Bucketing } from 'svcdb/lib/time-buckets'
import { type Aggregated, type AggregateRequest, Aggregator, handoverWeight, rowValue, TooMuchError, tagsKey } from './aggregate.ts'
import { boundariesOf, floorBucket } from './boundaries.ts'
import { aggregationsOf, bucketingKey, bucketsOf, type Definition } from './definition.ts'
import { firstTime } from './first-time.ts'
import type { Range } from './ranges.ts'
import { within } from './together.ts'

/** What one rollup wants of the scan. */
export interface RecomputePart {
  definition: Definition
  /** The start of a bucket; undefined = where the source begins. */
  start: bigint | undefined
  /** The end of a bucket. */
  end: bigint
  maxBuckets: number
}

export interface RecomputeArgs {
  namespace: string
  source: string
  /** The first says which slice of time is done; the others join it as far as they can. */
  parts: readonly RecomputePart[]
  /** For all of them. */
  maxBytes: number
  /** Statements can be run. */
  sql: boolean
  /** Fields that are known not to be encrypted. */
  plain: readonly string[]
}

export interface StaleRows {
  tags: Record<string, string>
  times: BigInt64Array
}

export interface Done {
  state: 'done'
  start: bigint
  /** All buckets before it were computed. */
  end: bigint
  /** Buckets that the slice had, with rows or without. */
  buckets: number
  rows: Aggregated
  /** Rows that the target has already, one byte each. */
  unchanged: Uint8Array
  /** Rows of the target that are no more, or that have lost a field. */
  stale: StaleRows[]
}

/** Of one rollup. */
export type RecomputedPart =
  | Done
  /** There is nothing before `end`. */
  | { state: 'empty' }
  /** Its slice does not lie where that of the first does. */
  | { state: 'apart' }
  | { state: 'failed'; code: ErrorCode; message: string }

export type Recomputed =
  /** Fewer rollups, or a smaller slice, may do. */
  | { state: 'too much' }
  | {
      state: 'done'
      /** As they were asked for. */
      parts: RecomputedPart[]
      /** Rows of the source that were read. */
      rowsRead: number
      /** What it took to hand over the rows that it came to. */
      weight: number
      /** Fields of the source, none of them encrypted. */
      plain: string[]
    }

/** A part under way. */
interface Working extends RecomputePart {
  buckets: Bucketing
  targetFields: readonly FieldInfo[] | undefined
  /** Where the next slice begins. */
  at: bigint | undefined
  /** Where its first one began. */
  from: bigint | undefined
  result: RecomputedPart | undefined
}

export async function recompute(reader: Reader, args: RecomputeArgs, { signal }: Pick<JobIo, 'signal'>): Promise<Recomputed> {
  const { namespace, source, sql } = args
  const schema = await reader.schema(namespace)
  const fieldsOf = (measurement: string): readonly FieldInfo[] | undefined => schema.find(({ name }) => name === measurement)?.fields
  const sourceFields = fieldsOf(source)
  const parts = args.parts.map((part): Working => {
    const { definition, start } = part
    return { ...part, buckets: bucketsOf(definition), targetFields: fieldsOf(definition.target), at: start, from: start, result: undefined }
  })
  const plain = sourceFields?.map(({ name }) => name) ?? []
  const encrypted = sourceFields === undefined ? undefined : await encryptedOf(reader, args, sourceFields)
  const answer = (rowsRead: number): Recomputed => {
    const results = parts.map(({ result }): RecomputedPart => result ?? { state: 'apart' })
    const weight = results.reduce((sum, part) => sum + (part.state === 'done' ? handoverWeight(part.rows) : 0), 0)
    return { state: 'done', parts: results, rowsRead, weight, plain }
  }
  if (encrypted !== undefined) {
    for (const part of parts) part.result = failed(encryptedField(part.definition.name, source, encrypted))
    return answer(0)
  }
  /** The first time of the source, or of targets, that is not before `from`. */
  const first = async (from: bigint | undefined, end: bigint, targets: readonly Working[]): Promise<bigint | undefined> => {
    const held = targets.flatMap(({ definition, targetFields }) => (targetFields === undefined ? [] : [definition.target]))
    let found: bigint | undefined
    for (const measurement of [...(sourceFields === undefined ? [] : [source]), ...held]) {
      const time = await firstTime(reader, { namespace, measurement, start: from, end }, sql)
      if (time !== undefined && (found === undefined || time < found)) found = time
    }
    return found
  }
  const beginners = parts.filter(({ start }) => start === undefined)
  if (beginners.length > 0) {
    const time = await first(undefined, latest(beginners), [])
    for (const part of beginners) {
      if (time === undefined || time >= part.end) part.result = { state: 'empty' }
      else part.at = part.from = floorBucket(time, part.buckets)
    }
  }
  const scan = { ...args, sourceFields, signal }
  let rowsRead = 0
  const round = async (): Promise<void> => {
    const todo = parts.filter(({ result, at, end }) => (result === undefined || result.state === 'done') && at !== undefined && at < end)
    if (todo.length > 0) rowsRead += await slice(reader, scan, todo as (Working & { at: bigint })[])
  }
  try {
    await round()
    const done = parts.filter(({ result }) => result?.state === 'done')
    if (done.length === 0 || !done.every(({ result }) => isEmpty(result as Done)) || done.every(({ at, end }) => at === end)) return answer(rowsRead)
    // Nothing here: go on where there is something.
    const open = done.filter(({ at, end }) => at !== end)
    const next = await first(earliest(open), latest(open), open)
    for (const part of open) {
      const at = next === undefined || next >= part.end ? part.end : floorBucket(next, part.buckets)
      if (at > (part.at as bigint)) part.at = (part.result as Done).end = at
    }
    await round()
    return answer(rowsRead)
  } catch (error) {
    if (error instanceof TooMuchError) return { state: 'too much' }
    throw error
  }
}

interface Scan extends RecomputeArgs {
  sourceFields: readonly FieldInfo[] | undefined
  signal: AbortSignal
}

/** One slice of time, for the first part and those that can join it. @returns rows read. @throws TooMuchError */
async function slice(reader: Reader, scan: Scan, [leader, ...others]: readonly (Working & { at: bigint })[]): Promise<number> {
  const { namespace, source, maxBytes, sourceFields, signal } = scan
  const request = (part: Working & { at: bigint }, end: bigint): { part: Working & { at: bigint }; request: AggregateRequest } => {
    const { definition, buckets, at, maxBuckets } = part
    const boundaries = boundariesOf(buckets, at, end, maxBuckets)
    const { groupBy } = definition
    return { part, request: { boundaries, bucketing: bucketingKey(definition), aggregations: aggregationsOf(definition), groupBy: groupBy ?? undefined } }
  }
  const first = request(leader, leader.end)
  const window: Range = [leader.at, lastOf(first.request.boundaries)]
  const joined = [
    first,
    ...others.flatMap((part) => {
      const end = within(window, { ...part, start: part.at })
      return end === undefined ? [] : [request(part, end)]
    }),
  ]
  const aggregator = new Aggregator(
    sourceFields ?? [],
    joined.map(({ request }) => request),
    maxBytes,
  )
  const { fields } = aggregator
  const start = joined.reduce((least, { part: { at } }) => (at < least ? at : least), leader.at)
  const end = joined.reduce((most, { request: { boundaries } }) => (lastOf(boundaries) > most ? lastOf(boundaries) : most), window[1])
  let rows = 0
  if (fields.length > 0 && start < end) {
    for await (const chunk of reader.scan({ namespace, measurement: source, fields, start, end })) {
      signal.throwIfAborted()
      rows += chunk.times.length
      aggregator.add(chunk)
    }
  }
  for (const [i, { part, request }] of joined.entries()) {
    const [from, to] = [part.at, lastOf(request.boundaries)]
    try {
      const aggregated = aggregator.result(i)
      const { unchanged, stale } = await compare(reader, { ...part.definition, start: from, end: to, targetFields: part.targetFields }, aggregated, signal)
      part.result = { state: 'done', start: part.from as bigint, end: to, buckets: request.boundaries.length - 1, rows: aggregated, unchanged, stale }
      part.at = to
    } catch (error) {
      signal.throwIfAborted()
      // Its target cannot be read: the others go on.
      part.result = failed(error)
    }
  }
  return rows
}

const lastOf = (boundaries: BigInt64Array): bigint => boundaries[boundaries.length - 1]
const isEmpty = ({ rows, stale }: Done): boolean => rows.group.length === 0 && stale.length === 0
const latest = (parts: readonly Working[]): bigint => parts.reduce((most, { end }) => (end > most ? end : most), parts[0].end)
const earliest = (parts: readonly Working[]): bigint | undefined => parts.map(({ at }) => at as bigint).reduce((least, at) => (at < least ? at : least))

function failed(error: unknown): RecomputedPart {
  const { code, message } = classify(error)
  return { state: 'failed', code, message }
}

/** The name of an encrypted field of the source. */
async function encryptedOf(reader: Reader, { namespace, source, plain }: RecomputeArgs, fields: readonly FieldInfo[]): Promise<string | undefined> {
  if (fields.every((field) => plain.includes(field.name))) return undefined
  const measurement = (await reader.measurements(namespace)).find(({ name }) => name === source)
  return measurement?.fields.find((field) => field.encrypted === true)?.name
}

export function encryptedField(name: string, source: string, field: string): SvcError {
  return new SvcError(
    'INVALID_REQUEST',
    `cannot create rollup "${name}": field "${field}" of measurement "${source}" is encrypted, and its target would hold it in the clear; keep such fields in a measurement of their own`,
  )
}

interface Existing {
  namespace: string
  target: string
  start: bigint
  end: bigint
  targetFields: readonly FieldInfo[] | undefined
}

async function compare(reader: Reader, { namespace, target, start, end, targetFields }: Existing, rows: Aggregated, signal: AbortSignal) {
  const unchanged = new Uint8Array(rows.group.length)
  const stale: StaleRows[] = []
  if (targetFields === undefined || targetFields.length === 0 || start >= end) return { unchanged, stale }
  const columns = new Map(rows.columns.map((column) => [column.name, column]))
  let find: ReturnType<typeof placesOf> | undefined
  for await (const { tags, times, columns: held } of reader.scan({ namespace, measurement: target, start, end })) {
    signal.throwIfAborted()
    find ??= placesOf(rows)
    const places = find(tags)
    const gone: bigint[] = []
    for (let row = 0; row < times.length; row++) {
      const place = places?.get(times[row])
      let same = place !== undefined
      let lost = place === undefined
      let shown = 0
      for (const { name, values, validity } of held) {
        if (validity !== undefined && validity[row] === 0) continue
        shown++
        const column = columns.get(name)
        const now = place === undefined || column === undefined ? undefined : rowValue(column, place)
        if (now === undefined) lost = true
        else if (!equal(values[row], now)) same = false
      }
      if (lost) gone.push(times[row])
      else if (same && place !== undefined && shown === count(rows, place)) unchanged[place] = 1
    }
    if (gone.length > 0) stale.push({ tags, times: BigInt64Array.from(gone) })
  }
  return { unchanged, stale }
}

/** Finds rows by their tags and times. */
function placesOf({ groups, group, times }: Aggregated): (tags: Record<string, string>) => Map<bigint, number> | undefined {
  const byTags = new Map(groups.map((tags, i) => [tagsKey(tags), i]))
  const places = groups.map(() => new Map<bigint, number>())
  for (let i = 0; i < group.length; i++) places[group[i]].set(times[i], i)
  return (tags) => places[byTags.get(tagsKey(tags)) ?? -1]
}

const count = ({ columns }: Aggregated, row: number): number => columns.reduce((sum, column) => sum + (rowValue(column, row) === undefined ? 0 : 1), 0)

function equal(a: unknown, b: unknown): boolean {
  if (a instanceof Uint8Array && b instanceof Uint8Array) return Buffer.compare(a, b) === 0
  if (typeof b === 'boolean') return (a === 1 || a === true) === b
  return Object.is(a, b)
}

const job: Job<RecomputeArgs, Recomputed> = recompute
export default job
