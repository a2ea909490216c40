/**
 * Beside the data: computes buckets of rollups of one source out of one scan, and compares them with what the targets have. The answer is what is to be written and what
 * is to go, over one snapshot. It takes as many buckets as it may, and says how far it came.
 */
import type { FieldInfo, Job, JobIo, Reader } from 'svcdb'
import { classify, type ErrorCode, SvcError } from 'svcdb/lib/errors'
import type { Bucketing } from 'svcdb/lib/time-buckets'
import { type Aggregated, type AggregateRequest, Aggregator, handoverWeight, TooMuchError } from './aggregate.ts'
import { boundariesOf, floorBucket } from './boundaries.ts'
import { aggregationsOf, bucketingKey, bucketsOf, type Definition } from './definition.ts'
import { firstTime } from './first-time.ts'
import type { Range } from './ranges.ts'
import { type Compared, compare } from './target-rows.ts'
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

export interface Done extends Compared {
  state: 'done'
  start: bigint
  /** All buckets before it were computed. */
  end: bigint
  /** Buckets that the slice had, with rows or without. */
  buckets: number
  rows: Aggregated
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

/** One whose next slice is known. */
type Placed = Working & { at: bigint }

function recompute(reader: Reader, args: RecomputeArgs, { signal }: Pick<JobIo, 'signal'>): Promise<Recomputed> {
  return new Recomputation(reader, args, signal).run()
}

class Recomputation {
  private readonly reader: Reader
  private readonly args: RecomputeArgs
  private readonly signal: AbortSignal
  private sourceFields: readonly FieldInfo[] | undefined
  private parts: Working[] = []
  private rowsRead = 0

  constructor(reader: Reader, args: RecomputeArgs, signal: AbortSignal) {
    this.reader = reader
    this.args = args
    this.signal = signal
  }

  async run(): Promise<Recomputed> {
    await this.open()
    const encrypted = await this.encryptedField()
    if (encrypted !== undefined) {
      for (const part of this.parts) part.result = failed(encryptedField(part.definition.name, this.args.source, encrypted))
      return this.answer()
    }
    await this.placeBeginners()
    try {
      await this.slice()
      if (await this.skipEmpty()) await this.slice()
      return this.answer()
    } catch (error) {
      if (error instanceof TooMuchError) return { state: 'too much' }
      throw error
    }
  }

  private async open(): Promise<void> {
    const schema = await this.reader.schema(this.args.namespace)
    const fieldsOf = (measurement: string): readonly FieldInfo[] | undefined => schema.find(({ name }) => name === measurement)?.fields
    this.sourceFields = fieldsOf(this.args.source)
    this.parts = this.args.parts.map((part) => {
      const { definition, start } = part
      return { ...part, buckets: bucketsOf(definition), targetFields: fieldsOf(definition.target), at: start, from: start, result: undefined }
    })
  }

  /** The name of an encrypted field of the source. */
  private async encryptedField(): Promise<string | undefined> {
    const { namespace, source, plain } = this.args
    if (this.sourceFields === undefined || this.sourceFields.every((field) => plain.includes(field.name))) return undefined
    const [measurement] = await this.reader.measurements(namespace, source)
    return measurement?.fields.find((field) => field.encrypted === true)?.name
  }

  /** Rollups that have computed nothing yet begin where their source does. */
  private async placeBeginners(): Promise<void> {
    const beginners = this.parts.filter(({ start }) => start === undefined)
    if (beginners.length === 0) return
    const time = await this.firstTime(undefined, latest(beginners), [])
    for (const part of beginners) {
      if (time === undefined || time >= part.end) part.result = { state: 'empty' }
      else part.at = part.from = floorBucket(time, part.buckets)
    }
  }

  /** One slice of time, for the first part that is not at its end and those that can join it. @throws TooMuchError */
  private async slice(): Promise<void> {
    const todo = this.parts.filter(({ result, at, end }) => (result === undefined || result.state === 'done') && at !== undefined && at < end)
    if (todo.length === 0) return
    const joined = joinedRequests(todo as Placed[])
    const requests = joined.map(({ request }) => request)
    const aggregator = new Aggregator(this.sourceFields ?? [], requests, this.args.maxBytes)
    const start = minTime(joined.map(({ part }) => part.at))
    const end = maxTime(requests.map(({ boundaries }) => lastOf(boundaries)))
    if (aggregator.fields.length > 0 && start < end) await this.scan(aggregator, start, end)
    for (const [i, { part, request }] of joined.entries()) await this.finish(part, request, () => aggregator.result(i))
  }

  private async scan(aggregator: Aggregator, start: bigint, end: bigint): Promise<void> {
    const { namespace, source } = this.args
    for await (const chunk of this.reader.scan({ namespace, measurement: source, fields: aggregator.fields, start, end })) {
      this.signal.throwIfAborted()
      this.rowsRead += chunk.times.length
      aggregator.add(chunk)
    }
  }

  private async finish(part: Placed, { boundaries }: AggregateRequest, result: () => Aggregated): Promise<void> {
    const { definition, targetFields } = part
    const [start, end] = [part.at, lastOf(boundaries)]
    try {
      const rows = result()
      const compared = await compare(this.reader, { ...definition, start, end, targetFields }, rows, this.signal)
      part.result = { state: 'done', start: part.from as bigint, end, buckets: boundaries.length - 1, rows, ...compared }
      part.at = end
    } catch (error) {
      this.signal.throwIfAborted()
      // Its target cannot be read: the others go on.
      part.result = failed(error)
    }
  }

  /** Where a slice had nothing, its parts go on where there is something. @returns whether one is left to be done. */
  private async skipEmpty(): Promise<boolean> {
    const done = this.parts.filter(({ result }) => result?.state === 'done')
    const open = done.filter(({ at, end }) => at !== end)
    if (open.length === 0 || !done.every(({ result }) => isEmpty(result as Done))) return false
    const next = await this.firstTime(earliest(open), latest(open), open)
    for (const part of open) {
      const at = next === undefined || next >= part.end ? part.end : floorBucket(next, part.buckets)
      if (at > (part.at as bigint)) part.at = (part.result as Done).end = at
    }
    return true
  }

  /** The first time of the source, or of targets, that is not before `from`. */
  private async firstTime(from: bigint | undefined, end: bigint, targets: readonly Working[]): Promise<bigint | undefined> {
    const { namespace, source, sql } = this.args
    const held = targets.flatMap(({ definition, targetFields }) => (targetFields === undefined ? [] : [definition.target]))
    let found: bigint | undefined
    for (const measurement of [...(this.sourceFields === undefined ? [] : [source]), ...held]) {
      const time = await firstTime(this.reader, { namespace, measurement, start: from, end }, sql)
      if (time !== undefined && (found === undefined || time < found)) found = time
    }
    return found
  }

  private answer(): Recomputed {
    const parts = this.parts.map(({ result }): RecomputedPart => result ?? { state: 'apart' })
    const weight = parts.reduce((sum, part) => sum + (part.state === 'done' ? handoverWeight(part.rows) : 0), 0)
    const plain = this.sourceFields?.map(({ name }) => name) ?? []
    return { state: 'done', parts, rowsRead: this.rowsRead, weight, plain }
  }
}

interface PartRequest {
  part: Placed
  request: AggregateRequest
}

/** Of the first part, and of those whose buckets lie in its slice or about it. */
function joinedRequests([leader, ...others]: readonly Placed[]): PartRequest[] {
  const first = requestOf(leader, leader.end)
  const window: Range = [leader.at, lastOf(first.request.boundaries)]
  const joining = others.flatMap((part) => {
    const end = within(window, { ...part, start: part.at })
    return end === undefined ? [] : [requestOf(part, end)]
  })
  return [first, ...joining]
}

function requestOf(part: Placed, end: bigint): PartRequest {
  const { definition, buckets, at, maxBuckets } = part
  const boundaries = boundariesOf(buckets, at, end, maxBuckets)
  const { groupBy } = definition
  return { part, request: { boundaries, bucketing: bucketingKey(definition), aggregations: aggregationsOf(definition), groupBy: groupBy ?? undefined } }
}

const lastOf = (boundaries: BigInt64Array): bigint => boundaries[boundaries.length - 1]
const isEmpty = ({ rows, stale }: Done): boolean => rows.group.length === 0 && stale.length === 0
const minTime = (times: readonly bigint[]): bigint => times.reduce((found, time) => (time < found ? time : found))
const maxTime = (times: readonly bigint[]): bigint => times.reduce((found, time) => (time > found ? time : found))
const latest = (parts: readonly Working[]): bigint => maxTime(parts.map(({ end }) => end))
const earliest = (parts: readonly Working[]): bigint => minTime(parts.map(({ at }) => at as bigint))

function failed(error: unknown): RecomputedPart {
  const { code, message } = classify(error)
  return { state: 'failed', code, message }
}

export function encryptedField(name: string, source: string, field: string): SvcError {
  return new SvcError(
    'INVALID_REQUEST',
    `cannot create rollup "${name}": field "${field}" of measurement "${source}" is encrypted, and its target would hold it in the clear; keep such fields in a measurement of their own`,
  )
}

const job: Job<RecomputeArgs, Recomputed> = recompute
export default job
