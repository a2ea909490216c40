/** The engine's metrics. */
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Counter, Histogram, Metrics } from 'svcdb'
import type { Catalog } from './catalog/catalog.ts'
import type { Scrubber } from './integrity/scrubber.ts'
import type { Manifest } from './segment/manifest.ts'
import type { SeriesIndex } from './series/series-index.ts'
import type { WorkerPool } from './threads/pool.ts'
import type { FsyncPolicy } from './wal/wal.ts'
import type { Pressure } from './write/pressure.ts'
import type { WritePath } from './write/write-path.ts'

export interface EngineMetrics {
  walFsyncs: Counter
  walBytes: Counter
  catalogFsyncs: Counter
  flushes: Counter
  flushFailures: Counter
  flushedBytes: Counter
  flushSeconds: Histogram
  compactions: Counter
  compactionFailures: Counter
  compactedBytes: Counter
  mergedBytes: Counter
  compactionSeconds: Histogram
  segmentsDeleted: Counter
  maintenancePanics: Counter
  shardsDropped: Counter
  seriesReleased: Counter
  deleteSegmentsSkipped: Counter
  segmentsAwaitingRollup: Counter
  segmentsRetired: Counter
  prefetchedBytes: Counter
  refusedPlans: Counter
  prefetchErrors: Counter
}

export function engineMetrics(metrics: Metrics): EngineMetrics {
  return {
    walFsyncs: metrics.counter('wal_fsync_total', 'Group commits of the write-ahead log'),
    walBytes: metrics.counter('wal_written_bytes_total', 'Bytes written to the write-ahead log'),
    catalogFsyncs: metrics.counter('catalog_fsync_total', 'Durable transactions of the catalog'),
    flushes: metrics.counter('flushes_total', 'Memtables written out as segments'),
    flushFailures: metrics.counter('flush_failures_total', 'Flushes that failed and were tried again'),
    flushedBytes: metrics.counter('flush_written_bytes_total', 'Bytes of segments that flushes wrote'),
    flushSeconds: metrics.histogram('flush_duration_seconds', 'Time to write a memtable out'),
    compactions: metrics.counter('compactions_total', 'Merges of segments'),
    compactionFailures: metrics.counter('compaction_failures_total', 'Merges of segments that failed'),
    compactedBytes: metrics.counter('compaction_read_bytes_total', 'Bytes of segments that were merged'),
    mergedBytes: metrics.counter('compaction_written_bytes_total', 'Bytes of segments that merges wrote'),
    compactionSeconds: metrics.histogram('compaction_duration_seconds', 'Time to merge segments'),
    maintenancePanics: metrics.counter('maintenance_panics_total', 'Times the maintenance thread ended by itself'),
    prefetchedBytes: metrics.counter(
      'segment_prefetch_bytes_total',
      'Bytes of segment files read whole ahead of the first query that needs them, to check them',
    ),
    refusedPlans: metrics.counter('sql_refused_plans_total', 'Statements refused because their plan would have read what is not theirs: a fault to report'),
    prefetchErrors: metrics.counter('segment_prefetch_errors_total', 'Segment files that could not be read ahead of a query, or were found damaged'),
    shardsDropped: metrics.counter(
      'retention_shards_dropped_total',
      'Shards of time of which retention has removed points, as far as the first and last times of files and memtables tell',
    ),
    deleteSegmentsSkipped: metrics.counter('delete_segments_skipped_total', 'Segments that deletes could not reach; such a delete has to be sent again'),
    seriesReleased: metrics.counter('series_released_total', 'Series given back because deletes, drops or retention left them without points'),
    segmentsAwaitingRollup: metrics.counter(
      'retention_segments_awaiting_rollup_total',
      'Segments past their retention that a pass left alone because a rollup or an archive still needs them',
    ),
    segmentsRetired: metrics.counter('segments_retired_awaiting_readers_total', 'Segment files taken out of use while a query could still read them'),
    segmentsDeleted: metrics.counter('gc_segments_deleted_total', 'Segment files deleted after a merge, a drop, a delete or by retention'),
  }
}

export interface GaugedParts {
  policy: FsyncPolicy
  writes: WritePath
  index: SeriesIndex
  manifest: Manifest
  pressure: Pressure
  catalog: Catalog
  pool: WorkerPool
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

/** Gauges read from the parts at each scrape. */
export function engineGauges(metrics: Metrics, parts: GaugedParts): void {
  const { policy, writes, index, manifest, pressure, catalog, pool, scrubber, temp } = parts
  const gauge = (name: string, help: string, value: () => number): void => {
    metrics.gauge(name, help, [], (g) => g.set(value()))
  }
  durabilityInfo(metrics, policy)
  const segments = () => [...manifest.segments.values()].flat()
  gauge('memtable_memory_bytes', 'Memory of all memtables', () => writes.memory)
  gauge('interner_memory_bytes', 'Memory of the series index and the symbols', () => index.memory + writes.times.memory)
  gauge('queries_waiting', 'Queries that wait because database.max_concurrent_queries are under way', () => pool.queuedJobs)
  gauge('scratch_bytes', 'Bytes of scratch space on disk that statements use now', () => bytesBelow(temp))
  gauge('sample_cache_bytes', 'Bytes of samples that the query threads keep decoded', () => pool.sampleBytes)
  gauge('wal_buffer_bytes', 'Memory of records that wait for the log', () => writes.wal.memory)
  gauge(
    'catalog_memory_bytes',
    'Pages of the catalog in use, which are mapped into memory, and about what the manifest of segments takes in the main thread',
    () => catalog.store.mappedBytes + segments().reduce((sum, { columns }) => sum + SEGMENT_BYTES + columns.length * SEGMENT_COLUMN_BYTES, 0),
  )
  gauge('compaction_backpressure_active', '1 while writes are refused because merging is behind', () => Number(pressure.compactionBehind))
  gauge('maintenance_running', '0 when the maintenance thread has died too often: only a restart recovers', () => Number(pressure.running))
  gauge('series', 'Live series', () => index.live)
  const local = () => segments().filter(({ archived }) => !archived)
  gauge('segments', 'Segment files', () => local().length)
  gauge('segment_bytes', 'Bytes of all segment files', () => local().reduce((sum, { bytes }) => sum + bytes, 0))
  gauge('leased_segments', 'Segments kept on disk for the queries and backups under way', () => (pool.readers === 0 ? 0 : local().length + manifest.retired))
  gauge('damaged_segments', 'Segments whose files are damaged: queries that need them fail', () => scrubber.damaged)
  gauge('segments_awaiting_readers', 'Merged segments not yet deleted because a query may read them', () => manifest.retired)
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
