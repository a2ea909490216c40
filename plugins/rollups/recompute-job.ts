/**
 * Beside the data: computes the buckets of a range from the source, and compares them with what the target has. The answer is what is to be written and what is to go,
 * over one snapshot. It takes as many buckets as it may, and says how far it came.
 */
import type { FieldInfo, Job, JobIo, Reader } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import type { Bucketing } from 'svcdb/lib/time-buckets'
import { type Aggregated, Aggregator, TooMuchError, tagsKey } from './aggregate.ts'
import { boundariesOf, floorBucket } from './boundaries.ts'
import { aggregationsOf, bucketsOf, type Definition } from './definition.ts'
import { firstTime } from './first-time.ts'

export interface RecomputeArgs {
  definition: Definition
  /** The start of a bucket; undefined = where the source begins. */
  start: bigint | undefined
  /** The end of a bucket. */
  end: bigint
  maxBuckets: number
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

export type Recomputed =
  /** A smaller slice may do. */
  | { state: 'too much' }
  /** There is nothing before `end`. */
  | { state: 'empty' }
  | {
      state: 'done'
      start: bigint
      /** All buckets before it were computed. */
      end: bigint
      rows: Aggregated
      /** Rows that the target has already, one byte each. */
      unchanged: Uint8Array
      /** Rows of the target that are no more, or that have lost a field. */
      stale: StaleRows[]
      /** Fields of the source, none of them encrypted. */
      plain: string[]
    }

export async function recompute(reader: Reader, args: RecomputeArgs, { signal }: Pick<JobIo, 'signal'>): Promise<Recomputed> {
  const { definition, sql } = args
  const { namespace, source, target } = definition
  const buckets = bucketsOf(definition)
  const schema = await reader.schema(namespace)
  const sourceFields = schema.find(({ name }) => name === source)?.fields
  const targetFields = schema.find(({ name }) => name === target)?.fields
  if (sourceFields !== undefined) await requirePlain(reader, definition, sourceFields, args.plain)
  const plain = sourceFields?.map(({ name }) => name) ?? []
  const first = async (from: bigint | undefined): Promise<bigint | undefined> => {
    const request = { namespace, start: from, end: args.end }
    const found = [
      sourceFields === undefined ? undefined : await firstTime(reader, { ...request, measurement: source }, sql),
      from === undefined || targetFields === undefined ? undefined : await firstTime(reader, { ...request, measurement: target }, sql),
    ]
    return found.reduce((a, b) => (a === undefined || (b !== undefined && b < a) ? b : a), undefined)
  }
  let start = args.start
  if (start === undefined) {
    const time = await first(undefined)
    if (time === undefined) return { state: 'empty' }
    start = floorBucket(time, buckets)
  }
  for (let jumped = false; ; jumped = true) {
    const done = await slice(reader, { ...args, start }, buckets, sourceFields, targetFields, signal)
    if (done.state !== 'done' || done.rows.group.length > 0 || done.stale.length > 0 || done.end >= args.end || jumped)
      return done.state === 'done' ? { ...done, plain } : done
    // Nothing here: go on where there is something.
    const next = await first(done.end)
    if (next === undefined) return { ...done, end: args.end, plain }
    start = floorBucket(next, buckets)
    if (start < done.end) start = done.end
  }
}

async function slice(
  reader: Reader,
  { definition, start, end: last, maxBuckets, maxBytes }: RecomputeArgs & { start: bigint },
  buckets: Bucketing,
  sourceFields: readonly FieldInfo[] | undefined,
  targetFields: readonly FieldInfo[] | undefined,
  signal: AbortSignal,
): Promise<Recomputed> {
  const { namespace, source, target, groupBy } = definition
  const boundaries = boundariesOf(buckets, start, last, maxBuckets)
  const end = boundaries[boundaries.length - 1]
  const aggregator = new Aggregator(boundaries, sourceFields ?? [], aggregationsOf(definition), groupBy ?? undefined, maxBytes)
  const { fields } = aggregator
  try {
    if (fields.length > 0 && start < end) {
      for await (const chunk of reader.scan({ namespace, measurement: source, fields, start, end })) {
        signal.throwIfAborted()
        aggregator.add(chunk)
      }
    }
  } catch (error) {
    if (error instanceof TooMuchError) return { state: 'too much' }
    throw error
  }
  const rows = aggregator.result()
  const { unchanged, stale } = await compare(reader, { namespace, target, start, end, targetFields }, rows, signal)
  return { state: 'done', start, end, rows, unchanged, stale, plain: [] }
}

/** @throws INVALID_REQUEST for an encrypted field. */
async function requirePlain(reader: Reader, { namespace, source, name }: Definition, fields: readonly FieldInfo[], known: readonly string[]): Promise<void> {
  if (fields.every((field) => known.includes(field.name))) return
  const encrypted = (await reader.measurements(namespace)).find((measurement) => measurement.name === source)?.fields.find((field) => field.encrypted === true)
  if (encrypted !== undefined) throw encryptedField(name, source, encrypted.name)
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
  const groups = new Map(rows.groups.map((tags, i) => [tagsKey(tags), i]))
  const places = rows.groups.map(() => new Map<bigint, number>())
  for (let i = 0; i < rows.group.length; i++) places[rows.group[i]].set(rows.times[i], i)
  const columns = new Map(rows.columns.map((column) => [column.name, column.values]))
  for await (const { tags, times, columns: held } of reader.scan({ namespace, measurement: target, start, end })) {
    signal.throwIfAborted()
    const group = groups.get(tagsKey(tags))
    const gone: bigint[] = []
    for (let row = 0; row < times.length; row++) {
      const place = group === undefined ? undefined : places[group].get(times[row])
      let same = place !== undefined
      let lost = place === undefined
      let shown = 0
      for (const { name, values, validity } of held) {
        if (validity !== undefined && validity[row] === 0) continue
        shown++
        const now = place === undefined ? undefined : columns.get(name)?.[place]
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

const count = ({ columns }: Aggregated, row: number): number => columns.reduce((sum, { values }) => sum + (values[row] === undefined ? 0 : 1), 0)

function equal(a: unknown, b: unknown): boolean {
  if (a instanceof Uint8Array && b instanceof Uint8Array) return Buffer.compare(a, b) === 0
  if (typeof b === 'boolean') return (a === 1 || a === true) === b
  return Object.is(a, b)
}

const job: Job<RecomputeArgs, Recomputed> = recompute
export default job
