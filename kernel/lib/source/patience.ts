/** The one policy of waiting for a storage that has no room: which failures are worth another try, and when. */
import { setTimeout as sleep } from 'node:timers/promises'
import { classify, type ErrorCode, type SvcError } from '../errors/index.ts'

/**
 * Failures that time may mend. All others are final: what is wrong with the points or the caller will be so in a second, and a fault of the server's
 * own is reported, not repeated.
 */
export const TRANSIENT: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'BACKPRESSURE', // the memtables are full, or merging is behind
  'OVERLOADED', // the maintenance thread has died: an operator may restart the node
  'STORAGE_FULL', // somebody may free space
  'RATE_LIMITED', // a quota of points a second, of bytes
  'WRITE_TIMEOUT', // it may still be applied, and the same points again are the same points
  'DATABASE_CLOSED', // not open yet
])

/** Whether time may mend it: see `TRANSIENT`. */
export function isTransient(error: unknown): boolean {
  return TRANSIENT.has(classify(error).code)
}

/** For how long, and how often, something is tried again. */
export interface Patience {
  /** Ends the wait: with the failure that is waited for, not with the signal's reason. */
  signal?: AbortSignal | undefined
  /** From the first failure on, milliseconds, after which the next failure is final. Default: no end. */
  maxWaitMs?: number
  /** Before the second try, milliseconds; default 50. Each pause is twice the one before, but for a jitter of a half. */
  firstPauseMs?: number
  /** Default 5000. A failure's own retry-after stretches the pauses up to this. */
  maxPauseMs?: number
  /** Which failures are waited for; default `isTransient`. */
  transient?(error: SvcError): boolean
  /** Called before each pause. */
  waiting?(error: SvcError, pauseMs: number): void
  /** Pauses, and ends early when the signal does, without an error; for those who pause otherwise. */
  pause?(ms: number, signal: AbortSignal | undefined): Promise<void>
  /** Milliseconds that never go back; for tests. */
  monotonic?(): number
  /** 0 to 1; for tests. */
  random?(): number
}

const FIRST_PAUSE_MS = 50
const MAX_PAUSE_MS = 5000

/** Tries until it succeeds. @throws what the last try threw: a final failure, or a transient one when the signal or `maxWaitMs` has ended the wait. */
export async function patiently<T>(attempt: () => T | Promise<T>, patience: Patience = {}): Promise<T> {
  const { signal, maxWaitMs = Number.POSITIVE_INFINITY, monotonic = () => performance.now(), transient = ({ code }) => TRANSIENT.has(code) } = patience
  let until: number | undefined
  for (let tries = 0; ; tries++) {
    try {
      return await attempt()
    } catch (thrown) {
      const error = classify(thrown)
      const now = monotonic()
      until ??= now + maxWaitMs
      if (!transient(error) || signal?.aborted || now >= until) throw thrown
      const pause = Math.min(pauseOf(error, tries, patience), until - now)
      patience.waiting?.(error, pause)
      await (patience.pause ?? slept)(pause, signal)
      if (signal?.aborted) throw thrown
    }
  }
}

/** Milliseconds before try number `tries` + 2. */
function pauseOf(error: SvcError, tries: number, patience: Patience): number {
  const { firstPauseMs = FIRST_PAUSE_MS, maxPauseMs = MAX_PAUSE_MS, random = Math.random } = patience
  const asked = Number(error.headers?.['retry-after']) * 1000
  const doubled = firstPauseMs * 2 ** Math.min(tries, 30)
  // Half of it is chance: those who were refused together must not come back together.
  return Math.min(maxPauseMs, asked > doubled ? asked : doubled) * (0.5 + random() / 2)
}

async function slept(ms: number, signal: AbortSignal | undefined): Promise<void> {
  await sleep(ms, undefined, signal === undefined ? {} : { signal }).catch(() => {})
}
