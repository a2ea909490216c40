/**
 * The segments of a table whose times meet a range, without a look at the others: questions over the last hour are asked again and again, whatever lies
 * before it. Lists of segments are replaced and never changed (threads/state.ts), so that what is known of a list goes with it.
 */
import type { SegmentMeta } from '../threads/segment-entry.ts'
import type { Interval } from './sources.ts'

/** The times of a segment, which its entry has as text. */
interface SegmentTimes {
  minTime: bigint
  maxTime: bigint
  dirty: Interval | null
}

const times = new WeakMap<SegmentMeta, SegmentTimes>()
const indexes = new WeakMap<readonly SegmentMeta[], RangeIndex>()

export function timesOf(segment: SegmentMeta): SegmentTimes {
  let known = times.get(segment)
  if (known === undefined) {
    const { minTime, maxTime, dirty } = segment
    known = { minTime: BigInt(minTime), maxTime: BigInt(maxTime), dirty: dirty === null ? null : [BigInt(dirty[0]), BigInt(dirty[1])] }
    times.set(segment, known)
  }
  return known
}

/** In the order of the list. @param range inclusive. */
export function segmentsInRange(list: readonly SegmentMeta[], range: Interval): readonly SegmentMeta[] {
  let index = indexes.get(list)
  if (index === undefined) indexes.set(list, (index = new RangeIndex(list)))
  return index.find(range).map((position) => list[position])
}

/** Intervals by where they begin, with the latest end of all that begin no later: both ascend, so that those that can meet a range are found by bisection. */
export class RangeIndex {
  private readonly starts: BigInt64Array
  private readonly ends: BigInt64Array
  private readonly latest: BigInt64Array
  private readonly positions: Int32Array

  constructor(list: readonly SegmentMeta[]) {
    const all = list.map(timesOf)
    this.positions = Int32Array.from(all.keys()).sort((a, b) => (all[a].minTime < all[b].minTime ? -1 : all[a].minTime > all[b].minTime ? 1 : 0))
    this.starts = BigInt64Array.from(this.positions, (position) => all[position].minTime)
    this.ends = BigInt64Array.from(this.positions, (position) => all[position].maxTime)
    this.latest = this.ends.slice()
    for (let i = 1; i < this.latest.length; i++) if (this.latest[i - 1] > this.latest[i]) this.latest[i] = this.latest[i - 1]
  }

  /** Positions in the list, ascending. */
  find(range: Interval): number[] {
    const { ends, positions } = this
    const [from, to] = this.candidates(range)
    const found: number[] = []
    for (let i = from; i < to; i++) if (ends[i] >= range[0]) found.push(positions[i])
    return found.sort((a, b) => a - b)
  }

  /** Where, by start, the intervals lie that can meet a range: the first, and the one after the last. */
  candidates([lo, hi]: Interval): [from: number, to: number] {
    const from = firstWhere(this.latest, (end) => end >= lo)
    return [
      from,
      Math.max(
        from,
        firstWhere(this.starts, (start) => start > hi),
      ),
    ]
  }
}

/** The first place of an ascending list from which on a condition holds. */
function firstWhere(list: BigInt64Array, holds: (value: bigint) => boolean): number {
  let from = 0
  let to = list.length
  while (from < to) {
    const middle = (from + to) >> 1
    if (holds(list[middle])) to = middle
    else from = middle + 1
  }
  return from
}
