/** What a caller who is turned away is told. */
import { SvcError } from 'svcdb/lib/errors'
import type { Layer, Refusal } from './limits.ts'
import type { Ban } from './lockout.ts'

const MAX_NAME = 128

/** @param name of the address, namespace or user. */
export function refused({ layer, rate, remaining, waitMs, fullMs }: Refusal, name: string): SvcError {
  const seconds = secondsOf(waitMs)
  const rule = `${rate.rps} a second and ${rate.burst} at once are allowed`
  const text = `Too Many Requests: cannot take one more ${SUBJECTS[layer](JSON.stringify(name.slice(0, MAX_NAME)))}: ${rule}; retry after ${seconds} s`
  return new SvcError('RATE_LIMITED', text, { headers: headers(seconds, rate.burst, remaining, secondsOf(fullMs)) })
}

const SUBJECTS: Record<Layer, (name: string) => string> = {
  address: (name) => `from address ${name}`,
  global: () => 'of all callers together',
  namespace: (name) => `for namespace ${name}`,
  principal: (name) => `of user ${name}`,
}

export function shutOut({ caller, failures, until }: Ban, now: number): SvcError {
  const seconds = secondsOf(until - now)
  const text = `Too Many Requests: cannot take requests from address "${caller}": its credentials were refused ${failures} times; give others and retry after ${seconds} s`
  return new SvcError('RATE_LIMITED', text, { headers: headers(seconds, 0, 0, seconds) })
}

function headers(retry: number, limit: number, left: number, reset: number): Record<string, string> {
  return {
    'retry-after': String(retry),
    'x-ratelimit-limit': String(limit),
    'x-ratelimit-remaining': String(left),
    'x-ratelimit-reset': String(reset),
  }
}

/** A client that comes back after whole seconds must not come too early. */
function secondsOf(ms: number): number {
  return Math.max(1, Math.ceil(ms / 1000))
}
