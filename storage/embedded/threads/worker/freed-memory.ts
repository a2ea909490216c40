/**
 * What was freed goes back to the system. glibc keeps it: in an arena each thread, of which only the end shrinks by itself, and buffers of up to 32 MiB lie there once
 * one of their size was freed. Under load that is hundreds of MiB, and grows for hours (docs/decisions/052-one-memory-budget.md).
 */

/** What is looked at and done. */
interface ProcessMemory {
  /** Bytes. */
  resident(): number
  /** Some milliseconds, in a thread of DuckDB's. */
  giveBack(): Promise<void>
}

const EVERY_MS = 15_000
/** Less is not worth looking through the arenas for. */
const GROWN_BYTES = 32 << 20
/** Until all threads have collected what they were told of. */
const SOON_MS = 300
/** What was freed since is given back all the same: without growth it would be kept by a node at rest. */
const LOOKS_WITHOUT = 8

export class FreedMemory {
  private readonly memory: ProcessMemory
  private readonly timer: NodeJS.Timeout
  /** Least resident since memory was last given back. */
  private least = 0
  private busy = false
  private looks = 0
  private soonTimer: NodeJS.Timeout | undefined

  /** Looks every few seconds, as long as something else keeps the thread alive. */
  constructor(memory: ProcessMemory) {
    this.memory = memory
    this.timer = setInterval(() => void this.look(), EVERY_MS).unref()
  }

  /** Gives back what was freed, when the process has grown, and now and then. */
  async look(): Promise<void> {
    const { memory } = this
    const resident = memory.resident()
    this.least = Math.min(this.least, resident)
    if (resident - this.least >= GROWN_BYTES || ++this.looks >= LOOKS_WITHOUT) await this.giveBack()
  }

  /** Much is being freed, and will not be taken again soon. */
  soon(): void {
    this.soonTimer ??= setTimeout(() => {
      this.soonTimer = undefined
      void this.giveBack()
    }, SOON_MS).unref()
  }

  private async giveBack(): Promise<void> {
    const { memory } = this
    if (this.busy) return
    this.busy = true
    this.looks = 0
    try {
      await memory.giveBack()
      this.least = memory.resident()
    } catch {
      // The next look tries again.
    } finally {
      this.busy = false
    }
  }

  stop(): void {
    clearInterval(this.timer)
    clearTimeout(this.soonTimer)
  }
}
