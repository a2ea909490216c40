/**
 * Derived series: what a statement over measurements comes to, kept up to date as points of a measurement. Each evaluation goes over the time since the last one and a
 * span before it, so that what came late within the span is in; rows that came to the same as before are not written again. Nodes that share their state and not their points each
 * evaluate what they have themselves: how far that is is kept by the history of the points.
 */
import { setImmediate as turn } from 'node:timers/promises'
import { type Following, followState, isWithinReach, type StateStore, type Svc } from 'svcdb'
import { ownHistory } from 'svcdb/lib/changes'
import { classify, SvcError } from 'svcdb/lib/errors'
import { moduleUrl } from 'svcdb/lib/modules'
import type { AnalyticsConfig } from '../config.ts'
import { Creations } from '../creations.ts'
import type { DerivedMetrics } from '../models/metrics.ts'
import type { EvalArgs, EvalRows } from './eval-job.ts'
import { sourcesOf } from './sources.ts'

const JOB = moduleUrl('./eval-job.ts', import.meta.url)
const PREFIX = 'derived/'
/** How far a node with points of its own is, by history. */
const EVALUATED = 'evaluated/'
const PAGE = 200
/** Rows of one write, and values in it, where texts count by their length: what the event loop does in some milliseconds. */
const BATCH_ROWS = 4096
const BATCH_VALUES = 16_384
/** More than so many values take, whatever their names. */
const BATCH_BYTES = 2 ** 26
/** Bytes of a text that are as much work as a number. */
const TEXT_BYTES = 32
/** Rows that are remembered as written, of one series; with more all are written again. */
const REMEMBERED = 10_000
/** What a remembered row takes beside its texts, about. */
const ROW_BYTES = 120
/** Evaluations at a time, of a namespace one. */
const LANES = 4
/** Between two looks for what has become due while others are at work. */
const LOOK_MS = 1000
const NS = 1_000_000_000n
/** What a statement fails with that would go well over a shorter time: of memory it is SQL_ERROR, as of much else. */
const TOO_MUCH: ReadonlySet<string> = new Set(['QUERY_TIMEOUT', 'SQL_ERROR'])

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

interface Evaluated {
  /** Of the series. */
  created_at: number
  until: string
}

export interface Derived {
  kept: KeptDerived
  alive: boolean
  /** It is not in the state store yet. */
  creating: boolean
  /** Milliseconds of the monotonic clock. */
  triedAt: number
  lastError: string | undefined
  /** Rows that were written, by time and tags. */
  written: ReadonlyMap<string, string>
  writtenBytes: number
}

interface DerivedDependencies {
  svc: Svc
  config: AnalyticsConfig
  metrics: DerivedMetrics
}

export class DerivedSeries {
  private readonly dependencies: DerivedDependencies
  private readonly all = new Map<string, Derived>()
  private state: StateStore | undefined
  private following: Following | undefined
  /** Of points that are this node's own. */
  private history: string | undefined
  /** When each namespace had its last turn, by number. */
  private readonly lastTurn = new Map<string, number>()
  private turns = 0
  private readonly creations: Creations
  /** Of all rows that are remembered. */
  private writtenBytes = 0

  constructor(dependencies: DerivedDependencies) {
    this.dependencies = dependencies
    this.creations = new Creations(dependencies.svc)
  }

  /** Reads all, and then what other processes change. @param failed is told what kept it from that. */
  async open(state: StateStore, failed: (error: Error) => void): Promise<void> {
    this.state = state
    this.history = await ownHistory(this.dependencies.svc.storage)
    this.following = await followState(state, {
      prefixes: [PREFIX],
      apply: (keys) => (keys === undefined ? this.readAll(state) : this.readSome(state, keys)),
      failed,
    })
  }

  /** Each node that shares the state evaluates for itself. */
  get isOwn(): boolean {
    return this.history !== undefined
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
      const stored = await state.get<KeptDerived>(key)
      const kept = stored === undefined ? undefined : await this.evaluatedHere(state, key, stored)
      const known = this.all.get(key)
      if (kept === undefined) {
        if (known === undefined || known.creating) continue
        this.remove(key, known)
        if (this.isOwn) await state.transaction((tx) => tx.delete(this.evaluatedKey(key)))
      } else if (known === undefined) this.all.set(key, fresh(kept))
      else if (known.kept.created_at === kept.created_at) known.kept = kept
      else {
        // Deleted and made anew: nothing of the one before counts for it.
        this.remove(key, known)
        this.all.set(key, fresh(kept))
      }
    }
  }

  private evaluatedKey(key: string): string {
    return `${EVALUATED}${this.history}/${key}`
  }

  private async evaluatedHere(state: StateStore, key: string, kept: KeptDerived): Promise<KeptDerived> {
    const own = this.isOwn ? await state.get<Evaluated>(this.evaluatedKey(key)) : undefined
    return own?.created_at === kept.created_at ? { ...kept, evaluated_until: own.until } : kept
  }

  private remove(key: string, derived: Derived): void {
    derived.alive = false
    this.forget(derived)
    // Another node's may be in its place by now.
    if (this.all.get(key) === derived) this.all.delete(key)
  }

  /** By name. */
  list(namespace: string): Derived[] {
    return [...this.all.values()].filter(({ kept }) => kept.namespace === namespace).sort((a, b) => (a.kept.name < b.kept.name ? -1 : 1))
  }

  get(namespace: string, name: string): Derived | undefined {
    return this.all.get(keyOf(namespace, name))
  }

  /** @throws CONFLICT, RATE_LIMITED, and what is wrong with the statement. */
  create(kept: KeptDerived, signal: AbortSignal): Promise<Derived> {
    return this.creations.run(kept.namespace, signal, (each, requireThere) => this.createNow(kept, each, requireThere))
  }

  private async createNow(kept: KeptDerived, signal: AbortSignal, requireThere: () => void): Promise<Derived> {
    this.check(kept)
    const now = this.dependencies.svc.clock.nowNanos()
    try {
      await this.evaluate(kept, { start: now - NS, end: now, checkOnly: true }, signal)
    } catch (error) {
      const { code, message } = classify(error)
      const hint = code === 'SQL_ERROR' && /parameter/.test(message) ? '; it reads from $1 on and before $2, such as: WHERE _time >= $1 AND _time < $2' : ''
      throw refused(kept, code, message + hint)
    }
    requireThere()
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
      this.remove(key, derived)
      throw error
    } finally {
      derived.creating = false
    }
    return derived
  }

  /** The namespace is deleted: nothing may be left of it. */
  async forgetNamespace(namespace: string): Promise<void> {
    await this.creations.end(namespace)
    for (const each of this.list(namespace)) await this.delete(each)
  }

  async delete(derived: Derived): Promise<void> {
    const key = keyOf(derived.kept.namespace, derived.kept.name)
    await this.store.transaction((tx) => {
      tx.delete(key)
      if (this.isOwn) tx.delete(this.evaluatedKey(key))
    })
    this.remove(key, derived)
  }

  /** Evaluates what is due: namespaces in turn, and of each one after the other, so that slow statements of one hold up no other. */
  async pass(signal: AbortSignal): Promise<void> {
    const { svc, config } = this.dependencies
    // What becomes due while slow statements run is begun beside them; a pass has an end all the same.
    const last = svc.clock.monotonic() + config.derived_timeout_secs * 1000
    const lanes = new Map<string, Promise<void>>()
    for (;;) {
      while (lanes.size < LANES && !signal.aborted && svc.clock.monotonic() <= last) {
        const next = this.nextDue(lanes)
        if (next === undefined) break
        const { namespace } = next.kept
        this.lastTurn.set(namespace, ++this.turns)
        lanes.set(
          namespace,
          this.attempt(next, signal).finally(() => lanes.delete(namespace)),
        )
      }
      if (lanes.size === 0) break
      let timer: NodeJS.Timeout | undefined
      const wake = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, LOOK_MS)
      })
      await Promise.race([...lanes.values(), wake]).finally(() => clearTimeout(timer))
    }
    const known = new Set(Array.from(this.all.values(), ({ kept }) => kept.namespace))
    for (const namespace of this.lastTurn.keys()) if (!known.has(namespace)) this.lastTurn.delete(namespace)
  }

  /** Of the namespace that has waited longest the series that has. */
  private nextDue(busy: ReadonlyMap<string, unknown>): Derived | undefined {
    const { clock, server } = this.dependencies.svc
    const { multi_tenancy } = server
    const now = clock.monotonic()
    let next: Derived | undefined
    let turn = 0
    for (const derived of this.all.values()) {
      const { kept, triedAt, alive } = derived
      if (!alive || busy.has(kept.namespace) || !isWithinReach(kept.namespace, multi_tenancy) || now - triedAt < kept.every_secs * 1000) continue
      const own = this.lastTurn.get(kept.namespace) ?? 0
      if (next !== undefined && (own > turn || (own === turn && triedAt >= next.triedAt))) continue
      next = derived
      turn = own
    }
    return next
  }

  private async attempt(derived: Derived, signal: AbortSignal): Promise<void> {
    const { svc, metrics } = this.dependencies
    derived.triedAt = svc.clock.monotonic()
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

  private async bring(derived: Derived, signal: AbortSignal): Promise<void> {
    const { svc, config } = this.dependencies
    const { kept } = derived
    const end = svc.clock.nowNanos()
    const lookback = BigInt(kept.lookback_secs) * NS
    // Before its first evaluation went well it is owed since it was made; where points are the node's own, the node may have come later.
    const since = kept.evaluated_until ?? (this.isOwn ? end : BigInt(kept.created_at) * 1_000_000n)
    let at = min(BigInt(since), end) - lookback
    let slice = end - at
    let refusal: SvcError | undefined
    while (at < end) {
      const until = min(at + slice, end)
      const rows = await this.evaluate(kept, { start: at, end: until, checkOnly: false }, signal).catch((error: unknown) => {
        // A shorter time may do with the time and the memory that there are.
        if (signal.aborted || slice <= 2n * lookback || !TOO_MUCH.has(classify(error).code)) throw error
        return undefined
      })
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
      const refusedRow = await this.write(derived, rows, signal)
      refusal ??= refusedRow
      await this.note(derived, until)
      if (until === end) break
      at = until - lookback
    }
    // What can be written does not wait for what cannot.
    if (refusal !== undefined) throw refusal
  }

  /** It is evaluated up to there. */
  private async note(derived: Derived, until: bigint): Promise<void> {
    const { kept } = derived
    const key = keyOf(kept.namespace, kept.name)
    const next = { ...kept, evaluated_until: String(until) }
    const stays = await this.store.transaction(async (tx) => {
      const stored = await tx.get<KeptDerived>(key)
      if (!derived.alive || stored?.created_at !== kept.created_at) return false
      if (this.isOwn) tx.put(this.evaluatedKey(key), { created_at: kept.created_at, until: String(until) } satisfies Evaluated)
      else tx.put(key, next)
      return true
    })
    if (stays) derived.kept = next
  }

  private async evaluate(kept: KeptDerived, range: Pick<EvalArgs, 'start' | 'end' | 'checkOnly'>, signal: AbortSignal): Promise<EvalRows | undefined> {
    const { svc, config, metrics } = this.dependencies
    const began = svc.clock.monotonic()
    const args: EvalArgs = { namespace: kept.namespace, query: kept.query, ...range, maxRows: config.max_derived_rows }
    const limit = { timeoutMs: config.derived_timeout_secs * 1000, timeoutSetting: 'analytics.derived_timeout_secs' }
    const options = { namespace: kept.namespace, background: !range.checkOnly, signal, ...limit }
    const rows = await svc.storage.run<EvalRows | undefined>(JOB, args, options).result
    if (!range.checkOnly) metrics.seconds.observe((svc.clock.monotonic() - began) / 1000)
    return rows
  }

  /** @returns the first refusal of a row, where some were refused: all others are written. */
  private async write(derived: Derived, rows: EvalRows, signal: AbortSignal): Promise<SvcError | undefined> {
    const { svc, metrics } = this.dependencies
    const { namespace, target } = derived.kept
    const { times } = rows
    const remembered = new Map<string, string>()
    let refusal: SvcError | undefined
    for (let row = 0; row < times.length; ) {
      signal.throwIfAborted()
      const limits = { backfill: true, maxPoints: BATCH_ROWS, maxBytes: BATCH_BYTES }
      const points = svc.ingest.points(await svc.systemContext(namespace === '' ? undefined : namespace), limits)
      // The namespace may be another's by now.
      if (!derived.alive) return undefined
      let weight = 0
      for (const from = row; row < times.length && row - from < BATCH_ROWS && weight < BATCH_VALUES; row++) {
        const { tags, fields, bytes } = pointOf(rows, row)
        weight += rows.fields.length + rows.tags.length + bytes / TEXT_BYTES
        if (Object.keys(fields).length === 0) continue
        const key = `${times[row]} ${JSON.stringify(tags)}`
        const text = JSON.stringify(fields)
        remembered.set(key, text)
        if (derived.written.get(key) !== text) points.add(target, tags, fields, times[row])
      }
      if (points.length === 0) {
        await turn()
        continue
      }
      try {
        metrics.points.inc((await points.write()).written)
      } catch (error) {
        const refused = classify(error)
        const { written, rejected } = refused.detail ?? {}
        // Nothing was stored, or there will be room later: it is tried again.
        if (rejected === undefined || refused.kind.retryAfter !== undefined) throw error
        metrics.points.inc(Number(written))
        refusal ??= refused
      }
    }
    // Which ones were refused is not known: all are tried again as long as they are looked at.
    this.remember(derived, refusal === undefined ? remembered : new Map())
    return refusal
  }

  /** Where all take more than they may, the namespace that takes most gives way, by its largest series: their rows are written again. */
  private remember(derived: Derived, rows: ReadonlyMap<string, string>): void {
    this.forget(derived)
    if (rows.size > REMEMBERED || !derived.alive) return
    derived.written = rows
    for (const [key, text] of rows) derived.writtenBytes += ROW_BYTES + 2 * (key.length + text.length)
    this.writtenBytes += derived.writtenBytes
    while (this.writtenBytes > this.dependencies.config.derived_memory_mb * 2 ** 20) {
      const bytesOf = new Map<string, number>()
      for (const { kept, writtenBytes } of this.all.values()) bytesOf.set(kept.namespace, (bytesOf.get(kept.namespace) ?? 0) + writtenBytes)
      const [namespace] = [...bytesOf].reduce((most, each) => (each[1] > most[1] ? each : most))
      this.forget(this.list(namespace).reduce((most, each) => (each.writtenBytes > most.writtenBytes ? each : most)))
    }
  }

  private forget(derived: Derived): void {
    this.writtenBytes -= derived.writtenBytes
    derived.writtenBytes = 0
    derived.written = new Map()
  }

  private check({ namespace, name, target, query }: KeptDerived): void {
    const { config } = this.dependencies
    const most = config.max_derived_series
    const refuse = (code: 'CONFLICT' | 'RATE_LIMITED' | 'INVALID_REQUEST', cause: string) =>
      new SvcError(code, `cannot create derived series "${name}": ${cause}`)
    if (this.get(namespace, name) !== undefined) throw refuse('CONFLICT', 'there is one of this name; delete it first, or choose another name')
    const own = this.list(namespace)
    const writer = own.find(({ kept }) => kept.target === target)
    if (writer !== undefined) throw refuse('CONFLICT', `"${target}" is written by derived series "${writer.kept.name}"; choose another target_measurement`)
    const loop = this.loopOf(query, target, own)
    if (loop !== undefined)
      throw refuse('INVALID_REQUEST', `it writes "${target}", which ${loop}, and would go round in circles; choose another target_measurement`)
    if (own.length >= most)
      throw refuse('RATE_LIMITED', `the namespace has ${own.length}, and analytics.max_derived_series is as many; delete one, or raise it`)
  }

  /** How a statement reads the target, itself or by what other derived series write. */
  private loopOf(query: string, target: string, own: readonly Derived[]): string | undefined {
    const seen = new Set<Derived>()
    const reads = (statement: string, by: string): string | undefined => {
      const sources = sourcesOf(statement)
      if (sources.has(target.toLowerCase())) return by
      for (const each of own) {
        if (seen.has(each) || !sources.has(each.kept.target.toLowerCase())) continue
        seen.add(each)
        const found = reads(each.kept.query, `derived series "${each.kept.name}" reads for it`)
        if (found !== undefined) return found
      }
      return undefined
    }
    return reads(query, 'it reads')
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
  writtenBytes: 0,
})
/** @returns its tags and fields, and the bytes of the tags' texts. */
function pointOf(rows: EvalRows, row: number): { tags: Record<string, string>; fields: Record<string, number>; bytes: number } {
  const tags: Record<string, string> = {}
  const fields: Record<string, number> = {}
  let bytes = 0
  for (const { name, values } of rows.tags) {
    const value = values[row]
    if (value === null || value === '') continue
    tags[name] = value
    bytes += value.length
  }
  for (const { name, values } of rows.fields) if (!Number.isNaN(values[row])) fields[name] = values[row]
  return { tags, fields, bytes }
}

const keyOf = (namespace: string, name: string): string => `${PREFIX}${namespace}/${name}`
const min = (a: bigint, b: bigint): bigint => (a < b ? a : b)
const max = (a: bigint, b: bigint): bigint => (a > b ? a : b)

function refused({ name }: KeptDerived, code: SvcError['code'], cause: string): SvcError {
  return new SvcError(code, `cannot keep derived series "${name}": ${cause}`)
}
