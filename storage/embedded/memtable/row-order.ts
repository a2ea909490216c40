/**
 * Memtable rows in the order of segments: (measurement,) series, time; of equal (series, time) in order of arrival.
 * A counting sort by series keeps the order of arrival, so that only series with late rows need a comparison sort. Which those are it sees on its
 * way: looking at the rows of each series again would be a jump through memory for each row.
 * A row's position is chunk << ROW_BITS | offset, chunks counted over all parts given: at most MAX_ORDERED_CHUNKS, so that positions are compared as unsigned numbers.
 */
import { CHUNK_ROWS, ROW_BITS } from '../threads/memtable-layout.ts'
import { type ChunkView, timeBefore } from './chunk-view.ts'

interface RowSet {
  chunks: readonly ChunkView[]
  counts: readonly number[]
}

interface RowFilter {
  /** One byte a series, 1 = wanted; all when absent. */
  series?: Uint8Array
  /** Inclusive. */
  lo?: bigint
  hi?: bigint
}

export interface OrderedRows {
  rows: Int32Array
  /** The series in order and where their rows start in `rows`; one more start than series. */
  series: Int32Array
  starts: Int32Array
  /** Whether some (series, time) occurs more than once. */
  duplicates: boolean
}

const OFFSET = CHUNK_ROWS - 1
/** Of the parts of several memtables; the last that 32 bits tell apart is left out, for -1 is no position. */
export const MAX_ORDERED_CHUNKS = 2 ** (32 - ROW_BITS) - 1
/** A table's rows are counted by series unless the numbers of all series are more than so many times its rows: its own may be few among millions. */
const SPARSE = 8
/** A series' number and a row's fit into one double. */
const SPARSE_ROWS = 2 ** 21
/** Of a measurement's number, in each of two halves. */
const DIGIT_BITS = 16
const DIGITS = 1 << DIGIT_BITS
const DIGIT_MASK = DIGITS - 1

export function orderRows(set: RowSet, filter: RowFilter = {}, measurementOf?: Int32Array): OrderedRows {
  const accept = acceptor(filter)
  if (measurementOf === undefined && isSparse(set)) return orderSparse(set, accept)
  const tally = countSeries(set, accept)
  const series = presentSeries(tally)
  if (measurementOf !== undefined) sortByMeasurement(series, measurementOf)
  const starts = new Int32Array(series.length + 1)
  let at = 0
  for (let i = 0; i < series.length; i++) {
    starts[i] = at
    const n = tally[series[i]]
    tally[series[i]] = at
    at += n
  }
  starts[series.length] = at
  const rows = new Int32Array(at)
  const disordered = distribute(set, accept, tally, rows)
  const { chunks } = set
  let duplicates = false
  for (let i = 0; i < series.length; i++) {
    if (disordered[series[i]] === 1 && orderSeries(chunks, rows, starts[i], starts[i + 1])) duplicates = true
  }
  return { rows, series, starts, duplicates }
}

type Accept = ((chunk: ChunkView, row: number) => boolean) | undefined

function acceptor({ series, lo, hi }: RowFilter): Accept {
  if (series === undefined && lo === undefined && hi === undefined) return undefined
  const low = bounds(lo ?? -0x8000000000000000n)
  const high = bounds(hi ?? 0x7fffffffffffffffn)
  return (chunk, row) => {
    if (series !== undefined && series[chunk.series[row]] !== 1) return false
    return !timeBefore(chunk.time, row, low, 0) && !timeBefore(high, 0, chunk.time, row)
  }
}

function bounds(time: bigint): Int32Array {
  return new Int32Array([Number(BigInt.asIntN(32, time)), Number(time >> 32n)])
}

function isSparse({ chunks, counts }: RowSet): boolean {
  const least = counts.reduce((sum, n) => sum + n, 0)
  if (least > SPARSE_ROWS) return false
  let last = 0
  for (let c = 0; c < chunks.length; c++) {
    const { series } = chunks[c]
    for (let row = 0, n = counts[c]; row < n; row++) if (series[row] > last) last = series[row]
  }
  return last > least * SPARSE
}

/** The same by sorting: what it costs does not depend on the numbers of the series. */
function orderSparse({ chunks, counts }: RowSet, accept: Accept): OrderedRows {
  const all = counts.reduce((sum, n) => sum + n, 0)
  const keys = new Float64Array(all)
  const positions = new Int32Array(all)
  let n = 0
  for (let c = 0; c < chunks.length; c++) {
    const chunk = chunks[c]
    for (let row = 0, end = counts[c]; row < end; row++) {
      if (accept !== undefined && !accept(chunk, row)) continue
      keys[n] = chunk.series[row] * SPARSE_ROWS + n
      positions[n++] = (c << ROW_BITS) | row
    }
  }
  const sorted = keys.subarray(0, n).sort()
  const rows = new Int32Array(n)
  const series: number[] = []
  const starts: number[] = []
  for (let i = 0; i < n; i++) {
    const number = Math.floor(sorted[i] / SPARSE_ROWS)
    rows[i] = positions[sorted[i] - number * SPARSE_ROWS]
    if (number === series[series.length - 1]) continue
    series.push(number)
    starts.push(i)
  }
  starts.push(n)
  let duplicates = false
  for (let i = 0; i < series.length; i++) if (orderSeries(chunks, rows, starts[i], starts[i + 1])) duplicates = true
  return { rows, series: Int32Array.from(series), starts: Int32Array.from(starts), duplicates }
}

function countSeries({ chunks, counts }: RowSet, accept: Accept): Int32Array {
  let tally = new Int32Array(1024)
  for (let c = 0; c < chunks.length; c++) {
    const chunk = chunks[c]
    const { series } = chunk
    for (let row = 0, n = counts[c]; row < n; row++) {
      if (accept !== undefined && !accept(chunk, row)) continue
      const s = series[row]
      if (s >= tally.length) {
        const grown = new Int32Array(Math.max(tally.length * 2, s + 1))
        grown.set(tally)
        tally = grown
      }
      tally[s]++
    }
  }
  return tally
}

function presentSeries(tally: Int32Array): Int32Array {
  let n = 0
  for (let s = 0; s < tally.length; s++) if (tally[s] > 0) n++
  const series = new Int32Array(n)
  for (let s = 0, i = 0; i < n; s++) if (tally[s] > 0) series[i++] = s
  return series
}

/** By counting, half of the bits of a number at a time: exact whatever the numbers are. @param series ascending; those of a measurement stay so. */
function sortByMeasurement(series: Int32Array, measurementOf: Int32Array): void {
  const halfSorted = new Int32Array(series.length)
  sortByDigit(series, halfSorted, (s) => measurementOf[s] & DIGIT_MASK)
  sortByDigit(halfSorted, series, (s) => (measurementOf[s] >> DIGIT_BITS) + DIGITS / 2)
}

/** @param digitOf from 0 to below DIGITS. */
function sortByDigit(from: Int32Array, to: Int32Array, digitOf: (series: number) => number): void {
  const next = new Int32Array(DIGITS + 1)
  for (let i = 0; i < from.length; i++) next[digitOf(from[i]) + 1]++
  for (let digit = 1; digit < DIGITS; digit++) next[digit] += next[digit - 1]
  for (let i = 0; i < from.length; i++) to[next[digitOf(from[i])]++] = from[i]
}

/** @returns 1 for each series of which a row is not newer than the one before it. */
function distribute({ chunks, counts }: RowSet, accept: Accept, next: Int32Array, rows: Int32Array): Uint8Array {
  const disordered = new Uint8Array(next.length)
  /** The newest time of each series so far, low and high half. */
  const newest = new Int32Array(next.length * 2)
  for (let s = 0; s < next.length; s++) newest[s * 2 + 1] = -0x80000000
  for (let c = 0; c < chunks.length; c++) {
    const chunk = chunks[c]
    const { series, time } = chunk
    for (let row = 0, n = counts[c]; row < n; row++) {
      if (accept !== undefined && !accept(chunk, row)) continue
      const s = series[row]
      const at = next[s]
      next[s] = at + 1
      rows[at] = (c << ROW_BITS) | row
      const low = time[row * 2]
      const high = time[row * 2 + 1]
      const before = newest[s * 2 + 1]
      if (high > before || (high === before && low >>> 0 > newest[s * 2] >>> 0)) {
        newest[s * 2] = low
        newest[s * 2 + 1] = high
      } else disordered[s] = 1
    }
  }
  return disordered
}

/** Puts one series' rows in order of time; true when a time occurs twice. */
function orderSeries(chunks: readonly ChunkView[], rows: Int32Array, from: number, to: number): boolean {
  let sorted = true
  let duplicates = false
  let chunk = chunks[rows[from] >>> ROW_BITS].time
  let row = rows[from] & OFFSET
  for (let i = from + 1; i < to; i++) {
    const nextChunk = chunks[rows[i] >>> ROW_BITS].time
    const nextRow = rows[i] & OFFSET
    if (!timeBefore(chunk, row, nextChunk, nextRow)) {
      if (timeBefore(nextChunk, nextRow, chunk, row)) sorted = false
      else duplicates = true
    }
    chunk = nextChunk
    row = nextRow
  }
  if (sorted) return duplicates
  // Rows arrived in ascending position, so the position settles ties by order of arrival.
  const slice = rows.subarray(from, to)
  slice.sort((a, b) => compareTimes(chunks, a, b) || (a >>> 0) - (b >>> 0))
  for (let i = 1; i < slice.length; i++) if (compareTimes(chunks, slice[i - 1], slice[i]) === 0) return true
  return false
}

export function compareTimes(chunks: readonly ChunkView[], a: number, b: number): number {
  const ta = chunks[a >>> ROW_BITS].time
  const tb = chunks[b >>> ROW_BITS].time
  const ra = a & OFFSET
  const rb = b & OFFSET
  return timeBefore(ta, ra, tb, rb) ? -1 : timeBefore(tb, rb, ta, ra) ? 1 : 0
}

/** The same for rows already chosen; those outside the range are left out. */
export function orderPositions(chunks: readonly ChunkView[], positions: Int32Array, [lo, hi]: readonly [bigint, bigint]): OrderedRows {
  const seriesOf = (position: number): number => chunks[position >>> ROW_BITS].series[position & OFFSET]
  const accept = acceptor({ lo, hi })!
  const rows = positions
    .filter((position) => accept(chunks[position >>> ROW_BITS], position & OFFSET))
    .sort((a, b) => seriesOf(a) - seriesOf(b) || compareTimes(chunks, a, b) || (a >>> 0) - (b >>> 0))
  const series: number[] = []
  const starts: number[] = []
  let duplicates = false
  for (let i = 0; i < rows.length; i++) {
    const s = seriesOf(rows[i])
    if (i === 0 || s !== series[series.length - 1]) {
      series.push(s)
      starts.push(i)
    } else if (!duplicates && compareTimes(chunks, rows[i - 1], rows[i]) === 0) duplicates = true
  }
  return { rows, series: Int32Array.from(series), starts: Int32Array.from([...starts, rows.length]), duplicates }
}

/** Where each output row's group of equal (series, time) starts in `rows`; one more entry than output rows. */
export function groupDuplicates(chunks: readonly ChunkView[], ordered: OrderedRows): Int32Array {
  const { rows, starts } = ordered
  const groups = new Int32Array(rows.length + 1)
  let n = 0
  for (let s = 0; s + 1 < starts.length; s++) {
    for (let i = starts[s]; i < starts[s + 1]; i++) {
      if (i === starts[s] || compareTimes(chunks, rows[i - 1], rows[i]) !== 0) groups[n++] = i
    }
  }
  groups[n] = rows.length
  return groups.subarray(0, n + 1)
}
