/** quantile: the value below which a part of a group's samples lies, weighed between two of them. */
import type { AggregateExpr } from '../ast.ts'
import { invalidQuantile } from '../functions/messages.ts'
import { histogramIgnoredIn } from './aggregate-messages.ts'
import type { Evaluation } from './context.ts'
import { droppedGroups, type Groups } from './groups.ts'
import { rangeOf } from './parameter.ts'
import { FLOAT, HISTOGRAM, type VectorValue } from './value.ts'
import { newVector, setFloat } from './vectors.ts'

/** @param wanted the quantile, one a step. */
export async function quantiles(
  expr: AggregateExpr,
  wanted: Float64Array,
  input: VectorValue,
  groups: Groups,
  { context, pacer }: Evaluation,
): Promise<VectorValue> {
  const { steps, kinds, values } = input
  const sink = context.annotations
  const paramPos = (expr.param ?? expr).pos
  const { high, low, anyNaN } = rangeOf(wanted)
  if (anyNaN) sink.warning(invalidQuantile(NaN), paramPos)
  if (high > 1) sink.warning(invalidQuantile(high), paramPos)
  if (low < 0) sink.warning(invalidQuantile(low), paramPos)
  if (kinds.includes(HISTOGRAM)) sink.info(histogramIgnoredIn('quantile'), expr.expr.pos)
  const out = newVector(groups.labels, steps, context.budget)
  const { members, starts } = membersOf(groups)
  const scratch = new Float64Array(largest(starts))
  for (let g = 0; g < groups.count; g++) {
    for (let t = 0; t < steps; t++) {
      let n = 0
      let nans = 0
      for (let m = starts[g]; m < starts[g + 1]; m++) {
        const cell = members[m] * steps + t
        if (kinds[cell] !== FLOAT) continue
        if (Number.isNaN(values[cell])) nans++
        else scratch[n++] = values[cell]
      }
      if (n + nans > 0) setFloat(out, g * steps + t, quantileOf(scratch.subarray(0, n).sort(), nans, wanted[t]))
    }
    if (pacer.due(steps * (starts[g + 1] - starts[g]))) await pacer.pause()
  }
  const dropName = droppedGroups(input.dropName, groups)
  if (dropName !== undefined) out.dropName = dropName
  return out
}

/** NaN counts as smaller than every number. */
function quantileOf(sorted: Float64Array, nans: number, q: number): number {
  if (Number.isNaN(q)) return NaN
  if (q < 0) return -Infinity
  if (q > 1) return Infinity
  const count = sorted.length + nans
  const rank = q * (count - 1)
  const below = Math.floor(rank)
  const above = Math.min(count - 1, below + 1)
  const at = (i: number): number => (i < nans ? NaN : sorted[i - nans])
  const weight = rank - below
  // Nothing of what lies beside: no part of an infinite value is a number.
  if (weight === 0) return at(below)
  return at(below) * (1 - weight) + at(above) * weight
}

/** Series in the order of their groups; group g has [starts[g], starts[g + 1]). */
function membersOf({ of, count }: Groups): { members: Int32Array; starts: Int32Array } {
  const starts = new Int32Array(count + 1)
  for (const group of of) starts[group + 1]++
  for (let g = 0; g < count; g++) starts[g + 1] += starts[g]
  const next = starts.slice()
  const members = new Int32Array(of.length)
  for (let i = 0; i < of.length; i++) members[next[of[i]]++] = i
  return { members, starts }
}

function largest(starts: Int32Array): number {
  let most = 0
  for (let g = 0; g + 1 < starts.length; g++) most = Math.max(most, starts[g + 1] - starts[g])
  return most
}
