/** The time of points that have none. It is the same when a record comes again: the same points again are the same points. */
import { messageTime } from 'svcdb/lib/source'
import type { KafkaRecord } from './client.ts'

/** @returns nanoseconds since the Unix epoch. @throws INVALID_POINT for a header that is no time. */
export function timeOf({ timestamp, headers }: KafkaRecord, header: string | undefined): bigint {
  if (header !== undefined) {
    const given = headers[header]
    const first = Array.isArray(given) ? given[0] : given
    if (first !== undefined) return messageTime(String(first), `header "${header}"`)
  }
  const millis = BigInt(timestamp)
  // A record without one has -1.
  return millis < 0n ? 0n : millis * 1_000_000n
}
