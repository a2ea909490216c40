/** The engine's gauges. */
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Metrics } from 'svcdb'
import type { FsyncPolicy, Wal } from '../common/log/log.ts'
import type { Catalog } from './catalog/catalog.ts'
import type { Schema } from './catalog/schema.ts'
import type { Scrubber } from './integrity/scrubber.ts'
import type { Memtables } from './memtable/memtables.ts'
import type { RetiredFiles } from './segment/retired-files.ts'
import type { SegmentTable } from './segment/segment-table.ts'
import type { SeriesIndex } from './series/series-index.ts'
import type { WorkerPool } from './threads/pool/pool.ts'
import type { ResultCache } from './threads/pool/result-cache.ts'
import type { Readers } from './threads/publishing/readers.ts'
import type { Pressure } from './write/pressure.ts'

/** What gauges show. */
interface GaugeSources {
  policy: FsyncPolicy
  wal: Wal
  memtables: Memtables
  schema: Schema
  index: SeriesIndex
  segments: SegmentTable
  retired: RetiredFiles
  readers: Readers
  pressure: Pressure
  catalog: Catalog
  pool: WorkerPool
  results: ResultCache
  scrubber: Scrubber
  /** Directory of scratch space. */
  temp: string
}

/** About what one manifest entry takes in the main thread, and again in each engine thread. */
const SEGMENT_BYTES = 600
const SEGMENT_COLUMN_BYTES = 250

export function durabilityInfo(metrics: Metrics, policy: FsyncPolicy): void {
  const labels = { policy: policy.kind, sync_interval_ms: policy.kind === 'periodic' ? String(policy.ms) : '0' }
  metrics.gauge(
    'storage_durability_info',
    '1; when a write is on disk: before its answer (per_batch, per_write), or within sync_interval_ms after it (periodic)',
    Object.keys(labels),
    (gauge) => gauge.set(labels, 1),
  )
}

/** Gauges, read at each scrape. */
export function engineGauges(metrics: Metrics, sources: GaugeSources): void {
  const { policy, wal, memtables, schema, index, segments, retired, readers, pressure, catalog, pool, results, scrubber, temp } = sources
  const gauge = (name: string, help: string, value: () => number): void => {
    metrics.gauge(name, help, [], (g) => g.set(value()))
  }
  durabilityInfo(metrics, policy)
  gauge('memtable_memory_bytes', 'Memory of all memtables', () => memtables.memory)
  gauge('memtable_held_bytes', 'Memory of memtables that were flushed and that queries under way may still read', () => memtables.heldMemory)
  gauge('interner_memory_bytes', 'Memory of the series index and the symbols', () => index.memory + memtables.times.memory)
  gauge('queries_waiting', 'Queries that wait because database.max_concurrent_queries are under way', () => pool.queuedJobs)
  gauge('result_cache_bytes', 'Memory of results kept for equal queries', () => results.bytes)
  gauge('engine_processes_busy', 'Engine processes that run a statement', () => pool.processes.taken)
  gauge('engine_processes_waiting', 'Statements that wait for an engine process', () => pool.processes.waiting)
  gauge('scratch_bytes', 'Bytes of scratch space on disk that statements use now', () => bytesBelow(temp))
  gauge('sample_cache_bytes', 'Bytes of samples that the query threads keep decoded', () => pool.sampleBytes)
  gauge('sample_file_bytes', 'Bytes of samples that the query threads keep packed in scratch files', () => pool.sampleFileBytes)
  gauge('wal_buffer_bytes', 'Memory of records that wait for the log', () => wal.memory)
  gauge(
    'catalog_memory_bytes',
    'Pages of the catalog in use, which are mapped into memory, and about what the manifest of segments takes in the main thread',
    () => catalog.store.mappedBytes + segments.all().reduce((sum, { columns }) => sum + SEGMENT_BYTES + columns.length * SEGMENT_COLUMN_BYTES, 0),
  )
  gauge('compaction_backpressure_active', '1 while writes are refused because merging is behind', () => Number(pressure.compactionBehind))
  gauge('maintenance_running', '0 when the maintenance thread has died too often: only a restart recovers', () => Number(pressure.running))
  gauge('series', 'Live series', () => index.live)
  gauge('fields', 'Fields of all measurements', () => schema.fields)
  gauge('segments', 'Segment files', () => segments.local().length)
  gauge('segment_bytes', 'Bytes of all segment files', () => segments.local().reduce((sum, { bytes }) => sum + bytes, 0))
  gauge('leased_segments', 'Segments kept on disk for the queries and backups under way', () =>
    readers.count === 0 ? 0 : segments.local().length + retired.count,
  )
  gauge('damaged_segments', 'Segments whose files are corrupt: queries that need them fail', () => scrubber.corrupt)
  gauge('segments_awaiting_readers', 'Merged segments not yet deleted because a query may read them', () => retired.count)
}

function bytesBelow(directory: string): number {
  try {
    return readdirSync(directory, { withFileTypes: true }).reduce((sum, entry) => {
      const path = join(directory, entry.name)
      return sum + (entry.isDirectory() ? bytesBelow(path) : (statSync(path, { throwIfNoEntry: false })?.size ?? 0))
    }, 0)
  } catch (error) {
    // It may go while it is looked at.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 0
    throw error
  }
}
