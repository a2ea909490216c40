/**
 * What deletes and retention mask of a block, to the nanosecond: a bound is whole milliseconds and what is beyond them, as samples have it, so that
 * a block is the same whatever is masked of it and can be kept.
 */
import { contains, type Mask } from '../masks.ts'
import { PackedBlock } from './packed-block.ts'
import type { SampleBlock } from './sample-block.ts'

type BlockTimes = Pick<SampleBlock, 'times' | 'rests'>

const NS_PER_MS = 1_000_000n

/** Times from (fromMs, fromRest) on, below (toMs, toRest). */
export interface BlockMask {
  series: Int32Array | undefined
  fromMs: number
  fromRest: number
  toMs: number
  toRest: number
}

/** Those of the source's masks that touch its times. */
export function blockMasks(masks: readonly Mask[], minTime: bigint, maxTime: bigint): BlockMask[] {
  const out: BlockMask[] = []
  for (const { series, lo, hi } of masks) {
    if (lo > maxTime || hi < minTime) continue
    const [fromMs, fromRest] = lo <= minTime ? [Number.NEGATIVE_INFINITY, 0] : parts(lo)
    const [toMs, toRest] = hi >= maxTime ? [Number.POSITIVE_INFINITY, 0] : parts(hi + 1n)
    out.push({ series, fromMs, fromRest, toMs, toRest })
  }
  return out
}

/** Whole milliseconds, rounded down, and nanoseconds beyond them. */
function parts(time: bigint): [ms: number, rest: number] {
  const rest = ((time % NS_PER_MS) + NS_PER_MS) % NS_PER_MS
  return [Number((time - rest) / NS_PER_MS), Number(rest)]
}

/** The parts of a series' samples [from, to) that are not masked, as pairs in `out`. @param run of packed blocks, the place of the series. @returns the number of parts. */
export function unmaskedRuns(
  masks: readonly BlockMask[],
  series: number,
  block: BlockTimes | PackedBlock,
  from: number,
  to: number,
  out: number[],
  run: number = 0,
): number {
  out.length = 0
  out.push(from, to)
  for (const { series: list, fromMs, fromRest, toMs, toRest } of masks) {
    if (list !== undefined && !contains(list, series)) continue
    for (let i = out.length - 2; i >= 0; i -= 2) {
      const start = out[i]
      const end = out[i + 1]
      const first = exactBound(block, run, fromMs, fromRest, start, end)
      const after = exactBound(block, run, toMs, toRest, first, end)
      if (first === after) continue
      const parts: number[] = []
      if (first > start) parts.push(start, first)
      if (after < end) parts.push(after, end)
      out.splice(i, 2, ...parts)
    }
  }
  return out.length / 2
}

/** The first position of [from, to) whose time is not below `ms` and `rest` nanoseconds. */
function exactBound(block: BlockTimes | PackedBlock, run: number, ms: number, rest: number, from: number, to: number): number {
  // In packed blocks all times are whole milliseconds.
  if (block instanceof PackedBlock) return block.timeBound(run, rest > 0 ? ms + 1 : ms, from, to)
  const { times, rests } = block
  let at = timeBound(times, ms, from, to)
  if (rest > 0) while (at < to && times[at] === ms && (rests === undefined ? 0 : rests[at]) < rest) at++
  return at
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
