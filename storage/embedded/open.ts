/**
 * Opens a data directory: makes everything that works on it, each from what was made before it, and puts back what catalog and log have. What one
 * part asks of another that comes later goes through a `Signal`.
 *
 * The order of steps on disk: lock, directories, catalog, segment files, log, files that no catalog names. Nothing is served before all of it has succeeded.
 */
import { resolve } from 'node:path'
import type { RetentionHold, StorageContext } from 'svcdb'
import { closeToOthers, contentsOf } from '../common/data-directory.ts'
import { limitsOf } from '../common/limits.ts'
import type { NamespaceGate } from '../common/namespace-gate.ts'
import { warnOfOtherEngine } from '../common/other-engine.ts'
import { Backups } from './backup/backups.ts'
import { backupDisk } from './backup/disk.ts'
import { backupSource } from './backup/source.ts'
import { Catalog } from './catalog/catalog.ts'
import { type DatabaseConfig, durabilityText, fsyncPolicy } from './config.ts'
import { openEncryption } from './encryption/open.ts'
import { type DirectoryLock, type Environment, lockTexts } from './environment.ts'
import { Exports } from './export/exports.ts'
import { engineGauges } from './gauges.ts'
import { clearUnnamed, directoriesAbove, holdsData, makeDataDirectory, syncAbove } from './integrity/startup.ts'
import { memoryGauge } from './memory-gauge.ts'
import { replayLog } from './opening/log-replay.ts'
import { type MaintenanceSide, openMaintenanceSide } from './opening/maintenance-side.ts'
import { type Opening, threadConfig } from './opening/opening.ts'
import { loadData } from './opening/stored-data.ts'
import { openThreadsAndRemoval } from './opening/threads-and-removal.ts'
import { openWriteSide } from './opening/write-side.ts'
import { paths } from './paths.ts'
import { Signal } from './signal.ts'
import { segmentFiles } from './threads/segment-entry.ts'

interface OpenOptions {
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
      const counters = catalog.counters()
      const floor = counters?.walFloor ?? 1
      const policy = fsyncPolicy(config.wal_fsync_policy)
      const signals = { flushWanted: new Signal(), tidyWanted: new Signal() }
      const { context } = options
      const opening = { config, context, environment, dataDir, dirs, limits: limitsOf(config), policy, encryption, catalog, counters, floor, began, ...signals }
      return { ...(await build(opening, options)), lock }
    } catch (error) {
      await catalog.close()
      throw error
    }
  } catch (error) {
    lock.release()
    throw error
  }
}

/** Each step needs what those before it have made. */
async function build(opening: Opening, { gate, holds }: Pick<OpenOptions, 'gate' | 'holds'>) {
  const { config, context, environment, dataDir, dirs, limits, policy, encryption, catalog, flushWanted, tidyWanted } = opening
  const { log } = context
  const data = await loadData(opening, gate)
  const writing = openWriteSide(opening, data, () => upkeep.writer.floor)
  const threads = openThreadsAndRemoval(opening, data, writing)
  const upkeep: MaintenanceSide = openMaintenanceSide(opening, data, writing, threads, holds)
  const rowsInLog = await replayLog(opening, data, writing, threads)
  catalog.store.states.follow(() => writing.wal.settled())
  const { damaged: damagedDir, segments: segmentsDir } = dirs
  const named = new Set(data.found.flatMap(segmentFiles))
  await clearUnnamed({ dataDir, damagedDir, segmentsDir, named, nextSegment: opening.counters?.nextSegment ?? 1, rowsInLog, log, fs: environment.fs })
  log.info({ preset: config.preset }, `durability: ${durabilityText(policy)}`)

  const { base, shared, schema, index, segments, tombstones, memtables, readers, slabs, windows, clock } = data
  const { wal, scrubber, pressure, changes, resolver, batches, admission, results, rotation, writes } = writing
  const { releases, drops, deletes, pool, warmUp } = threads
  const { writer, retired, manifest, seeded, maintenance, archive } = upkeep
  engineGauges(context.metrics, {
    ...{ policy, wal, memtables, schema, index, segments, retired, readers, pressure, catalog, pool, results, scrubber },
    temp: dirs.temp,
  })
  memoryGauge(context.metrics, { memtables, slabs, index, pool }, base)
  const flush = async (): Promise<void> => {
    const newest = memtables.active.id
    await rotation.rotate()
    await maintenance.flushed(newest)
    await maintenance.tidy()
  }
  const isCorrupt = (id: number) => scrubber.isCorrupt(id)
  const source = backupSource({ dataDir, now: context.now, flush, writes, catalog, writer, readers, isCorrupt, shared, environment })
  const { fs, random } = environment
  const backup = new Backups(source, backupDisk(fs.promises), random)
  const exports = new Exports(dataDir, threadConfig('maintenance', opening), (module, args, options) => pool.run(module, args, options), fs, flush)
  flushWanted.handle(() => maintenance.flushSoon())
  tidyWanted.handle(() => maintenance.tidySoon())
  maintenance.start()
  scrubber.start()
  return {
    ...{ config, log, keys: encryption.keys, limits, catalog, schema, index, segments, tombstones, memtables, wal, pressure, changes, resolver, batches },
    ...{ admission, windows, clock, rotation, writes, releases, seeded, drops, deletes, readers, pool, writer, manifest, maintenance, scrubber, archive },
    ...{ backup, exports, flush, warmUp },
  }
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
    await writer.commit()
    manifest.removeOldLogs()
  } catch (error) {
    log.error({ err: error as Error }, 'cannot flush at the end; the next start replays the write-ahead log')
  }
}
