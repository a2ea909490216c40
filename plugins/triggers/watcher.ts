/**
 * Follows the changes of one namespace: judges rows of measurements that have triggers, commits what fired together with the place, then hands it to the channels.
 *
 * Invariants
 * - Signals, cooldowns and place are one transaction. What was judged behind the place is judged again after a crash, by the same memory, and comes to the same.
 * - A signal is handed to its channels after it is committed, by the node that found it, and again by its next start until a later commit says that it was.
 * - Nodes that share the state store have a place each, and one memory of what has fired: who commits second reads it again, and judges again.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { ChangeCursor, ChangeGap, Clock, Logger, RowsChanged, Storage } from 'svcdb'
import type { SvcError } from 'svcdb/lib/errors'
import { patiently } from 'svcdb/lib/source'
import { type Changed, isEnough, type JudgeCounts, judge } from './judge.ts'
import type { Place } from './keys.ts'
import type { TriggersMetrics } from './metrics.ts'
import type { Share } from './share.ts'
import type { Signal, Thresholds } from './signal.ts'
import { type Judged, RivalError, type Store } from './store.ts'
import { storedRows } from './stored-rows.ts'
import { nothingPending, type Tenant, type Watch } from './tenant.ts'

interface WatcherOptions {
  storage(): Storage
  store: Store
  share: Share
  clock: Clock
  /** Nanoseconds before a gap from which on stored rows are judged. */
  lookback: bigint
  metrics: TriggersMetrics
  log: Logger
  thresholds: Thresholds
  /** Of the tags of one signal. */
  tagBytes: number
  capacity: number
  /** Tells the readers of this process. */
  publish(tenant: Tenant, signals: readonly Signal[]): void
  /** Hands signals to their channels; durable where the channel keeps what waits. */
  handOver(tenant: Tenant, signals: readonly Signal[]): Promise<void>
  /** Reads the namespace again. */
  reload(tenant: Tenant): Promise<void>
}

/** How long signals wait for others to be committed with. */
const GATHER_MS = 20
const MAX_ATTEMPTS = 10
/** Before all times. */
const MIN_TIME = -(2n ** 63n)
const latest = (a: bigint, b: bigint): bigint => (a > b ? a : b)
/** Signals that are handed over at once when starting. */
const PAGE = 200
/** Of those that were committed together: with composites they may be a hundred times as many as members have found. */
const HANDED_AT_ONCE = 500

export class Watcher {
  readonly tenant: Tenant
  private readonly options: WatcherOptions
  private readonly ending = new AbortController()
  private cursor: ChangeCursor | undefined
  private pending = nothingPending()
  private pendingSince = 0
  /** Of the last change that was judged whole; what is committed may be behind it. */
  private judged: string
  /** Rises with each change that comes. */
  private changes = 0
  private busy = true
  private committing: Promise<void> = Promise.resolve()
  private done: Promise<void> | undefined
  private failing = false
  /** To judge what is stored of a gap. */
  private attempts = 0
  private held: Promise<unknown> = Promise.resolve()

  constructor(tenant: Tenant, options: WatcherOptions) {
    this.tenant = tenant
    this.options = options
    this.judged = tenant.place.position
  }

  start(): void {
    this.done = this.run()
  }

  get behind(): number {
    return this.cursor?.behind ?? 0
  }

  /** Has the cursor ask again which measurements are wanted. */
  select(): void {
    const { tenant } = this
    this.cursor?.select((measurement) => tenant.isWatched(measurement))
  }

  /** Resolves when no commit is under way that has looked before which triggers there are. What waits for room looks again, and is not waited for. */
  async settled(): Promise<void> {
    await this.committing
  }

  async stop(): Promise<void> {
    this.ending.abort()
    this.cursor?.close()
    await this.done
  }

  /** Has commits wait until a place was moved on. @returns false where that cannot be any more. */
  hold(place: Place, moved: Promise<unknown>): boolean {
    if (this.busy || this.tenant.place.version !== place.version - 1) return false
    this.held = moved
    return true
  }

  /** The place to move on to, where nothing is under way and nothing waits. */
  async restingPlace(): Promise<Place | undefined> {
    const { changes, cursor, tenant } = this
    if (this.busy || cursor === undefined || this.pending.signals.length > 0) return undefined
    const position = await cursor.position()
    if (this.busy || this.changes !== changes || this.cursor !== cursor) return undefined
    const { place } = tenant
    const caughtUp = cursor.behind === 0 ? { caught_up: this.options.clock.now() } : {}
    if (place.position === position && place.partial === undefined && place.handed === place.until) return undefined
    const { partial: _, ...rest } = place
    return { ...rest, version: place.version + 1, position, handed: place.until, ...caughtUp }
  }

  private get ended(): boolean {
    return this.ending.signal.aborted
  }

  private async run(): Promise<void> {
    while (!this.ended) {
      try {
        await this.handOverAgain()
        await this.follow()
      } catch (error) {
        if (this.ended) return
        await this.recover(error)
      }
    }
  }

  /** What was judged and not committed is forgotten, and judged again. */
  private async recover(error: unknown): Promise<void> {
    const { options, tenant } = this
    if (!(error instanceof RivalError)) {
      if (!this.failing) options.log.error({ err: error, namespace: tenant.namespace }, 'cannot judge what is written; it is tried again until it works')
      this.failing = true
      await sleep(1000, undefined, { signal: this.ending.signal }).catch(() => {})
    }
    this.pending = nothingPending()
    while (!this.ended) {
      try {
        await options.reload(tenant)
        this.judged = tenant.place.position
        return
      } catch {
        await sleep(1000, undefined, { signal: this.ending.signal }).catch(() => {})
      }
    }
  }

  private async follow(): Promise<void> {
    const { options, tenant, ending } = this
    const cursor = options.storage().changes({
      namespace: tenant.namespace,
      measurements: (measurement) => tenant.isWatched(measurement),
      kinds: ['rows'],
      signal: ending.signal,
      ...(tenant.place.position === '' ? {} : { after: tenant.place.position }),
    })
    this.cursor = cursor
    try {
      for (;;) {
        this.busy = this.pending.signals.length > 0
        const coming = cursor.next()
        coming.catch(() => {}) // told where it is awaited
        if (this.busy) await this.commitUnlessMoreComes(cursor, coming)
        this.busy = false
        const { value: change } = await coming
        if (change === undefined || this.ended) return
        this.busy = true
        this.changes++
        if (change.kind === 'gap' && !(await this.leap(change))) return
        if (change.kind === 'rows' && !(await this.judge(change))) return
        this.judged = change.position
        this.failing = false
      }
    } finally {
      // Stopped: what was found is kept if it can be. A commit says that those before it were handed over.
      if (this.ended && this.pending.signals.length > 0 && tenant.handed >= tenant.place.until) await this.commit({ position: this.judged }).catch(() => {})
      cursor.close()
      this.cursor = undefined
      this.busy = true
    }
  }

  private async commitUnlessMoreComes(cursor: ChangeCursor, coming: Promise<unknown>): Promise<void> {
    const wait = this.pendingSince + GATHER_MS - performance.now()
    if (cursor.behind > 0 && wait > 0 && !isEnough(this.pending)) {
      const more = await Promise.race([coming.then(() => true), sleep(wait).then(() => false)])
      if (more) return
    }
    const { behind } = cursor
    await this.commit({ position: this.judged, ...(behind === 0 ? { caught_up: this.options.clock.now() } : {}) })
  }

  /** @returns false when it was given up. */
  private async judge(change: RowsChanged): Promise<boolean> {
    const { options, tenant } = this
    const watch = await this.watch(change.measurement)
    if (watch === undefined) return !this.ended
    const { partial } = tenant.place
    const from = partial?.position === change.position ? partial.rows : 0
    const whole = await this.judgeRows(watch, change, from, (rows) => ({ position: this.judged, partial: { position: change.position, rows } }))
    if (whole) {
      options.metrics.judged.inc()
      options.metrics.rows.inc(change.rows)
    }
    return whole
  }

  /** @returns undefined where there are no triggers, or when it was given up. */
  private async watch(measurement: string): Promise<Watch | undefined> {
    return this.tenant.watched(measurement) ?? (await this.options.share.run(this.tenant.watch(measurement), () => this.ended))
  }

  /** @param between what is committed where signals are many, with the rows that are judged. */
  private async judgeRows(watch: Watch, change: Changed, from: number, between: (rows: number) => Judged): Promise<boolean> {
    const { options, tenant } = this
    const counts: JudgeCounts = { silent: 0, forgotten: 0 }
    let row = from
    while (row < change.rows) {
      const none = this.pending.signals.length === 0
      const work = judge(tenant, watch, change, row, this.pending, { thresholds: options.thresholds, tagBytes: options.tagBytes, counts })
      const next = await options.share.run(work, () => this.ended)
      if (next === undefined) return false
      row = next
      if (none && this.pending.signals.length > 0) this.pendingSince = performance.now()
      if (row < change.rows) await this.commit(between(row))
    }
    if (counts.silent > 0) options.metrics.silent.inc({ reason: 'cooldown' }, counts.silent)
    if (counts.forgotten > 0) options.metrics.silent.inc({ reason: 'forgotten' }, counts.forgotten)
    return true
  }

  /** What the log no longer has is judged as it is stored. @returns false when it was given up. */
  private async leap(gap: ChangeGap): Promise<boolean> {
    const { options, tenant } = this
    options.metrics.gaps.inc()
    const where = { namespace: tenant.namespace, from: gap.from, to: gap.to, cause: gap.cause }
    if (gap.cause === 'other_history') {
      options.log.warn(where, 'the log of changes is of another history: triggers judge what comes from now on')
      // The place, and those behind which triggers judge, say nothing here.
      await options.reload(tenant)
      this.judged = tenant.place.position
      return false
    }
    options.log.warn(where, 'points went from the log of changes before triggers judged them: those that are stored are judged now')
    tenant.forgetSeries()
    try {
      this.attempts++
      for (const [measurement, since] of tenant.enabledSince())
        if (!(await this.judgeStored(measurement, latest(since, this.lookedBack), gap.position))) return false
    } catch (error) {
      if (this.ended || error instanceof RivalError || this.attempts < MAX_ATTEMPTS) throw error
      options.log.error({ err: error, ...where }, 'points that triggers have missed cannot be read: they go on behind them')
    } finally {
      tenant.forgetSeries()
    }
    this.attempts = 0
    await this.commit({ position: gap.position })
    return true
  }

  private get lookedBack(): bigint {
    const { caught_up } = this.tenant.place
    return caught_up === undefined ? MIN_TIME : BigInt(Math.floor(caught_up)) * 1_000_000n - this.options.lookback
  }

  private async judgeStored(measurement: string, start: bigint, position: string): Promise<boolean> {
    const { options, tenant, ending } = this
    const fields = tenant.fieldsOf(measurement)
    const args = { namespace: tenant.namespace, measurement, start, ...(fields === undefined ? {} : { fields }) }
    for await (const change of storedRows(options.storage(), args, position, ending.signal)) {
      const watch = await this.watch(measurement)
      if (watch === undefined) return !this.ended
      // A crash has all of the gap judged again: what has fired is remembered.
      if (!(await this.judgeRows(watch, change, 0, () => ({ position: this.judged })))) return false
      options.metrics.stored.inc(change.rows)
    }
    return true
  }

  private async commit(to: Judged): Promise<void> {
    await this.held
    const { options, tenant, pending } = this
    // A stop waits for it: what is committed without it would never be looked at again.
    const work = tenant.composites.of(pending.signals, tenant.cooldowns, pending.changes)
    const composed = tenant.composites.size === 0 ? [] : ((await options.share.run(work, () => false)) ?? [])
    pending.signals.push(...composed)
    const { ring, place, evicted } = await this.patiently(() => {
      const attempt = options.store.commit(tenant, to, pending, options.capacity)
      this.committing = attempt.then(
        () => {},
        () => {},
      )
      return attempt
    })
    tenant.ring = ring
    tenant.place = place
    tenant.handed = Math.max(tenant.handed, place.handed)
    this.pending = nothingPending()
    if (evicted > 0) options.metrics.evicted.inc(evicted)
    if (pending.signals.length === 0) return
    options.metrics.fired.inc(pending.signals.length)
    if (composed.length > 0) options.metrics.composites.inc(composed.length)
    options.publish(tenant, pending.signals)
    await this.handOver(pending.signals, place.until)
  }

  /** What a stop leaves of them is handed over by the next start. @param until behind the last of them. */
  private async handOver(signals: readonly Signal[], until: number): Promise<void> {
    const { options, tenant } = this
    const first = until - signals.length
    for (let at = 0; at < signals.length && !(at > 0 && this.ended); at += HANDED_AT_ONCE) {
      const part = signals.slice(at, at + HANDED_AT_ONCE)
      await this.patiently(() => options.handOver(tenant, part))
      tenant.handed = first + at + part.length
    }
  }

  private async handOverAgain(): Promise<void> {
    const { options, tenant } = this
    const { until } = tenant.place
    for (let at = tenant.handed; at < until && !this.ended; at += PAGE) {
      const end = Math.min(until, at + PAGE)
      const signals = await options.store.signals(tenant.namespace, at, end, PAGE)
      await this.patiently(() => options.handOver(tenant, signals))
      tenant.handed = end
    }
  }

  /** A state store without room is waited for: what fired is not lost. */
  private patiently<T>(attempt: () => Promise<T>): Promise<T> {
    return patiently(attempt, {
      signal: this.ending.signal,
      transient: (error: SvcError) => !(error.cause instanceof RivalError) && !(error instanceof RivalError),
    })
  }
}
