/** Milliseconds of queries over samples that are in arrays already: node plugins/promql/eval/eval.bench.ts [series] */
import { type LabelColumn, type LabelSets, Labels } from '../labels.ts'
import { parse } from '../parser/parse.ts'
import { Annotations } from './annotations.ts'
import { Budget } from './context.ts'
import { evaluate } from './evaluate.ts'
import type { SampleSource, SelectRequest } from './source.ts'
import type { SampleBlock } from './value.ts'

const SERIES = Number(process.argv[2] ?? 1000)
const MANY = 1_000_000
const START = 1_700_000_000_000
const SCRAPE_MS = 10_000
const SAMPLES = 720
const STEP_MS = 15_000
const BLOCK_SERIES = 256

/** Series with a name, a host each and one of ten regions, from columns. */
class HostLabels implements LabelSets {
  distinct = false
  readonly length: number
  private readonly hosts: string[]

  constructor(length: number) {
    this.length = length
    this.hosts = Array.from({ length }, (_, i) => `host_${i}`)
  }

  at(i: number): Labels {
    return new Labels(['__name__', 'requests_total', 'host', this.hosts[i], 'region', `region_${i % 10}`])
  }

  column(name: string): LabelColumn {
    const codes = new Int32Array(this.length)
    if (name === 'host') return { codes: codes.map((_, i) => i), texts: this.hosts }
    if (name === 'region') return { codes: codes.map((_, i) => i % 10), texts: Array.from({ length: 10 }, (_, i) => `region_${i}`) }
    return name === '__name__' ? { codes, texts: ['requests_total'] } : { codes: codes.fill(-1), texts: [] }
  }

  names(): string[] {
    return ['__name__', 'host', 'region']
  }
}

/** Counters with a reset now and then. */
function blocksOf(series: number, samples: number): SampleBlock[] {
  const out: SampleBlock[] = []
  for (let first = 0; first < series; first += BLOCK_SERIES) {
    const count = Math.min(BLOCK_SERIES, series - first)
    const times = new Float64Array(count * samples)
    const values = new Float64Array(count * samples)
    for (let s = 0; s < count; s++) {
      for (let i = 0; i < samples; i++) {
        times[s * samples + i] = START + i * SCRAPE_MS + ((first + s) % 1000)
        values[s * samples + i] = ((i + s) % 500) * 10
      }
    }
    out.push({ first, starts: Int32Array.from({ length: count + 1 }, (_, s) => s * samples), times, values })
  }
  return out
}

function sourceOf(series: number, samples: number): SampleSource {
  const labels = new HostLabels(series)
  const all = blocksOf(series, samples)
  return {
    async select({ after, upTo }: SelectRequest) {
      return {
        labels,
        async *blocks() {
          for (const block of all) yield cut(block, samples, after, upTo)
        },
      }
    },
  }
}

/** The same samples of every series: those of a range. */
function cut(block: SampleBlock, samples: number, after: number, upTo: number): SampleBlock {
  const from = Math.max(0, Math.floor((after - START) / SCRAPE_MS) + 1)
  const to = Math.min(samples, Math.floor((upTo - START) / SCRAPE_MS) + 1)
  const count = block.starts.length - 1
  const wide = Math.max(0, to - from)
  const times = new Float64Array(count * wide)
  const values = new Float64Array(count * wide)
  for (let s = 0; s < count; s++) {
    times.set(block.times.subarray(s * samples + from, s * samples + to), s * wide)
    values.set(block.values.subarray(s * samples + from, s * samples + to), s * wide)
  }
  return { first: block.first, starts: Int32Array.from({ length: count + 1 }, (_, s) => s * wide), times, values }
}

async function measure(name: string, query: string, source: SampleSource, count: number, runs: number, end = START + (SAMPLES - 1) * SCRAPE_MS): Promise<void> {
  const start = end - (count - 1) * STEP_MS
  const took: number[] = []
  let cells = 0
  for (let run = 0; run < runs; run++) {
    const expr = parse(query)
    const begun = performance.now()
    const value = await evaluate(
      expr,
      { start, interval: STEP_MS, count },
      {
        source,
        lookbackMs: 300_000,
        defaultStepMs: 60_000,
        budget: new Budget(4e9),
        annotations: new Annotations(),
        signal: new AbortController().signal,
        query: { start, end, step: STEP_MS },
      },
    )
    took.push(performance.now() - begun)
    cells = value.type === 'vector' ? value.values.length : 0
  }
  took.sort((a, b) => a - b)
  console.log(
    `${name.padEnd(34)} ${took[Math.floor(runs / 2)].toFixed(2).padStart(9)} ms median ${took[0].toFixed(2).padStart(9)} best ${String(cells).padStart(9)} cells`,
  )
}

const hosts = sourceOf(SERIES, SAMPLES)
const RANGE = 241
await measure('rate, range', 'rate(requests_total[5m])', hosts, RANGE, 31)
await measure('sum of rate by region, range', 'sum by (region) (rate(requests_total[5m]))', hosts, RANGE, 31)
await measure('selector, range', 'requests_total', hosts, RANGE, 31)
await measure('avg_over_time, range', 'avg_over_time(requests_total[5m])', hosts, RANGE, 31)
await measure('max_over_time, range', 'max_over_time(requests_total[5m])', hosts, RANGE, 31)
await measure('topk, range', 'topk(5, requests_total)', hosts, RANGE, 31)
await measure('quantile by region, range', 'quantile by (region) (0.9, requests_total)', hosts, RANGE, 11)
await measure('vector / vector, range', 'requests_total / ignoring(x) requests_total', hosts, RANGE, 31)
await measure('vector * scalar, range', 'requests_total * 2', hosts, RANGE, 31)
await measure('subquery', 'max_over_time(rate(requests_total[5m])[30m:1m])', hosts, RANGE, 11)
await measure('sum by, instant', 'sum by (region) (requests_total)', hosts, 1, 101)
const many = sourceOf(MANY, 1)
await measure('a million: sum by, instant', 'sum by (region) (requests_total)', many, 1, 5, START + SCRAPE_MS)
await measure('a million: sum without, instant', 'sum without (host) (requests_total)', many, 1, 5, START + SCRAPE_MS)
await measure('a million: topk, instant', 'topk(10, requests_total)', many, 1, 5, START + SCRAPE_MS)
