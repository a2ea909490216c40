/**
 * When the warm-up runs: while the server has little else to do, so that it costs no write and no query anything. Before there are points it passes
 * the storage by; it is then run once more when the first have come.
 */
import { performance } from 'node:perf_hooks'

/** Between looks at how busy the server is, and at whether there are points. */
const FIRST_LOOK_MS = 250
const LONGEST_LOOK_MS = 60_000
/** Part of the time that the main thread may be at work for the server to count as idle; and beside the warm-up, which is some of it. */
const IDLE = 0.3
const BUSY = 0.7

export class WarmUpSchedule {
  private readonly queries: number
  private readonly run: (query: number) => Promise<boolean>
  private readonly failed: (error: Error) => void
  private timer: NodeJS.Timeout | undefined
  private stopped = false

  /** @param run runs one query; whether it was one of points that the storage has. @param failed the warm-up has ended early. */
  constructor(queries: number, run: (query: number) => Promise<boolean>, failed: (error: Error) => void) {
    this.queries = queries
    this.run = run
    this.failed = failed
  }

  start(delayMs: number): void {
    void this.schedule(delayMs).catch(this.failed)
  }

  stop(): void {
    this.stopped = true
    clearTimeout(this.timer)
  }

  private async schedule(delayMs: number): Promise<void> {
    await this.pause(delayMs)
    if (await this.round()) return
    for (let wait = FIRST_LOOK_MS; ; wait = Math.min(wait * 2, LONGEST_LOOK_MS)) {
      await this.pause(wait)
      await this.idle()
      if (await this.run(0)) break
    }
    await this.round()
  }

  /** @returns whether the last query was one of stored points. */
  private async round(): Promise<boolean> {
    let stored = false
    await this.idle()
    let mark = performance.eventLoopUtilization()
    for (let query = 0, looked = performance.now(); query < this.queries && !this.stopped; query++) {
      stored = await this.run(query)
      if (performance.now() - looked < FIRST_LOOK_MS) continue
      if (performance.eventLoopUtilization(mark).utilization > BUSY) await this.idle()
      mark = performance.eventLoopUtilization()
      looked = performance.now()
    }
    return stored
  }

  /** Resolves once the main thread has been idle for a while. */
  private async idle(): Promise<void> {
    for (;;) {
      const before = performance.eventLoopUtilization()
      await this.pause(FIRST_LOOK_MS)
      if (performance.eventLoopUtilization(before).utilization <= IDLE) return
    }
  }

  /** Never resolves after `stop`. */
  private pause(milliseconds: number): Promise<void> {
    return new Promise((resolve) => {
      if (this.stopped) return
      this.timer = setTimeout(resolve, milliseconds)
      this.timer.unref()
    })
  }
}
