/**
 * The time of the main thread that judging may take. Whoever judges does so in slices of some milliseconds; those who wait go on in the order in which they came, so
 * that each namespace has one slice a round, however much it has to judge. Over time slices take no more than a share of the thread.
 */
import type { Clock } from 'svcdb'
import { nextTurn } from 'svcdb/lib/event-loop'

/** Milliseconds of one slice. */
const SLICE_MS = 3
/** Milliseconds that may be taken at once after a pause. */
const BURST_MS = 20

export class Share {
  private readonly share: number
  private readonly clock: Clock
  private readonly took: (seconds: number) => void
  private tokens = BURST_MS
  private filledAt: number
  private last: Promise<void> = Promise.resolve()

  /** @param took told of each slice. */
  constructor(share: number, clock: Clock, took: (seconds: number) => void = () => {}) {
    this.share = share
    this.clock = clock
    this.took = took
    this.filledAt = clock.monotonic()
  }

  /** Does work that yields where it may be interrupted. @param ended asked before each slice: the work is then given up. @returns undefined when it was. */
  async run<T>(work: Generator<void, T, void>, ended: () => boolean): Promise<T | undefined> {
    try {
      for (;;) {
        await this.turn()
        if (ended()) return undefined
        const began = performance.now()
        let step = work.next()
        while (step.done !== true && performance.now() - began < SLICE_MS) step = work.next()
        const ms = performance.now() - began
        this.tokens -= ms
        this.took(ms / 1000)
        if (step.done === true) return step.value
      }
    } finally {
      work.return(undefined as T)
    }
  }

  /** Resolves one after the other, each in a turn of its own once there is time. */
  private turn(): Promise<void> {
    this.last = this.last.then(() => this.whenAffordable())
    return this.last
  }

  private async whenAffordable(): Promise<void> {
    this.fill()
    if (this.tokens <= 0) {
      const ms = Math.min(1000, Math.max(1, -this.tokens / this.share))
      await new Promise<void>((resolve) => void this.clock.after(ms, resolve))
      this.fill()
    } else await nextTurn()
  }

  private fill(): void {
    const now = this.clock.monotonic()
    this.tokens = Math.min(BURST_MS, this.tokens + (now - this.filledAt) * this.share)
    this.filledAt = now
  }
}
