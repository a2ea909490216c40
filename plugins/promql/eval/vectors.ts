/** Making and copying vector values. */
import type { FloatHistogram } from '../histogram/float-histogram.ts'
import type { LabelSets } from '../labels.ts'
import { type Budget, vectorBytes } from './context.ts'
import { NO_SERIES, ONE_SERIES, someOf } from './series-sets.ts'
import { FLOAT, HISTOGRAM, type ScalarValue, type Value, type VectorValue } from './value.ts'

/** All cells absent. Refused before any memory is asked for when it would not fit the budget. */
export function newVector(labels: LabelSets, steps: number, budget: Budget): VectorValue {
  const bytes = vectorBytes(labels.length, steps, false)
  budget.take(bytes)
  budget.give(bytes)
  const cells = labels.length * steps
  return { type: 'vector', labels, steps, values: new Float64Array(cells), kinds: new Uint8Array(cells) }
}

export function emptyVector(steps: number): VectorValue {
  return { type: 'vector', labels: NO_SERIES, steps, values: new Float64Array(0), kinds: new Uint8Array(0) }
}

export function constant(value: number, steps: number): ScalarValue {
  return { type: 'scalar', values: new Float64Array(steps).fill(value) }
}

/** A value of one step, repeated for all steps. */
export function repeat(value: Value, steps: number, budget: Budget): Value {
  if (value.type === 'string') return value
  if (value.type === 'scalar') return constant(value.values[0], steps)
  const out = newVector(value.labels, steps, budget)
  const series = value.labels.length
  for (let i = 0; i < series; i++) {
    out.values.fill(value.values[i], i * steps, (i + 1) * steps)
    out.kinds.fill(value.kinds[i], i * steps, (i + 1) * steps)
  }
  if (value.histograms !== undefined) {
    out.histograms = []
    for (let i = 0; i < series; i++) if (value.kinds[i] === HISTOGRAM) for (let t = 0; t < steps; t++) out.histograms[i * steps + t] = value.histograms[i]
    out.histograms.length = series * steps
  }
  if (value.dropName !== undefined) out.dropName = value.dropName
  return out
}

/** The given rows of a value, in their order; shares nothing with it. */
export function pickRows(value: VectorValue, rows: Int32Array, budget: Budget): VectorValue {
  const { steps } = value
  const out = newVector(someOf(value.labels, rows), steps, budget)
  for (let i = 0; i < rows.length; i++) {
    const from = rows[i] * steps
    out.values.set(value.values.subarray(from, from + steps), i * steps)
    out.kinds.set(value.kinds.subarray(from, from + steps), i * steps)
  }
  if (value.histograms !== undefined) out.histograms = pickHistograms(value.histograms, rows, steps)
  if (value.dropName !== undefined) out.dropName = Uint8Array.from(rows, (row) => value.dropName?.[row] ?? 0)
  return out
}

function pickHistograms(histograms: NonNullable<VectorValue['histograms']>, rows: Int32Array, steps: number): NonNullable<VectorValue['histograms']> {
  const out: NonNullable<VectorValue['histograms']> = []
  for (const row of rows) for (let t = 0; t < steps; t++) out.push(histograms[row * steps + t])
  return out
}

/** A scalar as the vector it stands for in a message or a result: one series without labels. */
export function asSeries(value: ScalarValue): VectorValue {
  const steps = value.values.length
  return { type: 'vector', labels: ONE_SERIES, steps, values: value.values, kinds: new Uint8Array(steps).fill(1) }
}

/** One byte a series, set for all. */
export function dropAllNames(series: number): Uint8Array {
  return new Uint8Array(series).fill(1)
}

export function setFloat(value: VectorValue, cell: number, x: number): void {
  value.values[cell] = x
  value.kinds[cell] = FLOAT
}

export function setHistogram(value: VectorValue, cell: number, histogram: FloatHistogram): void {
  value.histograms ??= new Array<FloatHistogram | undefined>(value.kinds.length)
  value.histograms[cell] = histogram
  value.kinds[cell] = HISTOGRAM
}

export function copyCell(from: VectorValue, source: number, into: VectorValue, target: number): void {
  into.values[target] = from.values[source]
  into.kinds[target] = from.kinds[source]
  if (from.kinds[source] === HISTOGRAM) (into.histograms ??= new Array<FloatHistogram | undefined>(into.kinds.length))[target] = from.histograms?.[source]
}
