/** count_values: how many samples of a group have the same value, which becomes a label. */
import type { AggregateExpr } from '../ast.ts'
import { ExecutionError } from '../errors.ts'
import { LabelList, type Labels, METADATA } from '../labels.ts'
import { formatFloat, quote } from '../parser/go-text.ts'
import { type Evaluation, vectorBytes } from './context.ts'
import { groupSeries } from './groups.ts'
import { ABSENT, FLOAT, HISTOGRAM, type VectorValue } from './value.ts'
import { newVector } from './vectors.ts'

/** A row's label set, its key, and its place among the rows, about. */
const ROW_BYTES = 256

export async function countValues(expr: AggregateExpr, label: string, input: VectorValue, { context, pacer }: Evaluation): Promise<VectorValue> {
  if (label === '' || !label.isWellFormed()) throw new ExecutionError(`invalid label name ${quote(label)}`)
  const { steps } = input
  // The new label takes the place of one of that name; `without` may take it away again.
  const hidden = expr.without && (METADATA.has(label) || expr.grouping.includes(label))
  const grouping = expr.without ? [...expr.grouping, label] : expr.grouping.filter((name) => name !== label)
  const groups = groupSeries({ ...expr, grouping }, input.labels)
  const rowBytes = ROW_BYTES + vectorBytes(1, steps, false)
  let held = 0
  const rowOf = new Map<string, number>()
  const labels: Labels[] = []
  const rows: Float64Array[] = []
  for (let i = 0; i < groups.of.length; i++) {
    for (let t = 0; t < steps; t++) {
      const cell = i * steps + t
      if (input.kinds[cell] === ABSENT) continue
      const text = hidden ? '' : textOf(input, cell)
      const key = `${groups.of[i]} ${text}`
      let row = rowOf.get(key)
      if (row === undefined) {
        rowOf.set(key, (row = rows.length))
        context.budget.take(rowBytes + text.length)
        held += rowBytes + text.length
        rows.push(new Float64Array(steps))
        labels.push(groups.labels.at(groups.of[i]).with(label, text))
      }
      rows[row][t]++
    }
    if (pacer.due(steps)) await pacer.pause()
  }
  context.budget.give(held)
  const out = newVector(new LabelList(labels), steps, context.budget)
  for (const [row, counts] of rows.entries()) {
    out.values.set(counts, row * steps)
    for (let t = 0; t < steps; t++) if (counts[t] > 0) out.kinds[row * steps + t] = FLOAT
  }
  return out
}

function textOf({ kinds, values, histograms }: VectorValue, cell: number): string {
  return kinds[cell] === HISTOGRAM ? String(histograms?.[cell]) : formatFloat(values[cell])
}
