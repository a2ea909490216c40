/** What the forwarding engine counts. */
import type { Counter, Metrics } from 'svcdb'

interface WaitingFigures {
  name: string
  records: number
  points: number
  parkedNamespaces: number
}

interface QueueFigures {
  bytes(): number
  maxBytes: number
  oldestMs(): number | undefined
  /** By sender. */
  waiting(): WaitingFigures[]
  up(): { name: string; up: boolean }[]
  now(): number
}

export class ForwardMetrics {
  readonly sentPoints: Counter
  readonly sentBytes: Counter
  readonly requests: Counter
  readonly connections: Counter
  readonly waits: Counter
  readonly setAside: Counter
  readonly dropped: Counter
  readonly lettersDropped: Counter
  readonly refused: Counter
  readonly damaged: Counter
  readonly fsyncs: Counter
  readonly written: Counter

  constructor(metrics: Metrics, figures: QueueFigures) {
    this.sentPoints = metrics.counter('forward_sent_points_total', 'Points that the upstream has taken', ['upstream'])
    this.sentBytes = metrics.counter('forward_sent_bytes_total', 'Bytes of the requests that it took, compressed', ['upstream'])
    this.requests = metrics.counter('forward_requests_total', 'Requests to the upstream by what became of them', ['upstream', 'outcome'])
    this.connections = metrics.counter('forward_connections_total', 'Connections made to the upstream', ['upstream'])
    this.waits = metrics.counter('forward_waits_total', 'Tries that failed and were repeated after a pause, by reason', ['upstream', 'reason'])
    this.setAside = metrics.counter('forward_set_aside_points_total', 'Points that the upstream refused, which are dead letters now', ['upstream', 'code'])
    this.dropped = metrics.counter(
      'forward_dropped_points_total',
      'Points that were dropped unsent: for the size of the queue, for their age, or because the disk gave back other bytes',
      ['reason'],
    )
    this.lettersDropped = metrics.counter('forward_dead_letters_dropped_total', 'Dead letters that gave way to newer ones: points that are nowhere any more', [
      'upstream',
    ])
    for (const reason of ['size', 'age', 'damaged']) this.dropped.inc({ reason }, 0)
    this.refused = metrics.counter('forward_refused_writes_total', 'Writes that were refused because the queue was full')
    this.damaged = metrics.counter('forward_damaged_bytes_total', 'Bytes of the queue that could not be read and were set aside')
    this.fsyncs = metrics.counter('forward_queue_fsyncs_total', 'Syncs of the queue')
    this.written = metrics.counter('forward_queue_written_bytes_total', 'Bytes written to the queue')
    metrics.gauge('forward_queue_bytes', 'Bytes of the queue', [], (gauge) => gauge.set(figures.bytes()))
    metrics.gauge('forward_queue_max_bytes', 'Bytes that the queue may have', [], (gauge) => gauge.set(figures.maxBytes))
    metrics.gauge('forward_queue_oldest_seconds', 'Age of the oldest points in the queue, about; 0 while nothing waits', [], (gauge) => {
      const oldest = figures.waiting().some(({ records }) => records > 0) ? figures.oldestMs() : undefined
      gauge.set(oldest === undefined ? 0 : Math.max(0, (figures.now() - oldest) / 1000))
    })
    const each = (name: string, help: string, value: (one: WaitingFigures) => number) =>
      metrics.gauge(name, help, ['upstream'], (gauge) => {
        for (const one of figures.waiting()) gauge.set({ upstream: one.name }, value(one))
      })
    each('forward_queue_records', 'Writes that wait for the upstream; in mode failover for any of them', ({ records }) => records)
    each('forward_queue_points', 'Points that wait for it', ({ points }) => points)
    each(
      'forward_parked_namespaces',
      'Namespaces of which it takes nothing for now, or which catch up; others go on',
      ({ parkedNamespaces }) => parkedNamespaces,
    )
    metrics.gauge(
      'forward_up',
      'Whether the last request to the upstream was answered with something other than a wait for all namespaces',
      ['upstream'],
      (gauge) => {
        for (const { name, up } of figures.up()) gauge.set({ upstream: name }, up ? 1 : 0)
      },
    )
  }
}
