/** A time that a message has beside its body, such as in a header. */
import { SvcError } from '../errors/index.ts'
import { rfc3339Nanos } from '../numbers/index.ts'

/** @param what has it: `header "at"`. @returns nanoseconds since the Unix epoch. @throws INVALID_POINT for what is no time. */
export function messageTime(text: string, what: string): bigint {
  const nanos = /^\d{1,19}$/.test(text) ? BigInt(text) : rfc3339Nanos(text)
  if (nanos === undefined || BigInt.asIntN(64, nanos) !== nanos)
    throw new SvcError('INVALID_POINT', `cannot read ${what} as a time: "${text.slice(0, 64)}"; write nanoseconds since the Unix epoch, or RFC 3339`)
  return nanos
}
