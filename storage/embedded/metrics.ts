/** The engine's counters and histograms. */
import type { Counter, Histogram, Metrics } from 'svcdb'

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
  unreadPages: Counter
  prefetchErrors: Counter
  sharedAnswers: Counter
  resultCacheHits: Counter
  partialResults: Counter
  resultCacheMisses: Counter
  jobsCut: Counter
  jobsBegunAgain: Counter
  writeSlowdown: Counter
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
    unreadPages: metrics.counter(
      'sample_segments_by_statement_total',
      'Segments whose samples are read by DuckDB because their pages were not understood; counted once by each query thread',
    ),
    writeSlowdown: metrics.counter(
      'write_slowdown_seconds_total',
      'Seconds by which writes were answered later while queries held memory of rows written out since they began',
    ),
    sharedAnswers: metrics.counter('queries_shared_total', 'Queries answered by an equal one that had not begun when they were asked'),
    resultCacheHits: metrics.counter('result_cache_hits_total', 'Queries answered by the result of an equal one, since nothing that it had read has changed'),
    partialResults: metrics.counter('result_cache_partial_total', 'Queries that went on from what an earlier one with a range that overlaps had kept'),
    resultCacheMisses: metrics.counter('result_cache_misses_total', 'Queries whose result may be kept and was not there, or no longer held'),
    jobsCut: metrics.counter('queries_cut_total', 'Queries ended because they held memory of rows written out since they began, which was needed for new ones'),
    jobsBegunAgain: metrics.counter(
      'queries_begun_again_total',
      'Queries begun again, before any of their output, because they held memory of rows written out since they began, which was needed for new ones',
    ),
    prefetchErrors: metrics.counter('segment_prefetch_errors_total', 'Segment files that could not be read ahead of a query, or were found corrupt'),
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
