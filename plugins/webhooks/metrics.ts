import type { Counter, Gauge, Histogram, Metrics } from 'svcdb'

/** Seconds. */
const ATTEMPT_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
const LATENCY_BUCKETS = [0.01, 0.05, 0.1, 0.5, 1, 5, 30, 60, 300, 1800, 3600, 21_600, 86_400]

export interface SenderMetrics {
  /** @param kind of the attempt. @param again not the first of its delivery. */
  attempted(kind: string, seconds: number, again: boolean): void
  delivered(seconds: number): void
  left(result: 'delivered' | 'expired' | 'dropped'): void
}

/** What there is to see at a scrape. */
export interface Gauges {
  waiting: number
  bytes: number
  oldestSeconds: number
  inFlight: number
  endpoints: Record<'active' | 'failing' | 'parked', number>
}

export interface WebhooksMetrics extends SenderMetrics {
  answered(answer: string, count: number): void
}

/** No metric has a label for the namespace or the endpoint: there may be very many. */
export function webhooksMetrics(metrics: Metrics, gauges: () => Gauges): WebhooksMetrics {
  const handed: Counter = metrics.counter(
    'webhook_deliveries_handed_over_total',
    'Deliveries that plugins have handed over: queued, known (there already), unrouted (no such endpoint), too_large',
    ['answer'],
  )
  for (const answer of ['queued', 'known', 'unrouted', 'too_large']) handed.inc({ answer }, 0)
  const left: Counter = metrics.counter(
    'webhook_deliveries_total',
    'Deliveries that have left the outbox: delivered, dropped (the queue was full), expired (nobody took them for webhooks.max_age_secs)',
    ['result'],
  )
  for (const result of ['delivered', 'dropped', 'expired']) left.inc({ result }, 0)
  const attempts: Counter = metrics.counter(
    'webhook_attempts_total',
    'Attempts by what they came to: 2xx to 5xx, timeout, tls, connection, refused (an address that is not allowed)',
    ['result'],
  )
  const retries: Counter = metrics.counter('webhook_retries_total', 'Attempts after the first one of a delivery')
  const attempt: Histogram = metrics.histogram('webhook_attempt_duration_seconds', 'Duration of attempts', [], ATTEMPT_BUCKETS)
  const latency: Histogram = metrics.histogram(
    'webhook_delivery_latency_seconds',
    'Time from a delivery being queued to its being accepted',
    [],
    LATENCY_BUCKETS,
  )
  // One look at the endpoints sets all of them: a scrape collects in the order of declaration, in one turn.
  metrics.gauge('webhook_queue_length', 'Deliveries that wait, in the process that delivers', [], (own) => {
    const now = gauges()
    own.set(now.waiting)
    bytes.set(now.bytes)
    oldest.set(now.oldestSeconds)
    inFlight.set(now.inFlight)
    for (const [state, count] of Object.entries(now.endpoints)) endpoints.set({ state }, count)
  })
  const bytes: Gauge = metrics.gauge('webhook_queue_bytes', 'Bytes that they count for: of their bodies, and 512 each')
  const oldest: Gauge = metrics.gauge('webhook_queue_oldest_age_seconds', 'Age of the oldest of them; 0 = none waits')
  const inFlight: Gauge = metrics.gauge('webhook_in_flight', 'Attempts under way')
  const states = 'Endpoints by state: active, failing (its last attempt failed), parked (nothing is sent to it)'
  const endpoints: Gauge = metrics.gauge('webhook_endpoints', states, ['state'])
  return {
    answered: (answer, count) => handed.inc({ answer }, count),
    attempted(kind, seconds, again) {
      attempts.inc({ result: kind })
      attempt.observe(seconds)
      if (again) retries.inc()
    },
    delivered: (seconds) => latency.observe(Math.max(0, seconds)),
    left: (result) => left.inc({ result }),
  }
}
