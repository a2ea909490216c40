import type { Counter, Metrics } from 'svcdb'

export interface ArchiveMetrics {
  runs: Counter
  objects: Counter
  rows: Counter
  awaitingRollup: Counter
  incomplete: Counter
}

export function archiveMetrics(metrics: Metrics): ArchiveMetrics {
  return {
    runs: metrics.counter('cold_archive_runs_total', 'Runs that ended: done or failed', ['result']),
    objects: metrics.counter('cold_archive_objects_total', 'Objects written, verified and taken over'),
    rows: metrics.counter('cold_archive_rows_total', 'Rows in these objects'),
    awaitingRollup: metrics.counter(
      'cold_archive_groups_awaiting_rollup_total',
      'Tables with days past cold_archive.cold_after_secs that a run left alone because a rollup still needs them',
    ),
    incomplete: metrics.counter(
      'cold_archive_groups_incomplete_total',
      'Tables with days past cold_archive.cold_after_secs that a run left alone because files that hold newer data reach into them',
    ),
  }
}
