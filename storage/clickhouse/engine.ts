/**
 * Points in ClickHouse. This process holds what it needs to judge a write (the catalog, the newest times, which series are stored) and nothing that could be lost;
 * any number of them may share a server or a cluster. See docs/decisions/087-points-in-clickhouse.md.
 */
import type {
  AdmissionBounds,
  Capability,
  ChangeCursor,
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
  StateStore,
  StorageContext,
  StorageEngine,
  StorageStatus,
  StorageTopology,
  WriteOptions,
  WriteResult,
} from 'svcdb'
import { WriteBatch } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import { Deadline, LocalJobs } from '../common/job.ts'
import { type Limits, limitsOf } from '../common/limits.ts'
import { NamespaceGate } from '../common/namespace-gate.ts'
import {
  admissionCutoffs,
  deadlinePassed,
  dropDeadline,
  nothingToRestore,
  restoreConflict,
  retentionSettings,
  unknownMeasurement,
} from '../common/retention.ts'
import { admissionOf, Window } from '../common/window.ts'
import { Aggregates } from './aggregates.ts'
import { Arrivals } from './arrivals.ts'
import { type BackupSurroundings, Backups } from './backup/backups.ts'
import { fieldsOf, type Life } from './catalog.ts'
import { CatalogLog } from './catalog-log.ts'
import { Client, notesIn } from './client.ts'
import { type ClickHouseSection, lacking as lackingWith, policyOf, sectionOf } from './config.ts'
import { checkedField, declarationEvents } from './declaration.ts'
import { Expiry } from './expiry.ts'
import { dropped } from './export/export.ts'
import { Exports } from './export/exports.ts'
import { endOf, Maintenance } from './maintenance.ts'
import { type Days, daysOf, namespaceBytes, newestTime } from './measures.ts'
import { ClickHouseMetrics } from './metrics.ts'
import { Points } from './points.ts'
import { Policies } from './policies.ts'
import { ClickHouseReader, type ReaderContext } from './reader.ts'
import { Resolver } from './resolver.ts'
import { Schemas } from './schemas.ts'
import { SeriesNumbers } from './series-numbers.ts'
import { SeriesStore } from './series-store.ts'
import { LateBinder } from './sql/late-binder.ts'
import type { Place } from './statements.ts'
import { Tables } from './tables.ts'
import { topologyOf } from './topology.ts'
import { Turns } from './turns.ts'

/** Those that the section may take away (`lacking`) included. */
export const capabilities: ReadonlySet<Capability> = new Set(['points', 'jobs', 'delete', 'sql', 'sql_functions', 'export', 'backup'])
/** Empty batches kept for the next decoder. */
const POOLED = 4
/** Names kept above those that the budget of series allows, before the numbers of all are called in. */
const SPARE_NAMES = 100_000
/** How long a decoder may hold to a type that another node has dropped. */
const CATALOG_POLL_MS = 1000

export class ClickHouseEngine implements StorageEngine {
  readonly capabilities: ReadonlySet<Capability>
  readonly resolver: Resolver
  readonly backup?: Backups
  private readonly context: StorageContext
  private readonly section: ClickHouseSection
  private readonly limits: Limits
  private readonly gate: NamespaceGate
  private readonly client: Client
  private readonly place: Place
  private readonly log: CatalogLog
  private readonly series: SeriesStore
  private readonly tables: Tables
  private readonly points: Points
  private readonly maintenance: Maintenance
  private readonly expiry: Expiry
  private readonly policies: Policies
  private readonly numbers = new SeriesNumbers()
  private readonly aggregates: Aggregates
  private readonly turns = new Turns()
  private readonly arrivals: Arrivals
  private readonly pool: WriteBatch[] = []
  private readonly openBatches = new Set<WriteBatch>()
  /** Of the tables of each namespace, as counted last. */
  private readonly days = new Map<string, ReadonlyMap<string, Days>>()
  private readonly exports: Exports
  private readonly jobs = new LocalJobs()
  private readonly schemas: Schemas
  private timer: NodeJS.Timeout | undefined
  private poll: NodeJS.Timeout | undefined
  private maintaining: Promise<void> | undefined
  private accepting = false
  private readonly binder: LateBinder

  constructor(context: StorageContext) {
    const { config } = context
    this.context = context
    this.section = sectionOf(config)
    const absent = lackingWith(config)
    this.capabilities = new Set([...capabilities].filter((one) => !Object.hasOwn(absent, one)))
    this.limits = limitsOf(config)
    this.gate = new NamespaceGate(this.limits)
    this.place = { prefix: this.section.prefix, cluster: this.section.cluster }
    const metrics = new ClickHouseMetrics(context.metrics, () => this.tables.waitingBytes)
    const lookAgain = () => this.tables.lookAgain()
    this.client = new Client(this.section, metrics, notesIn(context.log, lookAgain))
    const now = () => context.now()
    this.log = new CatalogLog(this.client, this.place, now, (lives) => this.learn(lives))
    this.resolver = new Resolver(this.limits, (namespace, name) => fieldsOf(this.log.catalog.find(namespace, name)))
    this.series = new SeriesStore(this.client, this.place)
    this.binder = new LateBinder(this.context.sqlFunctions)
    const lacking = (why: string): void => context.log.warn({ why }, 'ClickHouse does not compute rates and sums of PromQL')
    this.aggregates = new Aggregates(this.client, this.place, this.section.query_memory, lacking)
    this.schemas = new Schemas(this.log, this.numbers)
    this.policies = new Policies(this.client, this.place, policyOf(this.section))
    const timeoutMs = this.section.write_timeout_secs * 1000
    const forget = (namespace: string) => this.log.catalog.forgetSeries(namespace)
    this.tables = new Tables(this.client, this.place, { maxBytes: this.section.max_waiting_bytes, timeoutMs }, forget)
    const waiting = { turns: this.turns, tables: this.tables, timeoutMs }
    this.arrivals = new Arrivals({ ...waiting, recycle: (batch) => this.recycle(batch) })
    const settings = retentionSettings(config, this.limits)
    const { section, limits, client, place, log, tables, series, resolver, gate } = this
    const newest = () => this.points.newest
    const around = { client, place, log, tables, series, settings, limits, now, newest, quorum: section.insert_quorum }
    this.maintenance = new Maintenance(around)
    this.expiry = new Expiry(around, this.maintenance)
    const cutoffs = () => admissionCutoffs(settings, limits, this.maintenance.clock)
    const left: BackupSurroundings['left'] = (told) => context.log.warn(told, 'databases of a backup that was read are left; drop them')
    if (section.backup_disk !== undefined) this.backup = new Backups({ section, disk: section.backup_disk, client, place, log, tables, now, left })
    this.points = new Points({ resolver, log, series, tables, limits, gate, now, cutoffs })
    this.exports = new Exports({
      ...{ client, place, series, memory: section.query_memory },
      keptFrom: (life) => this.maintenance.keptFrom(life),
      ready: (life) => tables.ready(life),
      enter: (namespace) => this.enter(namespace),
      find: (namespace, name) => this.existing('export', namespace, name),
      requireLife: async (life) => {
        await this.refreshed()
        if (!log.catalog.lives.has(life.number)) throw dropped(life)
      },
    })
  }

  async open(): Promise<void> {
    await this.log.open()
    await this.policies.check()
    await this.count()
    this.accepting = true
    const interval = (this.context.config.maintenance_interval_secs as number | undefined) ?? 60
    this.timer = setInterval(() => void this.maintain().catch((err) => this.context.log.warn({ err }, 'maintenance failed')), interval * 1000).unref()
    this.poll = setInterval(() => void this.log.refresh().catch((err) => this.context.log.debug({ err }, 'catalog was not read')), CATALOG_POLL_MS).unref()
  }

  async close(): Promise<void> {
    const isOpen = this.accepting || this.timer !== undefined
    this.accepting = false
    await this.backup?.close()
    if (!isOpen) return void (await this.client.close())
    clearInterval(this.timer)
    clearInterval(this.poll)
    this.timer = undefined
    this.jobs.cancelAll()
    await this.exports.close()
    await this.turns.settledAll()
    await this.maintaining?.catch(() => {})
    await Promise.allSettled(this.jobs.results)
    await this.binder.close()
    await this.client.close()
  }

  batch(namespace: string): WriteBatch {
    const batch = this.pool.pop() ?? new WriteBatch(this.resolver)
    batch.namespace = namespace
    this.openBatches.add(batch)
    return batch
  }

  recycle(batch: WriteBatch): void {
    if (!this.openBatches.delete(batch)) throw new Error('cannot take back a batch: it is not open; a batch is written or recycled once')
    batch.reset()
    if (this.pool.length < POOLED) this.pool.push(batch)
    if (this.resolver.size > this.limits.maxSeriesCardinality + SPARE_NAMES) this.resolver.forget()
    if (this.openBatches.size === 0) this.resolver.release()
  }

  async write(batch: WriteBatch, options: WriteOptions = {}): Promise<WriteResult> {
    const { namespace } = batch
    const sent = this.arrivals.take(batch, async () => {
      this.assertOpen()
      this.gate.requireOpen(namespace)
      await this.settle()
      return this.points.send(batch, options)
    })
    return this.turns.under(
      namespace,
      sent.then(({ result }) => result),
    )
  }

  async declareField(namespace: string, measurement: string, field: FieldInfo): Promise<MeasurementInfo> {
    this.assertOpen()
    const { limits, gate } = this
    const given = checkedField(measurement, field, limits)
    await this.turns.take(namespace, async () => {
      gate.requireOpen(namespace)
      await this.log.append((catalog) => declarationEvents({ catalog, gate, limits }, namespace, measurement, given))
    })
    const [info] = await this.measurements(namespace, measurement)
    if (info === undefined) throw unknownMeasurement('declare', measurement)
    return info
  }

  async measurements(namespace: string, only?: string): Promise<MeasurementInfo[]> {
    await this.enter(namespace)
    return this.reader(undefined).measurements(namespace, only)
  }

  async measurementsPage(request: MeasurementsPageRequest): Promise<MeasurementsPage> {
    await this.enter(request.namespace)
    return this.reader(undefined).measurementsPage(request)
  }

  async namespaces(): Promise<string[]> {
    await this.turns.settledAll()
    await this.enter(undefined)
    const { catalog } = this.log
    return [...catalog.namespaces].filter((namespace) => catalog.count(namespace) > 0).sort()
  }

  async usage(namespace: string): Promise<NamespaceUsage> {
    await this.enter(namespace)
    const { catalog } = this.log
    const lives = catalog.list(namespace)
    const bytes = lives.length === 0 ? 0 : await namespaceBytes(this.client, this.place, namespace, lives)
    return { series: catalog.seriesOf(namespace), measurements: lives.length, bytes }
  }

  guard(guard: NamespaceGuard): void {
    this.gate.guard = guard
  }

  async delete({ namespace, measurement, matchers = [], start, end }: DeleteRequest): Promise<DeleteResult> {
    return this.turns.alone(namespace, async () => {
      await this.tables.settled(namespace)
      await this.refreshed()
      const life = this.existing('delete', namespace, measurement)
      await this.tables.ensureNamespace(namespace)
      const { series, all } = await this.series.select(life, matchers, this.limits.regexTimeoutMs)
      if (series.length === 0 || (start !== undefined && end !== undefined && start >= end)) return { series: 0, segmentsSkipped: 0 }
      const keys = all ? undefined : series.map(({ key }) => key)
      const remove = () => this.maintenance.deleteRows(life, keys, { start, end })
      if (start !== undefined || end !== undefined) await remove()
      else {
        await this.maintenance.releaseSeries(life, async () => {
          await remove()
          return keys
        })
        this.resolver.forget()
      }
      return { series: series.length, segmentsSkipped: 0 }
    })
  }

  async drop(namespace: string, measurement: string, { final = false }: DropOptions = {}): Promise<void> {
    await this.turns.alone(namespace, async () => {
      await this.refreshed()
      const { softDeleteTtlSecs } = retentionSettings(this.context.config, this.limits)
      const deadline = dropDeadline(this.context.now(), this.points.newest, final ? undefined : softDeleteTtlSecs)
      const ends = deadlinePassed(deadline, this.maintenance.clock)
      let dropped: Life | undefined
      await this.log.append(() => {
        const life = this.existing('drop', namespace, measurement)
        dropped = life
        return [{ kind: 'drop', namespace, measurement, life: life.number, deadline }, ...(ends ? [endOf(life)] : [])]
      })
      this.resolver.forget()
      this.points.forgetGone()
      if (ends && dropped !== undefined) await this.maintenance.removeLife(dropped)
    })
  }

  async restore(namespace: string, measurement: string): Promise<void> {
    await this.turns.alone(namespace, async () => {
      this.gate.requireOpen(namespace)
      await this.refreshed()
      const settings = retentionSettings(this.context.config, this.limits)
      await this.log.append((catalog) => {
        const newest = catalog.pending.findLast(({ life }) => life.namespace === namespace && life.name === measurement)
        if (newest === undefined) throw nothingToRestore(measurement, settings, catalog.hasEnded(namespace, measurement))
        if (catalog.find(namespace, measurement) !== undefined) throw restoreConflict(measurement)
        return [{ kind: 'restore', namespace, measurement, life: newest.life.number }]
      })
      this.resolver.forget()
    })
  }

  async admission(namespace: string, measurement: string): Promise<AdmissionBounds> {
    this.assertOpen()
    await this.turns.settled(namespace)
    const settings = retentionSettings(this.context.config, this.limits)
    const cutoffs = admissionCutoffs(settings, this.limits, this.maintenance.clock)
    return admissionOf(this.points.windows.get(namespace) ?? new Window(this.limits), this.context.now(), cutoffs, measurement)
  }

  holdRetention(hold: RetentionHold): () => void {
    return this.maintenance.hold(hold)
  }

  async *scan(request: ScanRequest, options: JobOptions = {}): AsyncGenerator<SeriesChunk> {
    this.assertOpen()
    const deadline = new Deadline(options)
    try {
      deadline.signal.throwIfAborted()
      await this.enter(request.namespace)
      for await (const chunk of this.reader(deadline.signal, undefined, options.timeoutMs, request.namespace).scan(request)) {
        deadline.signal.throwIfAborted()
        yield chunk
      }
      deadline.signal.throwIfAborted()
    } finally {
      deadline.clear()
    }
  }

  async explain(request: ScanRequest): Promise<ScanPlan> {
    await this.enter(request.namespace)
    return this.reader(undefined).explain(request)
  }

  run<R>(module: URL, args: unknown, options?: JobOptions): RunningJob<R> {
    this.assertOpen()
    const ending = new AbortController()
    const job = this.jobs.start<R>(
      this.reader(ending.signal, () => this.refreshed(), options?.timeoutMs, options?.namespace),
      module,
      args,
      options,
    )
    job.result.catch(() => {}).finally(() => ending.abort(new SvcError('QUERY_TIMEOUT', 'cannot read: the job has ended')))
    return job
  }

  endJobs(namespace: string): void {
    this.jobs.endOf(namespace)
  }

  async export(request: ExportRequest, options: JobOptions = {}): Promise<ExportResult> {
    this.assertOpen()
    return this.exports.export(request, options)
  }

  changes(): ChangeCursor {
    throw new SvcError('METHOD_NOT_ALLOWED', 'cannot read changes: the storage engine "clickhouse" does not tell them')
  }

  state(): StateStore {
    throw new SvcError('METHOD_NOT_ALLOWED', 'cannot keep state: the storage engine "clickhouse" has no state store')
  }

  topology(): Promise<StorageTopology> {
    this.assertOpen()
    return topologyOf(this.client, this.place)
  }

  status(): StorageStatus {
    return this.accepting ? { accepting: true } : { accepting: false, reason: 'the database is closed' }
  }

  async flush(): Promise<void> {
    this.assertOpen()
    await this.turns.settledAll()
  }

  /** Does now what is done every `maintenance_interval_secs`. */
  async maintain(): Promise<void> {
    if (!this.accepting) return
    this.maintaining ??= this.maintainOnce().finally(() => {
      this.maintaining = undefined
    })
    await this.maintaining
  }

  private async maintainOnce(): Promise<void> {
    await this.refreshed()
    await this.count()
    for (const namespace of this.log.catalog.namespaces)
      if (this.accepting && (await this.expiry.pass(namespace, this.days.get(namespace) ?? new Map(), (body) => this.turns.alone(namespace, body))))
        this.resolver.forget()
    for (const namespace of this.log.catalog.namespaces) if (this.accepting) await this.policies.pass(namespace)
  }

  /** Counts what is stored, by whichever node. */
  private async count(): Promise<void> {
    for (const namespace of this.log.catalog.namespaces) {
      await this.tables.ensureNamespace(namespace)
      const lives = this.log.catalog.livesOf(namespace)
      const before = new Map(lives.map((life) => [life, life.series]))
      const counts = await this.series.count(namespace)
      // Series that were stored meanwhile may be among those counted: never twice, and the next time at the latest. Those that were given back may be, too.
      for (const [life, series] of before) life.series = Math.max(0, (counts.get(life.number) ?? 0) + Math.min(0, life.series - series))
      const days = await daysOf(this.client, this.place, namespace)
      this.days.set(namespace, days)
      await this.maintenance.removeLeft(namespace, counts.keys(), days.keys())
      const newest = await newestTime(this.client, this.place, namespace, days)
      if (newest !== undefined) this.points.known(namespace, newest)
    }
  }

  /** Begins a question: what was written before it is seen, and what time has removed is not. */
  private async enter(namespace: string | undefined): Promise<void> {
    this.assertOpen()
    if (namespace !== undefined) await this.turns.settled(namespace)
    await this.refreshed()
  }

  private async refreshed(): Promise<void> {
    this.assertOpen()
    await this.log.refresh()
    await this.settle()
  }

  private async settle(): Promise<void> {
    if (this.log.catalog.pending.length === 0 || !(await this.maintenance.endDrops())) return
    this.resolver.forget()
    this.points.forgetGone()
  }

  private existing(verb: string, namespace: string, name: string): Life {
    const life = this.log.catalog.find(namespace, name)
    if (life === undefined) throw unknownMeasurement(verb, name)
    return life
  }

  private reader(signal: AbortSignal | undefined, begin: () => Promise<void> = async () => {}, timeoutMs?: number, asker?: string): ClickHouseReader {
    const { client, place, aggregates, series, numbers } = this
    let begun: Promise<void> | undefined
    const context: ReaderContext = {
      client,
      place,
      aggregates,
      series,
      numbers,
      regexTimeoutMs: this.limits.regexTimeoutMs,
      begin: () => (begun ??= begin()),
      catalog: this.log.catalog,
      schema: (namespace) => this.schemas.of(namespace),
      keptFrom: (life) => this.maintenance.keptFrom(life),
      ready: (life) => this.tables.ready(life),
      sql: () => ({
        binder: () => this.binder.open(),
        now: () => BigInt(Math.floor(this.context.now())) * 1_000_000n,
        functions: new Map((this.context.sqlFunctions ?? []).map((one) => [one.name, one])),
        limits: { rows: this.section.query_rows },
      }),
    }
    return new ClickHouseReader(context, signal, timeoutMs, asker)
  }

  private learn(lives: ReadonlySet<Life>): void {
    for (const { namespace, name } of lives) {
      this.resolver.learn(namespace, name)
      this.schemas.forget(namespace)
    }
  }

  private assertOpen(): void {
    if (!this.accepting) throw new SvcError('DATABASE_CLOSED', 'cannot use the database: it is closed')
  }
}
