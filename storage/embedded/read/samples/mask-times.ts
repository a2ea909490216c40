/** What deletes and retention mask of a source, in the milliseconds of sample blocks. */
import { contains, type Mask } from '../masks.ts'
import type { KeepRow } from './chunk-blocks.ts'

const NS_PER_MS = 1_000_000n

export interface MillisecondMask {
  series: Int32Array | undefined
  /** Inclusive. */
  lo: number
  hi: number
}

/** Undefined when a bound lies within a millisecond: blocks are too coarse then, and rows have to be looked at one by one (`keepOf`). */
export function millisecondMasks(masks: readonly Mask[], minTime: bigint, maxTime: bigint): MillisecondMask[] | undefined {
  const out: MillisecondMask[] = []
  for (const { series, lo, hi } of masks) {
    // Beyond the source's own times a bound need not be exact.
    const from = lo <= minTime ? Number.NEGATIVE_INFINITY : wholeMs(lo)
    const to = hi >= maxTime ? Number.POSITIVE_INFINITY : wholeMs(hi + 1n)
    if (from === undefined || to === undefined) return undefined
    out.push({ series, lo: from, hi: to === Number.POSITIVE_INFINITY ? to : to - 1 })
  }
  return out
}

function wholeMs(time: bigint): number | undefined {
  return time % NS_PER_MS === 0n ? Number(time / NS_PER_MS) : undefined
}

export function keepOf(masks: readonly Mask[]): KeepRow {
  return (series, low, high) => {
    const time = (BigInt(high) << 32n) | BigInt(low >>> 0)
    return !masks.some((one) => time >= one.lo && time <= one.hi && (one.series === undefined || contains(one.series, series)))
  }
}

/** The parts of [from, to) that are not masked, as pairs in `out`; times ascend. @returns the number of parts. */
export function unmaskedRuns(masks: readonly MillisecondMask[], series: number, times: Float64Array, from: number, to: number, out: number[]): number {
  out.length = 0
  out.push(from, to)
  for (const { series: list, lo, hi } of masks) {
    if (list !== undefined && !contains(list, series)) continue
    for (let i = out.length - 2; i >= 0; i -= 2) {
      const start = out[i]
      const end = out[i + 1]
      const first = timeBound(times, lo, start, end)
      const after = timeBound(times, hi + 1, first, end)
      if (first === after) continue
      const parts: number[] = []
      if (first > start) parts.push(start, first)
      if (after < end) parts.push(after, end)
      out.splice(i, 2, ...parts)
    }
  }
  return out.length / 2
}

/** The first position of [from, to) whose time is not below `value`. */
export function timeBound(times: Float64Array, value: number, from: number, to: number): number {
  let low = from
  let high = to
  while (low < high) {
    const middle = (low + high) >>> 1
    if (times[middle] < value) low = middle + 1
    else high = middle
  }
  return low
}
