/**
 * When query threads are warmed up, as the main thread sees it: once there is something to ask about, in slices, one thread after the other, while no query runs.
 * It begins while the main thread rests. Should that never be, or end (writes), each job has one turn, with a tenth of a processor; all others wait until it rests.
 * It ends when its processor time is spent, or with a thread that dies: the next would die of the same, such as no more files, again and again. What is cold
 * then is warmed up when a query has started a thread.
 */
import type { StorageContext, WarmUp } from 'svcdb'
import { loopUtilization } from 'svcdb/lib/event-loop'
import type { Timer, Timers } from '../../common/timers.ts'
import type { WarmUpJob } from '../threads/messages.ts'
import type { WarmedUp, WarmUpSlice } from './thread-warm-up.ts'

/** A query thread to warm up. */
export interface ColdThread {
  warmUp(slice: WarmUpSlice): Promise<WarmedUp>
  endWarmUp(): void
}

interface WarmUpOptions {
  /** Of each thread; 0 = none is warmed up. */
  budgetMs: number
  /** A query thread that is not warmed up, started where none runs; undefined when there is none. */
  coldThread(): ColdThread | undefined
  /** Whether there is anything that could be asked for; a node without data keeps the memory. */
  wanted(): boolean
  /** Whether queries run. */
  busy(): boolean
  timers: Timers
  log: Pick<StorageContext['log'], 'debug'>
  /** Part of the time since the last call in which the main thread was at work. */
  utilization?(): number
}

const SLICE_MS = 20
/** Part of the time that the main thread may be at work for the server to count as idle. */
const IDLE = 0.5
/** Slices' processor times that are waited while it is not. */
const PAUSES = 9
/** A thread is started while the server is idle, or after so many looks: half a minute, in which writes have the memory to themselves. */
const LOOKS = 120
const LOOK_MS = 250
/** Until there is data. */
const DATA_LOOK_MS = 1000
/**
 * Part of the budget after which the thread's heap is collected. A collection takes what code was optimized for with it, where that is gone: it is optimized again by
 * the rest, and the thread, once it rests, has nothing more to collect.
 */
const TRIMMED = 0.7
/** Before it is looked again whether queries run. */
const PATIENCE_MS = 100

export class WarmUpSchedule {
  private readonly options: WarmUpOptions
  private readonly sources: WarmUp[] = []
  private readonly utilization: () => number
  private running = false
  private stopped = false
  private timer: Timer | undefined

  constructor(options: WarmUpOptions) {
    this.options = options
    this.utilization = options.utilization ?? loopUtilization()
  }

  /** Soon, and not before the other sources of this turn of the loop are there. */
  add(jobs: WarmUp): void {
    this.sources.push(jobs)
    this.wake()
  }

  /** There may be a thread to warm up. */
  wake(): void {
    if (this.running || this.stopped || this.options.budgetMs === 0 || this.sources.length === 0) return
    this.running = true
    void this.threads().finally(() => {
      this.running = false
    })
  }

  stop(): void {
    this.stopped = true
    this.options.timers.clearTimeout(this.timer)
  }

  private async threads(): Promise<void> {
    while (!this.options.wanted()) await this.pause(DATA_LOOK_MS)
    this.utilization()
    for (let looks = 0; looks < LOOKS; looks++) {
      await this.pause(LOOK_MS)
      if (this.utilization() <= IDLE) break
    }
    try {
      for (let thread = this.options.coldThread(); thread !== undefined; thread = this.options.coldThread()) {
        await this.thread(thread)
        thread.endWarmUp()
      }
    } catch (error) {
      this.options.log.debug({ err: error }, 'warm-up ended early')
    }
  }

  private async thread(thread: ColdThread): Promise<void> {
    let left = this.options.budgetMs
    let jobs: WarmUpJob[] = []
    let trimmed = false
    for (let round = 0; left > 0; ) {
      while (this.options.busy()) await this.pause(PATIENCE_MS)
      if (jobs.length === 0) {
        if (round > 0) await this.rest()
        jobs = this.round(round++)
      }
      if (jobs.length === 0) return
      const trim: boolean = !trimmed && left < this.options.budgetMs * (1 - TRIMMED)
      trimmed ||= trim
      const slice = await thread.warmUp({ jobs, ms: Math.min(SLICE_MS, left), trim })
      if (slice.cause !== undefined) this.options.log.debug({ cause: slice.cause }, 'a job of the warm-up failed')
      if (slice.over === true) return
      left -= slice.ms
      jobs = jobs.slice(slice.jobs)
      if (this.utilization() > IDLE) await this.pause(slice.ms * PAUSES)
    }
  }

  /** Until the main thread has rested for a moment, and no query runs. */
  private async rest(): Promise<void> {
    this.utilization()
    do await this.pause(PATIENCE_MS)
    while (this.options.busy() || this.utilization() > IDLE)
  }

  /** One job of each source in turn: where the time is up before the end, each has had its share. */
  private round(number: number): WarmUpJob[] {
    const lists = this.sources.map(({ module, args }) => args(number).map((each) => ({ module: module.href, args: each })))
    const longest = Math.max(0, ...lists.map((list) => list.length))
    return Array.from({ length: longest }, (_, i) => lists.flatMap((list) => list.slice(i, i + 1))).flat()
  }

  /** Never resolves after `stop`. */
  private pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      if (this.stopped) return
      this.timer = this.options.timers.setTimeout(resolve, ms)
      this.timer.unref()
    })
  }
}
