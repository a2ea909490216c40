/** Enters concluded runs into the log, one transaction after the other: those that end while one is under way go together into the next. */
export class Sealer {
  private readonly enter: () => Promise<unknown>
  private readonly failed: (error: unknown) => void
  private running: Promise<void> | undefined
  private again = false

  /** @param failed told what `enter` threw; what it was to enter waits for the next time. */
  constructor(enter: () => Promise<unknown>, failed: (error: unknown) => void) {
    this.enter = enter
    this.failed = failed
  }

  /** There may be something to enter. */
  poke(): void {
    this.again = this.running !== undefined
    this.running ??= this.work().finally(() => {
      this.running = undefined
    })
  }

  /** Resolves when nothing is under way. */
  async idle(): Promise<void> {
    await this.running
  }

  private async work(): Promise<void> {
    do {
      this.again = false
      await this.enter().catch(this.failed)
    } while (this.again)
  }
}
