import { definePlugin, EXEMPLARS, type Exemplars, NAMESPACES, type NamespaceLifecycle } from 'svcdb'
import { inTurns } from 'svcdb/lib/event-loop'
import { configSchema } from './config.ts'
import { ExemplarStore } from './store.ts'

const SWEEP_MS = 60_000

export default definePlugin({
  id: 'exemplars',
  summary: 'Keeps exemplars of remote write and OTLP in memory, for PromQL to answer with',
  stability: 'beta',
  config: configSchema,
  provides: [EXEMPLARS],
  setup(svc, config) {
    const { clock, metrics } = svc
    const stored = metrics.counter('exemplars_stored_total', 'Exemplars that were handed in and are kept, or were there already')
    const dropped = metrics.counter(
      'exemplars_dropped_total',
      'Exemplars that are not kept: out_of_order, too_long, too_old, too_new (ahead of the clock); or not any more: evicted (no room), expired',
      ['reason'],
    )
    for (const reason of ['out_of_order', 'too_long', 'too_old', 'too_new', 'evicted', 'expired']) dropped.inc({ reason }, 0)
    const store = new ExemplarStore({
      maxExemplars: config.max_exemplars,
      maxBytes: config.max_bytes,
      maxAgeMs: config.max_age_secs * 1000,
      maxFutureMs: config.max_future_secs * 1000,
      dropped: (reason) => dropped.inc({ reason }),
    })
    metrics.gauge('exemplars', 'Exemplars in memory', [], (gauge) => gauge.set(store.count))
    metrics.gauge('exemplar_series', 'Series that have exemplars in memory', [], (gauge) => gauge.set(store.seriesCount))
    metrics.gauge('exemplar_bytes', 'Memory that exemplars take, about', [], (gauge) => gauge.set(store.bytes))
    svc.provide(EXEMPLARS, {
      *add(namespace, exemplars) {
        const kept = yield* store.addAll(namespace, exemplars, clock.now())
        stored.inc(kept)
        return kept
      },
      select: (namespace, selectors, start, end) => store.select(namespace, selectors, start, end, clock.now()),
    } satisfies Exemplars)
    svc.start(() => {
      svc.find<NamespaceLifecycle>(NAMESPACES)?.onEnd((namespace) => store.forget(namespace))
    })
    svc.schedule(
      'sweep',
      SWEEP_MS,
      async () => {
        await inTurns(store.expire(clock.now()))
      },
      { local: true },
    )
  },
})
