/** topk, bottomk, limitk and limit_ratio: at each step some samples of each group, with the labels they have. */
import type { AggregateExpr } from '../ast.ts'
import { ExecutionError } from '../errors.ts'
import { formatFloat } from '../functions/format.ts'
import { histogramIgnoredIn, invalidRatio } from './aggregate-messages.ts'
import type { Evaluation } from './context.ts'
import type { Groups } from './groups.ts'
import { type ParameterRange, rangeOf } from './parameter.ts'
import { sampleOffset } from './ratio.ts'
import { someOf } from './series-sets.ts'
import { ABSENT, HISTOGRAM, type VectorValue } from './value.ts'
import { ValueHeap } from './value-heap.ts'
import { copyCell, emptyVector, newVector, pickRows } from './vectors.ts'

/** @param params k or the ratio, one a step. At one step the result is in order: by group, topk and bottomk by value. */
export async function select(expr: AggregateExpr, params: Float64Array, input: VectorValue, groups: Groups, evaluation: Evaluation): Promise<VectorValue> {
  const { context, pacer } = evaluation
  const { steps } = input
  const pick = pickerOf(expr, params, input, groups, evaluation)
  if (pick === undefined) return emptyVector(steps)
  if (steps === 1) {
    const rows: number[] = []
    pick(0, (row) => rows.push(row))
    return pickRows(input, Int32Array.from(rows), context.budget)
  }
  context.budget.take(input.kinds.length)
  context.budget.give(input.kinds.length)
  const chosen = new Uint8Array(input.kinds.length)
  for (let t = 0; t < steps; t++) {
    pick(t, (row) => {
      chosen[row * steps + t] = 1
    })
    if (pacer.due(groups.of.length)) await pacer.pause()
  }
  return chosenCells(input, chosen, evaluation)
}

function chosenCells(input: VectorValue, chosen: Uint8Array, { context }: Evaluation): VectorValue {
  const { steps } = input
  const rows: number[] = []
  for (let i = 0; i < input.labels.length; i++) if (chosen.subarray(i * steps, (i + 1) * steps).includes(1)) rows.push(i)
  const out = newVector(someOf(input.labels, Int32Array.from(rows)), steps, context.budget)
  for (const [to, from] of rows.entries()) {
    for (let t = 0; t < steps; t++) if (chosen[from * steps + t] === 1) copyCell(input, from * steps + t, out, to * steps + t)
  }
  if (input.dropName !== undefined) out.dropName = Uint8Array.from(rows, (row) => input.dropName?.[row] ?? 0)
  return out
}

/** Names the rows chosen at a step. */
type Picker = (step: number, choose: (row: number) => void) => void

/** @returns undefined when nothing can be chosen at any step. */
function pickerOf(expr: AggregateExpr, params: Float64Array, input: VectorValue, groups: Groups, evaluation: Evaluation): Picker | undefined {
  const range = rangeOf(params)
  const { high, low } = range
  if (expr.op === 'limit_ratio') {
    if (high === 0 && low === 0) return undefined
    return ratioPicker(expr, params, range, input, evaluation)
  }
  if (high < 1) return undefined
  if (range.anyNaN) throw new ExecutionError('Parameter value is NaN')
  if (low <= -(2 ** 63)) throw new ExecutionError(`Scalar value ${formatFloat(low)} underflows int64`)
  if (high >= 2 ** 63) throw new ExecutionError(`Scalar value ${formatFloat(high)} overflows int64`)
  if (expr.op === 'limitk') return firstPicker(params, input, groups)
  if (input.kinds.includes(HISTOGRAM)) evaluation.context.annotations.info(histogramIgnoredIn(expr.op), expr.pos)
  return bestPicker(expr.op === 'topk', params, input, groups)
}

function bestPicker(largest: boolean, params: Float64Array, input: VectorValue, groups: Groups): Picker {
  const { steps, kinds, values } = input
  const heaps = Array.from({ length: groups.count }, () => new ValueHeap(largest, values))
  return (t, choose) => {
    const k = Math.trunc(params[t])
    if (k < 1) return
    for (let i = 0; i < groups.of.length; i++) {
      const cell = i * steps + t
      if (kinds[cell] !== ABSENT && kinds[cell] !== HISTOGRAM) heaps[groups.of[i]].offer(cell, k)
    }
    for (const heap of heaps) for (const cell of heap.drain()) choose((cell - t) / steps)
  }
}

function firstPicker(params: Float64Array, { steps, kinds }: VectorValue, groups: Groups): Picker {
  const taken = new Int32Array(groups.count)
  return (t, choose) => {
    const k = Math.trunc(params[t])
    if (k < 1) return
    taken.fill(0)
    for (let i = 0; i < groups.of.length; i++) {
      if (kinds[i * steps + t] === ABSENT || taken[groups.of[i]] >= k) continue
      taken[groups.of[i]]++
      choose(i)
    }
  }
}

/** A series is in by its own labels alone: its place in [0, 1) lies below the ratio, or for a negative one in what that leaves out. */
function ratioPicker(expr: AggregateExpr, params: Float64Array, { high, low, anyNaN }: ParameterRange, input: VectorValue, { context }: Evaluation): Picker {
  const pos = (expr.param ?? expr).pos
  if (anyNaN) throw new ExecutionError('Ratio value is NaN')
  if (high > 1) context.annotations.warning(invalidRatio(high, 1), pos)
  if (low < -1) context.annotations.warning(invalidRatio(low, -1), pos)
  const series = input.labels.length
  const offsets = new Float64Array(series)
  for (let i = 0; i < series; i++) offsets[i] = sampleOffset(input.labels.at(i))
  return (t, choose) => {
    const ratio = Math.max(-1, Math.min(1, params[t]))
    if (ratio === 0) return
    for (let i = 0; i < series; i++) {
      if (input.kinds[i * input.steps + t] === ABSENT) continue
      if (ratio > 0 ? offsets[i] < ratio : offsets[i] >= 1 + ratio) choose(i)
    }
  }
}
