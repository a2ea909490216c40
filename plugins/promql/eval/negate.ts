/** The unary minus. */
import type { Budget } from './context.ts'
import { HISTOGRAM, type Value } from './value.ts'
import { dropAllNames, newVector } from './vectors.ts'

export function negate(value: Value, budget: Budget): Value {
  if (value.type === 'string') return value
  if (value.type === 'scalar') return { type: 'scalar', values: value.values.map((x) => -x) }
  const out = newVector(value.labels, value.steps, budget)
  out.kinds.set(value.kinds)
  for (let i = 0; i < out.values.length; i++) out.values[i] = -value.values[i]
  if (value.histograms !== undefined)
    out.histograms = value.histograms.map((histogram, i) => (value.kinds[i] === HISTOGRAM ? histogram?.copy().mul(-1) : undefined))
  out.dropName = dropAllNames(value.labels.length)
  return out
}
