/**
 * Effects that a step begins at one time are announced in the order in which it asked, so that the journal of a process that died has a beginning of them.
 */
export class AskingOrder {
  /** Resolves when the effect before has begun. */
  private begun: Promise<void> = Promise.resolve()

  /** Resolves when all that have asked so far have begun. */
  get all(): Promise<void> {
    return this.begun
  }

  /** @returns what lets the next one begin. */
  turn(): Promise<() => void> {
    const before = this.begun
    let next = (): void => {}
    this.begun = new Promise((begun) => {
      next = begun
    })
    return before.then(() => next)
  }
}
