/** Runs queries over made-up samples through the whole path but the engine's, so that code is compiled before somebody waits for it. */
import { setImmediate } from 'node:timers/promises'
import type { SampleRequest, SampleSet } from '../../kernel/samples.ts'
import type { Job, Reader } from '../../kernel/storage.ts'
import { answerQuery } from './answer-query.ts'
import { storageSource } from './storage-source.ts'

const SERIES = 8
const SAMPLES = 60
const SCRAPE_MS = 10_000
const START = 1_700_000_000_000
const END = START + SAMPLES * SCRAPE_MS
const STEP_MS = 15_000
const MEMORY_BYTES = 1 << 26

/** What dashboards are made of, mostly. */
const EXPRESSIONS = [
  'warm_up{host="h1"}',
  'rate(warm_up[1m])',
  'max_over_time(warm_up{host=~"h1|h2"}[1m])',
  'sum by (zone) (rate(warm_up[1m]))',
  'max(max_over_time(warm_up[1m])) or label_replace(avg by (host) (avg_over_time(warm_up[1m])), "to", "$1", "host", "(.*)")',
  'topk(3, warm_up) * 2',
  'sum(warm_up) / count(warm_up > 10)',
  'sum(count_over_time((warm_up > 10)[5m:10s]))',
  'histogram_quantile(0.9, sum by (le) (label_replace(rate(warm_up[1m]), "le", "$1", "host", "h(.)")))',
]

const warmUp: Job<{ queries: number }, void> = async (_, { queries }, io) => {
  const quiet = { signal: io.signal, emit: async () => {} }
  const source = storageSource(madeUp(), '', io.signal, SERIES * SAMPLES)
  for (let i = 0; i < queries; i++) {
    const instant = i % 3 === 0
    const steps = instant ? { start: END, interval: 0, count: 1 } : { start: START, interval: STEP_MS, count: (END - START) / STEP_MS + 1 }
    const query = EXPRESSIONS[i % EXPRESSIONS.length]
    await answerQuery(
      source,
      {
        namespace: '',
        query,
        parseLimits: { maxLength: query.length, maxDepth: 100 },
        steps,
        end: END,
        lookbackMs: 300_000,
        defaultStepMs: 60_000,
        seriesLimit: SERIES,
        maxResultBytes: MEMORY_BYTES,
        memoryBytes: MEMORY_BYTES,
        stats: '',
      },
      quiet,
    )
    // Whoever asks something meanwhile goes first.
    await setImmediate()
  }
}

export default warmUp

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
  return { schema: () => schema, samples: async (_: SampleRequest) => set } as Pick<Reader, 'schema' | 'samples'> as Reader
}
