/**
 * How long deliveries have waited, and endpoints have failed. In a process that is told by the clock that nobody sets, so that a wall clock which jumps
 * ahead gives nothing up. Of what was kept before, the age is by the wall clock, which may be wrong, and nobody may have tried meanwhile: it leaves time.
 */
import type { Clock } from 'svcdb'

/** What is left at least of a limit when a process begins; of shorter limits half. */
const LEFT_MS = 3_600_000

export interface AgeLimits {
  maxAgeMs: number
  parkAfterMs: number
}

export class Ages {
  private readonly clock: Pick<Clock, 'now' | 'monotonic'>
  private readonly limits: AgeLimits

  constructor(clock: Pick<Clock, 'now' | 'monotonic'>, limits: AgeLimits) {
    this.clock = clock
    this.limits = limits
  }

  /** @param at wall clock. @returns monotonic time. */
  waitingFrom(at: number): number {
    return this.from(at, this.limits.maxAgeMs)
  }

  /** @param at wall clock. @returns monotonic time. */
  failingFrom(at: number): number {
    return this.from(at, this.limits.parkAfterMs)
  }

  /** @param since monotonic time. */
  isTooOld(since: number): boolean {
    return this.clock.monotonic() - since >= this.limits.maxAgeMs
  }

  /** @param from monotonic time. */
  failsTooLong(from: number): boolean {
    return this.clock.monotonic() - from >= this.limits.parkAfterMs
  }

  private from(at: number, limitMs: number): number {
    const age = Math.max(0, this.clock.now() - at)
    return this.clock.monotonic() - Math.min(age, limitMs - Math.min(LEFT_MS, limitMs / 2))
  }
}
