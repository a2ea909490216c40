/** Answers a request for the newest samples of series from what is kept of them (newest-cache.ts). */
import { SAMPLE_STALE, type SampleRows } from 'svcdb/lib/columns'
import { milliseconds } from '../../parquet/nanoseconds.ts'
import type { FieldDef, MeasurementDef } from '../../threads/definitions.ts'
import type { Snapshot } from '../../threads/state.ts'
import { millisecondRange } from '../samples/millisecond-range.ts'
import { isStaleMarker } from '../samples/sample-block.ts'
import type { ReadScope } from '../samples/segment-blocks.ts'
import { NewestCache } from './newest-cache.ts'
import type { NewestEntry } from './newest-entry.ts'
import { KNOWN } from './newest-rows.ts'

const TWO_32 = 4294967296

export interface KeptSamples {
  rows: SampleRows
  /** Series with a sample that is later than the range: others of theirs may lie in it. Ascending. */
  later: Int32Array
}

/** @returns undefined when the sources have to be read. */
export async function keptSamples(
  snapshot: Snapshot,
  measurement: MeasurementDef,
  series: Int32Array,
  { context, field, range, signal }: ReadScope,
): Promise<KeptSamples | undefined> {
  if (!NewestCache.keeps(field)) return undefined
  const { newest } = context.sampleBlocks
  const request = { context, snapshot, measurement, field, series, floor: range[0], signal }
  const [lo, hi] = millisecondRange([...range])
  // A question about the past: what would be looked for first has no part in it.
  const before = newest.now(request)
  if (before !== undefined && laterThan(before, series, hi).length * 2 > series.length) return undefined
  const entry = await newest.known(request)
  // Who has waited for the same look may have brought it up to a later snapshot by now.
  if (entry === undefined || entry.isAhead(snapshot)) return undefined
  const later = laterThan(entry, series, hi)
  return later.length * 2 > series.length ? undefined : { rows: rowsOf(entry, series, field, lo, hi), later }
}

function laterThan(entry: NewestEntry, series: Int32Array, hi: number): Int32Array {
  const { states, times } = entry.rows
  const out: number[] = []
  entry.each(series, (slot, position) => {
    if (states[slot] === KNOWN && milliseconds(times[slot * 2], times[slot * 2 + 1]) > hi) out.push(series[position])
  })
  return Int32Array.from(out)
}

function rowsOf(entry: NewestEntry, series: Int32Array, { type }: FieldDef, lo: number, hi: number): SampleRows {
  const { states, times, bits } = entry.rows
  const found = new Float64Array(series.length)
  const from = new Int32Array(series.length)
  const starts = new Int32Array(series.length + 1)
  entry.each(series, (slot, position) => {
    if (states[slot] !== KNOWN) return
    const time = milliseconds(times[slot * 2], times[slot * 2 + 1])
    if (time < lo || time > hi) return
    found[position] = time
    from[position] = slot
    starts[position + 1] = 1
  })
  for (let i = 0; i < series.length; i++) starts[i + 1] += starts[i]
  const total = starts[series.length]
  // By bits: a number in between might change a NaN.
  const values = new Int32Array(total * 2)
  const numbers = new Float64Array(values.buffer)
  const rows: SampleRows = { first: 0, starts, times: new Float64Array(total), values: numbers }
  for (let i = 0; i < series.length; i++) {
    const n = starts[i]
    if (starts[i + 1] === n) continue
    rows.times[n] = found[i]
    const low = bits[from[i] * 2]
    const high = bits[from[i] * 2 + 1]
    switch (type) {
      case 'float64':
        values[n * 2] = low
        values[n * 2 + 1] = high
        if (isStaleMarker(low, high)) (rows.kinds ??= new Uint8Array(total))[n] = SAMPLE_STALE
        break
      case 'int64':
        numbers[n] = high * TWO_32 + (low >>> 0)
        break
      case 'uint64':
        numbers[n] = (high >>> 0) * TWO_32 + (low >>> 0)
        break
      default:
        numbers[n] = low
    }
  }
  return rows
}

/** The rows with those of some series in place of none. @param of ascending, the series of `more`. */
export function withRows(rows: SampleRows, series: Int32Array, more: SampleRows, of: Int32Array): SampleRows {
  const total = rows.times.length + more.times.length
  const starts = new Int32Array(series.length + 1)
  const out: SampleRows = { first: rows.first, starts, times: new Float64Array(total), values: new Float64Array(total) }
  if (rows.kinds !== undefined || more.kinds !== undefined) out.kinds = new Uint8Array(total)
  for (let i = 0, j = 0, n = 0; i < series.length; i++) {
    const taken = j < of.length && of[j] === series[i] ? j++ : -1
    const source = taken < 0 ? rows : more
    const place = taken < 0 ? i : taken
    const from = source.starts[place]
    const to = source.starts[place + 1]
    out.times.set(source.times.subarray(from, to), n)
    out.values.set(source.values.subarray(from, to), n)
    if (source.kinds !== undefined) out.kinds!.set(source.kinds.subarray(from, to), n)
    n += to - from
    starts[i + 1] = n
  }
  return out
}
