/**
 * Opens a data directory: makes everything that works on it, each from what was made before it, and puts back what catalog and log have. What one
 * part asks of another that comes later goes through a `Signal`.
 *
 * The order of steps on disk: lock, directories, catalog, segment files, orphans, log. Nothing is served before all of it has succeeded.
 */
import { resolve } from 'node:path'
import type { RetentionHold, StorageContext } from 'svcdb'
import { historyOf } from '../common/change-places.ts'
import { closeToOthers, contentsOf } from '../common/data-directory.ts'
import { type Limits, limitsOf } from '../common/limits.ts'
import { Wal } from '../common/log/log.ts'
import type { NamespaceGate } from '../common/namespace-gate.ts'
import { warnOfOtherEngine } from '../common/other-engine.ts'
import { retentionSettings } from '../common/retention.ts'
import { Archive } from './archive/archive.ts'
import { ArchivedObjects } from './archive/archived-objects.ts'
import { Ledger } from './archive/ledger.ts'
import { Backups } from './backup/backups.ts'
import { backupDisk } from './backup/disk.ts'
import { backupSource } from './backup/source.ts'
import { Catalog } from './catalog/catalog.ts'
import { loadSchema, loadSeries, loadWindows, seedTimes } from './catalog/load.ts'
import { Schema } from './catalog/schema.ts'
import { SchemaPublisher } from './catalog/schema-publisher.ts'
import { LmdbState } from './catalog/state-store.ts'
import { Unstored } from './catalog/unstored.ts'
import { CatalogWriter } from './catalog/writer.ts'
import { ChangeLog } from './changes/change-log.ts'
import { KeptLogs } from './changes/kept-logs.ts'
import { learnFrom } from './changes/log-reader.ts'
import { ChangeNames } from './changes/names.ts'
import { Maintenance } from './compaction/maintenance.ts'
import { type DatabaseConfig, durabilityText, fsyncPolicy, pressureLimits, processPlaces, queryThreads, slabOptions, workerConfig } from './config.ts'
import { checkKeys } from './encryption/check-keys.ts'
import { checkTags, type Encryption, missingKey, openEncryption, protectTags, reportMissingKeys } from './encryption/open.ts'
import { type DirectoryLock, type Environment, lockTexts } from './environment.ts'
import { Exports } from './export/exports.ts'
import { engineGauges } from './gauges.ts'
import { LogNotes } from './integrity/log-note.ts'
import { Scrubber } from './integrity/scrubber.ts'
import { directoriesAbove, holdsData, makeDataDirectory, removeOrphans, segmentsToServe, syncAbove } from './integrity/startup.ts'
import { baseMemory, memoryGauge } from './memory-gauge.ts'
import { HeldMemory } from './memtable/held-memory.ts'
import { LeftBuffers } from './memtable/left-buffers.ts'
import { Memtables } from './memtable/memtables.ts'
import { SeriesTimes } from './memtable/series-times.ts'
import { SlabPool } from './memtable/slabs.ts'
import { engineMetrics } from './metrics.ts'
import { paths } from './paths.ts'
import { RetentionClock } from './retention/clock.ts'
import { Deletes } from './retention/deletes.ts'
import { Drops } from './retention/drops.ts'
import { Releases } from './retention/releases.ts'
import { changesReplayed, replayChange } from './retention/replay.ts'
import { RetentionMoves } from './retention/retention-moves.ts'
import { RetentionPass } from './retention/retention-pass.ts'
import { SeededTimes } from './retention/seeded-times.ts'
import { Tombstones } from './retention/tombstones.ts'
import { Manifest } from './segment/manifest.ts'
import { RetiredFiles } from './segment/retired-files.ts'
import { SegmentTable } from './segment/segment-table.ts'
import { selectSeries } from './series/select-series.ts'
import { SeriesIndex } from './series/series-index.ts'
import { Signal } from './signal.ts'
import { slicesOf } from './slices.ts'
import { functionSpec } from './threads/function-spec.ts'
import type { ThreadRole, WorkerConfig } from './threads/messages.ts'
import { WorkerPool } from './threads/pool.ts'
import { Publisher } from './threads/publisher.ts'
import { Readers } from './threads/readers.ts'
import { type SegmentMeta, segmentFiles } from './threads/segment-entry.ts'
import { Shared } from './threads/shared-header.ts'
import { SnapshotPins } from './threads/snapshot-pins.ts'
import { stateEvents } from './threads/state-events.ts'
import { WAL_FORM } from './wal/form.ts'
import { type LateSeries, lateSeries } from './wal/late-series.ts'
import { recover } from './wal/recovery.ts'
import { WarmUpSchedule } from './warm-up/schedule.ts'
import { Admission } from './write/admission.ts'
import { BatchPool } from './write/batch-pool.ts'
import { Pressure } from './write/pressure.ts'
import { WriteReplay } from './write/replay.ts'
import { seriesResolver } from './write/resolver.ts'
import { Rotation } from './write/rotation.ts'
import { Windows } from './write/windows.ts'
import { WritePath } from './write/write-path.ts'

/** Not a plugin's id. */
const ARCHIVE_STATE = 'storage.archive'

export interface OpenOptions {
  config: DatabaseConfig
  context: StorageContext
  environment: Environment
  gate: NamespaceGate
  holds: ReadonlySet<RetentionHold>
}

/** An open database. */
export type OpenDatabase = Awaited<ReturnType<typeof build>> & { lock: DirectoryLock }

/** @throws what keeps the data directory from being served; nothing of it is held then. */
export async function openDatabase(options: OpenOptions): Promise<OpenDatabase> {
  const { config, environment } = options
  const encryption = openEncryption(config.field_encryption, process.env)
  const { fs } = environment
  const dataDir = resolve(config.data_dir)
  const dirs = paths(dataDir)
  const lock = environment.lock(dirs.lock, lockTexts(dirs.lock))
  const above = directoriesAbove(dataDir, fs)
  const found = contentsOf(dataDir, fs)
  makeDataDirectory(dataDir, fs)
  lock.acquire()
  try {
    closeToOthers(dataDir, found, 'catalog', fs, options.context.log)
    warnOfOtherEngine('embedded', dataDir, fs, options.context.log)
    fs.rmSync(dirs.temp)
    fs.mkdirSync(dirs.temp)
    const began = environment.timers.monotonic()
    const catalog = await Catalog.open(dirs.catalog, !holdsData(dirs.wal, dirs.segments, fs), environment)
    try {
      syncAbove(dirs.catalog, fs, above)
      const database = await build({ ...options, dataDir, encryption, catalog, began })
      return { ...database, lock }
    } catch (error) {
      await catalog.close()
      throw error
    }
  } catch (error) {
    lock.release()
    throw error
  }
}

interface BuildOptions extends OpenOptions {
  dataDir: string
  encryption: Encryption
  catalog: Catalog
  /** When opening began, on the monotonic clock. */
  began: number
}

async function build({ config, context, environment, gate, holds, dataDir, encryption, catalog, began }: BuildOptions) {
  const { fs, timers, random } = environment
  const { log } = context
  const { keys } = encryption
  const dirs = paths(dataDir)
  const limits = limitsOf(config)
  const counters = catalog.counters()
  const floor = counters?.walFloor ?? 1
  const policy = fsyncPolicy(config.wal_fsync_policy)
  const threadConfig = (role: ThreadRole) => threadConfigOf(role, config, limits, dirs.temp, encryption)
  const flushWanted = new Signal()
  const tidyWanted = new Signal()

  // What there is to read and write: schema, series, segments, tombstones, memtables.
  const setAside = config.damaged_segments === 'set_aside'
  const found = await segmentsToServe({ dataDir, damagedDir: dirs.damaged, setAside, log, fs, catalog })
  const metrics = engineMetrics(context.metrics)
  const identity = await catalog.identity().catch((error) => {
    log.warn({ err: error }, 'cannot give the database its id; whoever needs it tries again')
    // Places that are given out in this life are then those of a history that ends with it.
    return { id: random(16).toString('hex') }
  })
  const orphans = removeOrphans(dirs.segments, dataDir, new Set(found.flatMap(segmentFiles)), fs)
  if (orphans > 0) log.info({ orphans }, 'removed segment files of an unfinished flush or merge')
  reportMissingKeys(keys, found, log)
  await checkKeys(keys, found, config.field_encryption?.keys ?? {}, dataDir)
  const shared = new Int32Array(new SharedArrayBuffer(Shared.SLOTS * 4))
  const publisher = new Publisher(shared)
  const schema = new Schema(gate)
  const seed = random(8)
  const hashKey = { low: seed.readInt32LE(0), high: seed.readInt32LE(4) }
  const newIndex = () => new SeriesIndex(shared, limits.maxSeriesCardinality, (arrays) => publisher.publish({ kind: 'series', arrays }), { gate, hashKey })
  loadSchema(catalog, schema)
  const index = await loadSeries(catalog, newIndex, log)
  const unstored = new Unstored()
  const windows = new Windows(limits)
  const clock = new RetentionClock(retentionSettings(config, limits), limits, windows, context.now)
  const segments = new SegmentTable(found, counters?.nextSegment ?? 1)
  const tombstones = new Tombstones(unstored, (event) => publisher.publish(event))
  const times = new SeriesTimes()
  loadWindows(catalog, windows)
  const seeds = seedTimes(schema, index, segments, times)
  tombstones.load(catalog.tombstones(), catalog.cutoffs(), catalog.taken(), counters?.nextTombstone ?? 1)
  const base = baseMemory()
  const readers = new Readers(new SnapshotPins(config.max_concurrent_queries))
  const memory = slabOptions(config)
  const slabs = new SlabPool(memory, new LeftBuffers(publisher, memory.keptBytes).add)
  const held = new HeldMemory({ readers, slabs, maxMemtableMemory: config.max_memtable_memory, memtableBytes: config.memtable_flush_threshold })
  const nextSequence = counters?.nextSequence ?? 1
  const memtables = new Memtables({ shared, schema, index, publisher, held, slabs, times, flushWanted, nextSequence, firstWal: floor })

  // The way of a write.
  const notes = new LogNotes(dirs.wal, catalog, log, fs)
  const walEvents = {
    fsyncs: () => metrics.walFsyncs.inc(),
    written: (bytes: number) => metrics.walBytes.inc(bytes),
    opened: (file: number) => {
      notes.opened(file)
      logs.opened(file)
    },
    syncBegins: () => changes.syncBegins(),
    synced: () => changes.synced(),
    full: () => logs.giveUp(),
  }
  const wal = new Wal(dirs.wal, WAL_FORM, policy, fs, walEvents, timers)
  const scrubber = new Scrubber({ dataDir, config, log, catalog, segments, fs, timers }, found)
  const unreadable = (segment: SegmentMeta) => missingKey(keys, segment) !== undefined || scrubber.isCorrupt(segment.id)
  const pressure = new Pressure(
    pressureLimits(config, unreadable),
    () => timers.monotonic(),
    () => catalog.store.commits.fault,
  )
  const slices = slicesOf(timers)
  const applied = (): number => writes.applied
  const logs = new KeptLogs({
    ...{ dir: dirs.wal, fs, log, maxBytes: config.cdc_log_size, maxAgeMs: config.cdc_log_secs * 1000, note: catalog, applied },
    ...{ floor: () => writer.floor, monotonic: () => timers.monotonic() },
  })
  logs.begin()
  const names = new ChangeNames(schema, index)
  const changes: ChangeLog = new ChangeLog({
    ...{ history: historyOf(identity.id), names, logs, dir: dirs.wal, fs, keys, capacity: config.cdc_capacity, floor, applied },
    ...{ late: policy.kind === 'periodic', turn: () => slices.next() },
  })
  const schemaPublisher = new SchemaPublisher(schema, unstored, publisher)
  const resolver = protectTags(seriesResolver(schema, index, limits), Object.keys(config.field_encryption?.columns ?? {}))
  const batches = new BatchPool(resolver, () => timers.monotonic())
  const maxNew = {
    definitions: config.max_new_definitions_per_write,
    series: config.max_new_series_per_write,
    seriesBytes: config.max_new_series_bytes_per_write,
  }
  const admission = new Admission(schema, index, limits, maxNew, clock)
  const rotation = new Rotation(wal, memtables, config, log)
  const writes: WritePath = new WritePath({
    ...{ admission, batches, windows, memtables, wal, rotation, schema, index, schemaPublisher, changes, pressure, metrics, timers },
    keys: keys.columns.length > 0 ? keys : undefined,
  })
  writes.continueAfter(counters?.walSequence ?? 0)

  // Drops, retention, and series without rows.
  const releases = new Releases({ schema, index, writes, batches, publisher, log, slices, segments, times, unstored, metrics, names }, tombstones.byId.values())
  const drops = new Drops(
    { schema, index, memtables, windows, wal, writes, unstored, tombstones, releases, clock, publisher, changes, tidyWanted },
    catalog.drops(),
    catalog.endedDrops(),
  )
  const moves = new RetentionMoves(schema, memtables, tombstones, writes, wal)

  // Engine threads, and deletes, which have them select.
  const ledger = new Ledger(new LmdbState(catalog.store, ARCHIVE_STATE))
  const archived = new ArchivedObjects({ dataDir, paths: dirs, fs, config, log, segments, ledger, identity: () => catalog.identity() })
  const reading = { ...encryption.query, sqlFunctions: (context.sqlFunctions ?? []).map(functionSpec) }
  const pool = new WorkerPool({
    dataDir,
    shared,
    queryThreads: queryThreads(config),
    maxJobs: config.max_concurrent_queries,
    processes: processPlaces(config),
    config: {
      query: { ...threadConfig('query'), ...reading },
      background: { ...threadConfig('background'), ...reading },
      maintenance: threadConfig('maintenance'),
    },
    state: () => stateEvents({ schema, index, tombstones, drops, segments, memtables }),
    maintenanceDied: (cause) => {
      metrics.maintenancePanics.inc()
      return pressure.died(cause)
    },
    ...{ scrubber, readers, archived, metrics, publisher, log, environment },
  })
  const warmUp = new WarmUpSchedule({
    ...{ budgetMs: config.warm_up_ms, timers, log },
    coldThread: () => pool.coldThread(),
    wanted: () => schema.byId.some((measurement) => measurement !== undefined),
    busy: () => pool.activeJobs > 0,
  })
  pool.threadStarted = () => warmUp.wake()
  const select = selectSeries(pool)
  const deletes = new Deletes({ schema, index, memtables, wal, writes, tombstones, releases, changes, scrubber, slices, select, tidyWanted, metrics })

  // What changes the segments.
  const writer: CatalogWriter = new CatalogWriter({ catalog, schema, index, segments, memtables, unstored, tombstones, drops, releases, wal, writes, metrics })
  const retired = new RetiredFiles({ dataDir, fs, log, readers, shared, archived, metrics })
  const manifest = new Manifest({ dataDir, fs, writer, logs, segments, memtables, releases, pressure, publisher, archived, retired })
  const seeded = new SeededTimes({ schema, index, memtables, segments, tombstones, times, releases, slices, pool, scrubber, tidyWanted, log }, seeds)
  const retention = new RetentionPass({
    ...{ clock, limits, schema, index, memtables, unstored, tombstones, drops, moves, releases, seeded, segments, manifest, metrics, timers, holds },
    rewriteAfterSecs: config.deleted_rows_rewrite_secs,
  })
  const maintenance = new Maintenance({
    ...{ dataDir, config, log, fs, timers, slices, segments, manifest, schema, pool, memtables, metrics, pressure, tombstones, retention, logs, unreadable },
    tracing: context.tracing,
  })
  const fault = () => pressure.fault
  const archive = new Archive({
    ...{ dataDir, tempDir: dirs.temp, fs, config, log, schema, segments, manifest, objects: archived, pool, clock, tombstones, holds, unreadable, fault },
  })

  notes.check(floor)
  let late: LateSeries | undefined
  const lateOnes = (): LateSeries => (late ??= lateSeries(dirs.wal, floor, fs))
  const replay = new WriteReplay({ schema, index, memtables, windows, schemaPublisher }, config.memtable_flush_threshold)
  const replayed = await recover(
    dirs.wal,
    floor,
    fs,
    (record, file) => {
      writes.continueAfter(record.sequence)
      logs.replayed(file, record.sequence)
      if (record.change === undefined) replay.restore(record, file, lateOnes)
      else {
        replayChange(record.change, file, { deletes, drops, moves, releases, index })
        learnFrom(record.change, names)
      }
    },
    keys,
  )
  checkTags(schema.byId, (id) => index.tagKeys(id), keys.columns)
  wal.begin(Math.max(replayed.lastFile, floor - 1) + 1)
  changesReplayed(schema, index, releases)
  // Of those that the catalog has a time of, and that the log has ended.
  windows.forgetAllBut((namespace) => schema.owns(namespace))
  changes.begin()
  index.tally((measurement) => schema.any(measurement)?.namespace)
  const { records, rows, bytes, torn } = replayed
  if (records > 0 || torn > 0) log.info({ records, rows, bytes, torn, ms: Math.round(timers.monotonic() - began) }, 'replayed the write-ahead log')
  log.info({ preset: config.preset }, `durability: ${durabilityText(policy)}`)
  engineGauges(context.metrics, { policy, wal, memtables, index, segments, retired, readers, pressure, catalog, pool, scrubber, temp: dirs.temp })
  memoryGauge(context.metrics, { memtables, slabs, index, pool }, base)

  const flush = async (): Promise<void> => {
    const newest = memtables.active.id
    await rotation.rotate()
    await maintenance.flushed(newest)
    await maintenance.tidy()
  }
  const isCorrupt = (id: number) => scrubber.isCorrupt(id)
  const source = backupSource({ dataDir, now: context.now, flush, writes, catalog, writer, readers, isCorrupt, shared, environment })
  const backup = new Backups(source, backupDisk(fs.promises), random)
  const exports = new Exports(dataDir, threadConfig('maintenance'), (module, args, options) => pool.run(module, args, options), fs, flush)
  flushWanted.handle(() => maintenance.flushSoon())
  tidyWanted.handle(() => maintenance.tidySoon())
  maintenance.start()
  scrubber.start()
  return {
    ...{
      config,
      log,
      keys,
      limits,
      catalog,
      schema,
      index,
      segments,
      tombstones,
      memtables,
      wal,
      pressure,
      changes,
      resolver,
      batches,
      admission,
      windows,
      clock,
    },
    ...{ rotation, writes, releases, seeded, drops, deletes, readers, pool, writer, manifest, maintenance, scrubber, archive, backup, exports, flush, warmUp },
  }
}

function threadConfigOf(role: ThreadRole, config: DatabaseConfig, limits: Limits, tempDir: string, { worker }: Encryption): WorkerConfig {
  return { ...workerConfig(config, role), tempDir, regexTimeoutMs: limits.regexTimeoutMs, ...worker }
}

/** Ends everything, with a flush. Writes have been refused already. */
export async function closeDatabase(database: OpenDatabase): Promise<void> {
  const { backup, scrubber, pool, maintenance, archive, catalog, lock, warmUp, changes, seeded } = database
  warmUp.stop()
  seeded.stop()
  changes.close()
  try {
    await backup.close()
    await flushAtEnd(database)
    await scrubber.stop()
    await pool.close()
    await maintenance.settled()
    await seeded.settled()
    await archive.settled()
    await changes.settled()
    await catalog.close()
  } finally {
    lock.release()
  }
}

async function flushAtEnd({ maintenance, wal, memtables, writer, manifest, log }: OpenDatabase): Promise<void> {
  await maintenance.stop()
  try {
    await wal.close()
    memtables.freeze(wal.file + 1)
    await maintenance.drain()
    // A memtable without rows begins with the file after the last: nothing is left to replay.
    if (memtables.active.firstWal <= wal.file) memtables.start(wal.file + 1)
    await writer.commit()
    manifest.removeOldLogs()
  } catch (error) {
    log.error({ err: error as Error }, 'cannot flush at the end; the next start replays the write-ahead log')
  }
}
