/** How fast a namespace writes, and how fast it may. Pure; times are milliseconds of a clock that never goes back. */

/** Seconds that the measured rate is the mean of. */
const WINDOW = 10

export class RateMeter {
  private readonly slots = new Float64Array(WINDOW + 1)
  private second = 0

  add(points: number, now: number): void {
    this.advance(now)
    this.slots[this.second % this.slots.length] += points
  }

  /** Points a second over the last full seconds. */
  rate(now: number): number {
    this.advance(now)
    let sum = 0
    for (let i = 1; i <= WINDOW; i++) sum += this.slots[(this.second + i) % this.slots.length]
    return sum / WINDOW
  }

  private advance(now: number): void {
    const second = Math.floor(now / 1000)
    for (let i = Math.max(this.second + 1, second - WINDOW); i <= second; i++) this.slots[i % this.slots.length] = 0
    this.second = Math.max(this.second, second)
  }
}

/**
 * A bucket that fills at a rate and may be overdrawn: a write passes while something is in it, however large the write is, and what it takes too much
 * the next ones wait for. So every write passes some day.
 */
export class PointBucket {
  private level = Number.POSITIVE_INFINITY
  private at = 0

  /** @returns 0 when the points may pass, else the milliseconds to wait. @param rate points a second; @param burst what it holds at most. */
  take(points: number, rate: number, burst: number, now: number): number {
    this.level = Math.min(burst, this.level + ((now - this.at) / 1000) * rate)
    this.at = now
    if (this.level <= 0) return Math.max(1, Math.ceil((-this.level / rate) * 1000))
    this.level -= points
    return 0
  }
}
