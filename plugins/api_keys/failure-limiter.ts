/** How often tokens with the same first characters may fail: `maxFailures` in `windowMs`. */
import { FifoMap } from 'svcdb/lib/cache'

/** Prefixes that are remembered; beyond, the one that failed longest ago goes. Each has cost a hash. */
const MAX_PREFIXES = 10_000

interface Counted {
  /** Of failures within the window, oldest first: monotonic milliseconds. */
  times: number[]
  /** Under way: each may yet be a failure. */
  pending: number
}

export class FailureLimiter {
  private readonly counted = new FifoMap<string, Counted>()
  private readonly maxFailures: number
  private readonly windowMs: number
  private readonly monotonic: () => number

  /** @param options maxFailures 0 = no limit. */
  constructor(options: { maxFailures: number; windowMs: number }, monotonic: () => number) {
    this.maxFailures = options.maxFailures
    this.windowMs = options.windowMs
    this.monotonic = monotonic
  }

  get size(): number {
    return this.counted.size
  }

  /** Begins an attempt, to be ended by `leave`; or answers after how many seconds there may be one. */
  enter(prefix: string): number | undefined {
    if (this.maxFailures === 0) return undefined
    const now = this.monotonic()
    const counted = this.recent(prefix, now)
    if (counted.times.length + counted.pending >= this.maxFailures) {
      const [oldest] = counted.times
      return oldest === undefined ? 1 : Math.max(1, Math.ceil((oldest + this.windowMs - now) / 1000))
    }
    counted.pending++
    this.keep(prefix, counted)
    return undefined
  }

  leave(prefix: string, failed: boolean): void {
    if (this.maxFailures === 0) return
    const now = this.monotonic()
    const counted = this.recent(prefix, now)
    counted.pending = Math.max(0, counted.pending - 1)
    if (failed) counted.times.push(now)
    this.keep(prefix, counted)
  }

  private recent(prefix: string, now: number): Counted {
    const counted = this.counted.get(prefix) ?? { times: [], pending: 0 }
    while (counted.times.length > 0 && counted.times[0] <= now - this.windowMs) counted.times.shift()
    return counted
  }

  private keep(prefix: string, counted: Counted): void {
    this.counted.delete(prefix)
    if (counted.times.length === 0 && counted.pending === 0) return
    if (this.counted.size >= MAX_PREFIXES) this.counted.delete(this.counted.oldest() as string)
    this.counted.set(prefix, counted)
  }
}
