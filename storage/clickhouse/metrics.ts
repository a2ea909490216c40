/** What the ClickHouse engine counts. */
import type { Counter, Histogram, Metrics } from 'svcdb'

export class ClickHouseMetrics {
  readonly insertedRows: Counter
  readonly inserts: Histogram
  readonly repeats: Counter
  readonly failures: Counter

  constructor(metrics: Metrics, waitingBytes: () => number) {
    this.insertedRows = metrics.counter('clickhouse_inserted_rows_total', 'Rows that ClickHouse has taken, of points, series and the catalog')
    this.inserts = metrics.histogram('clickhouse_insert_seconds', 'Time of an insert that ClickHouse has taken, tries again included')
    this.repeats = metrics.counter('clickhouse_repeated_inserts_total', 'Inserts that were sent again')
    this.failures = metrics.counter('clickhouse_failures_total', 'Statements that failed, by what was done and the code that callers get', ['verb', 'code'])
    metrics.gauge('clickhouse_waiting_bytes', 'Bytes of rows that wait for ClickHouse, or are on their way', [], (gauge) => gauge.set(waitingBytes()))
  }
}
