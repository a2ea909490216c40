/**
 * The embedded storage engine: write-ahead log, memtable, Parquet segments, catalog; one process, one data directory.
 * This file puts the parts together and is the storage interface; what each part guarantees stands at its head.
 */
import { resolve } from 'node:path'
import { deserialize } from 'node:v8'
import type {
  Capability,
  Change,
  DeleteRequest,
  DeleteResult,
  DropOptions,
  ExportRequest,
  ExportResult,
  FieldInfo,
  JobOptions,
  MeasurementInfo,
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
  WriteOptions,
  WriteResult,
} from 'svcdb'
import type { WriteBatch } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import { ADMITS_ALL, admissionCutoffs, type Lifetimes, lifetimesOf } from '../common/lifetime.ts'
import { type Limits, limitsOf } from '../common/limits.ts'
import { checkFieldName, checkMeasurementName } from '../common/names.ts'
import { NamespaceGate } from '../common/namespace-gate.ts'
import { Archive, type ArchiveParts } from './archive/archive.ts'
import { Backups } from './backup/backups.ts'
import { backupDisk } from './backup/disk.ts'
import { type BackedUp, backupSource } from './backup/source.ts'
import { Catalog } from './catalog/catalog.ts'
import { loadCatalog } from './catalog/load.ts'
import { describe, type Measurement, Schema } from './catalog/schema.ts'
import { LmdbState } from './catalog/state-store.ts'
import { dropUnusedSymbols } from './catalog/unused-symbols.ts'
import { Maintenance, removeOrphans } from './compaction/maintenance.ts'
import { type DatabaseConfig, durabilityText, fsyncPolicy, pressureLimits, queryThreads, resolveConfig, workerConfig } from './config.ts'
import { checkTags, markEncrypted, missingKey, openEncryption, protectTags, reportMissingKeys } from './encryption/open.ts'
import { type DirectoryLock, type Environment, lockTexts, realEnvironment } from './environment.ts'
import { Exports } from './export/exports.ts'
import { LogNotes } from './integrity/log-note.ts'
import { Scrubber } from './integrity/scrubber.ts'
import { directoriesAbove, holdsData, segmentsToServe, syncAbove } from './integrity/startup.ts'
import { type EngineMetrics, engineGauges, engineMetrics } from './metrics.ts'
import { paths } from './paths.ts'
import { Housekeeping } from './retention/housekeeping.ts'
import { Lifetime } from './retention/lifetime.ts'
import { Manifest } from './segment/manifest.ts'
import type { Selection } from './series/select-job.ts'
import { SeriesIndex } from './series/series-index.ts'
import { usageOf } from './series/usage.ts'
import { type SegmentMeta, Shared, segmentFiles, type WorkerConfig } from './threads/layout.ts'
import { WorkerPool } from './threads/pool.ts'
import { Publisher } from './threads/publisher.ts'
import { slicesOf } from './threads/slices.ts'
import { stateEvents } from './threads/state-events.ts'
import { type LateSeries, lateSeries } from './wal/late-series.ts'
import { recover } from './wal/recovery.ts'
import { Wal } from './wal/wal.ts'
import { Changes } from './write/changes.ts'
import { declareField } from './write/declare.ts'
import { Pressure } from './write/pressure.ts'
import { seriesResolver } from './write/resolver.ts'
import { WritePath } from './write/write-path.ts'

export const capabilities: ReadonlySet<Capability> = new Set<Capability>(['points', 'sql', 'state', 'jobs', 'delete', 'export', 'backup', 'archive'])

/** Not a plugin's id. */
const ARCHIVE_STATE = 'storage.archive'
const SELECT_JOB = new URL('./series/select-job.ts', import.meta.url)
const CLOSED = 'the database is closed; retry after the restart'

export class EmbeddedEngine implements StorageEngine {
  readonly capabilities = capabilities
  readonly resolver: SeriesResolver
  readonly archive: Archive
  readonly backup: Backups
  private readonly config: DatabaseConfig
  private readonly context: StorageContext
  private readonly environment: Environment
  private readonly dataDir: string
  private readonly paths: ReturnType<typeof paths>
  private readonly lock: DirectoryLock
  private readonly shared = new Int32Array(new SharedArrayBuffer(Shared.SLOTS * 4))
  private readonly publisher = new Publisher(this.shared)
  private readonly gate = new NamespaceGate()
  private readonly schema = new Schema(this.gate)
  private readonly index: SeriesIndex
  private readonly changes: Changes
  private readonly limits: Limits
  private readonly lifetimes: Lifetimes
  private readonly writes: WritePath
  private readonly lifetime: Lifetime
  private housekeeping: Housekeeping | undefined
  private readonly pressure: Pressure
  private encryption = openEncryption(undefined, {})
  private maintenance: Maintenance | undefined
  private manifest: Manifest | undefined
  private pool: WorkerPool | undefined
  private catalog: Catalog | undefined
  private scrubber: Scrubber | undefined
  private metrics: EngineMetrics | undefined
  private readonly exports: Exports
  private readonly holds = new Set<RetentionHold>()
  private phase: 'new' | 'open' | 'closed' = 'new'

  /** @param environment tests put faults in the place of its parts. */
  constructor(context: StorageContext, environment: Partial<Environment> = {}) {
    this.environment = { ...realEnvironment, ...environment }
    const { fs, timers, random } = this.environment
    this.context = context
    this.config = resolveConfig(context.config)
    this.dataDir = resolve(this.config.data_dir)
    this.paths = paths(this.dataDir)
    this.lock = this.environment.lock(this.paths.lock, lockTexts(this.paths.lock))
    const limits = limitsOf(this.config)
    this.limits = limits
    this.lifetimes = lifetimesOf(this.config, limits)
    const seed = random(8)
    const grown = () => this.publisher.tell({ kind: 'series', arrays: this.index.arrays() })
    this.index = new SeriesIndex(this.shared, limits.maxSeriesCardinality, grown, {
      gate: this.gate,
      hashKey: { low: seed.readInt32LE(0), high: seed.readInt32LE(4) },
    })
    this.changes = new Changes(this.schema, this.index, (error) => context.log.error({ err: error as Error }, 'a change listener failed'))
    this.resolver = protectTags(seriesResolver(this.schema, this.index, limits), Object.keys(this.config.field_encryption?.columns ?? {}))
    this.exports = new Exports(
      this.dataDir,
      () => this.workerConfig('maintenance'),
      (...job) => this.run<ExportResult>(...job),
      fs,
    )
    this.backup = new Backups(
      backupSource(this.dataDir, context.now, () => this.backedUp(), this.environment),
      backupDisk(fs.promises),
      random,
    )
    this.archive = new Archive(() => this.archiveParts())
    this.pressure = new Pressure(
      pressureLimits(this.config, (segment) => missingKey(this.encryption.keys, segment) !== undefined || this.scrubber?.isDamaged(segment.id) === true),
      () => timers.monotonic(),
      () => this.catalog?.store.commits.fault,
    )
    this.writes = new WritePath({
      pressure: this.pressure,
      config: this.config,
      limits,
      log: context.log,
      now: context.now,
      shared: this.shared,
      schema: this.schema,
      index: this.index,
      publisher: this.publisher,
      changes: this.changes,
      resolver: this.resolver,
      frozen: () => this.maintenance?.flushSoon(),
      replayed: (change, file) => this.lifetime.replayed(change, file),
      cutoffs: () => (this.lifetimes.shortestSecs === 0 ? ADMITS_ALL : admissionCutoffs(this.lifetimes, limits, this.lifetime.clock)),
    })
    this.lifetime = new Lifetime({
      lifetimes: this.lifetimes,
      schema: this.schema,
      index: this.index,
      writes: this.writes,
      publisher: this.publisher,
      changes: this.changes,
      log: context.log,
      select: (namespace, measurement, matchers) => this.run<Selection>(SELECT_JOB, { measurement, matchers }, { namespace }).result,
      slices: slicesOf(timers),
      now: context.now,
      segments: (table) => this.manifest?.segments.get(table) ?? [],
      outOfService: (tables, start, end) => this.scrubber?.outOfService(tables, start, end) ?? 0,
      reclaim: () => this.maintenance?.tidySoon(),
      released: (count) => this.metrics?.seriesReleased.inc(count),
      skipped: (count) => this.metrics?.deleteSegmentsSkipped.inc(count),
    })
  }

  async open(): Promise<void> {
    this.encryption = openEncryption(this.config.field_encryption, process.env)
    const { fs, timers } = this.environment
    const above = directoriesAbove(this.dataDir, fs)
    for (const dir of [this.dataDir, this.paths.wal, this.paths.segments]) fs.mkdirSync(dir)
    this.lock.acquire()
    // Older versions left the directory open to all.
    fs.ownerOnlySync(this.dataDir)
    fs.rmSync(this.paths.temp)
    fs.mkdirSync(this.paths.temp)
    const began = timers.monotonic()
    const { schema, index, writes, lifetime } = this
    const catalog = await Catalog.open(this.paths.catalog, !holdsData(this.paths.wal, this.paths.segments, fs), this.environment)
    this.catalog = catalog
    syncAbove(this.paths.catalog, fs, above)
    const setAside = this.config.damaged_segments === 'set_aside'
    const found = await segmentsToServe({ dataDir: this.dataDir, damagedDir: this.paths.damaged, setAside, log: this.context.log, fs, catalog })
    const segments = () => [...(this.manifest?.segments.values() ?? [])].flat().filter(({ archived }) => !archived)
    const scrubber = new Scrubber({ dataDir: this.dataDir, config: this.config, log: this.context.log, catalog, segments, fs, timers }, found)
    this.scrubber = scrubber
    const metrics = engineMetrics(this.context.metrics)
    this.metrics = metrics
    this.pool = new WorkerPool(
      {
        dataDir: this.dataDir,
        shared: this.shared,
        queryThreads: queryThreads(this.config),
        maxJobs: this.config.max_concurrent_queries,
        config: { query: { ...this.workerConfig('query'), ...this.encryption.query }, maintenance: this.workerConfig('maintenance') },
        state: () => stateEvents({ schema, index, lifetime, writes }, [...(this.manifest?.segments.values() ?? [])].flat()),
        maintenanceDied: (cause) => {
          metrics.maintenancePanics.inc()
          return this.pressure.died(cause)
        },
        trust: scrubber.trust,
        damaged: (segment, cause) => scrubber.report(segment, cause),
        prefetched: (bytes) => (bytes > 0 ? metrics.prefetchedBytes.inc(bytes) : metrics.prefetchErrors.inc()),
        refusedPlan: () => metrics.refusedPlans.inc(),
        fetch: (job, objects) => this.archive.fetch(job, objects),
        ended: (job) => this.archive.jobEnded(job),
        environment: this.environment,
      },
      this.publisher,
      this.context.log,
    )
    const notes = new LogNotes(this.paths.wal, catalog, this.context.log, fs)
    const walMetrics = {
      fsyncs: () => metrics.walFsyncs.inc(),
      written: (bytes: number) => metrics.walBytes.inc(bytes),
      opened: (file: number) => notes.opened(file),
    }
    this.writes.wal = new Wal(this.paths.wal, fsyncPolicy(this.config.wal_fsync_policy), fs, walMetrics, timers)
    const { context, config, pool, pressure } = this
    const shared = {
      dataDir: this.dataDir,
      fs,
      timers,
      log: context.log,
      schema,
      pool,
      writes,
      metrics,
      pressure,
      lifetime,
      housekeeping: () => this.housekeeping as Housekeeping,
    }
    const manifest = new Manifest({ ...shared, walDir: this.paths.wal, index, catalog, publisher: this.publisher, archive: () => this.archive })
    this.manifest = manifest
    const leaves = (segment: SegmentMeta) => missingKey(this.encryption.keys, segment) !== undefined || scrubber.isDamaged(segment.id)
    const maintenance = new Maintenance({ ...shared, config, manifest, leaves })
    this.housekeeping = new Housekeeping({
      lifetime: this.lifetime,
      lifetimes: this.lifetimes,
      limits: this.limits,
      schema: this.schema,
      index: this.index,
      writes: this.writes,
      metrics,
      timers,
      holds: this.holds,
      rewriteAfterSecs: this.config.deleted_rows_rewrite_secs,
      merging: (segment) => manifest.isTaken(segment),
      segments: manifest.segments,
      remove: (segments) => manifest.remove(segments),
    })
    await catalog.identity().catch((error) => this.context.log.warn({ err: error }, 'cannot give the database its id; whoever needs it tries again'))
    await dropUnusedSymbols(catalog.store, this.context.log)
    const orphans = removeOrphans(this.paths.segments, this.dataDir, new Set(found.flatMap(segmentFiles)), fs)
    if (orphans > 0) this.context.log.info({ orphans }, 'removed segment files of an unfinished flush or merge')
    loadCatalog(catalog, found, { schema, index, writes, lifetime, manifest })
    reportMissingKeys(this.encryption.keys, found, this.context.log)
    const { keys } = this.encryption
    if (keys.columns.length > 0) this.writes.keys = keys
    const floor = catalog.counters()?.walFloor ?? 1
    this.writes.start(floor)
    notes.check(floor)
    let late: LateSeries | undefined
    const lateOnes = (): LateSeries => (late ??= lateSeries(this.paths.wal, floor, fs))
    const replayed = await recover(this.paths.wal, floor, fs, (record, file) => this.writes.restore(record, file, lateOnes), keys)
    checkTags(this.schema.byId, (id) => index.tagKeys(id), keys.columns)
    this.writes.wal.begin(Math.max(replayed.lastFile, floor - 1) + 1)
    this.lifetime.replayEnded()
    index.tally((measurement) => schema.any(measurement)?.namespace)
    this.maintenance = maintenance
    const policy = fsyncPolicy(config.wal_fsync_policy)
    const parts = { policy, writes, index, manifest, pressure, catalog, pool, scrubber, temp: this.paths.temp }
    engineGauges(context.metrics, parts)
    context.log.info({ preset: config.preset }, `durability: ${durabilityText(policy)}`)
    const { records, rows, bytes, torn } = replayed
    if (records > 0 || torn > 0) context.log.info({ records, rows, bytes, torn, ms: Math.round(timers.monotonic() - began) }, 'replayed the write-ahead log')
    this.phase = 'open'
    maintenance.start()
    scrubber.start()
  }

  async close(): Promise<void> {
    if (this.phase === 'closed') return
    const wasOpen = this.phase === 'open'
    this.phase = 'closed'
    this.writes.refusal = new SvcError('DATABASE_CLOSED', CLOSED)
    try {
      await this.backup.close()
      if (wasOpen) await this.flushAtEnd()
      await this.scrubber?.stop()
      await this.pool?.close()
      await this.maintenance?.settled()
      await this.archive.settled()
      await this.catalog?.close()
    } finally {
      this.lock.release()
    }
  }

  batch(namespace: string): WriteBatch {
    return this.writes.batch(namespace)
  }

  recycle(batch: WriteBatch): void {
    this.writes.recycle(batch)
  }

  write(batch: WriteBatch, options: WriteOptions = {}): Promise<WriteResult> {
    try {
      this.gate.requireOpen(batch.namespace)
    } catch (error) {
      this.writes.recycle(batch)
      return Promise.reject(error)
    }
    return this.writes.write(batch, options)
  }

  async declareField(namespace: string, measurement: string, field: FieldInfo): Promise<MeasurementInfo> {
    const limits = limitsOf(this.config)
    checkMeasurementName(measurement, limits)
    checkFieldName(field.name, limits)
    this.gate.requireOpen(namespace)
    const known = this.schema.resolve(namespace, measurement)
    const { definitions, undo } = declareField(this.schema, known, field, limits.maxFieldsPerMeasurement)
    if (Object.keys(definitions).length > 0) await this.writes.define(definitions, undo)
    return this.described(known)
  }

  async delete(request: DeleteRequest): Promise<DeleteResult> {
    this.assertOpen()
    return this.lifetime.delete(request)
  }

  async drop(namespace: string, measurement: string, options: DropOptions = {}): Promise<void> {
    this.assertOpen()
    return this.lifetime.drop(namespace, measurement, options.final === true)
  }

  async restore(namespace: string, measurement: string): Promise<void> {
    this.assertOpen()
    this.gate.requireOpen(namespace)
    return this.lifetime.restore(namespace, measurement)
  }

  holdRetention(hold: RetentionHold): () => void {
    this.holds.add(hold)
    return () => void this.holds.delete(hold)
  }

  export(request: ExportRequest, options?: JobOptions): Promise<ExportResult> {
    return this.exports.export(request, { ...options, namespace: request.namespace })
  }

  measurements(namespace: string): MeasurementInfo[] {
    return this.schema.list(namespace).map((measurement) => this.described(measurement))
  }

  namespaces(): string[] {
    return this.schema.namespaces()
  }

  usage(namespace: string): NamespaceUsage {
    const { schema, index, writes } = this
    return usageOf(namespace, { schema, index, writes, segments: this.manifest?.segments ?? new Map() })
  }

  guard(guard: NamespaceGuard): void {
    this.gate.guard = guard
  }

  async *scan(request: ScanRequest, options?: JobOptions): AsyncGenerator<SeriesChunk> {
    const job = this.run<void>(new URL('./read/scan-job.ts', import.meta.url), request, { ...options, namespace: request.namespace })
    for await (const bytes of job.output) yield deserialize(bytes) as SeriesChunk
    await job.result
  }

  explain(request: ScanRequest): Promise<ScanPlan> {
    return this.run<ScanPlan>(new URL('./read/explain-job.ts', import.meta.url), request, { namespace: request.namespace }).result
  }

  run<R>(module: URL, args: unknown, options?: JobOptions): RunningJob<R> {
    if (this.pool === undefined || this.phase !== 'open') throw new SvcError('DATABASE_CLOSED', CLOSED)
    return this.pool.run<R>(module, args, options)
  }

  subscribe(listener: (change: Change) => void): () => void {
    return this.changes.subscribe(listener)
  }

  state(owner: string): StateStore {
    if (this.catalog === undefined) throw new SvcError('DATABASE_CLOSED', CLOSED)
    return new LmdbState(this.catalog.store, owner)
  }

  status(): StorageStatus {
    if (this.phase !== 'open') return { accepting: false, reason: this.phase === 'new' ? 'the database is opening' : 'the database is closed' }
    const { fault } = this.writes
    return fault === undefined ? { accepting: true } : { accepting: false, reason: fault.message }
  }

  async flush(): Promise<void> {
    if (this.maintenance === undefined) throw new SvcError('DATABASE_CLOSED', CLOSED)
    const newest = this.writes.active.id
    await this.writes.rotate()
    await this.maintenance.flushed(newest)
    await this.maintenance.tidy()
  }

  /** What the regular pass does: retention, drops whose time has come, files to give back. */
  async tidy(): Promise<void> {
    this.assertOpen()
    await this.maintenance?.tidy()
  }

  private described(measurement: Measurement): MeasurementInfo {
    return markEncrypted(this.encryption.keys, describe(measurement, this.index.tagKeys(measurement.id)))
  }

  private assertOpen(): void {
    if (this.phase !== 'open') throw new SvcError('DATABASE_CLOSED', CLOSED)
  }

  private async flushAtEnd(): Promise<void> {
    const { writes, context } = this
    const [maintenance, manifest] = [this.maintenance as Maintenance, this.manifest as Manifest]
    await maintenance.stop()
    try {
      await writes.wal.close()
      writes.freeze(writes.wal.file + 1)
      await maintenance.drain()
      // A memtable without rows begins with the file after the last: nothing is left to replay.
      if (writes.active.firstWal <= writes.wal.file) writes.start(writes.wal.file + 1)
      await manifest.commit()
      manifest.removeOldLogs()
    } catch (error) {
      context.log.error({ err: error as Error }, 'cannot flush at the end; the next start replays the write-ahead log')
    }
  }

  private backedUp(): BackedUp {
    this.assertOpen()
    const [manifest, pool, catalog] = [this.manifest as Manifest, this.pool as WorkerPool, this.catalog as Catalog]
    return { engine: this, writes: this.writes, manifest, pool, catalog }
  }

  private archiveParts(): ArchiveParts {
    const [manifest, pool, catalog] = [this.manifest as Manifest, this.pool as WorkerPool, this.catalog as Catalog]
    const { dataDir, config, schema, holds, lifetime, paths, context } = this
    const encrypted = Object.keys(config.field_encryption?.columns ?? {})
    const fault = () => this.pressure.fault ?? catalog.store.commits.fault
    const stays = (segment: SegmentMeta) => missingKey(this.encryption.keys, segment) !== undefined || this.scrubber?.isDamaged(segment.id) === true
    const state = new LmdbState(catalog.store, ARCHIVE_STATE)
    const identity = () => catalog.identity()
    return {
      dataDir,
      fs: this.environment.fs,
      paths,
      config,
      log: context.log,
      schema,
      encrypted,
      holds,
      state,
      identity,
      pool,
      lifetime,
      manifest,
      fault,
      stays,
    }
  }

  private workerConfig(role: 'query' | 'maintenance'): WorkerConfig {
    return { ...workerConfig(this.config, role), tempDir: this.paths.temp, regexTimeoutMs: this.limits.regexTimeoutMs, ...this.encryption.worker }
  }
}
