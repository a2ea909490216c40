/**
 * The rows of a memtable chunk by series and time: what is the same for all of its fields. A chunk has few rows, of which most come in order, so that
 * sorting by series alone, which keeps the order of arrival, is nearly all there is to do.
 */
import { type ChunkView, timeBefore } from '../../memtable/chunk-view.ts'
import { milliseconds, restOf } from '../../parquet/nanoseconds.ts'

export interface ChunkFrame {
  /** Rows of the chunk by series, time, arrival. */
  order: Int32Array
  /** As of a sample block that has all of them. */
  series: Int32Array
  starts: Int32Array
  times: Float64Array
  rests: Int32Array | undefined
  duplicates: boolean
  minTime: number
  maxTime: number
}

/** Of an array that takes a number a series, so many a row are still counted in one go. */
const SPAN_SHARE = 4
const DIGIT_BITS = 16
const DIGIT_MASK = (1 << DIGIT_BITS) - 1
/** Longer runs are not put in order by moving rows one by one. */
const LONG_RUN = 64

/** What sorting needs, used again. */
export class FrameSorter {
  private counts = new Int32Array(1 << DIGIT_BITS)
  private spare = new Int32Array(0)

  frame(chunk: ChunkView, rows: number): ChunkFrame {
    const { series } = chunk
    let min = series[0]
    let max = min
    for (let row = 1; row < rows; row++) {
      const s = series[row]
      if (s > max) max = s
      else if (s < min) min = s
    }
    const span = max - min + 1
    if (span <= Math.max(1 << DIGIT_BITS, rows * SPAN_SHARE)) return this.counted(chunk, rows, min, span)
    const order = this.byDigits(series, rows, min)
    byTime(chunk, order, 0, rows)
    return framed(chunk, order)
  }

  /** Puts rows and times in their places in one pass: reading times in the order of series misses the processor's cache for each. */
  private counted({ series: numbers, time }: ChunkView, rows: number, min: number, span: number): ChunkFrame {
    const next = this.zeros(span)
    for (let row = 0; row < rows; row++) next[numbers[row] - min]++
    let count = 0
    for (let i = 0; i < span; i++) if (next[i] > 0) count++
    const series = new Int32Array(count)
    const starts = new Int32Array(count + 1)
    for (let i = 0, n = 0, at = 0; i < span; i++) {
      const here = next[i]
      if (here === 0) continue
      next[i] = at
      series[n] = min + i
      starts[n++] = at
      at += here
    }
    starts[count] = rows
    const order = new Int32Array(rows)
    const times = new Float64Array(rows)
    let rests: Int32Array | undefined
    let minTime = Number.POSITIVE_INFINITY
    let maxTime = Number.NEGATIVE_INFINITY
    for (let row = 0; row < rows; row++) {
      const at = next[numbers[row] - min]++
      const low = time[row * 2]
      const ms = milliseconds(low, time[row * 2 + 1])
      const rest = restOf(low, ms)
      order[at] = row
      times[at] = ms
      if (rest !== 0) rests ??= new Int32Array(rows)
      if (rests !== undefined) rests[at] = rest
      if (ms < minTime) minTime = ms
      if (ms > maxTime) maxTime = ms
    }
    const frame: ChunkFrame = { order, series, starts, times, rests, duplicates: false, minTime, maxTime }
    for (let n = 0; n < count; n++) {
      const from = starts[n]
      const to = starts[n + 1]
      let before = times[from]
      for (let i = from + 1; i < to; i++) {
        const ms = times[i]
        if (!(before < ms)) {
          frame.duplicates = orderedByTime({ series: numbers, time }, frame, from, to) || frame.duplicates
          break
        }
        before = ms
      }
    }
    return frame
  }

  private byDigits(series: Int32Array, rows: number, min: number): Int32Array {
    const order = new Int32Array(rows)
    if (this.spare.length < rows) this.spare = new Int32Array(rows)
    const { spare } = this
    const low = this.zeros(1 << DIGIT_BITS)
    for (let row = 0; row < rows; row++) low[(series[row] - min) & DIGIT_MASK]++
    summed(low, 1 << DIGIT_BITS)
    for (let row = 0; row < rows; row++) spare[low[(series[row] - min) & DIGIT_MASK]++] = row
    const high = this.zeros(1 << DIGIT_BITS)
    for (let row = 0; row < rows; row++) high[(series[row] - min) >>> DIGIT_BITS]++
    summed(high, 1 << DIGIT_BITS)
    for (let i = 0; i < rows; i++) order[high[(series[spare[i]] - min) >>> DIGIT_BITS]++] = spare[i]
    return order
  }

  private zeros(length: number): Int32Array {
    if (this.counts.length < length) this.counts = new Int32Array(length)
    else this.counts.fill(0, 0, length)
    return this.counts
  }
}

/** Counts become where each number begins. */
function summed(counts: Int32Array, length: number): void {
  let at = 0
  for (let i = 0; i < length; i++) {
    const n = counts[i]
    counts[i] = at
    at += n
  }
}

/** Puts the rows of one series in order of time. @returns whether rows share a millisecond. */
function orderedByTime(chunk: Pick<ChunkView, 'series' | 'time'>, { order, times, rests }: ChunkFrame, from: number, to: number): boolean {
  byTime(chunk, order, from, to)
  const { time } = chunk
  let duplicates = false
  for (let i = from; i < to; i++) {
    const low = time[order[i] * 2]
    times[i] = milliseconds(low, time[order[i] * 2 + 1])
    if (rests !== undefined) rests[i] = restOf(low, times[i])
    if (i > from && times[i - 1] === times[i]) duplicates = true
  }
  return duplicates
}

/** Puts rows that lie by series in order[begin, end) in order of time within each, those of one time in order of arrival. */
export function byTime({ series, time }: Pick<ChunkView, 'series' | 'time'>, order: Int32Array, begin: number, end: number): void {
  for (let i = begin + 1; i < end; i++) {
    if (series[order[i]] !== series[order[i - 1]] || !timeBefore(time, order[i], time, order[i - 1])) continue
    let from = i
    while (from > begin && series[order[from - 1]] === series[order[i]]) from--
    let to = i + 1
    while (to < end && series[order[to]] === series[order[i]]) to++
    if (to - from > LONG_RUN) {
      order.subarray(from, to).sort((a, b) => (timeBefore(time, a, time, b) ? -1 : timeBefore(time, b, time, a) ? 1 : a - b))
    } else {
      for (let j = i; j < to; j++) {
        const row = order[j]
        let k = j
        while (k > from && timeBefore(time, row, time, order[k - 1])) {
          order[k] = order[k - 1]
          k--
        }
        order[k] = row
      }
    }
    i = to - 1
  }
}

/** @param order rows of the chunk by series, time, arrival. */
export function framed({ series: numbers, time }: ChunkView, order: Int32Array): ChunkFrame {
  const rows = order.length
  let count = 0
  for (let i = 0; i < rows; i++) if (i === 0 || numbers[order[i]] !== numbers[order[i - 1]]) count++
  const series = new Int32Array(count)
  const starts = new Int32Array(count + 1)
  const times = new Float64Array(rows)
  let rests: Int32Array | undefined
  let duplicates = false
  let n = 0
  let last = -1
  let before = 0
  let minTime = Number.POSITIVE_INFINITY
  let maxTime = Number.NEGATIVE_INFINITY
  for (let i = 0; i < rows; i++) {
    const row = order[i]
    const low = time[row * 2]
    const ms = milliseconds(low, time[row * 2 + 1])
    const s = numbers[row]
    if (s !== last || i === 0) {
      series[n] = last = s
      starts[n++] = i
    } else if (!(before < ms)) duplicates = true
    const rest = restOf(low, ms)
    if (rest !== 0) rests ??= new Int32Array(rows)
    if (rests !== undefined) rests[i] = rest
    times[i] = before = ms
    if (ms < minTime) minTime = ms
    if (ms > maxTime) maxTime = ms
  }
  starts[n] = rows
  return { order, series, starts, times, rests, duplicates, minTime, maxTime }
}
