/** The time of points that have none. It is the same when a record comes again: the same points again are the same points. */
import { messageTime } from 'svcdb/lib/source'
import type { KafkaRecord } from './client.ts'

const LATEST = 2n ** 63n - 1n

/** @returns nanoseconds since the Unix epoch. @throws INVALID_POINT for a header that is no time. */
export function timeOf({ timestamp, headers }: KafkaRecord, header: string | undefined): bigint {
  if (header !== undefined) {
    const given = headers[header]
    const first = Array.isArray(given) ? given[0] : given
    if (first !== undefined) return messageTime(String(first), `header "${header}"`)
  }
  const nanos = BigInt(timestamp) * 1_000_000n
  // A record without one has -1. Beyond the range, as of a producer that sends nanoseconds, it is the end of it: such a point is refused as of the future.
  return nanos < 0n ? 0n : nanos > LATEST ? LATEST : nanos
}
