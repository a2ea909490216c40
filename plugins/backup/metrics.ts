import type { Counter, Histogram, Metrics } from 'svcdb'

/** Seconds: from a handful of links to the copy of a large database. */
const BUCKETS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600]

export interface BackupMetrics {
  made: Counter
  failed: Counter
  bytes: Counter
  seconds: Histogram
}

export function backupMetrics(metrics: Metrics): BackupMetrics {
  return {
    made: metrics.counter('backups_total', 'Backups made, scheduled checkpoints included'),
    failed: metrics.counter('backup_failures_total', 'Backups that were begun and failed, and checkpoints that could not be made'),
    bytes: metrics.counter('backup_bytes_total', 'Bytes of the files of all backups made, linked ones included'),
    seconds: metrics.histogram('backup_duration_seconds', 'Time to make a backup', [], BUCKETS),
  }
}
