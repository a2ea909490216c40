/**
 * Histograms that name an example of what fell into each bucket: the trace under way when it was observed, if that is recorded. Prometheus and others who ask
 * for OpenMetrics see them.
 */
import { createRequire } from 'node:module'
import type * as promClient from 'prom-client'
import { currentSpan } from './lib/trace/index.ts'
import { Histogram, Registry } from './prom-client.ts'

const load = createRequire(import.meta.url)
const { hashObject } = load('prom-client/lib/util.js') as { hashObject(labels: object, names: readonly string[]): string }

interface Exemplar {
  labelSet: Record<string, string>
  value: number
  /** Seconds. */
  timestamp: number
}

/** What prom-client keeps of one set of labels, of which it writes `bucketExemplars` by itself; -1 is the bucket without a bound. */
interface Kept {
  bucketExemplars?: Record<string, Exemplar>
}

interface Insides {
  upperBounds: readonly number[]
  sortedLabelNames: readonly string[]
  hashMap: Record<string, Kept>
}

type Labels = Record<string, string | number>

export class ExemplarHistogram extends Histogram {
  constructor(configuration: promClient.HistogramConfiguration<string>) {
    super(configuration)
    const observe = this.observe.bind(this) as (labels: Labels | number, value?: number) => void
    const observed: typeof observe = (labels, value) => {
      observe(labels, value)
      const span = currentSpan()
      if (span === undefined || span.traceId === '') return
      const [of, seen] = typeof labels === 'number' ? [{}, labels] : [labels, value as number]
      const { upperBounds, sortedLabelNames, hashMap } = this as unknown as Insides
      const kept = hashMap[hashObject(of, sortedLabelNames)]
      const bound = upperBounds.find((upper) => seen <= upper) ?? -1
      kept.bucketExemplars ??= {}
      kept.bucketExemplars[bound] = { labelSet: { trace_id: span.traceId, span_id: span.spanId }, value: seen, timestamp: Date.now() / 1000 }
    }
    this.observe = observed as never
  }
}

export const OPENMETRICS = 'application/openmetrics-text; version=1.0.0; charset=utf-8'

/** All metrics of a registry as OpenMetrics: the names of counters without their ending where they are declared, and exemplars. */
export async function openMetrics(registry: promClient.Registry): Promise<string> {
  const writer = new (Registry as unknown as new (type: string) => promClient.Registry)(OPENMETRICS)
  const one = async (metric: { get(): Promise<{ name: string; type: unknown }> }): Promise<string> => {
    const read = await metric.get()
    const name = (read.type as string) === 'counter' ? read.name.replace(/_total$/, '') : read.name
    return (writer as unknown as { getMetricsAsString(metric: object): Promise<string> }).getMetricsAsString({ get: async () => ({ ...read, name }) })
  }
  const texts = await Promise.all(registry.getMetricsAsArray().map((metric) => one(metric as never)))
  return `${texts.join('\n')}\n# EOF\n`
}

/** Whether whoever asks prefers OpenMetrics: RFC 9110, section 12.5.1. Prometheus does; without the header it is the older format. */
export function prefersOpenMetrics(accept: string | undefined): boolean {
  let [open, plain] = [0, 0]
  for (const part of (accept ?? '').slice(0, 2048).split(',')) {
    const [type, ...parameters] = part.split(';').map((text) => text.trim().toLowerCase())
    const weight = Number(parameters.find((text) => text.startsWith('q='))?.slice(2) ?? 1)
    if (type === 'application/openmetrics-text' && parameters.every((text) => !text.startsWith('version=') || /^version="?1\.0\.0"?$/.test(text)))
      open = Math.max(open, weight)
    else if (type === 'text/plain') plain = Math.max(plain, weight)
  }
  return open > 0 && open >= plain
}
