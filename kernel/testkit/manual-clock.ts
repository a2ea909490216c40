/** A clock that stands still until it is moved, for tests of what happens in time. */
import { setImmediate as turn } from 'node:timers/promises'
import type { Clock } from '../plugin.ts'

/** Turns of the event loop in which what a timer has begun gets on before the next one. */
const TURNS = 5

interface Timer {
  at: number
  callback: () => void
}

/** A clock that stands until a test moves it. Timers that become due are called in their order. */
export class ManualClock implements Clock {
  private readonly epoch: number
  private passed = 0
  private timers: Timer[] = []

  /** @param epoch what `now` begins with, milliseconds since the Unix epoch. */
  constructor(epoch = 1_700_000_000_000) {
    this.epoch = epoch
  }

  readonly now = (): number => this.epoch + this.passed
  readonly nowNanos = (): bigint => BigInt(Math.floor(this.now() * 1e3)) * 1000n
  readonly monotonic = (): number => this.passed
  readonly after = (ms: number, callback: () => void): (() => void) => {
    const timer = { at: this.passed + Math.max(0, ms), callback }
    this.timers.push(timer)
    return () => {
      this.timers = this.timers.filter((each) => each !== timer)
    }
  }

  /** Milliseconds later, at once: no timer goes off by it. */
  skip(ms: number): void {
    this.passed += ms
  }

  /** Milliseconds later, timer by timer in the order of their times. */
  async advance(ms: number): Promise<void> {
    const end = this.passed + ms
    for (;;) {
      await this.settle()
      const next = this.timers
        .filter(({ at }) => at <= end)
        .reduce<Timer | undefined>((first, each) => (first && first.at <= each.at ? first : each), undefined)
      if (next === undefined) break
      this.timers = this.timers.filter((each) => each !== next)
      this.passed = Math.max(this.passed, next.at)
      next.callback()
    }
    this.passed = end
  }

  private async settle(): Promise<void> {
    for (let i = 0; i < TURNS; i++) await turn()
  }
}
