import type { Counter, Metrics } from 'svcdb'

export interface RollupMetrics {
  invalidations: Counter
  recomputed: Counter
  failures: Counter
  points: Counter
  rows: Counter
}

export function rollupMetrics(
  metrics: Metrics,
  counts: () => { rollups: number; parked: number; pending: number; lagSecs: number; oldestSecs: number },
): RollupMetrics {
  const gauge = (name: string, help: string, value: () => number) => metrics.gauge(name, help, [], (one) => one.set(value()))
  gauge('rollups', 'Rollups that are defined', () => counts().rollups)
  gauge('rollups_parked', 'Rollups that failed again and again and wait for rollups.parked_retry_secs', () => counts().parked)
  gauge('rollup_pending_repairs', 'Ranges of buckets that wait to be computed again', () => counts().pending)
  gauge(
    'rollup_lag_seconds',
    'How far the watermark of the rollup that is furthest behind could be further on, by the times of its source',
    () => counts().lagSecs,
  )
  gauge(
    'rollup_queue_oldest_age_seconds',
    'For how long the rollup that has waited longest has been waiting for its turn; 0 = none waits',
    () => counts().oldestSecs,
  )
  return {
    invalidations: metrics.counter('rollup_invalidations_total', 'Changes of a source below what was materialised, by backfill, delete, drop or restore'),
    recomputed: metrics.counter('rollup_ranges_recomputed_total', 'Ranges of buckets that were computed again'),
    failures: metrics.counter('rollup_failures_total', 'Passes of a rollup that failed; they are tried again'),
    points: metrics.counter('rollup_points_written_total', 'Points written to targets'),
    rows: metrics.counter('rollup_source_rows_total', 'Rows of sources that were read, once for all rollups that share a scan'),
  }
}
