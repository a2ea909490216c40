/** What deletes and retention hide of a piece, in the milliseconds of units. */
import { contains, type Hidden } from '../masks.ts'
import type { KeepRow } from './chunk-blocks.ts'

const NS_PER_MS = 1_000_000n

export interface HiddenTimes {
  series: Int32Array | undefined
  /** Inclusive. */
  lo: number
  hi: number
}

/** Undefined when a bound lies within a millisecond: units are too coarse then, and rows have to be looked at one by one (`keepOf`). */
export function hiddenTimes(hidden: readonly Hidden[], minTime: bigint, maxTime: bigint): HiddenTimes[] | undefined {
  const out: HiddenTimes[] = []
  for (const { series, lo, hi } of hidden) {
    // Beyond the piece's own times a bound need not be exact.
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

export function keepOf(hidden: readonly Hidden[]): KeepRow {
  return (series, low, high) => {
    const time = (BigInt(high) << 32n) | BigInt(low >>> 0)
    return !hidden.some((one) => time >= one.lo && time <= one.hi && (one.series === undefined || contains(one.series, series)))
  }
}

/** The parts of [from, to) that are not hidden, as pairs in `out`; times ascend. @returns the number of parts. */
export function visibleParts(hidden: readonly HiddenTimes[], series: number, times: Float64Array, from: number, to: number, out: number[]): number {
  out.length = 0
  out.push(from, to)
  for (const { series: list, lo, hi } of hidden) {
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

/** The first place of [from, to) whose time is not below `value`. */
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
