/** What there is to read and to write to: schema, series, segments, tombstones, and memtables that are empty yet. */

import type { NamespaceGate } from '../../common/namespace-gate.ts'
import { retentionSettings } from '../../common/retention.ts'
import { loadSchema, loadSeries, loadWindows, seedTimes } from '../catalog/load.ts'
import { Schema } from '../catalog/schema.ts'
import { Unstored } from '../catalog/unstored.ts'
import { slabOptions } from '../config.ts'
import { checkKeys } from '../encryption/check-keys.ts'
import { reportMissingKeys } from '../encryption/open.ts'
import { segmentsToServe } from '../integrity/startup.ts'
import { baseMemory } from '../memory-gauge.ts'
import { HeldMemory } from '../memtable/held-memory.ts'
import { LeftBuffers } from '../memtable/left-buffers.ts'
import { Memtables } from '../memtable/memtables.ts'
import { SeriesTimes } from '../memtable/series-times.ts'
import { SlabPool } from '../memtable/slabs.ts'
import { engineMetrics } from '../metrics.ts'
import { RetentionClock } from '../retention/clock.ts'
import { Tombstones } from '../retention/tombstones.ts'
import { SegmentTable } from '../segment/segment-table.ts'
import { SeriesIndex } from '../series/series-index.ts'
import { Publisher } from '../threads/publishing/publisher.ts'
import { Readers } from '../threads/publishing/readers.ts'
import { Shared } from '../threads/shared-header.ts'
import { SnapshotPins } from '../threads/snapshot-pins.ts'
import { Windows } from '../write/windows.ts'
import type { Opening } from './opening.ts'

export type StoredData = Awaited<ReturnType<typeof loadData>>

/** @throws what keeps the data from being served. */
export async function loadData(opening: Opening, gate: NamespaceGate) {
  const { config, context, environment, dataDir, dirs, limits, encryption, catalog, counters, flushWanted } = opening
  const { fs, random } = environment
  const { log } = context
  const setAside = config.damaged_segments === 'set_aside'
  const found = await segmentsToServe({ dataDir, damagedDir: dirs.damaged, setAside, log, fs, catalog })
  const metrics = engineMetrics(context.metrics)
  const identity = await catalog.identity().catch((error) => {
    log.warn({ err: error }, 'cannot give the database its id; whoever needs it tries again')
    // Places that are given out in this life are then those of a history that ends with it.
    return { id: random(16).toString('hex') }
  })
  reportMissingKeys(encryption.keys, found, log)
  await checkKeys(encryption.keys, found, config.field_encryption?.keys ?? {}, dataDir)

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
  const memtables = new Memtables({ shared, schema, index, publisher, held, slabs, times, flushWanted, nextSequence, firstWal: opening.floor })
  return {
    ...{ found, identity, metrics, shared, publisher, schema, index, unstored, windows, clock, segments, tombstones, times, seeds },
    ...{ base, readers, slabs, memtables },
  }
}
