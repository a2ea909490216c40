/**
 * The embedded storage engine: write-ahead log, memtable, Parquet segments, catalog; one process, one data directory.
 * This file is the storage interface; open.ts puts the engine together, and what each part guarantees stands at its head.
 */
import { deserialize } from 'node:v8'
import type {
  AdmissionBounds,
  ArchiveService,
  BackupService,
  Capability,
  ChangeCursor,
  ChangeRequest,
  DeleteRequest,
  DeleteResult,
  DropOptions,
  ExportRequest,
  ExportResult,
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
  SeriesResolver,
  StateStore,
  StorageContext,
  StorageEngine,
  StorageStatus,
  WarmUp,
  WriteOptions,
  WriteResult,
} from 'svcdb'
import type { WriteBatch } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import { inTurns, type Work } from 'svcdb/lib/event-loop'
import { moduleUrl } from 'svcdb/lib/modules'
import { limitsOf } from '../common/limits.ts'
import { checkFieldName, checkMeasurementName } from '../common/names.ts'
import { NamespaceGate } from '../common/namespace-gate.ts'
import { retentionSettings } from '../common/retention.ts'
import { admissionOf } from '../common/window.ts'
import { describe, type Measurement } from './catalog/schema.ts'
import { LmdbState, ownersIn } from './catalog/state-store.ts'
import { type DatabaseConfig, resolveConfig } from './config.ts'
import { markEncrypted } from './encryption/open.ts'
import { type Environment, realEnvironment } from './environment.ts'
import { unopened } from './integrity/startup.ts'
import { closeDatabase, type OpenDatabase, openDatabase } from './open.ts'
import { usageOf } from './series/usage.ts'
import { declareField } from './write/declare.ts'

export const capabilities: ReadonlySet<Capability> = new Set<Capability>([
  'points',
  'sql',
  'sql_functions',
  'state',
  'jobs',
  'delete',
  'export',
  'backup',
  'archive',
  'changes',
])

/** Columns that are described between two looks at the time: a measurement may have tens of thousands. */
const DESCRIBED_AT_ONCE = 1024
const SCAN_JOB = moduleUrl('./read/scan-job.ts', import.meta.url)
const EXPLAIN_JOB = moduleUrl('./read/explain-job.ts', import.meta.url)

export class EmbeddedEngine implements StorageEngine {
  readonly capabilities = capabilities
  private readonly config: DatabaseConfig
  private readonly context: StorageContext
  private readonly environment: Environment
  private readonly gate: NamespaceGate
  private readonly holds = new Set<RetentionHold>()
  /** From `open` on, and after `close` too: what was read from it stays as it was. */
  private opened: OpenDatabase | undefined
  private opening: Promise<OpenDatabase> | undefined
  private closed = false

  /** @param environment tests put faults in the place of its parts. */
  constructor(context: StorageContext, environment: Partial<Environment> = {}) {
    this.context = context
    this.environment = { ...realEnvironment, ...environment }
    this.config = resolveConfig(context.config)
    const limits = limitsOf(this.config)
    retentionSettings(this.config, limits)
    this.gate = new NamespaceGate(limits)
  }

  async open(): Promise<void> {
    const { config, context, environment, gate, holds } = this
    this.opening = openDatabase({ config, context, environment, gate, holds }).catch((error) => {
      throw unopened(config.data_dir, error)
    })
    this.opened = await this.opening
  }

  async close(): Promise<void> {
    if (this.closed) return
    this.closed = true
    const opened = await this.opening?.catch(() => undefined) // it has let go of everything then
    if (opened === undefined) return
    opened.writes.refusal = closedError()
    await closeDatabase(opened)
  }

  get resolver(): SeriesResolver {
    return this.database.resolver
  }

  get archive(): ArchiveService {
    return this.database.archive
  }

  get backup(): BackupService {
    return this.database.backup
  }

  batch(namespace: string): WriteBatch {
    return this.database.batches.take(namespace)
  }

  recycle(batch: WriteBatch): void {
    this.database.writes.recycle(batch)
  }

  write(batch: WriteBatch, options: WriteOptions = {}): Promise<WriteResult> {
    const { writes } = this.database
    try {
      this.gate.requireOpen(batch.namespace)
    } catch (error) {
      writes.recycle(batch)
      return Promise.reject(error)
    }
    return writes.write(batch, options)
  }

  async declareField(namespace: string, measurement: string, field: FieldInfo): Promise<MeasurementInfo> {
    const { schema, writes, limits } = this.database
    checkMeasurementName(measurement, limits)
    checkFieldName(field.name, limits)
    this.gate.requireOpen(namespace)
    const known = schema.resolve(namespace, measurement)
    try {
      const { definitions, undo } = declareField(schema, known, field, limits.maxFieldsPerMeasurement)
      if (Object.keys(definitions).length > 0) await writes.define(namespace, definitions, undo)
    } catch (error) {
      writes.giveBack() // a measurement that it would have begun
      throw error
    }
    return this.described(known)
  }

  async delete(request: DeleteRequest): Promise<DeleteResult> {
    return this.running.deletes.delete(request)
  }

  async drop(namespace: string, measurement: string, options: DropOptions = {}): Promise<void> {
    return this.running.drops.drop(namespace, measurement, options.final === true)
  }

  async restore(namespace: string, measurement: string): Promise<void> {
    const { drops } = this.running
    this.gate.requireOpen(namespace)
    return drops.restore(namespace, measurement)
  }

  async admission(namespace: string, measurement: string): Promise<AdmissionBounds> {
    const { clock, windows, schema, tombstones } = this.database
    const known = schema.find(namespace, measurement)
    const taken = known === undefined ? undefined : tombstones.takenBefore(known.id)
    return admissionOf(windows.peek(namespace), clock.wallClock, clock.admission(), measurement, taken)
  }

  holdRetention(hold: RetentionHold): () => void {
    this.holds.add(hold)
    return () => void this.holds.delete(hold)
  }

  async export(request: ExportRequest, options?: JobOptions): Promise<ExportResult> {
    return this.running.exports.export(request, { ...options, namespace: request.namespace })
  }

  async measurements(namespace: string, only?: string): Promise<MeasurementInfo[]> {
    const { schema } = this.database
    if (only === undefined) return inTurns(this.describedAll(schema.list(namespace)))
    const known = schema.find(namespace, only)
    return known?.durable === true ? [this.described(known)] : []
  }

  async measurementsPage({ namespace, offset, limit }: MeasurementsPageRequest): Promise<MeasurementsPage> {
    const { schema } = this.database
    const total = schema.shownCount(namespace)
    return { items: await inTurns(this.describedAll(schema.list(namespace, offset, limit))), total }
  }

  async namespaces(): Promise<string[]> {
    return this.database.schema.namespaces()
  }

  async usage(namespace: string): Promise<NamespaceUsage> {
    return usageOf(namespace, this.database)
  }

  guard(guard: NamespaceGuard): void {
    this.gate.guard = guard
  }

  async *scan(request: ScanRequest, options?: JobOptions): AsyncGenerator<SeriesChunk> {
    const job = this.run<void>(SCAN_JOB, request, { ...options, namespace: request.namespace })
    for await (const bytes of job.output) yield deserialize(bytes) as SeriesChunk
    await job.result
  }

  explain(request: ScanRequest): Promise<ScanPlan> {
    return this.run<ScanPlan>(EXPLAIN_JOB, request, { namespace: request.namespace }).result
  }

  run<R>(module: URL, args: unknown, options?: JobOptions): RunningJob<R> {
    return this.running.pool.run<R>(module, args, options)
  }

  endJobs(namespace: string): void {
    this.running.pool.endJobs(namespace)
  }

  warmUp(jobs: WarmUp): void {
    this.running.warmUp.add(jobs)
  }

  changes(request: ChangeRequest = {}): ChangeCursor {
    return this.running.changes.open(request)
  }

  forgetChanges(namespace: string): void {
    this.running.changes.names.forgetNamespace(namespace)
  }

  state(owner: string): StateStore {
    return new LmdbState(this.database.catalog.store, owner)
  }

  async stateOwners(): Promise<string[]> {
    return ownersIn(this.database.catalog.store)
  }

  status(): StorageStatus {
    if (this.closed) return { accepting: false, reason: 'the database is closed' }
    if (this.opened === undefined) return { accepting: false, reason: 'the database is opening' }
    const { fault } = this.opened.writes
    return fault === undefined ? { accepting: true } : { accepting: false, reason: fault.message }
  }

  async flush(): Promise<void> {
    await this.database.flush()
  }

  /** What the regular pass does: retention, drops whose time has come, files to give back. */
  async tidy(): Promise<void> {
    await this.running.maintenance.tidy()
  }

  private *describedAll(measurements: readonly Measurement[]): Work<MeasurementInfo[]> {
    const { schema } = this.database
    const found: MeasurementInfo[] = []
    let columns = 0
    for (const measurement of measurements) {
      // Dropped in a turn of others.
      if (schema.find(measurement.namespace, measurement.name) !== measurement) continue
      const info = this.described(measurement)
      found.push(info)
      columns += 1 + info.tags.length + info.fields.length
      if (columns < DESCRIBED_AT_ONCE) continue
      columns = 0
      yield
    }
    return found
  }

  private described(measurement: Measurement): MeasurementInfo {
    const { keys, index } = this.database
    return markEncrypted(keys, describe(measurement, index.tagKeys(measurement.id)))
  }

  /** @throws DATABASE_CLOSED before it was opened. */
  private get database(): OpenDatabase {
    if (this.opened === undefined) throw closedError()
    return this.opened
  }

  /** @throws DATABASE_CLOSED before it was opened and when it has been closed. */
  private get running(): OpenDatabase {
    if (this.closed) throw closedError()
    return this.database
  }
}

function closedError(): SvcError {
  return new SvcError('DATABASE_CLOSED', 'the database is closed; retry after the restart')
}
