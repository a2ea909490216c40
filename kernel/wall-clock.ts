/** The wall clock in nanoseconds. */

const NANOS_PER_MS = 1_000_000n
/** How far the wall clock may be put back without being followed. */
const PATIENCE = 1000n * NANOS_PER_MS

/**
 * Gives the time, in nanoseconds since the Unix epoch, and none twice: points that come without a time get one each, and later ones a later one.
 * The wall clock tells milliseconds. What lies within one is read off the monotonic clock, never beyond the end of that millisecond.
 * @param now the wall clock. @param monotonic a clock that never goes back. Both in milliseconds.
 */
export function wallClock(now: () => number, monotonic: () => number): () => bigint {
  /** From the monotonic clock to the wall clock, milliseconds. */
  let offset = 0
  let last = 0n
  return () => {
    const ms = now()
    const running = monotonic()
    // Where the two contradict each other the millisecond is taken to begin; times count on until they agree.
    if (!(offset + running >= ms && offset + running < ms + 1)) offset = ms - running
    const within = Math.floor((offset + running - ms) * 1e6)
    const time = BigInt(ms) * NANOS_PER_MS + BigInt(within)
    last = time > last || last - time >= PATIENCE ? time : last + 1n
    return last
  }
}
