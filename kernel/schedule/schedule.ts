/**
 * What is done again and again. A run begins an interval after the one before began, or, when that took longer, at the next such time: never two at once.
 * A run that throws is counted, logged and tried again; it ends nothing.
 */
import type { Logger } from '../log.ts'
import type { Clock } from '../plugin.ts'
import type { Lease } from './lease.ts'

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
}

/** One run. `signal` is aborted when the node or the schedule stops, and when another process has taken the work over: end then. */
export type ScheduledJob = (run: { signal: AbortSignal }) => void | Promise<void>

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

export interface Schedule {
  readonly status: Readonly<ScheduleStatus>
  /** Aborts the run under way and begins no more. Resolves when it has ended. Safe twice. */
  stop(): Promise<void>
}

export interface ScheduleMetrics {
  ran(plugin: string, schedule: string, result: 'done' | 'failed' | 'elsewhere', seconds: number, now: number): void
}

export interface ScheduleDependencies {
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
  /** Where processes share the work: asked for each run. */
  lease(): Lease | undefined
}

/** A lease outlives a process that was killed by so long. */
const LEASE_MS = 30_000
const RENEWAL_MS = LEASE_MS / 3
/** What a timer of Node.js can wait for. */
const LONGEST_TIMER_MS = 2 ** 31 - 1
const JITTER = 0.1

export class Timetable implements Schedule {
  readonly status: ScheduleStatus
  private readonly dependencies: ScheduleDependencies
  private readonly over = new AbortController()
  private cancel: () => void = () => {}
  private run: Promise<void> | undefined
  private lease: Lease | undefined
  /** Of the failure before, if nothing has succeeded since: the same again and again is logged once. */
  private failing: string | undefined

  constructor(dependencies: ScheduleDependencies) {
    this.dependencies = dependencies
    this.status = { plugin: dependencies.plugin, name: dependencies.name, running: false, runs: 0, failures: 0, elsewhere: false }
    dependencies.stopping.addEventListener('abort', () => this.end(), { once: true, signal: this.over.signal })
  }

  /** @throws what `first` throws. */
  async start(): Promise<void> {
    const { first = this.late(this.dependencies.every) } = this.dependencies.options
    this.arm(typeof first === 'number' ? first : await first())
  }

  async stop(): Promise<void> {
    this.end()
    const { log, name, graceMs, options } = this.dependencies
    if (this.run !== undefined && !options.detached && !(await this.endsInTime(this.run)))
      log.warn(
        { schedule: name, after_secs: graceMs / 1000 },
        'a scheduled run goes on though its signal was aborted; the node does not wait for it any longer',
      )
    await this.lease?.release().catch(() => {}) // it ends by itself
    this.lease = undefined
  }

  private end(): void {
    this.over.abort()
    this.cancel()
  }

  private arm(ms: number): void {
    if (this.over.signal.aborted) return
    const step = Math.min(Math.max(0, ms), LONGEST_TIMER_MS)
    this.cancel = this.dependencies.clock.after(step, () => (ms > step ? this.arm(ms - step) : this.begin()))
  }

  private begin(): void {
    const { clock, every, options } = this.dependencies
    const began = clock.monotonic()
    const wait = () => every - ((clock.monotonic() - began) % every)
    this.run = this.once(wait).then((good) => {
      this.run = undefined
      this.arm(good || options.retry === undefined ? this.late(wait()) : Math.min(options.retry, wait()))
    })
  }

  private late(ms: number): number {
    const { every, options } = this.dependencies
    return ms + Math.random() * (options.jitter ?? JITTER) * every
  }

  /** @param wait until the next run. @returns whether it did not fail. */
  private async once(wait: () => number): Promise<boolean> {
    const { dependencies, status } = this
    const { plugin, name, clock, metrics } = dependencies
    const began = clock.monotonic()
    const lost = new AbortController()
    let renewed = () => {}
    status.running = true
    try {
      const lease = dependencies.lease()
      status.elsewhere = lease !== undefined && !(await lease.hold(LEASE_MS))
      if (!status.elsewhere) {
        this.lease = lease
        if (lease !== undefined) renewed = this.renew(lease, lost)
        await dependencies.job({ signal: AbortSignal.any([this.over.signal, lost.signal]) })
        renewed()
        status.elsewhere = lost.signal.aborted || (lease !== undefined && !(await lease.hold(wait() + LEASE_MS)))
      }
      if (!status.elsewhere) this.succeeded()
      metrics.ran(plugin, name, status.elsewhere ? 'elsewhere' : 'done', (clock.monotonic() - began) / 1000, clock.now())
      return true
    } catch (error) {
      // One that was told to end has not failed.
      if (this.over.signal.aborted) return true
      this.failed(error as Error)
      metrics.ran(plugin, name, 'failed', (clock.monotonic() - began) / 1000, clock.now())
      return false
    } finally {
      renewed()
      status.running = false
    }
  }

  /** @returns how to end it. */
  private renew(lease: Lease, lost: AbortController): () => void {
    const { clock, log, name } = this.dependencies
    let heldAt = clock.monotonic()
    let ended = false
    let cancel = () => {}
    const next = async () => {
      const asked = clock.monotonic()
      // A store that cannot be reached for a moment has given the lease to nobody else yet.
      const held = await lease.hold(LEASE_MS).catch(() => undefined)
      if (ended) return
      if (held) heldAt = asked
      if (held ?? clock.monotonic() - heldAt < LEASE_MS - RENEWAL_MS) {
        cancel = clock.after(RENEWAL_MS, next)
        return
      }
      log.warn({ schedule: name }, 'another process has taken a scheduled run over: the one here is aborted')
      lost.abort()
    }
    cancel = clock.after(RENEWAL_MS, next)
    return () => {
      ended = true
      cancel()
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
    return new Promise((resolve) => {
      const cancel = this.dependencies.clock.after(this.dependencies.graceMs, () => resolve(false))
      void run.then(() => {
        cancel()
        resolve(true)
      })
    })
  }
}
