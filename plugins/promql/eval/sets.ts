/** and, or, unless: which samples stay is decided at each step by the match groups that are there. */
import type { SetOp, VectorMatching } from '../ast.ts'
import type { LabelSets } from '../labels.ts'
import { type Evaluation, vectorBytes } from './context.ts'
import { groupByLabels, labelNames } from './series-sets.ts'
import { BothSeries } from './series-views.ts'
import { matchNames } from './signature.ts'
import { ABSENT, type VectorValue } from './value.ts'
import { copyCell, newVector } from './vectors.ts'

export async function setOperation(
  op: SetOp,
  matching: VectorMatching | undefined,
  lhs: VectorValue,
  rhs: VectorValue,
  evaluation: Evaluation,
): Promise<VectorValue> {
  const sides = [lhs.labels, rhs.labels]
  const { ordinals, count } = groupByLabels(sides, matchNames(matching, sides))
  const [left, right] = ordinals
  if (op === 'or') {
    const present = await presence(lhs, left, count, evaluation)
    return unite(lhs, rhs, right, present, evaluation)
  }
  const present = await presence(rhs, right, count, evaluation)
  return filter(lhs, left, present, op === 'and' ? 1 : 0, evaluation)
}

/** One byte a group and step: some series of the group has a sample. */
async function presence(vector: VectorValue, groups: Int32Array, count: number, { context, pacer }: Evaluation): Promise<Uint8Array> {
  const { steps, kinds } = vector
  const bytes = vectorBytes(count, steps, false)
  context.budget.take(bytes)
  context.budget.give(bytes)
  const present = new Uint8Array(count * steps)
  for (let i = 0; i < groups.length; i++) {
    const group = groups[i] * steps
    for (let t = 0; t < steps; t++) if (kinds[i * steps + t] !== ABSENT) present[group + t] = 1
    if (pacer.due(steps)) await pacer.pause()
  }
  return present
}

/** The samples whose group is present, or is not. */
async function filter(vector: VectorValue, groups: Int32Array, present: Uint8Array, wanted: 0 | 1, { context, pacer }: Evaluation): Promise<VectorValue> {
  const { steps, kinds } = vector
  const out = newVector(vector.labels, steps, context.budget)
  for (let i = 0; i < groups.length; i++) {
    for (let t = 0; t < steps; t++) {
      const cell = i * steps + t
      if (kinds[cell] !== ABSENT && present[groups[i] * steps + t] === wanted) copyCell(vector, cell, out, cell)
    }
    if (pacer.due(steps)) await pacer.pause()
  }
  if (vector.dropName !== undefined) out.dropName = vector.dropName
  return out
}

/** All of the left side, and of the right side what has no group there. Series that both sides have are one. */
async function unite(lhs: VectorValue, rhs: VectorValue, groups: Int32Array, present: Uint8Array, { context, pacer }: Evaluation): Promise<VectorValue> {
  const { steps } = lhs
  const { rows, extra } = placeRight(lhs.labels, rhs.labels)
  const out = newVector(new BothSeries(lhs.labels, rhs.labels, extra), steps, context.budget)
  out.values.set(lhs.values)
  out.kinds.set(lhs.kinds)
  if (lhs.histograms !== undefined) {
    out.histograms = lhs.histograms.slice()
    out.histograms.length = out.kinds.length
  }
  const drop = new Uint8Array(out.labels.length)
  if (lhs.dropName !== undefined) drop.set(lhs.dropName)
  for (let i = 0; i < groups.length; i++) {
    const row = rows[i]
    // Of a series that both sides have, the side that its first sample is from says whether its name goes.
    let before = row < lhs.labels.length ? firstSample(lhs, row) : steps
    for (let t = 0; t < steps; t++) {
      const cell = i * steps + t
      if (rhs.kinds[cell] === ABSENT || present[groups[i] * steps + t] !== 0) continue
      copyCell(rhs, cell, out, row * steps + t)
      if (t < before) {
        drop[row] = rhs.dropName?.[i] ?? 0
        before = t
      }
    }
    if (pacer.due(steps)) await pacer.pause()
  }
  if (drop.includes(1)) out.dropName = drop
  return out
}

/** The step of a series' first sample, or the number of steps when it has none. */
function firstSample({ kinds, steps }: VectorValue, row: number): number {
  for (let t = 0; t < steps; t++) if (kinds[row * steps + t] !== ABSENT) return t
  return steps
}

/** The row of each right series in the union: that of a left series with the same labels, or one of its own after them. */
function placeRight(left: LabelSets, right: LabelSets): { rows: Int32Array; extra: Int32Array } {
  const names = new Set([...labelNames(left), ...labelNames(right)])
  const { ordinals, count } = groupByLabels([left, right], [...names])
  const owner = new Int32Array(count).fill(-1)
  for (let i = 0; i < left.length; i++) owner[ordinals[0][i]] = i
  const rows = new Int32Array(right.length)
  const extra: number[] = []
  for (let i = 0; i < right.length; i++) {
    const row = owner[ordinals[1][i]]
    rows[i] = row >= 0 ? row : left.length + extra.push(i) - 1
  }
  return { rows, extra: Int32Array.from(extra) }
}
