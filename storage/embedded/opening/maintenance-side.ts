/** What changes the segments: flushes, merges, retention, the archive. */
import type { RetentionHold } from 'svcdb'
import { Archive } from '../archive/archive.ts'
import { CatalogWriter } from '../catalog/writer.ts'
import { Maintenance } from '../compaction/maintenance.ts'
import { RetentionPass } from '../retention/retention-pass.ts'
import { SeededTimes } from '../retention/seeded-times.ts'
import { Manifest } from '../segment/manifest.ts'
import { RetiredFiles } from '../segment/retired-files.ts'
import type { Opening } from './opening.ts'
import type { StoredData } from './stored-data.ts'
import type { ThreadsAndRemoval } from './threads-and-removal.ts'
import type { WriteSide } from './write-side.ts'

export type MaintenanceSide = ReturnType<typeof openMaintenanceSide>

export function openMaintenanceSide(
  opening: Opening,
  data: StoredData,
  writing: WriteSide,
  { releases, drops, moves, archived, pool }: ThreadsAndRemoval,
  holds: ReadonlySet<RetentionHold>,
) {
  const { config, context, environment, dataDir, dirs, limits, catalog, floor, tidyWanted } = opening
  const { metrics, shared, publisher, schema, index, unstored, clock, segments, tombstones, times, seeds, readers, memtables } = data
  const { wal, scrubber, unreadable, pressure, slices, logs, writes } = writing
  const { fs, timers } = environment
  const { log, tracing } = context
  const writer = new CatalogWriter({ catalog, schema, index, segments, memtables, unstored, tombstones, drops, releases, wal, writes, metrics, floor })
  const retired = new RetiredFiles({ dataDir, fs, log, readers, shared, archived, metrics })
  const manifest = new Manifest({ dataDir, fs, writer, logs, segments, memtables, releases, pressure, publisher, archived, retired })
  const seeded = new SeededTimes({ schema, index, memtables, segments, tombstones, times, releases, slices, pool, scrubber, tidyWanted, log }, seeds)
  const retention = new RetentionPass({
    ...{ clock, limits, schema, index, memtables, unstored, tombstones, drops, moves, releases, seeded, segments, manifest, metrics, timers, slices, holds },
    rewriteAfterSecs: config.deleted_rows_rewrite_secs,
  })
  const maintenance = new Maintenance({
    ...{ dataDir, config, log, fs, timers, slices, segments, manifest, schema, pool, memtables, metrics, pressure, tombstones, retention, logs, unreadable },
    tracing,
  })
  const fault = () => pressure.fault
  const archive = new Archive({
    ...{ dataDir, tempDir: dirs.temp, fs, config, log, schema, segments, manifest, objects: archived, pool, clock, tombstones, holds, unreadable, fault },
  })
  return { writer, retired, manifest, seeded, maintenance, archive }
}
