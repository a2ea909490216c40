/** How many bytes a second may be sent: in any time, at most so many as that time allows and one request more. */
export class Bandwidth {
  private readonly bytesPerMs: number
  /** When what was sent before is off the link. */
  private free = Number.NEGATIVE_INFINITY

  /** @param bytesPerSecond 0 = no limit. */
  constructor(bytesPerSecond: number) {
    this.bytesPerMs = bytesPerSecond === 0 ? Number.POSITIVE_INFINITY : bytesPerSecond / 1000
  }

  /** Milliseconds until something may be sent. @param now milliseconds that never go back. */
  waitMs(now: number): number {
    return Math.max(0, this.free - now)
  }

  /** Whatever became of it. */
  sent(bytes: number, now: number): void {
    this.free = Math.max(this.free, now) + bytes / this.bytesPerMs
  }
}
