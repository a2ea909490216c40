/**
 * Effects that a step begins at one time are announced in the order in which it asked, so that the journal of a process that died has a beginning of them.
 */
export class AskingOrder {
  /** Resolves when the effect before has begun. */
  private begun: Promise<void> = Promise.resolve()
  private waiting = 0

  /** Whether all that was asked for has begun. */
  get isIdle(): boolean {
    return this.waiting === 0
  }

  /** @returns what lets the next one begin. */
  turn(): Promise<() => void> {
    const before = this.begun
    let resolve = (): void => {}
    this.begun = new Promise((begun) => {
      resolve = begun
    })
    this.waiting++
    let isOver = false
    const next = (): void => {
      if (!isOver) this.waiting--
      isOver = true
      resolve()
    }
    return before.then(() => next)
  }
}
