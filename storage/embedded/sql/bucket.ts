/** Buckets of time as `time_bucket()` has them (svcdb/lib/time-buckets), with the refusals of SQL. */
import { SvcError } from 'svcdb/lib/errors'
import { BucketError, type Bucketing, bucketing as bucketsOf, type Span } from 'svcdb/lib/time-buckets'

/** @throws SQL_ERROR for a width, zone or origin that means nothing. */
export function bucketing(width: Span | string, zoneName: string, origin: string | undefined, now: bigint): Bucketing {
  try {
    return bucketsOf(width, zoneName, origin, now)
  } catch (error) {
    if (error instanceof BucketError) throw new SvcError('SQL_ERROR', `cannot compute time_bucket: ${error.message}`)
    throw error
  }
}
