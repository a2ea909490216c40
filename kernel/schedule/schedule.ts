/**
 * What is done again and again. A run begins an interval after the one before began, or, when that took longer, at the next such time: never two at once.
 * A run that throws is counted, logged and tried again; it ends nothing.
 */

import type { Claim } from '../cluster/claim.ts'
import type { Logger } from '../log.ts'
import type { Clock } from '../plugin.ts'
import type { StateTransaction } from '../storage/state.ts'

/** When runs are begun, and by whom. */
export interface ScheduleOptions {
  /** Milliseconds until the first run, or what finds them out; default: an interval. */
  first?: number | (() => number | Promise<number>)
  /** Milliseconds between a run that failed and the next; default: as ever. */
  retry?: number
  /** Part of the interval by which a run may come later, by chance, so that many nodes do not all run at once. Default 0.1; 0 = punctual. */
  jitter?: number
  /** Each process does it for itself. Otherwise one of those that share a state store does it for all. */
  local?: true
  /** Nothing can abort a run, such as one that the storage does and ends when it closes: a node that stops does not wait for it. */
  detached?: true
  /** A run lasts until its signal is aborted, and no trace is made of it. */
  lasting?: true
}

/** One run. */
export interface ScheduledRun {
  /** Aborted when the node or the schedule stops, and when the work is, or is to be, another node's: end then. */
  signal: AbortSignal
  /** Counts up; of the nodes that share their state one begins each, once. One that was cut off is followed by the next at once. */
  turn: number
  /** As `Claim.token`: grows when the work changes hands. */
  token: number
  /** For transactions that only the owner of the work may commit, as `Claim.guard`. @throws CONFLICT when the work is another node's. */
  guard(tx: StateTransaction): Promise<void>
}

/** One run; it has ended when what it returns is settled. What it throws is counted and logged, and the next run comes all the same. */
export type ScheduledJob = (run: ScheduledRun) => void | Promise<void>

/** A schedule as GET /api/v1/admin/schedules shows it. Counts are of this process. */
export interface ScheduleStatus {
  plugin: string
  name: string
  running: boolean
  runs: number
  failures: number
  /** Milliseconds since the Unix epoch, at its end. */
  last_success?: number
  /** Of the newest run that failed. */
  last_error?: { time: number; error: string }
  /** Another process did it when it was last due here. */
  elsewhere: boolean
}

/** What `Svc.schedule` gives. */
export interface Schedule {
  readonly status: Readonly<ScheduleStatus>
  /** Aborts the run under way and begins no more. Resolves when it has ended. Safe twice. */
  stop(): Promise<void>
}

export interface ScheduleMetrics {
  ran(plugin: string, schedule: string, result: 'done' | 'failed' | 'elsewhere', seconds: number, now: number): void
}

interface ScheduleDependencies {
  plugin: string
  name: string
  /** Milliseconds. */
  every: number
  job: ScheduledJob
  options: ScheduleOptions
  clock: Clock
  log: Logger
  metrics: ScheduleMetrics
  /** Aborted when the node begins to stop. */
  stopping: AbortSignal
  /** How long a run may take to end once it is aborted, milliseconds. */
  graceMs: number
  /** Where nodes share the work: asked when it starts. */
  turns(): Turns | undefined
}

/** The lease of the work, and the turns that are noted in it. */
export interface Turns {
  /** Has `own` called while this process owns the work, until the function it returns is called. */
  want(own: (claim: Claim) => Promise<void>, options: { unbounded?: true }): () => Promise<void>
  /** @returns when the turn may begin, by the wall clock, instead of its number; undefined: it is another node's. */
  begin(token: number): Promise<{ number: number } | { notBefore: number } | undefined>
  /** @returns whether it was still this process's. */
  end(token: number): Promise<boolean>
  /** Milliseconds until the next is due, as the last one was noted; undefined = there was none. */
  dueIn(): Promise<number | undefined>
}

/** What a timer of Node.js can wait for. */
const LONGEST_TIMER_MS = 2 ** 31 - 1
const JITTER = 0.1

export class Timetable implements Schedule {
  readonly status: ScheduleStatus
  private readonly dependencies: ScheduleDependencies
  private readonly over = new AbortController()
  private cancel: () => void = () => {}
  private run: Promise<void> | undefined
  /** When its signal was aborted, by the monotonic clock: of schedules that end together the time counts from there, whoever is waited for first. */
  private overAt = 0
  private turns: Turns | undefined
  private unwant: () => Promise<void> = async () => {}
  private claim: Claim | undefined
  /** It was due while another node, or nobody, had the work. */
  private missed = false
  private turn = 0
  /** Of the failure before, if nothing has succeeded since: the same again and again is logged once. */
  private failing: string | undefined

  constructor(dependencies: ScheduleDependencies) {
    this.dependencies = dependencies
    this.status = { plugin: dependencies.plugin, name: dependencies.name, running: false, runs: 0, failures: 0, elsewhere: false }
    dependencies.stopping.addEventListener('abort', () => this.end(), { once: true, signal: this.over.signal })
  }

  /** @throws what `first` throws. */
  async start(): Promise<void> {
    const { turns, options, every } = this.dependencies
    const { first = this.late(every) } = options
    this.arm(typeof first === 'number' ? first : await first())
    this.turns = turns()
    if (this.turns !== undefined) this.unwant = this.turns.want((claim) => this.own(claim), options.detached ? { unbounded: true } : {})
  }

  /** Until the claim ends, runs are begun here. */
  private async own(claim: Claim): Promise<void> {
    const due = await (this.turns as Turns).dueIn()
    if (claim.signal.aborted) return
    this.claim = claim
    if (due !== undefined || this.missed) this.arm(due ?? 0)
    this.missed = false
    await new Promise((resolve) => claim.signal.addEventListener('abort', resolve, { once: true }))
    // Whoever stops the schedule has waited already.
    if (!this.over.signal.aborted) await this.run
    // A run that took longer than the node waits for it: the work may be here again by now, under another claim.
    if (this.claim === claim) this.claim = undefined
  }

  async stop(): Promise<void> {
    this.end()
    const { log, name, graceMs, options } = this.dependencies
    if (this.run !== undefined && !options.detached && !(await this.endsInTime(this.run)))
      log.warn(
        { schedule: name, after_secs: graceMs / 1000 },
        'a scheduled run goes on though its signal was aborted; the node does not wait for it any longer',
      )
    await this.unwant()
  }

  private end(): void {
    if (this.over.signal.aborted) return
    this.overAt = this.dependencies.clock.monotonic()
    this.over.abort()
    this.cancel()
  }

  private arm(ms: number): void {
    if (this.over.signal.aborted) return
    this.cancel()
    const step = Math.min(Math.max(0, ms), LONGEST_TIMER_MS)
    this.cancel = this.dependencies.clock.after(step, () => (ms > step ? this.arm(ms - step) : this.begin()))
  }

  private begin(): void {
    const { clock, every, options, plugin, name, metrics } = this.dependencies
    const began = clock.monotonic()
    const wait = () => every - ((clock.monotonic() - began) % every)
    if (this.turns !== undefined && this.claim === undefined) {
      this.missed = true
      this.status.elsewhere = true
      metrics.ran(plugin, name, 'elsewhere', 0, clock.now())
      this.arm(this.late(wait()))
      return
    }
    const run = this.once().then((result) => {
      // Another claim has begun one meanwhile, which is followed by the next.
      if (this.run !== run) return
      this.run = undefined
      if (typeof result === 'number') this.arm(result)
      else this.arm(result === 'good' || options.retry === undefined ? this.late(wait()) : Math.min(options.retry, wait()))
    })
    this.run = run
  }

  private late(ms: number): number {
    const { every, options } = this.dependencies
    return ms + Math.random() * (options.jitter ?? JITTER) * every
  }

  /** @returns whether it did not fail; milliseconds, when it is not due yet. */
  private async once(): Promise<'good' | 'bad' | number> {
    const { dependencies, status, claim, turns } = this
    const { plugin, name, clock, metrics } = dependencies
    const began = clock.monotonic()
    status.running = true
    try {
      const given = claim === undefined ? { number: this.turn + 1 } : await turns?.begin(claim.token)
      // What was given too late is cut off: whoever has the work by now begins the next.
      const turn = claim?.signal.aborted ? undefined : given
      if (turn !== undefined && 'notBefore' in turn) return Math.max(1, turn.notBefore - clock.now())
      status.elsewhere = turn === undefined
      if (turn !== undefined) {
        this.turn = turn.number
        const signal = claim === undefined ? this.over.signal : AbortSignal.any([this.over.signal, claim.signal])
        await dependencies.job({ signal, turn: turn.number, token: claim?.token ?? 0, guard: async (tx) => claim?.guard(tx) })
        // One that was cut short by the end of the claim is whole elsewhere only.
        status.elsewhere = claim !== undefined && (claim.signal.aborted || !(await turns?.end(claim.token)))
      }
      if (!status.elsewhere) this.succeeded()
      metrics.ran(plugin, name, status.elsewhere ? 'elsewhere' : 'done', (clock.monotonic() - began) / 1000, clock.now())
      return 'good'
    } catch (error) {
      // One that was told to end has not failed.
      if (this.over.signal.aborted || claim?.signal.aborted) return 'good'
      this.failed(error as Error)
      metrics.ran(plugin, name, 'failed', (clock.monotonic() - began) / 1000, clock.now())
      return 'bad'
    } finally {
      status.running = false
    }
  }

  private succeeded(): void {
    const { status, dependencies } = this
    status.runs++
    status.last_success = dependencies.clock.now()
    if (this.failing !== undefined) dependencies.log.info({ schedule: dependencies.name }, 'a scheduled run succeeds again')
    this.failing = undefined
  }

  private failed(error: Error): void {
    const { status, dependencies } = this
    status.runs++
    status.failures++
    const text = String(error?.message ?? error)
    status.last_error = { time: dependencies.clock.now(), error: text }
    if (this.failing !== text) dependencies.log.error({ err: error, schedule: dependencies.name }, 'a scheduled run failed; it is tried again')
    this.failing = text
  }

  private endsInTime(run: Promise<void>): Promise<boolean> {
    const { clock, graceMs } = this.dependencies
    const left = Math.max(0, this.overAt + graceMs - clock.monotonic())
    return new Promise((resolve) => {
      const cancel = clock.after(left, () => resolve(false))
      void run.then(() => {
        cancel()
        resolve(true)
      })
    })
  }
}
