/** Queries over samples in memory, with results as text that tests can compare. */
import { Annotations } from '../eval/annotations.ts'
import { Budget } from '../eval/context.ts'
import { evaluate } from '../eval/evaluate.ts'
import type { SampleSource } from '../eval/source.ts'
import { ABSENT, HISTOGRAM, type MatrixValue, SAMPLE_HISTOGRAM, type Value, type VectorValue } from '../eval/value.ts'
import type { Labels } from '../labels.ts'
import { parse } from '../parser/parse.ts'

const MINUTE = 60_000

export interface RunOptions {
  /** Minutes. */
  start?: number
  end?: number
  step?: number
  lookback?: number
  budgetBytes?: number
  signal?: AbortSignal
  annotations?: Annotations
}

/** An instant query. A line for each series, `name{label="value"} 1`; of scalars and strings the value alone. */
export async function at(minute: number, query: string, source: SampleSource, options: RunOptions = {}): Promise<string[]> {
  return run(query, source, { ...options, start: minute, end: minute, step: 0 })
}

/** A range query. A line for each series with a value a step, `_` for none; series in the order of their labels. */
export async function over(start: number, end: number, query: string, source: SampleSource, options: RunOptions = {}): Promise<string[]> {
  return (await run(query, source, { step: 1, ...options, start, end })).sort()
}

async function run(query: string, source: SampleSource, options: RunOptions): Promise<string[]> {
  const start = (options.start ?? 0) * MINUTE
  const end = (options.end ?? 0) * MINUTE
  const step = (options.step ?? 1) * MINUTE
  const count = step === 0 ? 1 : Math.floor((end - start) / step) + 1
  const value = await evaluate(
    frozen(parse(query)),
    { start, interval: step === 0 ? 1 : step, count },
    {
      source,
      lookbackMs: (options.lookback ?? 5) * MINUTE,
      defaultStepMs: MINUTE,
      budget: new Budget(options.budgetBytes ?? 1e9),
      annotations: options.annotations ?? new Annotations(),
      signal: options.signal ?? new AbortController().signal,
      query: { start, end, step },
    },
  )
  return value.type === 'matrix' ? samplesOf(value) : linesOf(value)
}

function linesOf(value: Value): string[] {
  if (value.type === 'string') return [value.value]
  if (value.type === 'scalar') return [[...value.values].map(String).join(' ')]
  const lines: string[] = []
  for (let i = 0; i < value.labels.length; i++) {
    const cells = Array.from({ length: value.steps }, (_, t) => cellText(value, i * value.steps + t))
    if (cells.some((cell) => cell !== '_')) lines.push(`${labelsText(value.labels.at(i))} ${cells.join(' ')}`)
  }
  return lines
}

function cellText({ kinds, values, histograms }: VectorValue, cell: number): string {
  if (kinds[cell] === ABSENT) return '_'
  return kinds[cell] === HISTOGRAM ? String(histograms?.[cell]) : String(values[cell])
}

/** `name{label="value"} 1@60 2@120`, times in seconds. */
async function samplesOf(value: MatrixValue): Promise<string[]> {
  const lines: string[] = []
  for await (const { first, starts, times, values, kinds, histograms } of value.blocks()) {
    for (let s = 0; s + 1 < starts.length; s++) {
      const samples: string[] = []
      for (let i = starts[s]; i < starts[s + 1]; i++) samples.push(`${kinds?.[i] === SAMPLE_HISTOGRAM ? histograms?.[i] : values[i]}@${times[i] / 1000}`)
      if (samples.length > 0) lines.push(`${labelsText(value.labels.at(first + s))} ${samples.join(' ')}`)
    }
  }
  return lines
}

export function labelsText(labels: Labels): string {
  const { __name__: name = '', ...rest } = labels.toJSON()
  const pairs = Object.entries(rest).map(([label, value]) => `${label}="${value}"`)
  return pairs.length === 0 && name !== '' ? name : `${name}{${pairs.join(',')}}`
}

/** Queries of the same text share a syntax tree: an evaluation that changed it would throw here. */
export function frozen<T>(node: T): T {
  if (typeof node === 'object' && node !== null && !Object.isFrozen(node)) for (const member of Object.values(Object.freeze(node))) frozen(member)
  return node
}
