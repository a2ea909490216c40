/** Series as test scripts write them, floats and native histograms, to samples held in memory. */
import type { CounterResetHint } from 'svcdb/lib/histogram'
import type { FloatHistogram } from '../histogram/float-histogram.ts'
import { histogram } from '../histogram/testing.ts'
import { type MemorySample, MemorySource, parseLabels } from './memory-source.ts'

type Point = number | FloatHistogram

/** One series a line, its samples `intervalMs` apart from 0 on. */
export function loadSeries(lines: readonly string[], intervalMs: number): MemorySource {
  const source = new MemorySource()
  for (const line of lines) {
    const labels = /^[^\s{]*(?:\{(?:"(?:[^"\\]|\\.)*"|[^"{}])*\})?(?=\s)/.exec(line)?.[0]
    if (labels === undefined) throw new Error(`cannot read series "${line}": no labels`)
    const samples: MemorySample[] = []
    let time = 0
    for (const item of line.slice(labels.length).match(/(?:\{\{.*?\}\}|[^\s{])+/g) ?? []) {
      for (const sample of expand(item)) {
        if (sample !== undefined) samples.push({ ...sample, time })
        time += intervalMs
      }
    }
    source.add(parseLabels(labels), samples)
  }
  return source
}

type Sample = Omit<MemorySample, 'time'>

/** `5`, `5x3` (four times), `1+2x3`, `{{...}}+{{...}}x3`, `_`, `_x3` (three times), `stale`. */
function expand(item: string): (Sample | undefined)[] {
  const gap = /^_(?:x(\d+))?$/.exec(item)
  if (gap !== null) return new Array<undefined>(Number(gap[1] ?? 1)).fill(undefined)
  if (item === 'stale') return [{ value: NaN, stale: true }]
  const split = /^(\{\{.*?\}\}|[-+]?(?:[\d.]+(?:e[-+]?\d+)?|Inf|NaN))(?:([-+])(\{\{.*?\}\}|[\d.]+(?:e[-+]?\d+)?))?(?:x(\d+))?$/.exec(item)
  if (split === null) throw new Error(`cannot read samples "${item}"`)
  const [, first, sign, step, times] = split
  const out: Sample[] = []
  let point = readPoint(first)
  for (let i = 0; i <= Number(times ?? 0); i++) {
    out.push(typeof point === 'number' ? { value: point } : { value: NaN, histogram: point })
    if (step !== undefined) point = plus(point, readPoint(step), sign === '-' ? -1 : 1)
  }
  return out
}

function plus(point: Point, step: Point, sign: number): Point {
  if (typeof point === 'number') return point + sign * (step as number)
  const sum = point.copy()
  const other = (step as FloatHistogram).copy()
  other.mul(sign)
  sum.add(other)
  return sum
}

function readPoint(text: string): Point {
  if (!text.startsWith('{{')) return /Inf/.test(text) ? (text.startsWith('-') ? -Infinity : Infinity) : Number(text)
  const parts = new Map<string, string>()
  for (const [, name, list, plain] of text.slice(2, -2).matchAll(/(\w+):(?:\[([^\]]*)\]|(\S+))/g)) parts.set(name, list ?? plain)
  const number = (name: string): number | undefined => (parts.has(name) ? Number(parts.get(name)) : undefined)
  const list = (name: string): number[] => (parts.get(name) ?? '').split(' ').filter(Boolean).map(Number)
  const side = (name: string, offset: number): Record<number, number> => Object.fromEntries(list(name).map((count, i) => [i + offset, count]))
  return histogram({
    schema: number('schema') ?? 0,
    count: number('count') ?? 0,
    sum: number('sum') ?? 0,
    zeroCount: number('z_bucket') ?? 0,
    zeroThreshold: number('z_bucket_w') ?? 0,
    positive: side('buckets', number('offset') ?? 0),
    negative: side('n_buckets', number('n_offset') ?? 0),
    ...(parts.has('custom_values') ? { bounds: list('custom_values') } : {}),
    hint: (parts.get('counter_reset_hint') ?? 'unknown') as CounterResetHint,
  })
}
