/** Nanoseconds as the whole milliseconds that samples have. */
import type { Interval } from '../sources.ts'

const NS_PER_MS = 1_000_000n

/** Inclusive nanoseconds as inclusive whole milliseconds, both rounded down. */
export function millisecondRange([lo, hi]: Interval): [number, number] {
  return [Number(floorMs(lo)), Number(floorMs(hi))]
}

export function floorMs(time: bigint): bigint {
  const ms = time / NS_PER_MS
  return time < 0n && ms * NS_PER_MS !== time ? ms - 1n : ms
}
