/**
 * The node's metrics: one registry, prefix `svc_`, and a `Metrics` for each owner (a plugin, the storage engine, the kernel).
 * A name belongs to whoever declared it first; a second owner is refused, naming both.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { Counter, Gauge, Histogram } from 'prom-client'
import { ExemplarHistogram, OPENMETRICS, openMetrics } from './exemplars.ts'
import * as client from './prom-client.ts'

const PREFIX = 'svc_'
/** Seconds; from cache hits to the default query timeout. */
const DURATION_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
/** How often the main loop's delay is sampled. */
const LOOP_TICK_MS = 10

export type { Counter, Gauge, Histogram }

export class MetricsRegistry {
  readonly registry = new client.Registry()
  private readonly owners = new Map<string, { owner: string; metric: Counter | Gauge | Histogram }>()
  private readonly loopDelay = monitorEventLoopDelay({ resolution: LOOP_TICK_MS })

  constructor() {
    client.collectDefaultMetrics(this.registry, PREFIX)
    this.loopDelay.enable()
    const delay = this.loopDelay
    this.child('kernel').gauge('main_loop_delay_seconds', 'How late the main loop ran its timers since the last scrape', ['quantile'], (gauge) => {
      for (const quantile of [0.5, 0.9, 0.99, 1]) {
        // The histogram holds the time between ticks, so an idle loop shows the tick itself.
        const late = delay.count === 0 ? 0 : delay.percentile(quantile * 100) / 1e9 - LOOP_TICK_MS / 1000
        gauge.set({ quantile: String(quantile) }, Math.max(0, late))
      }
      delay.reset()
    })
  }

  child(owner: string): Metrics {
    return new Metrics(this, owner)
  }

  /** The metric `name` of `owner`, made by `make` the first time. @throws Error when another owner has it, or a name of it cannot be. */
  claim<T extends Counter | Gauge | Histogram>(owner: string, name: string, make: (fullName: string) => T): T {
    const known = this.owners.get(name)
    if (known !== undefined) {
      if (known.owner !== owner) {
        throw new Error(`cannot register metric "${PREFIX}${name}" of "${owner}": "${known.owner}" has registered it already; choose another name`)
      }
      return known.metric as T
    }
    let metric: T
    try {
      metric = make(PREFIX + name)
    } catch (error) {
      throw new Error(`cannot register metric "${PREFIX}${name}" of "${owner}": ${(error as Error).message}; names are letters, digits and "_"`)
    }
    this.owners.set(name, { owner, metric })
    return metric
  }

  /** What is declared, by whom: for the reference in docs/. */
  declared(): { name: string; owner: string; type: string; help: string; labels: readonly string[] }[] {
    type Declared = { name: string; type: string; help: string; labelNames: readonly string[] }
    return (this.registry.getMetricsAsArray() as unknown as Declared[]).map(({ name, type, help, labelNames }) => {
      return { name, owner: this.owners.get(name.slice(PREFIX.length))?.owner ?? 'process', type, help, labels: labelNames }
    })
  }

  text(): Promise<string> {
    return this.registry.metrics()
  }

  /** As OpenMetrics, with exemplars. */
  openMetrics(): Promise<string> {
    return openMetrics(this.registry)
  }

  get openMetricsType(): string {
    return OPENMETRICS
  }

  get contentType(): string {
    return this.registry.contentType
  }

  close(): void {
    this.loopDelay.disable()
    this.registry.clear()
  }
}

/** One owner's view. Names come without the prefix; asking twice for the same name returns the same metric. */
export class Metrics {
  private readonly shared: MetricsRegistry
  private readonly owner: string

  constructor(shared: MetricsRegistry, owner: string) {
    this.shared = shared
    this.owner = owner
  }

  counter(name: string, help: string, labelNames: readonly string[] = []): Counter {
    return this.shared.claim(
      this.owner,
      name,
      (fullName) => new client.Counter({ name: fullName, help, labelNames: [...labelNames], registers: [this.shared.registry] }),
    )
  }

  /** A counter that several plugins count in; it is the kernel's. */
  commonCounter(name: string, help: string, labelNames: readonly string[] = []): Counter {
    return this.shared.child('kernel').counter(name, help, labelNames)
  }

  /** A gauge that several plugins set, each under labels of its own; it is the kernel's. */
  commonGauge(name: string, help: string, labelNames: readonly string[]): Gauge {
    return this.shared.child('kernel').gauge(name, help, labelNames)
  }

  /** @param collect sets the value at each scrape. */
  gauge(name: string, help: string, labelNames: readonly string[] = [], collect?: (gauge: Gauge) => void | Promise<void>): Gauge {
    return this.shared.claim(this.owner, name, (fullName) => {
      const gauge: Gauge = new client.Gauge({
        name: fullName,
        help,
        labelNames: [...labelNames],
        registers: [this.shared.registry],
        ...(collect === undefined ? {} : { collect: () => collect(gauge) }),
      })
      return gauge
    })
  }

  /** @param buckets upper bounds; without them those of a duration in seconds. */
  histogram(name: string, help: string, labelNames: readonly string[] = [], buckets: readonly number[] = DURATION_BUCKETS): Histogram {
    return this.shared.claim(
      this.owner,
      name,
      (fullName) => new ExemplarHistogram({ name: fullName, help, labelNames: [...labelNames], buckets: [...buckets], registers: [this.shared.registry] }),
    )
  }
}

/** SQL results that were cut, whichever listener they went out by. */
export function truncatedResults(metrics: Metrics): Counter {
  return metrics.commonCounter('sql_results_truncated_total', 'SQL results cut at server.sql_max_rows')
}
