/** What the state store in PostgreSQL counts. */
import type { Counter, Histogram, Metrics } from 'svcdb'

export class PostgresMetrics {
  readonly transactions: Counter
  readonly commitSeconds: Histogram
  readonly retries: Counter
  readonly settled: Counter
  readonly changes: Counter

  /** @param figures as of now. */
  constructor(metrics: Metrics, figures: { connections(): number; up(): boolean }) {
    this.transactions = metrics.counter('state_transactions_total', 'State transactions sent to PostgreSQL by what became of them; stale ones run again', [
      'outcome',
    ])
    for (const outcome of ['stored', 'stale']) this.transactions.inc({ outcome }, 0)
    this.commitSeconds = metrics.histogram('state_commit_seconds', 'Time of a commit to PostgreSQL, which stores the transactions that waited for it')
    this.retries = metrics.counter('state_retries_total', 'Statements to PostgreSQL that failed and were tried again or given up')
    this.settled = metrics.counter('state_settled_commits_total', 'Commits whose answer was lost, and which PostgreSQL was asked about')
    this.changes = metrics.counter(
      'state_changes_told_total',
      'Changes by other nodes that plugins were told of; any = what changed is not known, such as after a lost connection, and all is read again',
      ['scope'],
    )
    for (const scope of ['keys', 'any']) this.changes.inc({ scope }, 0)
    metrics.gauge('state_connections', 'Open connections to PostgreSQL', [], (gauge) => gauge.set(figures.connections()))
    metrics.gauge('state_up', '1 = the last statement reached PostgreSQL', [], (gauge) => gauge.set(figures.up() ? 1 : 0))
  }
}
