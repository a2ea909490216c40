/**
 * The one way in for points, whatever the protocol: idempotency keys, admission hooks, the time limit, the metrics of failures.
 * Batches are the gate's: it takes one from the storage's pool, lends it to `fill`, and hands it to the storage or back, whatever happens.
 */
import { type CallContext, namespaceProblem, requireStanding } from '../auth/auth.ts'
import type { WriteBatch } from '../lib/columns/index.ts'
import { classify, SvcError } from '../lib/errors/index.ts'
import { ownedBy } from '../lib/event-loop/index.ts'
import { traced } from '../lib/trace/index.ts'
import type { Counter, Histogram, Metrics } from '../metrics.ts'
import type { Clock } from '../plugin.ts'
import type { Storage, WriteOptions, WriteResult } from '../storage/storage.ts'
import { IdempotencyKeys, within } from './idempotency-keys.ts'
import { type Points, type PointsOptions, PointWriter } from './point-writer.ts'

/** What the storage is told, and what the gate needs to know. */
export interface IngestOptions extends WriteOptions {
  /** The caller's Idempotency-Key header, as it came. */
  idempotencyKey?: string | undefined
  /** Called with what becomes of a write that goes on after its WRITE_TIMEOUT, for callers with keys of their own. */
  late?: ((written: Promise<WriteResult>) => void) | undefined
}

/** Fills a batch: called once and at once, before `write` first waits. The batch may be touched until what it returns is settled, and never afterwards. */
export type Fill<T> = (batch: WriteBatch) => T | Promise<T>

/** @param T what `fill` returned. */
export interface Written<T> extends WriteResult {
  filled: T
}

/** What became of the batches of one `writeSeveral`. @param T what `fill` returned. */
export interface WrittenSeveral<T> {
  filled: T
  /** One for each batch that had rows, in the order in which they were opened. */
  results: PromiseSettledResult<WriteResult>[]
}

/** Throws a SvcError to refuse a write before the storage sees it. */
export type Admit = (batch: WriteBatch, context: CallContext, options: IngestOptions) => void | Promise<void>

/** Throws a SvcError where every write would be refused, whatever is in it: nothing is decoded then. Nothing in it may wait. */
export type AdmitAny = (context: CallContext) => void

/** The one way in for points: `Svc.ingest`. */
export interface Ingest {
  /**
   * Has an empty batch of the context's namespace filled, and writes it: resolves when its points are durable and visible. A batch without rows is not
   * written. Rows that the storage's admission refused are counted in the result, not thrown.
   * @throws SvcError CONFLICT for a repeated key, WRITE_TIMEOUT, and whatever `fill` (nothing is written then), admission and the storage throw.
   */
  write<T>(context: CallContext, options: IngestOptions, fill: Fill<T>): Promise<Written<T>>
  /**
   * As `write`, for rows that cannot share a batch, such as floats and histograms of one field: `fill` opens as many as it needs. Each is written and
   * fails by itself, all in one turn, so that they share a write to the log. An idempotency key stands for all of them.
   * @throws SvcError CONFLICT for a repeated key, and whatever `fill` throws: nothing is written then.
   */
  writeSeveral<T>(context: CallContext, options: IngestOptions, fill: (open: () => WriteBatch) => T | Promise<T>): Promise<WrittenSeveral<T>>
  /** A writer that takes a point in one line; what it gathers is written by its `write`. Slower than filling columns, by some microseconds a point. */
  points(context: CallContext, options?: PointsOptions): Points
  /** Adds a check that every write passes. @param any asked before points are decoded. */
  admit(check: Admit, any?: AdmitAny): void
  /** Counts values from the wire that are NaN, infinite or staleness markers. */
  countNonFinite(values: number): void
  /** Counts a call as a failed write, unless one of its writes was counted so: for what is refused before it gets to the gate. HTTP routes that say `ingest` need it for answers of success only. */
  failed(context: CallContext, error: unknown): void
  /** Runs a call that writes, and counts it when it fails: for listeners of a plugin's own. */
  attempt<T>(context: CallContext, work: () => Promise<T>): Promise<T>
  /** Frees the keys of a namespace that is gone. */
  forget(namespace: string): void
}

const MAX_KEY_LENGTH = 255

interface IngestLimits {
  writeTimeoutMs: number
  dedupWindowMs: number
  maxDedupEntries: number
  /** Namespaces are kept apart. */
  multiTenancy: boolean
  /** Bounds of `points` that are given none. */
  maxPoints: number
  maxBytes: number
}

export class IngestGate implements Ingest {
  private readonly storage: () => Storage
  private readonly limits: IngestLimits
  private readonly now: () => number
  private readonly nowNanos: () => bigint
  private readonly monotonic: () => number
  private readonly checks: Admit[] = []
  private readonly checksOfAny: AdmitAny[] = []
  private readonly keys: IdempotencyKeys
  private readonly errors: Counter
  private readonly backfilled: Counter
  private readonly nonFinite: Counter
  private readonly stored: Counter
  private readonly duration: Histogram
  /** Calls of which a write was counted as failed. */
  private readonly counted = new WeakSet<CallContext>()

  /** @param storage the open storage; called for each write. */
  constructor(storage: () => Storage, limits: IngestLimits, metrics: Metrics, clock: Pick<Clock, 'now' | 'monotonic' | 'nowNanos'>) {
    this.storage = storage
    this.limits = limits
    this.now = () => clock.now()
    this.nowNanos = () => clock.nowNanos()
    this.monotonic = () => clock.monotonic()
    this.keys = new IdempotencyKeys(limits.dedupWindowMs, limits.maxDedupEntries, () => clock.monotonic(), limits.writeTimeoutMs)
    this.errors = metrics.counter('write_errors_total', 'Writes that failed, whole or in part, by reason', ['reason'])
    for (const reason of ['storage_full', 'timeout', 'rejected', 'panic']) this.errors.inc({ reason }, 0)
    this.stored = metrics.counter('points_written_total', 'Points stored, whatever they came by')
    this.duration = metrics.histogram(
      'write_duration_seconds',
      'Time from a batch of decoded points to its being durable and visible, checks of plugins included',
    )
    this.backfilled = metrics.counter('backfill_points_total', 'Points written with backfill')
    this.nonFinite = metrics.counter(
      'wire_non_finite_samples_skipped_total',
      'NaN, infinite values and staleness markers taken from the wire: SQL and native answers leave them out, only PromQL sees them',
    )
  }

  points(context: CallContext, options: PointsOptions = {}): Points {
    const { maxPoints, maxBytes } = this.limits
    return new PointWriter(this, context, { maxPoints, maxBytes, ...options }, this.nowNanos)
  }

  admit(check: Admit, any?: AdmitAny): void {
    this.checks.push(check)
    if (any !== undefined) this.checksOfAny.push(any)
  }

  countNonFinite(values: number): void {
    this.nonFinite.inc(values)
  }

  failed(context: CallContext, error: unknown): void {
    if (!this.counted.has(context)) this.count(context, reasonOf(classify(error)))
  }

  async attempt<T>(context: CallContext, work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      this.failed(context, error)
      throw error
    }
  }

  private count(context: CallContext, reason: string): void {
    this.counted.add(context)
    this.errors.inc({ reason })
  }

  forget(namespace: string): void {
    this.keys.forget(namespace)
  }

  async write<T>(context: CallContext, options: IngestOptions, fill: Fill<T>): Promise<Written<T>> {
    const storage = this.opened(context)
    const batch = storage.batch(context.dataNamespace)
    let filled: T
    try {
      filled = await traced('decode', () => ownedBy(context.dataNamespace, () => fill(batch)))
    } catch (error) {
      storage.recycle(batch)
      throw error
    }
    if (batch.rows === 0) {
      storage.recycle(batch)
      return { written: 0, rejected: 0, rejections: [], filled }
    }
    if (options.idempotencyKey === undefined) return { ...(await this.store(storage, batch, context, options)), filled }
    const [result] = await this.keyed(storage, [batch], context, options)
    if (result.status === 'rejected') throw result.reason
    return { ...result.value, filled }
  }

  async writeSeveral<T>(context: CallContext, options: IngestOptions, fill: (open: () => WriteBatch) => T | Promise<T>): Promise<WrittenSeveral<T>> {
    const storage = this.opened(context)
    const batches: WriteBatch[] = []
    const open = (): WriteBatch => {
      const batch = storage.batch(context.dataNamespace)
      batches.push(batch)
      return batch
    }
    let filled: T
    try {
      filled = await traced('decode', () => ownedBy(context.dataNamespace, () => fill(open)))
    } catch (error) {
      for (const batch of batches) storage.recycle(batch)
      throw error
    }
    const full = batches.filter((batch) => batch.rows > 0)
    for (const batch of batches) if (!full.includes(batch)) storage.recycle(batch)
    return { filled, results: await this.keyed(storage, full, context, options) }
  }

  /** The storage, for a write that may pass as far as is known before it is decoded. */
  private opened(context: CallContext): Storage {
    const storage = this.storage()
    requireReadable(context, this.limits.multiTenancy)
    try {
      for (const check of this.checksOfAny) check(context)
    } catch (error) {
      this.count(context, reasonOf(classify(error)))
      throw error
    }
    return storage
  }

  /**
   * Writes batches under the caller's key. It is free again when one of them failed, and when nothing was stored: the caller may correct the points and try again.
   * It is under way for as long as the storage is, also when that is longer than the time limit: points without a time would be stored twice.
   */
  private async keyed(storage: Storage, batches: WriteBatch[], context: CallContext, options: IngestOptions): Promise<PromiseSettledResult<WriteResult>[]> {
    if (batches.length === 0) return []
    let key: string | undefined
    try {
      key = this.keyOf(context, options.idempotencyKey)
      if (key !== undefined && !(await this.keys.enter(key))) throw repeated(options)
    } catch (error) {
      for (const batch of batches) storage.recycle(batch)
      this.count(context, reasonOf(classify(error)))
      throw error
    }
    const ends: Promise<WriteResult>[] = []
    const answers = batches.map((batch, i) => {
      const late = (written: Promise<WriteResult>) => {
        ends[i] = written
        options.late?.(written)
      }
      return this.store(storage, batch, context, { ...options, late })
    })
    const results = await Promise.allSettled(answers)
    if (key !== undefined) void Promise.allSettled(answers.map((answer, i) => ends[i] ?? answer)).then((ended) => this.keys.end(key, isStored(ended)))
    return results
  }

  /** @returns undefined where keys do not count. @throws BAD_REQUEST. */
  private keyOf(context: CallContext, given: string | undefined): string | undefined {
    if (given === undefined) return undefined
    if (given.length === 0 || given.length > MAX_KEY_LENGTH)
      throw new SvcError('BAD_REQUEST', `cannot use an Idempotency-Key of ${given.length} characters: it has 1 to ${MAX_KEY_LENGTH}`)
    return this.limits.dedupWindowMs === 0 ? undefined : IdempotencyKeys.of(context, given)
  }

  /** The batch goes to the storage, or back if the storage never gets it. */
  private async store(storage: Storage, batch: WriteBatch, context: CallContext, options: IngestOptions): Promise<WriteResult> {
    let owned = true // until the storage takes the batch
    try {
      const began = this.monotonic()
      if (this.checks.length > 0)
        await traced('checks', async () => {
          for (const check of this.checks) await check(batch, context, options)
        })
      // It waited to be read, and to be admitted: who has ended with his namespace writes into no other of its name.
      requireStanding(context, this.now())
      owned = false
      const { backfill = false, nonFinite = false } = options
      const written = traced('write', (span) => {
        span?.set('svc.rows', batch.rows)
        return storage.write(batch, { backfill, nonFinite })
      })
      const result = await within(written, this.limits.writeTimeoutMs, () => {
        options.late?.(written)
        return this.tooLong()
      })
      this.duration.observe((this.monotonic() - began) / 1000)
      this.stored.inc(result.written)
      if (backfill) this.backfilled.inc(result.written)
      if (result.rejected > 0) this.count(context, 'rejected')
      return result
    } catch (error) {
      if (owned) storage.recycle(batch)
      this.count(context, reasonOf(classify(error)))
      throw error
    }
  }

  private tooLong(): SvcError {
    const text = `the write took longer than ${this.limits.writeTimeoutMs / 1000} s; it may still be applied, and retrying is safe`
    return new SvcError('WRITE_TIMEOUT', `${text}; raise server.write_timeout_secs if the disk is slow`)
  }
}

/** Points lie where callers that name the namespace look for them: a context that says otherwise was made by hand. */
function requireReadable({ namespace, dataNamespace }: CallContext, multiTenancy: boolean): void {
  if (multiTenancy ? dataNamespace === namespace && namespaceProblem(namespace) === undefined : dataNamespace === '') return
  const named = JSON.stringify(dataNamespace.slice(0, 64))
  const context = 'take the context from svc.context() or svc.systemContext()'
  throw new SvcError(
    'FORBIDDEN',
    `cannot write points of namespace ${JSON.stringify(namespace.slice(0, 64))} into ${named}: nobody could read them; ${context}`,
  )
}

function repeated({ idempotencyKey }: IngestOptions): SvcError {
  return new SvcError('CONFLICT', `cannot repeat the write with Idempotency-Key "${idempotencyKey}": it was accepted before; use a new key for other points`)
}

/** Whether there is nothing to be gained by writing the same again. */
function isStored(results: readonly PromiseSettledResult<WriteResult>[]): boolean {
  const whole = results.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
  return whole.length === results.length && whole.some(({ written, rejected }) => written > 0 || rejected === 0)
}

function reasonOf(error: SvcError): string {
  if (error.code === 'STORAGE_FULL') return 'storage_full'
  if (error.code === 'WRITE_TIMEOUT') return 'timeout'
  return error.kind.http === 500 ? 'panic' : 'rejected'
}
