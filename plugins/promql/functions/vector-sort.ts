/** The order of an instant query's series; range queries order theirs by labels whatever a function says. */
import { ABSENT, FLOAT, type VectorValue } from '../eval/value.ts'
import type { Labels } from '../labels.ts'
import { compareText } from '../text-order.ts'
import type { VectorCall, VectorFn } from './contract.ts'
import { SORT_IN_RANGE } from './messages.ts'
import { naturallyBefore } from './natural-order.ts'
import { floatKinds, pickSeries, stringArg, vectorArg } from './vectors.ts'

export const SORT: Record<string, VectorFn> = {
  sort: (call) => sortByValue(call, 1),
  sort_desc: (call) => sortByValue(call, -1),
  sort_by_label: (call) => sortByLabel(call, 1),
  sort_by_label_desc: (call) => sortByLabel(call, -1),
}

/** NaN comes last either way; histograms are left out. */
function sortByValue(call: VectorCall, direction: 1 | -1): VectorValue {
  const vector = vectorArg(call, 0)
  if (call.steps.count > 1) {
    call.annotations.warning(SORT_IN_RANGE, call.expr.pos)
    return { ...vector, kinds: floatKinds(vector), histograms: undefined }
  }
  const { kinds, values } = vector
  const rows: number[] = []
  for (let i = 0; i < kinds.length; i++) if (kinds[i] === FLOAT) rows.push(i)
  rows.sort((a, b) => {
    const x = values[a]
    const y = values[b]
    if (Number.isNaN(x) || Number.isNaN(y)) return (Number.isNaN(x) ? 1 : 0) - (Number.isNaN(y) ? 1 : 0)
    return x === y ? 0 : x < y ? -direction : direction
  })
  return { ...pickSeries(vector, rows), histograms: undefined }
}

/** By the labels given in natural order, then by all labels. */
function sortByLabel(call: VectorCall, direction: 1 | -1): VectorValue {
  const vector = vectorArg(call, 0)
  if (call.steps.count > 1) {
    call.annotations.warning(SORT_IN_RANGE, call.expr.pos)
    return vector
  }
  const names = call.args.slice(1).map((_, i) => stringArg(call, i + 1))
  const rows: number[] = []
  for (let i = 0; i < vector.kinds.length; i++) if (vector.kinds[i] !== ABSENT) rows.push(i)
  const labels = new Map(rows.map((row) => [row, vector.labels.at(row)]))
  rows.sort((a, b) => direction * compareBy(names, labels.get(a) as Labels, labels.get(b) as Labels))
  return pickSeries(vector, rows)
}

function compareBy(names: readonly string[], a: Labels, b: Labels): number {
  for (const name of names) {
    const x = a.get(name)
    const y = b.get(name)
    if (x !== y) return naturallyBefore(x, y) ? -1 : 1
  }
  return compareLabels(a, b)
}

/** Pair by pair, names before values. */
function compareLabels(a: Labels, b: Labels): number {
  const shorter = Math.min(a.pairs.length, b.pairs.length)
  for (let i = 0; i < shorter; i++) {
    const order = compareText(a.pairs[i], b.pairs[i])
    if (order !== 0) return order
  }
  return a.pairs.length - b.pairs.length
}
