/**
 * Derived series: what a statement over measurements comes to, kept up to date as points of a measurement. Each evaluation goes over the time since the last one and a
 * span before it, so that what came late within the span is in; rows that came to the same as before are not written again.
 */
import { type Following, followState, type StateStore, type Svc } from 'svcdb'
import { classify, SvcError } from 'svcdb/lib/errors'
import { moduleUrl } from 'svcdb/lib/modules'
import type { AnalyticsConfig } from '../config.ts'
import type { DerivedMetrics } from '../models/metrics.ts'
import type { EvalArgs, EvalRows } from './eval-job.ts'

const JOB = moduleUrl('./eval-job.ts', import.meta.url)
const PREFIX = 'derived/'
const PAGE = 200
/** Rows of one write. */
const BATCH = 4096
/** Rows that are remembered as written, of one series; with more all are written again. */
const REMEMBERED = 10_000
const NS = 1_000_000_000n

export interface KeptDerived {
  namespace: string
  name: string
  query: string
  target: string
  every_secs: number
  lookback_secs: number
  created_at: number
  /** Nanoseconds as decimal text. */
  evaluated_until?: string
}

export interface Derived {
  kept: KeptDerived
  alive: boolean
  /** It is not in the state store yet. */
  creating: boolean
  /** Milliseconds of the monotonic clock. */
  triedAt: number
  lastError: string | undefined
  written: Map<string, string>
}

export interface DerivedDependencies {
  svc: Svc
  config: AnalyticsConfig
  metrics: DerivedMetrics
}

export class DerivedSeries {
  private readonly deps: DerivedDependencies
  private readonly all = new Map<string, Derived>()
  private state: StateStore | undefined
  private following: Following | undefined

  constructor(deps: DerivedDependencies) {
    this.deps = deps
  }

  /** Reads all, and then what other processes change. @param failed is told what kept it from that. */
  async open(state: StateStore, failed: (error: Error) => void): Promise<void> {
    this.state = state
    this.following = await followState(state, {
      prefixes: [PREFIX],
      apply: (keys) => (keys === undefined ? this.readAll(state) : this.readSome(state, keys)),
      failed,
    })
  }

  /** Nothing comes from other processes any more. */
  async close(): Promise<void> {
    await this.following?.stop()
  }

  private async readAll(state: StateStore): Promise<void> {
    const keys = new Set(this.all.keys())
    for (let start: string | undefined; ; ) {
      const page = await state.list<KeptDerived>({ prefix: PREFIX, limit: PAGE, ...(start === undefined ? {} : { start }) })
      for (const { key } of page) keys.add(key)
      if (page.length < PAGE) break
      start = `${page[page.length - 1].key}\0`
    }
    await this.readSome(state, keys)
  }

  private async readSome(state: StateStore, keys: ReadonlySet<string>): Promise<void> {
    for (const key of keys) {
      const kept = await state.get<KeptDerived>(key)
      const known = this.all.get(key)
      if (kept === undefined) {
        if (known === undefined || known.creating) continue
        known.alive = false
        this.all.delete(key)
      } else if (known === undefined) this.all.set(key, fresh(kept))
      else known.kept = kept
    }
  }

  /** By name. */
  list(namespace: string): Derived[] {
    return [...this.all.values()].filter(({ kept }) => kept.namespace === namespace).sort((a, b) => (a.kept.name < b.kept.name ? -1 : 1))
  }

  get(namespace: string, name: string): Derived | undefined {
    return this.all.get(keyOf(namespace, name))
  }

  /** @throws CONFLICT, RATE_LIMITED, and what is wrong with the statement. */
  async create(kept: KeptDerived, signal: AbortSignal): Promise<Derived> {
    this.check(kept)
    const now = this.deps.svc.clock.nowNanos()
    try {
      await this.evaluate(kept, { start: now - NS, end: now, checkOnly: true }, signal)
    } catch (error) {
      const { code, message } = classify(error)
      const hint = code === 'SQL_ERROR' && /parameter/.test(message) ? '; it reads from $1 on and before $2, such as: WHERE _time >= $1 AND _time < $2' : ''
      throw refused(kept, code, message + hint)
    }
    this.check(kept)
    const derived = fresh(kept)
    const key = keyOf(kept.namespace, kept.name)
    derived.creating = true
    this.all.set(key, derived)
    try {
      await this.store.transaction(async (tx) => {
        if ((await tx.get(key)) !== undefined)
          throw new SvcError('CONFLICT', `cannot create derived series "${kept.name}": there is one of this name, made by another node`)
        tx.put(key, kept)
      })
    } catch (error) {
      this.all.delete(key)
      throw error
    } finally {
      derived.creating = false
    }
    return derived
  }

  async delete(derived: Derived): Promise<void> {
    const key = keyOf(derived.kept.namespace, derived.kept.name)
    await this.store.transaction((tx) => tx.delete(key))
    derived.alive = false
    this.all.delete(key)
  }

  /** Evaluates what is due, one after the other. */
  async pass(signal: AbortSignal): Promise<void> {
    const { svc, metrics } = this.deps
    for (const derived of [...this.all.values()]) {
      const now = svc.clock.monotonic()
      if (signal.aborted || !derived.alive || now - derived.triedAt < derived.kept.every_secs * 1000) continue
      derived.triedAt = now
      try {
        await this.bring(derived, signal)
        derived.lastError = undefined
      } catch (error) {
        if (signal.aborted) return
        metrics.failures.inc()
        const text = classify(error).message
        if (derived.lastError !== text) svc.log.warn({ err: error, derived: derived.kept.name }, 'a derived series cannot be evaluated; it is tried again')
        derived.lastError = text
      }
    }
  }

  private async bring(derived: Derived, signal: AbortSignal): Promise<void> {
    const { svc, config } = this.deps
    const { kept } = derived
    const end = svc.clock.nowNanos()
    const lookback = BigInt(kept.lookback_secs) * NS
    let at = (kept.evaluated_until === undefined ? end : min(BigInt(kept.evaluated_until), end)) - lookback
    let slice = end - at
    while (at < end) {
      const until = min(at + slice, end)
      const rows = await this.evaluate(kept, { start: at, end: until, checkOnly: false }, signal)
      if (rows === undefined) {
        // The last bucket of a slice may not be whole: the next one begins a lookback before it, or nothing would be gained.
        if (slice <= 2n * lookback) {
          const cause = `${kept.lookback_secs} s have more than the ${config.max_derived_rows} rows of analytics.max_derived_rows; shorten lookback_secs, or have it give fewer rows`
          throw refused(kept, 'INVALID_REQUEST', cause)
        }
        slice = max(2n * lookback, slice / 2n)
        continue
      }
      if (!derived.alive) return
      await this.write(derived, rows, signal)
      if (until === end) break
      at = until - lookback
    }
    const next = { ...kept, evaluated_until: String(end) }
    const stays = await this.store.transaction(async (tx) => {
      const stored = await tx.get<KeptDerived>(keyOf(kept.namespace, kept.name))
      if (!derived.alive || stored?.created_at !== kept.created_at) return false
      tx.put(keyOf(kept.namespace, kept.name), next)
      return true
    })
    if (stays) derived.kept = next
  }

  private async evaluate(kept: KeptDerived, range: Pick<EvalArgs, 'start' | 'end' | 'checkOnly'>, signal: AbortSignal): Promise<EvalRows | undefined> {
    const { svc, config, metrics } = this.deps
    const began = svc.clock.monotonic()
    const args: EvalArgs = { namespace: kept.namespace, query: kept.query, ...range, maxRows: config.max_derived_rows }
    const options = { namespace: kept.namespace, signal, timeoutMs: config.derived_timeout_secs * 1000, timeoutSetting: 'analytics.derived_timeout_secs' }
    const rows = await svc.storage.run<EvalRows | undefined>(JOB, args, options).result
    if (!range.checkOnly) metrics.seconds.observe((svc.clock.monotonic() - began) / 1000)
    return rows
  }

  private async write(derived: Derived, { times, tags, fields }: EvalRows, signal: AbortSignal): Promise<void> {
    const { svc, metrics } = this.deps
    const { namespace, target } = derived.kept
    const remembered = new Map<string, string>()
    for (let from = 0; from < times.length; from += BATCH) {
      signal.throwIfAborted()
      const points = svc.ingest.points(await svc.systemContext(namespace === '' ? undefined : namespace), { backfill: true })
      for (let row = from; row < Math.min(from + BATCH, times.length); row++) {
        const own = Object.fromEntries(tags.flatMap(({ name, values }) => (values[row] === null || values[row] === '' ? [] : [[name, values[row] as string]])))
        const values = Object.fromEntries(fields.flatMap(({ name, values: all }) => (Number.isNaN(all[row]) ? [] : [[name, all[row]]])))
        if (Object.keys(values).length === 0) continue
        const key = `${times[row]} ${JSON.stringify(own)}`
        const text = JSON.stringify(values)
        remembered.set(key, text)
        if (derived.written.get(key) !== text) points.add(target, own, values, times[row])
      }
      if (points.length > 0) metrics.points.inc((await points.write()).written)
    }
    derived.written = remembered.size > REMEMBERED ? new Map() : remembered
  }

  private check({ namespace, name, target }: KeptDerived): void {
    const { config } = this.deps
    const most = config.max_derived_series
    const refuse = (code: 'CONFLICT' | 'RATE_LIMITED', cause: string) => new SvcError(code, `cannot create derived series "${name}": ${cause}`)
    if (this.get(namespace, name) !== undefined) throw refuse('CONFLICT', 'there is one of this name; delete it first, or choose another name')
    const own = this.list(namespace)
    const writer = own.find(({ kept }) => kept.target === target)
    if (writer !== undefined) throw refuse('CONFLICT', `"${target}" is written by derived series "${writer.kept.name}"; choose another target_measurement`)
    if (own.length >= most)
      throw refuse('RATE_LIMITED', `the namespace has ${own.length}, and analytics.max_derived_series is as many; delete one, or raise it`)
  }

  private get store(): StateStore {
    if (this.state === undefined) throw new SvcError('DATABASE_CLOSED', 'derived series are not read yet; retry when /ready answers 200')
    return this.state
  }
}

const fresh = (kept: KeptDerived): Derived => ({
  kept,
  alive: true,
  creating: false,
  triedAt: Number.NEGATIVE_INFINITY,
  lastError: undefined,
  written: new Map(),
})
const keyOf = (namespace: string, name: string): string => `${PREFIX}${namespace}/${name}`
const min = (a: bigint, b: bigint): bigint => (a < b ? a : b)
const max = (a: bigint, b: bigint): bigint => (a > b ? a : b)

function refused({ name }: KeptDerived, code: SvcError['code'], cause: string): SvcError {
  return new SvcError(code, `cannot keep derived series "${name}": ${cause}`)
}
