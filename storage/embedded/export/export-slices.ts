/**
 * Divides a measurement into slices of bounded size that can be sorted and merged one by one in little memory: stretches of time first, so that a slice
 * does not have to look into every segment; in each, ranges of series, whose rows lie together in every segment; a series too large for one slice is
 * divided by time once more. Slices are disjoint and hold everything, so that duplicates meet in one slice.
 */

import { sqlName } from '../duckdb/duckdb.ts'
import { streamSql } from '../duckdb/stream.ts'
import { SERIES_COLUMN, TIME_COLUMN } from '../memtable/memtable-source.ts'
import { type RelationContext, sourcesOf } from '../read/relation.ts'
import { type Interval, type Source, unionSql } from '../read/sources.ts'
import type { SeriesView } from '../series/series-view.ts'
import type { FieldDef, MeasurementDef } from '../threads/definitions.ts'
import type { Snapshot } from '../threads/state.ts'
import type { ExportDuck } from './export-duck.ts'

export interface Slice {
  time: Interval
  /** Ascending, never empty. */
  series: Int32Array
}

interface SliceRequest {
  duck: ExportDuck
  snapshot: Snapshot
  measurement: MeasurementDef
  time: Interval
  /** Ascending; all of the measurement. */
  series: Int32Array
  tagKeys: readonly string[]
  /** Decoded bytes of a slice, more or less. */
  sliceBytes: number
  signal: AbortSignal | undefined
}

/** A stretch of time has sources of this many slices at least, ... */
const WINDOW_SLICES = 16
/** ... and ends where no more than this share of its rows lies in sources that go on beyond. */
const WINDOW_STRADDLE = 0.1
/** A series too large for one slice is counted by this many stretches of time at once. */
const TIME_BUCKETS = 256
/** What a row costs beside its fields: number, time, positions in sorting. */
const ROW_BYTES = 32
const TAG_BYTES = 4
const VALUE_BYTES: Record<FieldDef['type'], number> = { float64: 8, int64: 8, uint64: 8, bool: 1, decimal: 16, string: 16, histogram: 16 }

export async function* slices(request: SliceRequest): AsyncGenerator<Slice> {
  const { duck, snapshot, measurement, time, series, sliceBytes } = request
  if (series.length === 0 || time[0] > time[1]) return
  const sources = sourcesOf(duck.state, snapshot, measurement, time, undefined)
  for (const window of timeWindows(sources, time, (WINDOW_SLICES * sliceBytes) / fixedBytes(request))) {
    for (const { from, to, bytes } of await seriesRanges(request, window)) {
      const own = series.subarray(from, to)
      if (to - from > 1 || bytes <= sliceBytes) yield { time: window, series: own }
      else for await (const part of timeSlices(request, window, own, bytes)) yield { time: part, series: own }
    }
  }
}

/** Disjoint and ascending; together they are `time`. @param rows a window has this many at least, as far as there are any. */
export function timeWindows(sources: readonly Pick<Source, 'minTime' | 'maxTime' | 'segment' | 'memtable'>[], time: Interval, rows: number): Interval[] {
  const sorted = [...sources].sort((a, b) => (a.minTime < b.minTime ? -1 : a.minTime > b.minTime ? 1 : 0))
  const out: Interval[] = []
  let lo = time[0]
  let held: { source: (typeof sorted)[number]; rows: number }[] = []
  for (const source of sorted) {
    const total = held.reduce((sum, part) => sum + part.rows, 0)
    // Rows of what is held that lie beyond the slice, taking them to be spread evenly.
    const beyond = held.map((part) => ({ ...part, rows: part.rows * shareFrom(part.source, source.minTime) }))
    if (source.minTime > lo && total >= rows && beyond.reduce((sum, part) => sum + part.rows, 0) <= total * WINDOW_STRADDLE) {
      out.push([lo, source.minTime - 1n])
      lo = source.minTime
      held = beyond.filter((part) => part.rows > 0)
    }
    held.push({ source, rows: source.segment?.rows ?? source.memtable?.part.rows ?? 0 })
  }
  out.push([lo, time[1]])
  return out
}

function shareFrom({ minTime, maxTime }: Pick<Source, 'minTime' | 'maxTime'>, time: bigint): number {
  if (time > maxTime) return 0
  if (time <= minTime) return 1
  return Number(maxTime - time + 1n) / Number(maxTime - minTime + 1n)
}

interface SeriesRange {
  /** Positions in the list of series, end excluded. */
  from: number
  to: number
  bytes: number
}

/** Adjacent series, as many as fit into a slice; one that does not fit is alone. */
function seriesRanges(request: SliceRequest, window: Interval): Promise<SeriesRange[]> {
  return request.duck.run((context) => countedRanges(request, window, context))
}

async function countedRanges(request: SliceRequest, window: Interval, context: RelationContext): Promise<SeriesRange[]> {
  const { snapshot, measurement, series, sliceBytes, signal } = request
  const { state } = context
  const calls: string[] = []
  const out: SeriesRange[] = []
  const counted = unmerged(request, context, sourcesOf(state, snapshot, measurement, window, undefined), window, undefined, calls)
  const sql = `SELECT ${SERIES_COLUMN}, ${weightSql(request)} FROM (${counted}) GROUP BY ${SERIES_COLUMN} ORDER BY ${SERIES_COLUMN}`
  const keys = request.tagKeys.map((key) => state.series.keySymbol(measurement.id, key))
  let open: SeriesRange | undefined
  let position = 0
  try {
    for await (const { rows, columns } of streamSql(context.duck, sql, signal)) {
      const numbers = columns[0].values as Int32Array
      const weights = columns[1].values as Float64Array
      for (let i = 0; i < rows; i++) {
        while (position < series.length && series[position] < numbers[i]) position++
        // Not of this measurement, or given back meanwhile: a shared table may count it.
        if (series[position] !== numbers[i]) continue
        const bytes = weights[i] + tagBytes(state.series, keys, numbers[i])
        if (open !== undefined && open.bytes + bytes > sliceBytes) {
          out.push(open)
          open = undefined
        }
        if (open === undefined) open = { from: position, to: position + 1, bytes }
        else {
          open.to = position + 1
          open.bytes += bytes
        }
      }
    }
  } finally {
    for (const call of calls) context.duck.removeSource(call)
  }
  if (open !== undefined) out.push(open)
  return out
}

/** Stretches of a series' time that fit into a slice each, as far as times differ. */
async function* timeSlices(request: SliceRequest, window: Interval, series: Int32Array, bytes: number): AsyncGenerator<Interval> {
  const { sliceBytes } = request
  if (bytes <= sliceBytes || window[0] === window[1]) {
    yield window
    return
  }
  const extent = await timeExtent(request, window, series)
  if (extent === undefined) return
  const width = (extent[1] - extent[0]) / BigInt(TIME_BUCKETS) + 1n
  let open: { time: Interval; bytes: number } | undefined
  for (const { bucket, weight } of await bucketWeights(request, extent, series, width)) {
    const lo = extent[0] + BigInt(bucket) * width
    const hi = lo + width - 1n < extent[1] ? lo + width - 1n : extent[1]
    if (open !== undefined && open.bytes + weight > sliceBytes) {
      yield open.time
      open = undefined
    }
    if (weight > sliceBytes && width > 1n) yield* timeSlices(request, [lo, hi], series, weight)
    else if (open === undefined) open = { time: [lo, hi], bytes: weight }
    else open = { time: [open.time[0], hi], bytes: open.bytes + weight }
  }
  if (open !== undefined) yield open.time
}

async function timeExtent(request: SliceRequest, window: Interval, series: Int32Array): Promise<Interval | undefined> {
  const sql = (union: string): string => `SELECT epoch_ns(min(${TIME_COLUMN})) AS lo, epoch_ns(max(${TIME_COLUMN})) AS hi FROM (${union})`
  const [row] = await collected(request, window, series, sql)
  if (row === undefined || row.lo === null) return undefined
  return [row.lo as bigint, row.hi as bigint]
}

async function bucketWeights(request: SliceRequest, [lo, hi]: Interval, series: Int32Array, width: bigint): Promise<{ bucket: number; weight: number }[]> {
  const bucket = `((epoch_ns(${TIME_COLUMN})::HUGEINT - ${lo}) // ${width})::INTEGER`
  const sql = (union: string): string => `SELECT ${bucket} AS bucket, ${weightSql(request)} AS weight FROM (${union}) GROUP BY 1 ORDER BY 1`
  return (await collected(request, [lo, hi], series, sql)) as { bucket: number; weight: number }[]
}

function collected(request: SliceRequest, time: Interval, series: Int32Array, sql: (union: string) => string): Promise<Record<string, unknown>[]> {
  const { duck, snapshot, measurement, signal } = request
  const sources = sourcesOf(duck.state, snapshot, measurement, time, series)
  return duck.run(async (context) => {
    const calls: string[] = []
    try {
      return await context.duck.run(sql(unmerged(request, context, sources, time, series, calls)), signal)
    } finally {
      for (const call of calls) context.duck.removeSource(call)
    }
  })
}

/** Rows with their duplicates: what is read counts, not what comes out. */
function unmerged(
  { measurement }: SliceRequest,
  { duck, dataDir }: RelationContext,
  sources: Source[],
  time: Interval,
  series: Int32Array | undefined,
  calls: string[],
): string {
  const plain = sources.map((source) => ({ ...source, dirty: null }))
  return unionSql({ duck, dataDir, sources: plain, time, fields: texts(measurement), series, calls }).sql
}

function texts({ fields }: MeasurementDef): FieldDef[] {
  return fields.filter(({ type }) => type === 'string' || type === 'histogram')
}

function fixedBytes({ measurement, tagKeys }: SliceRequest): number {
  return measurement.fields.reduce((sum, { type }) => sum + VALUE_BYTES[type], ROW_BYTES + TAG_BYTES * tagKeys.length)
}

function weightSql(request: SliceRequest): string {
  const lengths = texts(request.measurement).map(
    ({ column, type }) => ` + coalesce(sum(${type === 'string' ? 'strlen' : 'octet_length'}(${sqlName(column)})), 0)`,
  )
  return `(count(*) * ${fixedBytes(request)}${lengths.join('')})::DOUBLE`
}

/** A series' tags, once: rows have codes, and a slice one dictionary. */
function tagBytes(view: SeriesView, keys: readonly number[], series: number): number {
  let bytes = 0
  for (const key of keys) {
    const symbol = view.tagSymbol(series, key)
    if (symbol >= 0) bytes += view.bytes(symbol).length
  }
  return bytes
}
