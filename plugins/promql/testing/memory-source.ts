/**
 * Samples held in memory, for tests of the evaluator: series are written in the notation of Prometheus' test scripts,
 * `metric{label="value"} 0+10x5 _ stale 7`.
 */
import { narrowIntegers, type StoredRows, type StoredSamples } from 'svcdb/lib/columns'
import { compileRegex } from 'svcdb/lib/regex'
import type { LabelMatcher } from '../ast.ts'
import type { SampleSource, Selection, SelectRequest } from '../eval/source.ts'
import { SAMPLE_FLOAT, SAMPLE_HISTOGRAM, SAMPLE_STALE, type SampleBlock } from '../eval/value.ts'
import type { FloatHistogram } from '../histogram/float-histogram.ts'
import { LabelList, Labels, METRIC_NAME } from '../labels.ts'

export interface MemorySample {
  time: number
  value: number
  histogram?: FloatHistogram
  stale?: true
}

interface MemorySeries {
  labels: Labels
  samples: MemorySample[]
}

export class MemorySource implements SampleSource {
  private readonly series: MemorySeries[] = []
  /** Series in one block. */
  private readonly blockSize: number
  /** Every request that came, for tests that count them. */
  readonly requests: SelectRequest[] = []

  constructor(blockSize = 3) {
    this.blockSize = blockSize
  }

  add(labels: Labels, samples: MemorySample[]): void {
    const known = this.series.find((series) => series.labels.key === labels.key)
    if (known === undefined) this.series.push({ labels, samples })
    else known.samples.push(...samples)
  }

  async select(request: SelectRequest): Promise<Selection> {
    this.requests.push(request)
    const matched = this.series.filter(({ labels }) => request.matchers.every((matcher) => matches(matcher, labels)))
    const blockSize = this.blockSize
    return {
      labels: new LabelList(matched.map(({ labels }) => labels)),
      async *blocks() {
        for (let first = 0; first < matched.length; first += blockSize) {
          const block = toBlock(matched.slice(first, first + blockSize), first, request)
          yield block
          // As a storage that uses its memory again.
          block.times.fill(NaN)
          block.values.fill(NaN)
        }
      },
    }
  }
}

/** One series a line, its samples `interval` apart from 0 on. */
export function load(text: string, intervalMs: number, source = new MemorySource()): MemorySource {
  for (const line of text.split('\n').map((l) => l.trim())) {
    const split = /^([^{\s]*(?:\{[^}]*\})?)\s+(.*)$/.exec(line)
    if (split === null) continue
    const samples: MemorySample[] = []
    let time = 0
    for (const item of split[2].split(/\s+/)) {
      for (const value of expand(item)) {
        if (value === 'stale') samples.push({ time, value: NaN, stale: true })
        else if (value !== undefined) samples.push({ time, value })
        time += intervalMs
      }
    }
    source.add(parseLabels(split[1]), samples)
  }
  return source
}

/** `5`, `5x3` (four times), `1+2x3`, `_`, `_x3` (three times), `stale`. */
function expand(item: string): (number | 'stale' | undefined)[] {
  const gap = /^_(?:x(\d+))?$/.exec(item)
  if (gap !== null) return new Array<undefined>(Number(gap[1] ?? 1)).fill(undefined)
  if (item === 'stale') return ['stale']
  const series = /^(-?[\d.]+(?:e[+-]?\d+)?|-?Inf|NaN)(?:([+-])([\d.]+(?:e[+-]?\d+)?))?x(\d+)$/.exec(item)
  if (series === null) return [toNumber(item)]
  const step = series[3] === undefined ? 0 : Number(series[3]) * (series[2] === '-' ? -1 : 1)
  const out: number[] = []
  let value = toNumber(series[1])
  for (let i = 0; i <= Number(series[4]); i++, value += step) out.push(value)
  return out
}

function toNumber(text: string): number {
  if (/^[+-]?Inf$/.test(text)) return text.startsWith('-') ? -Infinity : Infinity
  return Number(text)
}

export function parseLabels(text: string): Labels {
  const [, name, inner] = /^([^{]*)(?:\{(.*)\})?$/.exec(text) ?? []
  const entries: [string, string][] = name ? [[METRIC_NAME, name]] : []
  for (const [, label, value] of (inner ?? '').matchAll(/\s*"?([^=,"\s]+)"?\s*=\s*"((?:[^"\\]|\\.)*)"/g)) entries.push([label, value.replaceAll('\\"', '"')])
  return Labels.of(entries)
}

function matches(matcher: LabelMatcher, labels: Labels): boolean {
  const value = labels.get(matcher.name)
  switch (matcher.op) {
    case '=':
      return value === matcher.value
    case '!=':
      return value !== matcher.value
    case '=~':
      return compileRegex(matcher.value).test(value)
    case '!~':
      return !compileRegex(matcher.value).test(value)
  }
}

/** The same samples where a storage might have them: each series in some runs of arrays that it shares with others. */
export class StoredSource implements SampleSource {
  private readonly source: SampleSource
  private readonly random: () => number
  /** Blocks that were read where they are stored. */
  blocks = 0

  /** @param random at least 0, below 1. */
  constructor(source: SampleSource, random: () => number) {
    this.source = source
    this.random = random
  }

  async select(request: SelectRequest): Promise<Selection> {
    const { labels, blocks } = await this.source.select(request)
    const own = this
    return {
      labels,
      blocks,
      async *stored() {
        for await (const block of blocks()) {
          // A storage cannot say where they are of samples that are not all floats.
          if (block.kinds === undefined) {
            own.blocks++
            yield own.rowsOf(block)
          } else yield block
        }
      },
    }
  }

  private rowsOf({ first, starts, times, values }: SampleBlock): StoredRows {
    const stored: StoredSamples[] = []
    const runs: number[] = []
    const runStarts = new Int32Array(starts.length)
    for (let s = 0; s + 1 < starts.length; s++) {
      for (let from = starts[s], to: number; from < starts[s + 1]; from = to) {
        to = Math.min(starts[s + 1], from + 1 + Math.floor(this.random() * 12))
        const before = Math.floor(this.random() * 3)
        runs.push(stored.length, before, before + to - from)
        const some = Array.from({ length: before + to - from + 2 }, (_, i) => Math.min(times.length - 1, Math.max(0, from - before + i)))
        const numbers = some.map((i) => values[i])
        const divisor = [1, 4].find((by) => numbers.every((value) => Object.is(Math.trunc(value * by) / by, value) && Math.abs(value * by) < 2 ** 31))
        const own = some.map((i) => times[i])
        if (divisor === undefined) stored.push({ times: Float64Array.from(own), values: Float64Array.from(numbers) })
        else {
          const integers = Int32Array.from(numbers, (value) => value * divisor)
          stored.push({ times: Float64Array.from(own), values: this.random() < 0.7 ? narrowIntegers(integers) : integers, divisor })
        }
      }
      runStarts[s + 1] = runs.length / 3
    }
    return { first, starts: runStarts, runs: Int32Array.from(runs), stored }
  }
}

function toBlock(series: readonly MemorySeries[], first: number, request: SelectRequest): SampleBlock {
  const picked = series.map(({ samples }) => {
    const inRange = samples.filter(({ time }) => time > request.after && time <= request.upTo).sort((a, b) => a.time - b.time)
    return request.newestOnly ? inRange.slice(-1) : inRange
  })
  const starts = new Int32Array(series.length + 1)
  for (const [i, samples] of picked.entries()) starts[i + 1] = starts[i] + samples.length
  const all = picked.flat()
  const block: SampleBlock = { first, starts, times: Float64Array.from(all, (s) => s.time), values: Float64Array.from(all, (s) => s.value) }
  if (all.every((s) => s.stale === undefined && s.histogram === undefined)) return block
  block.kinds = Uint8Array.from(all, (s) => (s.stale ? SAMPLE_STALE : s.histogram === undefined ? SAMPLE_FLOAT : SAMPLE_HISTOGRAM))
  if (all.some((s) => s.histogram !== undefined)) block.histograms = all.map((s) => s.histogram)
  return block
}
