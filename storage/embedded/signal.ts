/** A request of one part for work that another does, which is made later: until it listens, nothing happens and nothing is remembered. */
export class Signal {
  private listener: (() => void) | undefined

  /** The one who does the work. */
  handle(listener: () => void): void {
    if (this.listener !== undefined) throw new Error('a signal has one listener')
    this.listener = listener
  }

  raise(): void {
    this.listener?.()
  }
}
