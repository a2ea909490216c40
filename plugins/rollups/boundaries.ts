/** Starts of buckets. Pure. */
import { type Bucketing, bucketOf } from 'svcdb/lib/time-buckets'

/** What nanoseconds in 64 bits can hold, with room for a bucket's other end. */
export const FIRST_TIME = -9_000_000_000_000_000_000n
export const LAST_TIME = 9_000_000_000_000_000_000n

export const clampTime = (time: bigint): bigint => (time < FIRST_TIME ? FIRST_TIME : time > LAST_TIME ? LAST_TIME : time)

const DAY = 86_400_000_000_000n
/** 4800 months of the calendar have 146,097 days. */
const MONTH = (146_097n * DAY) / 4800n

/** How long a bucket is on average. Where a bucket of a time zone begins takes some 50 µs to find out: what is about many of them goes by this. */
export function averageLength(buckets: Bucketing): bigint {
  return buckets.kind === 'fixed' ? buckets.step : BigInt(buckets.count) * (buckets.kind === 'days' ? DAY : MONTH)
}

/** How many buckets lie between two of their starts: as long as they are not long, no change of the clock comes to half of one. */
export function bucketsBetween(start: bigint, end: bigint, buckets: Bucketing): bigint {
  const length = averageLength(buckets)
  return (end - start + length / 2n) / length
}

/** The start of the bucket that a time lies in. */
export const floorBucket = (time: bigint, buckets: Bucketing): bigint => bucketOf(clampTime(time), buckets)[0]

/** The first start of a bucket that is not before a time. */
export function ceilBucket(time: bigint, buckets: Bucketing): bigint {
  const [start, end] = bucketOf(clampTime(time), buckets)
  return start === time ? start : end
}

/** The first of some starts, in whatever order they are. */
export function firstOf(starts: BigInt64Array): bigint | undefined {
  let first: bigint | undefined
  for (const start of starts) if (first === undefined || start < first) first = start
  return first
}

/** The starts of the buckets from `start` on (one of them), at most `max`, and the end of the last; none begins at `end` or later. */
export function boundariesOf(buckets: Bucketing, start: bigint, end: bigint, max: number): BigInt64Array {
  const out: bigint[] = [start]
  for (let at = start; at < end && out.length <= max; ) {
    at = bucketOf(at, buckets)[1]
    out.push(at)
  }
  return BigInt64Array.from(out)
}
