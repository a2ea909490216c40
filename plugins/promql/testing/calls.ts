/** Calls functions without an evaluator: one window of one series, or vectors written out. */
import type { CallExpr, Expr, Pos } from '../ast.ts'
import { Budget, Pacer } from '../eval/context.ts'
import { ABSENT, FLOAT, HISTOGRAM, SAMPLE_FLOAT, SAMPLE_HISTOGRAM, type Value, type VectorValue } from '../eval/value.ts'
import { type AnnotationSink, RangeCall, type VectorCall } from '../functions/contract.ts'
import { implementationOf } from '../functions/index.ts'
import { FloatHistogram } from '../histogram/float-histogram.ts'
import { LabelList, Labels } from '../labels.ts'

/** Keeps texts in the order they come, repeated ones once. */
export class Recorder implements AnnotationSink {
  readonly texts: string[] = []

  warning(text: string, pos: Pos): void {
    this.add(`warning: ${text} @${pos.start}`)
  }

  info(text: string, pos: Pos): void {
    this.add(`info: ${text} @${pos.start}`)
  }

  forcedMonotonicity(metricName: string, pos: Pos, time: number, minBucket: number, maxBucket: number, maxDiff: number): void {
    this.add(`monotonicity: ${metricName} ${minBucket} ${maxBucket} ${maxDiff} at ${time} @${pos.start}`)
  }

  private add(text: string): void {
    if (!this.texts.includes(text)) this.texts.push(text)
  }
}

export type Sample = readonly [seconds: number, value: number | FloatHistogram]

export interface WindowOptions {
  name?: string
  /** Seconds; default: the samples' own ends. The range is open at its start. */
  from?: number
  to?: number
  scalars?: readonly number[]
  modifier?: 'anchored' | 'smoothed'
  annotations?: Recorder
}

/** What a range function makes of a window. */
export function overWindow(fn: string, samples: readonly Sample[], options: WindowOptions = {}): number | FloatHistogram | undefined {
  const implementation = implementationOf(fn)
  if (implementation.kind !== 'range') throw new Error(`${fn} is no range function`)
  const from = (options.from ?? samples[0][0]) * 1000
  const to = (options.to ?? (samples.at(-1) as Sample)[0]) * 1000
  const args: Expr[] = [0, 1].map((i) => ({ kind: 'number', value: 0, pos: { start: 10 * (i + 1), end: 10 * (i + 1) + 1 } }))
  const expr: CallExpr = { kind: 'call', name: fn, args, type: 'vector', pos: { start: 0, end: 30 } }
  const call = new RangeCall(expr, { start: 20, end: 21 }, options.annotations ?? new Recorder())
  // Something before and behind, which no function may look at.
  const all: Sample[] = [[-1, 1e9], ...samples, [1e9, -1e9]]
  call.times = Float64Array.from(all, ([time]) => time * 1000)
  call.values = Float64Array.from(all, ([, value]) => (typeof value === 'number' ? value : NaN))
  if (samples.some(([, value]) => typeof value !== 'number')) {
    call.kinds = Uint8Array.from(all, ([, value]) => (typeof value === 'number' ? SAMPLE_FLOAT : SAMPLE_HISTOGRAM))
    call.histograms = all.map(([, value]) => (typeof value === 'number' ? undefined : value))
  }
  call.lo = 1
  call.hi = samples.length + 1
  call.rangeStart = from
  call.rangeEnd = to
  call.range = to - from
  call.time = to
  call.scalars = Float64Array.from(options.scalars ?? [])
  call.modifier = options.modifier
  call.labels = new LabelList([Labels.of({ __name__: options.name ?? 'm' })])
  const kind = implementation.window(call)
  return kind === FLOAT ? call.value : kind === HISTOGRAM ? call.histogram : undefined
}

/** Floats at 0 s, 10 s, 20 s ... */
export function every10s(...values: (number | FloatHistogram)[]): Sample[] {
  return values.map((value, i) => [i * 10, value])
}

type Cell = number | FloatHistogram | undefined

/** One entry a series: labels and a cell for each step. */
export function vector(...series: (readonly [Record<string, string>, ...Cell[]])[]): VectorValue {
  const steps = Math.max(1, ...series.map((one) => one.length - 1))
  const cells = series.flatMap(([, ...row]) => Array.from({ length: steps }, (_, i) => row[i]))
  const out: VectorValue = {
    type: 'vector',
    labels: new LabelList(series.map(([labels]) => Labels.of(labels))),
    steps,
    values: Float64Array.from(cells, (cell) => (typeof cell === 'number' ? cell : 0)),
    kinds: Uint8Array.from(cells, (cell) => (cell === undefined ? ABSENT : typeof cell === 'number' ? FLOAT : HISTOGRAM)),
  }
  if (cells.some((cell) => cell instanceof FloatHistogram)) out.histograms = cells.map((cell) => (cell instanceof FloatHistogram ? cell : undefined))
  return out
}

/** A scalar or string argument of a function call. */
export function argument(value: number | string | readonly number[], steps = 1): Value {
  if (typeof value === 'string') return { type: 'string', value }
  return { type: 'scalar', values: typeof value === 'number' ? new Float64Array(steps).fill(value) : Float64Array.from(value) }
}

interface ApplyOptions {
  annotations?: Recorder
  /** Seconds; steps are 60 s apart. */
  start?: number
  steps?: number
  exprs?: Expr[]
  sampleTimes?: number[]
  query?: VectorCall['query']
  instants?: VectorCall['instants']
  budgetBytes?: number
  signal?: AbortSignal
}

/** Arguments stand 10 apart. */
function exprOf(arg: Value, i: number): Expr {
  const pos = { start: 10 * (i + 1), end: 10 * (i + 1) + 1 }
  return arg.type === 'string' ? { kind: 'string', value: arg.value, pos } : { kind: 'number', value: 0, pos }
}

export async function apply(fn: string, args: readonly Value[], options: ApplyOptions = {}): Promise<Value> {
  const implementation = implementationOf(fn)
  if (implementation.kind !== 'vector') throw new Error(`${fn} is no vector function`)
  const first = args.find((arg) => arg.type === 'vector')
  const count = options.steps ?? first?.steps ?? 1
  const start = (options.start ?? 0) * 1000
  const exprs = options.exprs ?? args.map(exprOf)
  implementation.check?.({ kind: 'call', name: fn, args: exprs, type: 'vector', pos: { start: 0, end: 0 } })
  return implementation.apply({
    expr: { kind: 'call', name: fn, args: exprs, type: 'vector', pos: { start: 0, end: 99 } },
    args,
    steps: { start, interval: 60_000, count },
    annotations: options.annotations ?? new Recorder(),
    query: options.query ?? { start, end: start + (count - 1) * 60_000, step: count > 1 ? 60_000 : 0 },
    pacer: new Pacer(options.signal ?? new AbortController().signal),
    budget: new Budget(options.budgetBytes ?? 1e9),
    instants: options.instants ?? (() => Promise.reject(new Error('this function reads nothing'))),
    ...(options.sampleTimes && { sampleTimes: Float64Array.from(options.sampleTimes) }),
  })
}

/** A vector as lines `{labels} cell cell`, `_` where there is none; series whose name is to go are marked with `-`. */
export function lines(value: Value): string[] {
  if (value.type === 'scalar') return [[...value.values].join(' ')]
  if (value.type === 'string') return [value.value]
  const out: string[] = []
  for (let i = 0; i < value.labels.length; i++) {
    const cells: string[] = []
    for (let t = 0; t < value.steps; t++) {
      const cell = i * value.steps + t
      const kind = value.kinds[cell]
      cells.push(kind === ABSENT ? '_' : kind === FLOAT ? String(value.values[cell]) : `h${value.histograms?.[cell]?.count}`)
    }
    if (cells.every((cell) => cell === '_')) continue
    const { pairs } = value.labels.at(i)
    const text = pairs.map((part, p) => (p % 2 === 0 ? `${p > 0 ? ',' : ''}${part}=` : part)).join('')
    out.push(`${value.dropName?.[i] === 1 ? '-' : ''}{${text}} ${cells.join(' ')}`)
  }
  return out
}

/** Counts in buckets 1, 2, 3 ... of schema 0: (1, 2], (2, 4], (4, 8] ... */
export function buckets(counts: readonly number[], more: Partial<Pick<FloatHistogram, 'counterReset' | 'schema' | 'sum' | 'count'>> = {}): FloatHistogram {
  const h = new FloatHistogram()
  h.positive = { index: Int32Array.from(counts, (_, i) => i + 1), counts: Float64Array.from(counts) }
  h.count = counts.reduce((sum, count) => sum + count, 0)
  h.sum = h.count * 2
  return Object.assign(h, more)
}

/** Counts in buckets with these upper bounds, and what is above the last. */
export function customBuckets(bounds: readonly number[], counts: readonly number[]): FloatHistogram {
  const h = buckets(counts)
  h.schema = -53
  h.customBounds = Float64Array.from(bounds)
  h.positive.index = Int32Array.from(counts, (_, i) => i)
  return h
}
