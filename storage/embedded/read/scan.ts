/**
 * Series-wise reads: segments come sorted out of DuckDB as a stream, memtable rows are ordered here, and the two are merged series by
 * series. Memory: one batch of result rows, one series' pending rows, and four bytes a memtable row that matches.
 */
import type { ColumnChunk, Matcher, ScanPlan, ScanRequest, SeriesChunk, SqlChunk } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { Turn } from 'svcdb/lib/event-loop'
import { inNamespace } from '../../common/names.ts'
import { streamSql } from '../duckdb/stream.ts'
import type { ChunkView } from '../memtable/chunk-view.ts'
import { FieldViews } from '../memtable/field-views.ts'
import { memtablePositions, SERIES_COLUMN, unmasked } from '../memtable/memtable-source.ts'
import { Gathered, GatheredColumn } from '../memtable/row-gather.ts'
import { compareTimes, groupDuplicates, MAX_ORDERED_CHUNKS, type OrderedRows, orderPositions, orderRows } from '../memtable/row-order.ts'
import type { FieldDef, MeasurementDef } from '../threads/definitions.ts'
import { ROW_BITS } from '../threads/memtable-layout.ts'
import type { SegmentMeta } from '../threads/segment-entry.ts'
import type { MemtablePart, Snapshot } from '../threads/state.ts'
import { type RelationContext, sourcesOf } from './relation.ts'
import { expectedSamples } from './samples/select.ts'
import { concatRows, memtableRows, mergeRows, readableOnly, type SeriesRows, sliceRows, withValues } from './series-rows.ts'
import { dirtyIntervals, holdsNonFinite, type Interval, type Source, unionSql } from './sources.ts'
import { timeSlices } from './time-slices.ts'

interface ScanScope {
  measurement: MeasurementDef
  fields: FieldDef[]
  /** Inclusive. */
  time: Interval
  /** Ascending; all series when absent. */
  series: Int32Array | undefined
}

/** A series longer than this comes in several chunks. */
const CHUNK_ROWS_OUT = 65_536
/** With fewer rows a series than this, collecting them one by one costs more than ordering all. */
const FEW_SHARE = 16
/** About what a row and a field of it take while they are sorted. */
const ROW_BYTES = 24
const FIELD_BYTES = 9
/** Rows that DuckDB hands out at once. */
const VECTOR_ROWS = 2048
/** Where a row of a memtable lies. */
const PLACE_BYTES = 4
/** Of the first slice of the time where only the earliest rows are wanted: all their fields are read, so that many rows take long. */
const FIRST_SLICE_ROWS = 4096
/** Each reads row groups at its ends that the next one reads as well. */
const MAX_SLICES = 64
const MIN_TIME = -(2n ** 63n)
const MAX_TIME = 2n ** 63n - 1n

export function scanScope({ state }: RelationContext, request: ScanRequest): ScanScope {
  const measurement = state.measurement(request.namespace, request.measurement)
  if (measurement === undefined)
    throw new SvcError(
      'NOT_FOUND',
      `cannot read measurement "${request.measurement}": it does not exist${inNamespace(request.namespace)}; write a point to create it`,
    )
  const matchers: readonly Matcher[] = request.matchers ?? []
  return {
    measurement,
    fields: request.fields === undefined ? measurement.fields : measurement.fields.filter((field) => request.fields!.includes(field.name)),
    time: [request.start ?? MIN_TIME, request.end === undefined ? MAX_TIME : request.end - 1n],
    series: matchers.length === 0 ? undefined : state.series.select(measurement.id, matchers),
  }
}

export async function* scanSeries(
  context: RelationContext,
  snapshot: Snapshot,
  scope: ScanScope,
  signal: AbortSignal | undefined,
): AsyncGenerator<SeriesChunk> {
  const { measurement, fields, time, series } = scope
  if (time[0] > time[1] || series?.length === 0 || fields.length === 0) return
  const sources = sourcesOf(context.state, snapshot, measurement, time, series)
  const memtables = sources.filter((source) => source.memtable !== undefined)
  // A shared table's rows are told apart by their series.
  const wanted = series ?? (memtables.some((source) => source.measurement !== undefined) ? context.state.series.of(measurement.id) : undefined)
  const recent = new RecentRows(memtables, scope, wanted)
  const segments = sources.filter((source) => source.segment !== undefined)
  const guarded = fields.map((field) => field.type === 'histogram' || sources.some((source) => holdsNonFinite(source, field)))
  const turn = new Turn(signal)
  const chunks = function* (number: number, all: SeriesRows): Generator<SeriesChunk> {
    const rows = withValues(readableOnly(all, guarded))
    const tags = context.state.series.tags(number)
    for (let from = 0; from < rows.times.length; from += CHUNK_ROWS_OUT) {
      const part = rows.times.length <= CHUNK_ROWS_OUT ? rows : sliceRows(rows, from, Math.min(from + CHUNK_ROWS_OUT, rows.times.length))
      yield { series: number, tags, times: part.times, columns: part.columns.map(({ values, validity }, i) => columnChunk(fields[i], values, validity)) }
    }
  }
  for await (const { series: number, rows, last } of segmentRuns(context, segments, scope, signal)) {
    while (recent.next < number) {
      const first = recent.next
      yield* chunks(first, recent.take())
      if (turn.isOver) await turn.next()
      signal?.throwIfAborted()
    }
    if (recent.next !== number) yield* chunks(number, rows)
    else {
      // More of the series is to come: hold back what memtable rows later than this part may still belong behind.
      const young = last ? recent.take() : recent.takeUpTo(rows.times[rows.times.length - 1])
      yield* chunks(number, young === undefined ? rows : mergeRows(fields, rows, young))
    }
    if (turn.isOver) await turn.next()
    signal?.throwIfAborted()
  }
  while (recent.next !== Number.POSITIVE_INFINITY) {
    const number = recent.next
    yield* chunks(number, recent.take())
    if (turn.isOver) await turn.next()
    signal?.throwIfAborted()
  }
}

/** The earliest rows, slice by slice of the time from its oldest end on, until there are so many. */
export async function* scanEarliest(
  context: RelationContext,
  snapshot: Snapshot,
  scope: ScanScope,
  rows: number,
  signal: AbortSignal | undefined,
): AsyncGenerator<SeriesChunk> {
  const { state, firstSliceRows: firstRows = FIRST_SLICE_ROWS } = context
  const { measurement, time, series } = scope
  const sources = time[0] > time[1] || series?.length === 0 ? [] : sourcesOf(state, snapshot, measurement, time, series)
  const share = series === undefined ? 1 : series.length / state.series.of(measurement.id).length
  let left = rows
  for (const slice of timeSlices(sources, time, { rows, share, newestFirst: false, firstRows })) {
    for await (const chunk of scanSeries(context, snapshot, { ...scope, time: slice }, signal)) {
      left -= chunk.times.length
      yield chunk
    }
    if (left <= 0) return
  }
}

/** What a scan takes until it ends: the places of the rows of memtables, in their order, and rows of segments in the vectors that they come in. */
export function scanBytes({ state }: RelationContext, snapshot: Snapshot, { measurement, fields, time, series }: ScanScope): number {
  if (time[0] > time[1] || series?.length === 0 || fields.length === 0) return 0
  const sources = sourcesOf(state, snapshot, measurement, time, series)
  const recent = sources.reduce((rows, { memtable }) => rows + (memtable?.part.rows ?? 0), 0)
  const share = series === undefined ? 1 : Math.min(1, series.length / Math.max(1, state.series.of(measurement.id).length))
  const stored = sources.some(({ segment }) => segment !== undefined) ? VECTOR_ROWS * (ROW_BYTES + fields.length * FIELD_BYTES) : 0
  return Math.ceil(recent * share * PLACE_BYTES) + stored
}

function columnChunk({ name, type, scale }: FieldDef, values: ColumnChunk['values'], validity: Uint8Array | undefined): ColumnChunk {
  return { name, type, ...(type === 'decimal' ? { scale } : {}), values, ...(validity === undefined ? {} : { validity }) }
}

/** How a scan would be answered. Rows of memtables are those that would be looked at; of tables that several namespaces share, only the own parts are counted. */
export function explainScan({ state }: RelationContext, snapshot: Snapshot, request: ScanRequest, { measurement, time, series }: ScanScope): ScanPlan {
  const none = time[0] > time[1] || series?.length === 0
  const sources = none ? [] : sourcesOf(state, snapshot, measurement, time, series)
  const isOwn = ({ owners }: SegmentMeta): boolean => owners === undefined || Object.hasOwn(owners, request.namespace)
  const segments = sources.filter((source) => source.segment !== undefined && isOwn(source.segment)).length
  const apart = request.namespace !== ''
  return {
    measurement: request.measurement,
    series: (series ?? state.series.of(measurement.id)).length,
    time: { start: String(request.start ?? MIN_TIME), end: String(request.end ?? MAX_TIME) },
    segments: { total: measurement.tables.reduce((sum, table) => sum + snapshot.table(table).segments.filter(isOwn).length, 0), read: segments },
    bufferedRows: sources.reduce(
      (sum, { memtable }) =>
        sum + (memtable === undefined ? 0 : apart ? ownRows(memtable.part, state.series.measurementArray, measurement.id) : memtable.part.rows),
      0,
    ),
    deduplicated: dirtyIntervals(sources, time).length > 0,
  }
}

function ownRows({ chunks, counts }: MemtablePart, measurementOf: Int32Array, measurement: number): number {
  let rows = 0
  for (const [c, { series }] of chunks.entries()) for (let row = 0; row < counts[c]; row++) if (measurementOf[series[row]] === measurement) rows++
  return rows
}

/** The matching rows of all memtables, handed out series by series, ascending. */
class RecentRows {
  private readonly chunks: ChunkView[] = []
  private readonly heaps: (readonly Uint8Array[])[] = []
  private readonly ordered: OrderedRows
  private readonly columns: GatheredColumn[]
  private readonly fields: FieldDef[]
  private at = 0
  private pending: SeriesRows | undefined
  private out = new Gathered(64)

  /** @throws OVERLOADED where memtables that wait for their flush have more chunks than positions of rows tell apart. */
  constructor(sources: readonly Source[], { measurement, fields, time }: ScanScope, wanted: Int32Array | undefined) {
    this.fields = fields
    const most = sources.reduce((sum, { memtable }) => sum + memtable!.part.chunks.length, 0)
    if (most > MAX_ORDERED_CHUNKS)
      throw new SvcError(
        'OVERLOADED',
        `cannot read measurement "${measurement.name}": its rows in memory lie in ${most} chunks, of which ${MAX_ORDERED_CHUNKS} are read at once; retry when they have been flushed`,
      )
    const counts: number[] = []
    const positions: Int32Array[] = []
    const total = sources.reduce((sum, { memtable }) => sum + memtable!.part.rows, 0)
    const few = sources.some(({ masks }) => masks.length > 0) || (wanted !== undefined && wanted.length * FEW_SHARE < total)
    for (const { memtable, masks } of sources) {
      const { part, linked } = memtable!
      const base = this.chunks.length << ROW_BITS
      for (let i = 0; i < part.chunks.length; i++) {
        this.chunks.push(part.chunks[i])
        counts.push(part.counts[i])
        this.heaps.push(part.memtable.heap)
      }
      if (few) {
        const found = memtablePositions({ part, lo: time[0], hi: time[1], linked }, wanted)
        positions.push(unmasked(part.chunks, found, masks).map((position) => position + base))
      }
    }
    const views = new FieldViews(
      this.chunks,
      fields.map(({ id }) => id),
    )
    this.columns = fields.map(({ id }) => new GatheredColumn(views, id))
    this.ordered = few
      ? orderPositions(this.chunks, joined(positions), time)
      : orderRows({ chunks: this.chunks, counts }, { lo: time[0], hi: time[1], series: flags(wanted) })
  }

  /** The series whose rows come next; infinity after the last. */
  get next(): number {
    return this.at < this.ordered.series.length ? this.ordered.series[this.at] : Number.POSITIVE_INFINITY
  }

  /** The rows of the next series. */
  take(): SeriesRows {
    const rows = this.current()
    this.pending = undefined
    this.at++
    return rows
  }

  /** The next series' rows up to a time, leaving the later ones. */
  takeUpTo(time: bigint): SeriesRows | undefined {
    const rows = this.current()
    let n = 0
    while (n < rows.times.length && rows.times[n] <= time) n++
    if (n === 0) return undefined
    if (n === rows.times.length) return this.take()
    this.pending = sliceRows(rows, n, rows.times.length)
    return sliceRows(rows, 0, n)
  }

  private current(): SeriesRows {
    if (this.pending !== undefined) return this.pending
    const { rows, starts, duplicates, series } = this.ordered
    const positions = rows.subarray(starts[this.at], starts[this.at + 1])
    if (positions.length > this.out.rows) this.out = new Gathered(positions.length * 2)
    const groups = duplicates ? grouped(this.chunks, positions, series[this.at]) : undefined
    return (this.pending = memtableRows(this.chunks, (position) => this.heaps[position >>> ROW_BITS], this.fields, this.columns, positions, groups, this.out))
  }
}

function grouped(chunks: readonly ChunkView[], positions: Int32Array, series: number): Int32Array | undefined {
  let any = false
  for (let i = 1; i < positions.length && !any; i++) any = compareTimes(chunks, positions[i - 1], positions[i]) === 0
  return any
    ? groupDuplicates(chunks, { rows: positions, series: Int32Array.of(series), starts: Int32Array.of(0, positions.length), duplicates: true })
    : undefined
}

function joined(lists: readonly Int32Array[]): Int32Array {
  const out = new Int32Array(lists.reduce((sum, list) => sum + list.length, 0))
  let at = 0
  for (const list of lists) {
    out.set(list, at)
    at += list.length
  }
  return out
}

function flags(series: Int32Array | undefined): Uint8Array | undefined {
  if (series === undefined) return undefined
  const out = new Uint8Array(series[series.length - 1] + 1)
  for (const s of series) out[s] = 1
  return out
}

interface Run {
  series: number
  rows: SeriesRows
  /** No more rows of this series follow. */
  last: boolean
}

/** Segment rows series by series, in ascending time, merged where segments have duplicates. */
async function* segmentRuns(context: RelationContext, sources: Source[], scope: ScanScope, signal: AbortSignal | undefined): AsyncGenerator<Run> {
  const { fields } = scope
  if (sources.length === 0) return
  await context.verifier?.ensureSources(sources, signal)
  let current = -1
  let parts: SeriesRows[] = []
  let held = 0
  const calls: string[] = []
  try {
    for await (const { rows, columns } of orderedRows(context, sources, scope, calls, signal)) {
      const numbers = columns[0].values as Int32Array
      const batch: SeriesRows = {
        times: columns[1].values as BigInt64Array,
        columns: columns.slice(2).map(({ values, validity }) => ({ values: values as SeriesRows['columns'][number]['values'], validity })),
      }
      for (let from = 0; from < rows; ) {
        const number = numbers[from]
        let to = from + 1
        while (to < rows && numbers[to] === number) to++
        if (number !== current) {
          if (parts.length > 0) yield { series: current, rows: concatRows(fields, parts), last: true }
          current = number
          parts = []
          held = 0
        }
        parts.push(from === 0 && to === rows ? batch : sliceRows(batch, from, to))
        held += to - from
        from = to
        if (held >= CHUNK_ROWS_OUT) {
          // One part stays behind, so that the last run of the series is never empty.
          const whole = concatRows(fields, parts)
          yield { series: current, rows: sliceRows(whole, 0, held - 1), last: false }
          parts = [sliceRows(whole, held - 1, held)]
          held = 1
        }
      }
    }
    if (parts.length > 0) yield { series: current, rows: concatRows(fields, parts), last: true }
  } finally {
    for (const call of calls) context.duck.removeSource(call)
  }
}

/** Segment rows by series, then time. @param calls collects the row sources made, to be removed when the rows have been read. */
async function* orderedRows(
  context: RelationContext,
  sources: Source[],
  { measurement, fields, time, series }: ScanScope,
  calls: string[],
  signal: AbortSignal | undefined,
): AsyncGenerator<SqlChunk> {
  const { duck, dataDir, state } = context
  const request = { duck, dataDir, sources, time, fields, series, calls, raw: true as const }
  // One segment comes in order by itself.
  if (sources.length === 1 && dirtyIntervals(sources, time).length === 0) return yield* streamSql(duck, unionSql(request).sql, signal)
  const all = state.series.of(measurement.id)
  const wanted = series ?? all
  const rows = wanted.length < 2 ? 0 : expectedSamples(sources, all, time).samples * (wanted.length / all.length)
  // One sort of all would take what the thread may have, and write the rest to scratch files.
  for (const slice of seriesSlices(wanted, Math.ceil((rows * (ROW_BYTES + fields.length * FIELD_BYTES)) / duck.sortBytes)))
    yield* streamSql(duck, `SELECT * FROM (${unionSql({ ...request, stored: slice }).sql}) ORDER BY _series, _time`, signal)
}

/** Conditions that divide rows by series; together they let all through. */
function seriesSlices(series: Int32Array, count: number): string[][] {
  const slices = Math.max(1, Math.min(count, MAX_SLICES, series.length))
  const bound = (slice: number): number => series[Math.floor((slice * series.length) / slices)]
  return Array.from({ length: slices }, (_, slice) => [
    ...(slice === 0 ? [] : [`${SERIES_COLUMN} >= ${bound(slice)}`]),
    ...(slice === slices - 1 ? [] : [`${SERIES_COLUMN} < ${bound(slice + 1)}`]),
  ])
}
