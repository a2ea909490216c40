/**
 * All points in plain maps: obviously correct rather than fast, nothing outlives the process. It is the oracle of the conformance
 * suite and the engine of plugin tests. Rules live in `../common`, the order of checks in `admit.ts`.
 */
import type {
  AdmissionBounds,
  Capability,
  ChangeCursor,
  ChangeRequest,
  DeleteRequest,
  DeleteResult,
  DropOptions,
  FieldInfo,
  JobOptions,
  MeasurementInfo,
  MeasurementsPage,
  MeasurementsPageRequest,
  NamespaceGuard,
  NamespaceUsage,
  RetentionHold,
  RunningJob,
  ScanPlan,
  ScanRequest,
  SeriesChunk,
  StateStore,
  StorageContext,
  StorageEngine,
  StorageStatus,
  WriteOptions,
  WriteResult,
} from 'svcdb'
import { WriteBatch } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import { MAX_DIGITS } from '../common/decimal.ts'
import { Deadline, LocalJobs } from '../common/job.ts'
import { type Limits, limitsOf } from '../common/limits.ts'
import { checkFieldName } from '../common/names.ts'
import { NamespaceGate } from '../common/namespace-gate.ts'
import { retentionSettings } from '../common/retention.ts'
import { admissionOf, Window } from '../common/window.ts'
import { admit } from './admit.ts'
import { MemoryChanges } from './changes.ts'
import { Removal } from './removal.ts'
import { type IncomingRow, rowsOf } from './rows.ts'
import { SeriesTable } from './series.ts'
import { infoOf, Snapshot } from './snapshot.ts'
import { MemoryState } from './state.ts'

export const capabilities: ReadonlySet<Capability> = new Set(['points', 'state', 'jobs', 'delete', 'changes'])
/** Refusals that a write's result carries. */
const KEPT_REJECTIONS = 16
/** About what a point takes. */
const POINT_BYTES = 100
/** Rows, and other changes, that change cursors find in memory. */
const CHANGES_KEPT = 65_536
/** Empty batches kept for the next decoder. */
const POOLED = 4

export class MemoryEngine implements StorageEngine {
  readonly capabilities = capabilities
  readonly resolver: SeriesTable
  private readonly gate: NamespaceGate
  private readonly context: StorageContext
  private readonly limits: Limits
  private readonly windows = new Map<string, Window>()
  private readonly states = new Map<string, MemoryState>()
  private readonly told: MemoryChanges
  private readonly pool: WriteBatch[] = []
  private readonly openBatches = new Set<WriteBatch>()
  private readonly removal: Removal
  private readonly jobs = new LocalJobs()
  private accepting = false

  constructor(context: StorageContext) {
    this.context = context
    this.limits = limitsOf(context.config)
    this.gate = new NamespaceGate(this.limits)
    this.told = new MemoryChanges(CHANGES_KEPT)
    this.resolver = new SeriesTable(this.limits, this.gate)
    const { resolver, limits, openBatches } = this
    const newest = () => [...this.windows.values()].map((window) => window.newest)
    const emptied = (namespace: string) => void this.windows.delete(namespace)
    const settings = retentionSettings(context.config, limits)
    this.removal = new Removal({ resolver, limits, settings, now: () => context.now(), newest, openBatches, emptied })
  }

  async open(): Promise<void> {
    this.accepting = true
  }

  async close(): Promise<void> {
    this.accepting = false
    this.jobs.cancelAll()
    this.told.close()
  }

  batch(namespace: string): WriteBatch {
    // A decoder that starts series has the budget of those that time has ended.
    this.removal.settle()
    const batch = this.pool.pop() ?? new WriteBatch(this.resolver)
    batch.namespace = namespace
    this.openBatches.add(batch)
    return batch
  }

  recycle(batch: WriteBatch): void {
    if (!this.openBatches.delete(batch)) throw new Error('cannot take back a batch: it is not open; a batch is written or recycled once')
    batch.reset()
    if (this.pool.length < POOLED) this.pool.push(batch)
    this.resolver.release(this.openBatches)
  }

  async write(batch: WriteBatch, options: WriteOptions = {}): Promise<WriteResult> {
    try {
      this.enter()
      this.gate.requireOpen(batch.namespace)
      return this.apply(batch, options)
    } finally {
      this.recycle(batch)
    }
  }

  private apply(batch: WriteBatch, { backfill = false, nonFinite = false }: WriteOptions): WriteResult {
    const window = this.window(batch.namespace)
    const rows = rowsOf(batch, this.resolver)
    admit(rows, window, window.open(this.context.now(), backfill, this.removal.cutoffs), this.limits, this.resolver, nonFinite)
    const admitted = rows.filter((row) => row.refused === undefined)
    for (const row of admitted) {
      window.advance(row.timeLow, row.timeHigh)
      this.store(row)
    }
    if (admitted.length > 0) this.told.written(batch.namespace, admitted, backfill)
    const refused = rows.flatMap(({ refused, position }) => (refused === undefined ? [] : [{ code: refused.code, message: refused.message, position }]))
    refused.sort((a, b) => a.position - b.position)
    return { written: admitted.length, rejected: refused.length, rejections: refused.slice(0, KEPT_REJECTIONS) }
  }

  private store({ series, time, fields }: IncomingRow): void {
    if (series.shared) {
      series.points = new Map(series.points)
      series.shared = false
    }
    const point = new Map(series.points.get(time))
    for (const { name, value } of fields) point.set(name, value)
    series.points.set(time, point)
    this.resolver.makeLive(series)
  }

  async declareField(namespace: string, measurement: string, field: FieldInfo): Promise<MeasurementInfo> {
    this.assertOpen()
    checkFieldName(field.name, this.limits)
    const { name, type, scale } = field
    if (type === 'decimal' && !(Number.isInteger(scale) && (scale as number) >= 0 && (scale as number) <= MAX_DIGITS)) {
      throw new SvcError('INVALID_POINT', `cannot declare field "${name}" of measurement "${measurement}": a decimal needs a scale of 0 to ${MAX_DIGITS}`)
    }
    this.gate.requireOpen(namespace)
    const target = this.resolver.measurement(namespace, measurement)
    const known = target.fields.get(name)
    const given: FieldInfo = type === 'decimal' ? { name, type, scale } : { name, type }
    if (known === undefined && target.fields.size >= this.limits.maxFieldsPerMeasurement) {
      const limit = this.limits.maxFieldsPerMeasurement
      throw new SvcError('INVALID_POINT', `cannot declare field "${name}" of measurement "${measurement}": max_fields_per_measurement of ${limit} is reached`)
    }
    if (known === undefined && this.resolver.left(namespace) < 1) throw this.resolver.refusal(target, name)
    if (known !== undefined && (known.type !== given.type || known.scale !== given.scale)) {
      throw new SvcError('SCHEMA_ERROR', `cannot declare field "${name}" of measurement "${measurement}" as ${shown(given)}: it is of type ${shown(known)}`)
    }
    if (known === undefined) target.fields.set(name, given)
    return infoOf(target)
  }

  async measurements(namespace: string, only?: string): Promise<MeasurementInfo[]> {
    this.removal.settle()
    if (only === undefined) return this.resolver.list(namespace).map(infoOf)
    const known = this.resolver.existing(namespace, only)
    return known === undefined ? [] : [infoOf(known)]
  }

  async measurementsPage({ namespace, offset = 0, limit }: MeasurementsPageRequest): Promise<MeasurementsPage> {
    this.removal.settle()
    const all = this.resolver.list(namespace)
    return { items: all.slice(offset, offset + limit).map(infoOf), total: all.length }
  }

  async namespaces(): Promise<string[]> {
    this.removal.settle()
    return this.resolver
      .allNamespaces()
      .filter((namespace) => this.resolver.list(namespace).length > 0)
      .sort()
  }

  async usage(namespace: string): Promise<NamespaceUsage> {
    this.removal.settle()
    let bytes = 0
    const measurements = this.resolver.list(namespace)
    for (const { series } of measurements) for (const { points } of series.values()) bytes += points.size * POINT_BYTES
    return { series: this.resolver.seriesOf(namespace), measurements: measurements.length, bytes }
  }

  guard(guard: NamespaceGuard): void {
    this.gate.guard = guard
  }

  async delete(request: DeleteRequest): Promise<DeleteResult> {
    this.enter()
    const tags = this.removal.delete(request).map((series) => series.tags)
    const { namespace, measurement, matchers = [], start, end } = request
    const range = { ...(start === undefined ? {} : { start }), ...(end === undefined ? {} : { end }) }
    const series = () => tags.map((t) => ({ ...t }))
    if (tags.length > 0) this.told.add([{ kind: 'series_deleted', namespace, measurement, ...range, ...(matchers.length > 0 ? { series } : {}) }])
    return { series: tags.length, segmentsSkipped: 0 }
  }

  async drop(namespace: string, measurement: string, options: DropOptions = {}): Promise<void> {
    this.enter()
    this.removal.drop(namespace, measurement, options.final === true)
    this.told.add([{ kind: 'measurement_dropped', namespace, measurement }])
  }

  async restore(namespace: string, measurement: string): Promise<void> {
    this.enter()
    this.gate.requireOpen(namespace)
    this.removal.restore(namespace, measurement)
    this.told.add([{ kind: 'measurement_restored', namespace, measurement }])
  }

  async admission(namespace: string, measurement: string): Promise<AdmissionBounds> {
    this.assertOpen()
    const { takenBefore } = this.resolver.existing(namespace, measurement) ?? {}
    return admissionOf(this.windows.get(namespace) ?? new Window(this.limits), this.context.now(), this.removal.cutoffs, measurement, takenBefore)
  }

  holdRetention(hold: RetentionHold): () => void {
    return this.removal.hold(hold)
  }

  async *scan(request: ScanRequest, options: JobOptions = {}): AsyncIterable<SeriesChunk> {
    this.enter()
    const deadline = new Deadline(options)
    try {
      for await (const chunk of this.snapshot(request.namespace).scan(request)) {
        deadline.signal.throwIfAborted()
        yield chunk
      }
      deadline.signal.throwIfAborted()
    } finally {
      deadline.clear()
    }
  }

  async explain(request: ScanRequest): Promise<ScanPlan> {
    this.enter()
    return this.snapshot(request.namespace).explain(request)
  }

  run<R>(module: URL, args: unknown, options?: JobOptions): RunningJob<R> {
    this.enter()
    return this.jobs.start<R>(this.snapshot(), module, args, options)
  }

  endJobs(namespace: string): void {
    this.jobs.endOf(namespace)
  }

  changes(request: ChangeRequest = {}): ChangeCursor {
    this.assertOpen()
    return this.told.open(request)
  }

  forgetChanges(namespace: string): void {
    this.told.forget(namespace)
  }

  state(owner: string): StateStore {
    const state = this.states.get(owner) ?? new MemoryState()
    this.states.set(owner, state)
    return state
  }

  status(): StorageStatus {
    return this.accepting ? { accepting: true } : { accepting: false, reason: 'the database is closed' }
  }

  async flush(): Promise<void> {
    this.assertOpen()
  }

  private snapshot(namespace?: string): Snapshot {
    return Snapshot.of(this.resolver, namespace === undefined ? this.resolver.allNamespaces() : [namespace], this.limits.regexTimeoutMs)
  }

  private window(namespace: string): Window {
    const window = this.windows.get(namespace) ?? new Window(this.limits)
    this.windows.set(namespace, window)
    return window
  }

  /** Begins an operation on points: what time has removed is gone before it looks. */
  private enter(): void {
    this.assertOpen()
    this.removal.settle()
  }

  private assertOpen(): void {
    if (!this.accepting) throw new SvcError('DATABASE_CLOSED', 'cannot use the database: it is closed')
  }
}

function shown({ type, scale }: FieldInfo): string {
  return scale === undefined ? type : `${type}(38, ${scale})`
}
