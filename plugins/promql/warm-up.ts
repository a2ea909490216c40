/** Queries nobody has asked, so that code is compiled before somebody waits for it. */
import type { Job, JobIo, Matcher, Reader } from 'svcdb'
import type { SampleRequest, SampleSet } from 'svcdb/lib/columns'
import { answerDiscovery } from './answer-discovery.ts'
import { answerQuery } from './answer-query.ts'
import { storageDiscovery } from './discover.ts'
import type { SampleSource } from './eval/source.ts'
import { unlessDropped } from './storage/dropped.ts'
import { MetricCatalog } from './storage/metric-catalog.ts'
import { nanoseconds, storageSource } from './storage-source.ts'

const SERIES = 8
const SAMPLES = 60
const SCRAPE_MS = 10_000
const START = 1_700_000_000_000
const END = START + SAMPLES * SCRAPE_MS
const STEP_MS = 15_000
const SPAN_MS = 600_000
/** That of servers without tenants. */
const NAMESPACE = ''
const STORED_SAMPLES = 1 << 20
/** The newest sample of a series is looked for as far back. */
const NEWEST_MS = 86_400_000
/** Means itself in a regular expression. */
const PLAIN = /^\w+$/
const MEMORY_BYTES = 1 << 26

/** Series of a metric, each of its own or all of them as one. */
interface Sample {
  source: SampleSource
  /** Selectors of one series, some and all; a label of theirs. */
  one: string
  some: string
  all: string
  label: string
  end: number
}

/** What dashboards are made of, mostly. */
const EXPRESSIONS: readonly ((sample: Sample) => string)[] = [
  ({ one }) => one,
  ({ all }) => `rate(${all}[1m])`,
  ({ some }) => `max_over_time(${some}[1m])`,
  ({ all, label }) => `sum by (${label}) (rate(${all}[1m]))`,
  ({ all, label }) => `max(max_over_time(${all}[1m])) or label_replace(avg by (${label}) (avg_over_time(${all}[1m])), "to", "$1", ${label}, "(.*)")`,
  ({ all }) => `topk(3, ${all}) * 2`,
  ({ all }) => `sum(${all}) / count(${all} > 10)`,
  ({ all }) => `sum(count_over_time((${all} > 10)[5m:10s]))`,
  ({ all, label }) => `histogram_quantile(0.9, sum by (le) (label_replace(rate(${all}[1m]), "le", "$1", ${label}, "h?(.)")))`,
]

export interface WarmUpArgs {
  /** Number of the query. */
  query: number
  /** Milliseconds. */
  now: number
}

export interface WarmUpOutcome {
  /** The query was one of points that the storage has. */
  stored: boolean
}

/** One query of the warm-up: of a series of the storage when there is any, else of made-up ones. */
const warmUp: Job<WarmUpArgs, WarmUpOutcome> = async (reader, { query: number, now }, io) => {
  const stored = await storedSample(reader, now, io.signal)
  const sample = stored ?? madeUpSample(io.signal)
  const { end } = sample
  const instant = number % 3 === 0
  const steps = instant ? { start: end, interval: 0, count: 1 } : { start: end - SPAN_MS, interval: STEP_MS, count: SPAN_MS / STEP_MS + 1 }
  const query = EXPRESSIONS[number % EXPRESSIONS.length](sample)
  await answerQuery(
    sample.source,
    {
      namespace: '',
      query,
      parseLimits: { maxLength: query.length, maxDepth: 100 },
      steps,
      end,
      lookbackMs: 300_000,
      defaultStepMs: 60_000,
      seriesLimit: SERIES,
      maxResultBytes: MEMORY_BYTES,
      memoryBytes: MEMORY_BYTES,
      stats: '',
    },
    io,
  )
  if (stored === undefined) return { stored: false }
  await discover(reader, stored, io)
  return { stored: true }
}

export default warmUp

/** The first series of the first metric: however many there are, a query of it is little work. */
async function storedSample(reader: Reader, now: number, signal: AbortSignal): Promise<Sample | undefined> {
  const [metric] = MetricCatalog.of(await reader.schema(NAMESPACE)).metrics
  if (metric === undefined) return undefined
  const { measurement, field } = metric
  const wanted = { namespace: NAMESPACE, measurement, field }
  const set = await unlessDropped(reader.samples(wanted))
  if (set === undefined || set.tags.length === 0) return undefined
  const pairs = set.tags.at(0)
  const labels = [JSON.stringify(metric.name)]
  for (let i = 0; i < pairs.length; i += 2) labels.push(`${JSON.stringify(pairs[i])}=${JSON.stringify(pairs[i + 1])}`)
  const selector = `{${labels.join(',')}}`
  const [key = 'none', value = ''] = pairs
  const some = PLAIN.test(value) ? `{${[...labels, `${JSON.stringify(key)}=~"${value}|none"`].join(',')}}` : selector
  const end = await newestTime(reader, { ...wanted, matchers: matchersOf(pairs), start: nanoseconds(now - NEWEST_MS), newestOnly: true })
  const source = storageSource(reader, NAMESPACE, signal, STORED_SAMPLES)
  return { source, one: selector, some, all: selector, label: JSON.stringify(key), end: end ?? now }
}

/** Asks for label values, as a dashboard does that opens. */
async function discover(reader: Reader, { one, label, end }: Sample, io: JobIo): Promise<void> {
  const limits = { limit: SERIES, maxResultBytes: MEMORY_BYTES, parseLimits: { maxLength: one.length, maxDepth: 100 } }
  const range = { start: end - SPAN_MS, end }
  await answerDiscovery(
    storageDiscovery(reader, NAMESPACE),
    { namespace: NAMESPACE, wanted: 'values', label: JSON.parse(label) as string, selectors: [one], ...range, ...limits },
    { signal: io.signal, emit: async () => {} },
  )
}

function matchersOf(pairs: readonly string[]): Matcher[] {
  const out: Matcher[] = []
  for (let i = 0; i < pairs.length; i += 2) out.push({ tag: pairs[i], op: '=', value: pairs[i + 1] })
  return out
}

async function newestTime(reader: Reader, wanted: SampleRequest): Promise<number | undefined> {
  const set = await unlessDropped(reader.samples(wanted))
  let newest: number | undefined
  if (set !== undefined) for await (const { times } of set.blocks()) for (const time of times) newest = Math.max(newest ?? time, time)
  return newest
}

function madeUpSample(signal: AbortSignal): Sample {
  const source = storageSource(madeUp(), NAMESPACE, signal, SERIES * SAMPLES)
  return { source, one: 'warm_up{host="h1"}', some: 'warm_up{host=~"h1|h2"}', all: 'warm_up', label: '"host"', end: END }
}

/** One metric of some hosts, as a reader gives it. */
function madeUp(): Reader {
  const schema = [{ name: 'warm_up', fields: [{ name: 'value', type: 'float64' as const }] }]
  const hosts = Array.from({ length: SERIES }, (_, i) => `h${i}`)
  const codes = Int32Array.from(hosts, (_, i) => i)
  const times = new Float64Array(SERIES * SAMPLES)
  const values = new Float64Array(SERIES * SAMPLES)
  for (let i = 0; i < times.length; i++) {
    times[i] = START + (i % SAMPLES) * SCRAPE_MS
    values[i] = ((i % SAMPLES) * (i % 7)) / 4
  }
  const set: SampleSet = {
    series: codes,
    tags: {
      length: SERIES,
      at: (i) => ['host', hosts[i], 'zone', 'z'],
      keys: () => ['host', 'zone'],
      column: (key) => (key === 'host' ? { codes, texts: hosts } : { codes: new Int32Array(SERIES), texts: ['z'] }),
    },
    async *blocks() {
      yield { first: 0, starts: Int32Array.from({ length: SERIES + 1 }, (_, i) => i * SAMPLES), times, values }
    },
  }
  return { schema: async (_: string) => schema, samples: async (_: SampleRequest) => set } as Pick<Reader, 'schema' | 'samples'> as Reader
}
