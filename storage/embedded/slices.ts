/**
 * Work that is proportional to series goes in slices: a bounded number of series, then a turn of the main loop for everybody else. The bound is a
 * count and not a time, so that a slow machine does the same as a fast one.
 */
import type { Timers } from '../common/timers.ts'

export interface Slices {
  /** Series a slice handles at most. */
  readonly size: number
  /** Resolves in a later turn of the loop. */
  next(): Promise<void>
}

/** The slowest work a series, giving it back, takes less than a microsecond. */
export const SLICE = 4096

export function slicesOf(timers: Timers): Slices {
  return { size: SLICE, next: () => new Promise((resolve) => void timers.setImmediate(() => resolve())) }
}
