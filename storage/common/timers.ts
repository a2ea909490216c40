/** The event loop's timers and the monotonic clock. */
import { setTimeout as sleep } from 'node:timers/promises'

export interface Timer {
  unref(): Timer
}

export interface Timers {
  setTimeout(callback: () => void, ms: number): Timer
  clearTimeout(timer: Timer | undefined): void
  setInterval(callback: () => void, ms: number): Timer
  clearInterval(timer: Timer | undefined): void
  setImmediate(callback: () => void): unknown
  /** Does not keep the process running. @throws the signal's reason. */
  sleep(ms: number, signal: AbortSignal): Promise<void>
  /** Milliseconds of a clock that never goes back. */
  monotonic(): number
}

export const realTimers: Timers = {
  setTimeout: (callback, ms) => setTimeout(callback, ms),
  clearTimeout: (timer) => clearTimeout(timer as NodeJS.Timeout | undefined),
  setInterval: (callback, ms) => setInterval(callback, ms),
  clearInterval: (timer) => clearInterval(timer as NodeJS.Timeout | undefined),
  setImmediate: (callback) => setImmediate(callback),
  sleep: (ms, signal) => sleep(ms, undefined, { signal, ref: false }),
  monotonic: () => performance.now(),
}
