/** Which rollups share a scan of their source. Pure. */
import type { Bucketing } from 'svcdb/lib/time-buckets'
import { bucketOf } from 'svcdb/lib/time-buckets'
import { floorBucket } from './boundaries.ts'
import type { Range } from './ranges.ts'

/** What a rollup has to do, by its own buckets. */
interface Wanted {
  buckets: Bucketing
  start: bigint
  end: bigint
}

/**
 * Where the slice ends that a rollup does with others, whose slice is the window; undefined when it is better off alone. It has to begin within the window or about as
 * long before it as the window is, and may have one bucket that ends as far behind it: so the scan is never more than three windows long.
 */
export function within([from, to]: Range, { buckets, start, end }: Wanted): bigint | undefined {
  const slack = to - from
  if (start >= to || start < from - slack || end <= from) return undefined
  const whole = floorBucket(end < to ? end : to, buckets)
  if (whole > start) return whole > from ? whole : undefined
  const [, first] = bucketOf(start, buckets)
  return first <= end && first <= to + slack ? first : undefined
}
