/**
 * The real-time view, beside the data: buckets that are materialised as they lie in the target, all others (the tail behind the watermark, ranges that wait for repair)
 * computed from the source on the way, over one snapshot. Emits the answer as JSON, rows by time and then tags.
 */
import type { FieldInfo, Job, JobIo, Matcher, Reader } from 'svcdb'
import { heldRows, type RowHold } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import { storedHistogramJson } from 'svcdb/lib/histogram'
import { decimalText } from 'svcdb/lib/numbers'
import { Aggregator, rowValue, TooMuchError, tagsKey } from './aggregate.ts'
import { targetColumns } from './aggregations.ts'
import { boundariesOf, floorBucket } from './boundaries.ts'
import { aggregationsOf, bucketsOf, type Definition } from './definition.ts'
import { firstTime } from './first-time.ts'
import { clipped, type Range, withoutRange } from './ranges.ts'

export interface ViewArgs {
  definition: Definition
  start: bigint
  end: bigint
  /** Computed from the source; all else is read from the target. Starts and ends of buckets. */
  live: readonly Range[]
  until: bigint
  tags: Record<string, string>
  maxRows: number
  maxBuckets: number
  maxBytes: number
  /** What all queries of the thread may hold: server.max_held_memory. */
  maxHeldBytes: number
  sql: boolean
}

/** A row with its time, and a value of it, beside what texts and histograms take. */
const ROW_BYTES = 128
const VALUE_BYTES = 24

interface Row {
  time: bigint
  tags: Record<string, string>
  key: string
  values: unknown[]
}

const EMIT_LENGTH = 65_536

/** Rows until they are in order, and what they take. */
class Rows {
  readonly list: Row[] = []
  bytes = 0

  push(row: Row): void {
    this.list.push(row)
    this.bytes += ROW_BYTES + row.values.length * VALUE_BYTES
    for (const value of row.values) this.bytes += typeof value === 'string' ? value.length * 2 : value instanceof Uint8Array ? value.length : 0
  }
}

async function view(reader: Reader, args: ViewArgs, io: JobIo): Promise<number> {
  const options = { namespace: args.definition.namespace, limit: args.maxHeldBytes, engineLimit: reader.memoryLimit, signal: io.signal }
  return heldRows.during(options, (hold) => answer(reader, args, io, hold))
}

async function answer(reader: Reader, args: ViewArgs, io: JobIo, hold: RowHold): Promise<number> {
  const { definition, start, end, live, maxRows } = args
  const schema = await reader.schema(definition.namespace)
  const fieldsOf = (measurement: string): readonly FieldInfo[] => schema.find(({ name }) => name === measurement)?.fields ?? []
  // What lies in the target has the target's types, also where the source has been dropped and written again with others.
  const target = new Map(fieldsOf(definition.target).map((field) => [field.name, field]))
  const computed = targetColumns(fieldsOf(definition.source), aggregationsOf(definition))
  const names = new Set([...computed.map(({ name }) => name), ...target.keys()])
  const columns = [...computed.map((column) => target.get(column.name) ?? column), ...target.values()].flatMap(({ name, type, scale }) =>
    names.delete(name) ? [{ name, type, scale }] : [],
  )
  const found = new Rows()
  const within = clipped(live, [start, end])
  const stored = within.reduce<Range[]>((left, range) => withoutRange(left, range), [[start, end]])
  if (fieldsOf(definition.target).length > 0) for (const range of stored) await readStored(reader, args, range, columns, found, hold, io.signal)
  const sources = fieldsOf(definition.source)
  if (sources.length > 0) for (const range of within) await computeLive(reader, args, range, sources, columns, found, hold, io.signal)
  hold.gathered()
  const rows = found.list
  rows.sort((a, b) => (a.time < b.time ? -1 : a.time > b.time ? 1 : a.key < b.key ? -1 : a.key > b.key ? 1 : 0))
  const truncated = rows.length > maxRows
  if (truncated) rows.length = maxRows
  await emit(args, columns, rows, truncated, (bytes) => hold.taken(io.emit(bytes)))
  return rows.length
}

type Columns = { name: string; type: string; scale?: number | undefined }[]

const dataType = ({ type, scale }: Omit<Columns[number], 'name'>): string => (type === 'decimal' ? `decimal(38, ${scale ?? 0})` : type)

/** It could not be materialised either. */
function otherType({ name, source, target }: Definition, column: Columns[number], computed: Omit<Columns[number], 'name'>): SvcError {
  return new SvcError(
    'SCHEMA_ERROR',
    `cannot show rollup "${name}": field "${column.name}" of "${target}" is ${dataType(column)}, and out of what "${source}" has now it is ${dataType(computed)}; end the range before what is not materialised, or drop the target or have another one`,
  )
}

const matchersOf = (tags: Record<string, string>): Matcher[] => Object.entries(tags).map(([tag, value]) => ({ tag, op: '=', value }))

async function readStored(
  reader: Reader,
  { definition, tags, maxRows }: ViewArgs,
  [start, end]: Range,
  columns: Columns,
  rows: Rows,
  hold: RowHold,
  signal: AbortSignal,
): Promise<void> {
  const places = new Map(columns.map(({ name }, i) => [name, i]))
  const scan = reader.scan({ namespace: definition.namespace, measurement: definition.target, matchers: matchersOf(tags), start, end })
  for await (const chunk of hold.chunks(scan, () => rows.bytes)) {
    signal.throwIfAborted()
    const key = tagsKey(chunk.tags)
    requireRoom(rows.list.length + chunk.times.length, maxRows)
    for (let i = 0; i < chunk.times.length; i++) {
      const values: unknown[] = new Array(columns.length).fill(null)
      for (const column of chunk.columns) {
        const place = places.get(column.name)
        if (place === undefined || (column.validity !== undefined && column.validity[i] === 0)) continue
        const value = column.values[i]
        values[place] = column.type === 'bool' ? value === 1 : value instanceof Uint8Array ? value.slice() : value
      }
      rows.push({ time: chunk.times[i], tags: chunk.tags, key, values })
    }
  }
}

async function computeLive(
  reader: Reader,
  { definition, tags, maxRows, maxBuckets, maxBytes, sql }: ViewArgs,
  [from, end]: Range,
  fields: readonly FieldInfo[],
  columns: Columns,
  rows: Rows,
  hold: RowHold,
  signal: AbortSignal,
): Promise<void> {
  const { namespace, source: measurement, groupBy } = definition
  const buckets = bucketsOf(definition)
  let start = from
  while (start < end) {
    // Long empty stretches are stepped over.
    const first = await firstTime(reader, { namespace, measurement, start, end }, sql)
    if (first === undefined) return
    const floor = floorBucket(first, buckets)
    const boundaries = boundariesOf(buckets, floor < start ? start : floor, end, maxBuckets)
    const last = boundaries[boundaries.length - 1]
    const aggregator = new Aggregator(
      fields,
      [{ boundaries, bucketing: '', aggregations: aggregationsOf(definition), groupBy: groupBy ?? undefined }],
      maxBytes,
    )
    try {
      const range = { start: boundaries[0], end: last < end ? last : end }
      const scan = reader.scan({ namespace, measurement, fields: aggregator.fields, matchers: matchersOf(tags), ...range })
      for await (const chunk of hold.chunks(scan, () => rows.bytes + aggregator.bytes)) {
        signal.throwIfAborted()
        aggregator.add(chunk)
      }
    } catch (error) {
      if (!(error instanceof TooMuchError)) throw error
      throw new SvcError(
        'BAD_REQUEST',
        `cannot show rollup "${definition.name}": what is not materialised yet takes more than rollups.max_slice_bytes of ${maxBytes}; narrow the range`,
      )
    }
    const result = aggregator.result(0)
    requireRoom(rows.list.length + result.group.length, maxRows)
    const found = columns.map((column) => {
      const own = result.columns.find(({ name }) => name === column.name)
      if (own === undefined || dataType(own) === dataType(column)) return own
      if (result.times.some((_, row) => rowValue(own, row) !== undefined)) throw otherType(definition, column, own)
      return undefined
    })
    const keys = result.groups.map(tagsKey)
    for (let i = 0; i < result.group.length; i++) {
      const group = result.group[i]
      rows.push({
        time: result.times[i],
        tags: result.groups[group],
        key: keys[group],
        values: found.map((column) => (column === undefined ? null : (rowValue(column, i) ?? null))),
      })
    }
    start = last
  }
}

function requireRoom(rows: number, maxRows: number): void {
  const most = maxRows * 4 + 100_000
  if (rows > most)
    throw new SvcError('BAD_REQUEST', `cannot show the rollup: more than ${most} rows would have to be put in order; narrow the range, or name tags`)
}

async function emit({ until }: ViewArgs, columns: Columns, rows: readonly Row[], truncated: boolean, taken: JobIo['emit']): Promise<void> {
  const tagKeys = [...new Set(rows.flatMap(({ tags }) => Object.keys(tags)))].sort()
  const heads = [
    { name: '_time', data_type: 'timestamp(ns)' },
    ...tagKeys.map((name) => ({ name, data_type: 'string' })),
    ...columns.map((column) => ({ name: column.name, data_type: dataType(column) })),
  ]
  let text = `{"columns":${JSON.stringify(heads)},"rows":[`
  for (const [i, { time, tags, values }] of rows.entries()) {
    const cells = [
      String(time),
      ...tagKeys.map((key) => (Object.hasOwn(tags, key) ? JSON.stringify(tags[key]) : 'null')),
      ...values.map((value, at) => cell(value, columns[at])),
    ]
    text += `${i === 0 ? '' : ',\n'}[${cells.join(',')}]`
    if (text.length < EMIT_LENGTH) continue
    await taken(Buffer.from(text))
    text = ''
  }
  await taken(Buffer.from(`${text}],"row_count":${rows.length},"truncated":${truncated},"materialised_until":${until}}`))
}

function cell(value: unknown, { type, scale = 0 }: Columns[number]): string {
  if (value === null || value === undefined) return 'null'
  if (typeof value === 'bigint') return type === 'decimal' ? JSON.stringify(decimalText(value, scale)) : String(value)
  if (value instanceof Uint8Array) return storedHistogramJson(value)
  return JSON.stringify(value)
}

const job: Job<ViewArgs, number> = view
export default job
