import type { Counter, Histogram, Metrics } from 'svcdb'

export interface TriggersMetrics {
  judged: Counter
  rows: Counter
  seconds: Counter
  silent: Counter
  fired: Counter
  composites: Counter
  evicted: Counter
  gaps: Counter
  stored: Counter
  queued: Counter
  delivered: Counter
  failed: Counter
  dropped: Counter
  unrouted: Counter
  duration: Histogram
}

interface TriggersGauges {
  triggers(): { enabled: number; disabled: number }
  cooldowns(): number
  behind(): number
  /** Signals that wait for a channel. */
  depth(): Record<ChannelName, number>
  subscribers(): number
}

const CHANNELS = ['log', 'webhook'] as const
export type ChannelName = (typeof CHANNELS)[number]

/** No metric has a label for the namespace or the trigger: there may be very many. */
export function triggersMetrics(metrics: Metrics, gauges: TriggersGauges): TriggersMetrics {
  const perChannel = (name: string, help: string): Counter => {
    const counter = metrics.counter(name, help, ['channel'])
    for (const channel of CHANNELS) counter.inc({ channel }, 0)
    return counter
  }
  metrics.gauge('triggers', 'Triggers by state', ['state'], (gauge) => {
    for (const [state, count] of Object.entries(gauges.triggers())) gauge.set({ state }, count)
  })
  metrics.gauge('trigger_cooldown_entries', 'Pairs of a trigger and a series that are remembered', [], (gauge) => gauge.set(gauges.cooldowns()))
  metrics.gauge('trigger_commits_behind', 'Commits that are not judged yet, of the namespace that has most of them', [], (gauge) => gauge.set(gauges.behind()))
  metrics.gauge('annotation_subscribers', 'Readers of the stream of annotations', [], (gauge) => gauge.set(gauges.subscribers()))
  metrics.gauge('signal_delivery_queue_depth', 'Signals that wait for a channel; those for webhooks in the process that delivers', ['channel'], (gauge) => {
    for (const [channel, depth] of Object.entries(gauges.depth())) gauge.set({ channel }, depth)
  })
  const silent = metrics.counter(
    'trigger_points_silenced_total',
    'Points that a condition holds for and that did not fire: cooldown, or forgotten (older than what is remembered of the trigger)',
    ['reason'],
  )
  for (const reason of ['cooldown', 'forgotten']) silent.inc({ reason }, 0)
  return {
    silent,
    judged: metrics.counter('trigger_changes_judged_total', 'Writes to measurements with triggers that were judged, by measurement'),
    rows: metrics.counter('trigger_rows_judged_total', 'Rows of them'),
    seconds: metrics.counter('trigger_evaluation_seconds_total', 'Time of the main thread that conditions took'),
    fired: metrics.counter('signals_fired_total', 'Signals'),
    composites: metrics.counter('composite_signal_fired_total', 'Signals of composites: several triggers within a span of time'),
    evicted: metrics.counter('signal_evicted_total', 'Signals that went from the store because triggers.signal_store_capacity was reached'),
    gaps: metrics.counter('trigger_gaps_total', 'Times that points went from the log of changes before they were judged'),
    stored: metrics.counter('trigger_stored_rows_judged_total', 'Rows that were read from the store after such a gap, and judged'),
    queued: perChannel('signal_delivery_queued_total', 'Signals handed to a channel'),
    delivered: perChannel('signal_delivery_total', 'Signals that a channel has delivered'),
    failed: perChannel('signal_delivery_failed_total', 'Attempts to deliver a signal that failed, and signals that were given up'),
    dropped: perChannel('signal_delivery_dropped_total', 'Signals lost because the queue of a channel was full'),
    unrouted: metrics.counter('signal_delivery_unrouted_total', 'Signals of triggers without a channel, and those for channels that are gone'),
    duration: metrics.histogram('signal_delivery_duration_seconds', 'Time from a signal being handed to a channel to its delivery', ['channel']),
  }
}
