/** The way of a write: admission, log, memtable, and who follows it. */
import { historyOf } from '../../common/change-places.ts'
import { Wal } from '../../common/log/log.ts'
import { SchemaPublisher } from '../catalog/schema-publisher.ts'
import { ChangeLog } from '../changes/change-log.ts'
import { KeptLogs } from '../changes/kept-logs.ts'
import { ChangeNames } from '../changes/names.ts'
import { pressureLimits } from '../config.ts'
import { missingKey, protectTags } from '../encryption/open.ts'
import { LogNotes } from '../integrity/log-note.ts'
import { Scrubber } from '../integrity/scrubber.ts'
import { slicesOf } from '../slices.ts'
import { ResultCache } from '../threads/pool/result-cache.ts'
import type { SegmentMeta } from '../threads/segment-entry.ts'
import { WAL_FORM } from '../wal/form.ts'
import { Admission } from '../write/admission.ts'
import { BatchPool } from '../write/batch-pool.ts'
import { Pressure } from '../write/pressure.ts'
import { seriesResolver } from '../write/resolver.ts'
import { Rotation } from '../write/rotation.ts'
import { WritePath } from '../write/write-path.ts'
import type { Opening } from './opening.ts'
import type { StoredData } from './stored-data.ts'

export type WriteSide = ReturnType<typeof openWriteSide>

/** @param neededFrom the first log file that no segment has all of. */
export function openWriteSide(opening: Opening, data: StoredData, neededFrom: () => number) {
  const { config, context, environment, dataDir, dirs, limits, policy, encryption, catalog, counters, floor } = opening
  const { found, identity, metrics, publisher, schema, index, unstored, windows, clock, segments, memtables } = data
  const { fs, timers } = environment
  const { log } = context
  const { keys } = encryption
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
    (table) => schema.any(schema.tables[table]?.measurement ?? -1)?.namespace,
  )
  const slices = slicesOf(timers)
  const applied = (): number => writes.applied
  const logs = new KeptLogs({
    ...{ dir: dirs.wal, fs, log, maxBytes: config.cdc_log_size, maxAgeMs: config.cdc_log_secs * 1000, note: catalog, applied },
    ...{ floor: neededFrom, monotonic: () => timers.monotonic() },
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
  const results = new ResultCache(config.result_cache_size)
  const writes: WritePath = new WritePath({
    ...{ admission, batches, windows, memtables, wal, rotation, schema, index, schemaPublisher, changes, results, pressure, metrics, timers },
    keys: keys.columns.length > 0 ? keys : undefined,
  })
  writes.continueAfter(counters?.walSequence ?? 0)
  return { notes, wal, scrubber, unreadable, pressure, slices, logs, names, changes, schemaPublisher, resolver, batches, admission, results, rotation, writes }
}
