/** A time that a message has beside its body, such as in a header. */
import { SvcError } from '../errors/index.ts'

const MAX_NANOS = 2n ** 63n - 1n

/** @param what has it: `header "at"`. @returns nanoseconds since the Unix epoch. @throws INVALID_POINT for what is no time. */
export function messageTime(text: string, what: string): bigint {
  if (/^\d{1,19}$/.test(text)) {
    const nanos = BigInt(text)
    if (nanos <= MAX_NANOS) return nanos
  }
  const parts = /^(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})(?:\.(\d{1,9}))?(Z|[+-]\d{2}:\d{2})$/.exec(text)
  const seconds = parts === null ? Number.NaN : Date.parse(`${parts[1]}${parts[3]}`)
  if (parts === null || Number.isNaN(seconds))
    throw new SvcError('INVALID_POINT', `cannot read ${what} as a time: "${text.slice(0, 64)}"; write nanoseconds since the Unix epoch, or RFC 3339`)
  return BigInt(seconds) * 1_000_000n + BigInt((parts[2] ?? '').padEnd(9, '0'))
}
