/** Figures of a source: in metrics that all sources share, with its name as a label, and for its status. */

export interface SourceCounter {
  inc(labels: Record<string, string>, value?: number): void
}

export interface SourceGauge {
  set(labels: Record<string, string>, value: number): void
}

interface MetricsHost {
  commonCounter(name: string, help: string, labels: readonly string[]): SourceCounter
  commonGauge(name: string, help: string, labels: readonly string[]): SourceGauge
}

export class SourceMetrics {
  readonly counts = { received: 0, acknowledged: 0, deadLettered: 0, returned: 0, points: 0, pointsRefused: 0 }
  private readonly labels: { source: string }
  private readonly messages: SourceCounter
  private readonly points: SourceCounter
  private readonly refused: SourceCounter
  private readonly failures: SourceCounter
  private readonly gauges: { inFlight: SourceGauge; bytes: SourceGauge }
  private readonly inFlight: () => { messages: number; bytes: number }

  constructor(host: MetricsHost, source: string, inFlight: () => { messages: number; bytes: number }) {
    this.labels = { source }
    this.inFlight = inFlight
    this.messages = host.commonCounter('source_messages_total', 'Messages of sources by what became of them; received counts all', ['source', 'outcome'])
    this.points = host.commonCounter('source_points_written_total', 'Points that sources have written', ['source'])
    this.refused = host.commonCounter('source_points_refused_total', 'Points of sources that admission refused', ['source'])
    this.failures = host.commonCounter('source_failures_total', 'Failures of sources by code, those that were tried again included', ['source', 'code'])
    this.gauges = {
      inFlight: host.commonGauge('source_messages_in_flight', 'Messages that were taken and are not settled', ['source']),
      bytes: host.commonGauge('source_bytes_in_flight', 'Their bytes', ['source']),
    }
    for (const outcome of ['received', 'acknowledged', 'dead_lettered', 'returned']) this.messages.inc({ ...this.labels, outcome }, 0)
    this.changed()
  }

  received(): void {
    this.counts.received++
    this.count('received')
  }

  acknowledged(): void {
    this.counts.acknowledged++
    this.count('acknowledged')
  }

  deadLettered(): void {
    this.counts.deadLettered++
    this.count('dead_lettered')
  }

  returned(): void {
    this.counts.returned++
    this.count('returned')
  }

  wrote(points: number, refused: number): void {
    this.counts.points += points
    this.counts.pointsRefused += refused
    this.points.inc(this.labels, points)
    this.refused.inc(this.labels, refused)
  }

  failed(code: string): void {
    this.failures.inc({ ...this.labels, code })
  }

  /** What is in flight has changed. */
  changed(): void {
    const { messages, bytes } = this.inFlight()
    this.gauges.inFlight.set(this.labels, messages)
    this.gauges.bytes.set(this.labels, bytes)
  }

  private count(outcome: string): void {
    this.messages.inc({ ...this.labels, outcome })
  }
}
