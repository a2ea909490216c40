/** How many shards a move of retention takes, for the metric. Pure. */
import { floorDiv, INT64_MIN } from '../../common/time.ts'

export interface Taken {
  /** Of a segment or a memtable, both inclusive. */
  minTime: bigint
  maxTime: bigint
  /** What had been masked of it before. */
  before: bigint
  /** What is masked of it now. */
  cutoff: bigint
}

/**
 * Shards of which rows go. Where a source has rows is known of its ends; of one that reaches over an earlier cutoff and over this one, the last shard that goes
 * counts as one of its. A first move over a single file of many shards therefore counts less than there were, and never an empty one between two ends.
 */
export function shardsTaken(sources: Iterable<Taken>, width: bigint): number {
  const taken = new Set<bigint>()
  for (const { minTime, maxTime, before, cutoff } of sources) {
    if (minTime >= cutoff || before >= cutoff) continue
    const ends = [minTime, maxTime].filter((time) => time >= before && time < cutoff)
    for (const time of ends) taken.add(floorDiv(time, width))
    if (before !== INT64_MIN && minTime < before && maxTime >= cutoff) taken.add(floorDiv(cutoff - 1n, width))
  }
  return taken.size
}
