/** A sample of what may come by the thousand, such as messages that cannot be read. */

/** Between two that are told. */
const TELL_MS = 1000

/** A log that is written to once a second at most. */
export class SampledLog {
  private readonly log: { warn(o: object, text: string): void }
  private readonly monotonic: () => number
  private told = Number.NEGATIVE_INFINITY
  private untold = 0

  /** @param monotonic milliseconds that never go back. */
  constructor(log: { warn(o: object, text: string): void }, monotonic: () => number) {
    this.log = log
    this.monotonic = monotonic
  }

  /** One a second is told; with it, as `more`, how many were not since the last. */
  warn(detail: object, text: string): void {
    const now = this.monotonic()
    if (now - this.told < TELL_MS) {
      this.untold++
      return
    }
    this.log.warn({ ...detail, ...(this.untold > 0 && { more: this.untold }) }, text)
    this.told = now
    this.untold = 0
  }
}
