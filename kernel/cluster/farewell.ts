/** What a node tells others on its way out. A store that once gave no answer to that is not waited for again: a node that says nothing counts as dead soon. */
import type { Clock } from '../plugin.ts'

export class Farewell {
  private readonly clock: Clock
  private readonly waitMs: number
  private unheard = false

  /** @param waitMs for an answer. */
  constructor(clock: Clock, waitMs: number) {
    this.clock = clock
    this.waitMs = waitMs
  }

  /** The store answers. */
  reached(): void {
    this.unheard = false
  }

  /** Resolves when it is told, or cannot be. Never rejects. */
  async say(told: Promise<void> | undefined): Promise<void> {
    const done = told?.catch(() => {})
    if (this.unheard) return
    let cancel = (): void => {}
    const late = new Promise<void>((resolve) => {
      cancel = this.clock.after(this.waitMs, () => {
        this.unheard = true
        resolve()
      })
    })
    await Promise.race([done, late])
    cancel()
  }
}
