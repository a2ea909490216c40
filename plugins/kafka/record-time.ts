/** The time of points that have none. It is the same when a record comes again: the same points again are the same points. */
import { SvcError } from 'svcdb/lib/errors'
import type { KafkaRecord } from './client.ts'

const MAX_NANOS = 2n ** 63n - 1n

/** @returns nanoseconds since the Unix epoch. @throws INVALID_POINT for a header that is no time. */
export function timeOf({ timestamp, headers }: KafkaRecord, header: string | undefined): bigint {
  if (header !== undefined) {
    const given = headers[header]
    const first = Array.isArray(given) ? given[0] : given
    if (first !== undefined) return headerTime(String(first), header)
  }
  const millis = BigInt(timestamp)
  // A record without one has -1.
  return millis < 0n ? 0n : millis * 1_000_000n
}

function headerTime(text: string, header: string): bigint {
  if (/^\d{1,19}$/.test(text)) {
    const nanos = BigInt(text)
    if (nanos <= MAX_NANOS) return nanos
  }
  const parts = /^(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})(?:\.(\d{1,9}))?(Z|[+-]\d{2}:\d{2})$/.exec(text)
  const seconds = parts === null ? Number.NaN : Date.parse(`${parts[1]}${parts[3]}`)
  if (parts === null || Number.isNaN(seconds))
    throw new SvcError('INVALID_POINT', `cannot read header "${header}" as a time: "${text.slice(0, 64)}"; write nanoseconds since the Unix epoch, or RFC 3339`)
  return BigInt(seconds) * 1_000_000n + BigInt((parts[2] ?? '').padEnd(9, '0'))
}
