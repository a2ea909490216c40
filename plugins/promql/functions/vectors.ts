/** Making vectors out of vectors. */

import { NO_SERIES, someOf } from '../eval/series-sets.ts'
import { FLOAT, HISTOGRAM, type ScalarValue, type VectorValue } from '../eval/value.ts'
import type { FloatHistogram } from '../histogram/float-histogram.ts'
import type { LabelSets } from '../labels.ts'
import type { VectorCall } from './contract.ts'

/** @throws for an argument the parser would not have let through. */
export function vectorArg(call: VectorCall, i: number): VectorValue {
  const value = call.args[i]
  if (value?.type !== 'vector') throw new Error(`cannot call ${call.expr.name}: argument ${i + 1} is no vector`)
  return value
}

export function scalarArg(call: VectorCall, i: number): ScalarValue {
  const value = call.args[i]
  if (value?.type !== 'scalar') throw new Error(`cannot call ${call.expr.name}: argument ${i + 1} is no scalar`)
  return value
}

export function stringArg(call: VectorCall, i: number): string {
  const value = call.args[i]
  if (value?.type !== 'string') throw new Error(`cannot call ${call.expr.name}: argument ${i + 1} is no string`)
  return value.value
}

export function emptyVector(steps: number): VectorValue {
  return { type: 'vector', labels: NO_SERIES, steps, values: new Float64Array(0), kinds: new Uint8Array(0) }
}

/** For series that lose their metric name when the result leaves the query. */
export function droppedNames(labels: LabelSets): Uint8Array {
  return new Uint8Array(labels.length).fill(1)
}

/** The kinds of a vector without its histograms. */
export function floatKinds(vector: VectorValue): Uint8Array {
  if (vector.histograms === undefined) return vector.kinds
  return vector.kinds.map((kind) => (kind === HISTOGRAM ? 0 : kind))
}

/** Each float through `f`; histograms are left out, metric names go. */
export function mapFloats(vector: VectorValue, f: (value: number, step: number) => number): VectorValue {
  const { labels, steps } = vector
  const kinds = floatKinds(vector)
  const values = new Float64Array(kinds.length)
  for (let first = 0; first < kinds.length; first += steps) {
    for (let step = 0; step < steps; step++) if (kinds[first + step] === FLOAT) values[first + step] = f(vector.values[first + step], step)
  }
  return { type: 'vector', labels, steps, values, kinds, dropName: droppedNames(labels) }
}

/** Chosen series, none twice, in a new order. */
export function pickSeries(vector: VectorValue, rows: readonly number[]): VectorValue {
  const { steps, labels } = vector
  const values = new Float64Array(rows.length * steps)
  const kinds = new Uint8Array(rows.length * steps)
  const histograms = vector.histograms === undefined ? undefined : new Array<FloatHistogram | undefined>(values.length)
  const dropName = vector.dropName === undefined ? undefined : new Uint8Array(rows.length)
  for (const [to, from] of rows.entries()) {
    values.set(vector.values.subarray(from * steps, (from + 1) * steps), to * steps)
    kinds.set(vector.kinds.subarray(from * steps, (from + 1) * steps), to * steps)
    if (histograms !== undefined) for (let t = 0; t < steps; t++) histograms[to * steps + t] = vector.histograms?.[from * steps + t]
    if (dropName !== undefined) dropName[to] = vector.dropName?.[from] ?? 0
  }
  return {
    type: 'vector',
    labels: someOf(labels, Int32Array.from(rows)),
    steps,
    values,
    kinds,
    ...(histograms && { histograms }),
    ...(dropName && { dropName }),
  }
}
