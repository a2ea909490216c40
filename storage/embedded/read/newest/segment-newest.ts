/** The newest rows of series in one segment: an aggregate over the part of it that can have them, or the rows themselves where they are few. */

import { sqlName } from '../../duckdb/duckdb.ts'
import { streamSql } from '../../duckdb/stream.ts'
import { SERIES_COLUMN, TIME_COLUMN } from '../../memtable/memtable-source.ts'
import type { FieldDef } from '../../threads/definitions.ts'
import type { SegmentMeta } from '../../threads/segment-entry.ts'
import type { RelationContext } from '../relation.ts'
import { millisecondRange } from '../samples/millisecond-range.ts'
import { Newest } from '../samples/newest.ts'
import { type Source, unionSql } from '../sources.ts'
import { halves } from './newest-rows.ts'

/** Most series that write at all have written in the last part of a segment: it is looked at first, the rest for the others. */
const RECENT_NS = 600_000_000_000n
/** A segment that is no longer than so many of these is looked at as a whole. */
const RECENT_SHARE = 6n
/** A row group's, by default. */
const FEW_ROWS = 32_768
const NS_PER_MS = 1_000_000n
/** Nothing is kept that questions are told apart for. */
const NO_QUESTION = -1

type NewestFound = (series: number, low: number, high: number, valueLow: number, valueHigh: number) => void

interface SegmentRequest {
  context: RelationContext
  field: FieldDef | undefined
  signal: AbortSignal | undefined
}

/** Times to look at, the newest first, inclusive. */
export function lookedAt({ minTime, maxTime }: Source, floor: bigint): [bigint, bigint][] {
  const lo = floor > minTime ? floor : minTime
  if (maxTime - lo <= RECENT_NS * RECENT_SHARE) return [[lo, maxTime]]
  const recent = maxTime - RECENT_NS
  return [
    [recent, maxTime],
    [lo, recent - 1n],
  ]
}

/**
 * Whether a segment's pages are read instead: a statement takes longer than a few rows, and there may be a segment for each of thousands of measurements. As samples
 * only floats have all of their bits.
 */
const isSmall = ({ rows }: SegmentMeta, field: FieldDef | undefined): boolean => rows <= FEW_ROWS && field?.type === 'float64'

/** @param series those wanted, ascending; others may be found too. */
export async function newestInSegment(
  request: SegmentRequest,
  source: Source,
  times: readonly [bigint, bigint],
  series: Int32Array,
  found: NewestFound,
): Promise<void> {
  if (isSmall(source.segment as SegmentMeta, request.field)) await byPages(request, source, times, series, found)
  else await byStatement(request, source, times, series, found)
}

async function byPages(
  { context, field, signal }: SegmentRequest,
  source: Source,
  times: readonly [bigint, bigint],
  series: Int32Array,
  found: NewestFound,
): Promise<void> {
  const { sampleBlocks } = context
  const measurement = source.measurement ?? context.state.series.measurementOf(series[0])
  const scope = { context, measurement, field: field as FieldDef, range: times, all: series, limit: Number.POSITIVE_INFINITY, signal, question: NO_QUESTION }
  const newest = new Newest(series, millisecondRange([...times]))
  for (const block of await sampleBlocks.readOnce(source, series, scope)) newest.look(block, 0)
  newest.each((number, time, rest, value) => {
    const [low, high] = halves(BigInt(time) * NS_PER_MS + BigInt(rest))
    const bits = new Int32Array(value.buffer, value.byteOffset, 2)
    found(number, low | 0, high, bits[0], bits[1])
  })
}

async function byStatement(
  { context, field, signal }: SegmentRequest,
  source: Source,
  [lo, hi]: readonly [bigint, bigint],
  series: Int32Array,
  found: NewestFound,
): Promise<void> {
  const { duck, dataDir } = context
  const segment = source.segment as SegmentMeta
  await context.verifier?.ensure([segment], signal)
  const calls: string[] = []
  // Within a segment no two rows are of one series and time.
  const alone = { ...source, dirty: null }
  const { sql } = unionSql({ duck, dataDir, sources: [alone], time: [lo, hi], fields: field === undefined ? [] : [field], series, calls, raw: true })
  const value = field === undefined ? undefined : sqlName(field.column)
  // By a TIMESTAMP_NS arg_max would go through sort keys, which know one NaN only.
  const time = `epoch_ns(${TIME_COLUMN})`
  const statement =
    value === undefined
      ? `SELECT ${SERIES_COLUMN}, max(${time}) FROM (${sql}) GROUP BY ${SERIES_COLUMN}`
      : `SELECT ${SERIES_COLUMN}, max(${time}), arg_max(${value}, ${time}) FROM (${sql}) WHERE ${value} IS NOT NULL GROUP BY ${SERIES_COLUMN}`
  try {
    for await (const { rows, columns } of streamSql(duck, statement, signal)) {
      const numbers = columns[0].values as Int32Array
      const times = pairs(columns[1].values as BigInt64Array)
      const values = columns[2]?.values
      const flags = values instanceof Uint8Array ? values : undefined
      const bits = values === undefined || flags !== undefined ? undefined : pairs(values as Float64Array)
      for (let i = 0; i < rows; i++) found(numbers[i], times[i * 2], times[i * 2 + 1], flags?.[i] ?? bits?.[i * 2] ?? 0, bits?.[i * 2 + 1] ?? 0)
    }
  } finally {
    for (const call of calls) duck.removeSource(call)
  }
}

function pairs(array: BigInt64Array | Float64Array): Int32Array {
  return new Int32Array(array.buffer, array.byteOffset, array.length * 2)
}
