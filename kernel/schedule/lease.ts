/**
 * What one process at a time may do, where several share a state store. A lease ends by the clock of whoever looks at it, so clocks that differ by seconds are
 * fine, and a holder that stands still for longer than its lease may find another at its work: what is done under a lease must bear being done twice.
 */
import type { StateStore } from '../storage/state.ts'

interface Held {
  holder: string
  /** Milliseconds since the Unix epoch. */
  until: number
}

/** A lease that is said to end later than so many times its length from now was taken by a clock that was wrong: it holds nobody up. */
const TOO_LONG = 4

export class Lease {
  private readonly state: StateStore
  private readonly key: string
  private readonly holder: string
  private readonly now: () => number

  /** @param holder tells this process from others. @param now wall clock, milliseconds. */
  constructor(state: StateStore, key: string, holder: string, now: () => number) {
    this.state = state
    this.key = key
    this.holder = holder
    this.now = now
  }

  /** Takes it, or keeps it, for so long from now. @returns whether this process has it. */
  hold(ms: number): Promise<boolean> {
    return this.state.transaction(async (tx) => {
      const now = this.now()
      const held = await tx.get<Held>(this.key)
      if (held !== undefined && held.holder !== this.holder && held.until > now && held.until <= now + ms * TOO_LONG) return false
      tx.put(this.key, { holder: this.holder, until: now + ms } satisfies Held)
      return true
    })
  }

  /** Gives it up, if this process has it. */
  release(): Promise<void> {
    return this.state.transaction(async (tx) => {
      if ((await tx.get<Held>(this.key))?.holder === this.holder) tx.delete(this.key)
    })
  }
}
