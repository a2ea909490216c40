/**
 * Aggregations. Series are put into groups once, by the columns of their labels; each kind of aggregation then goes over all cells.
 * Where several samples of a group are summed, they are in the order of the series.
 */
import type { AggregateExpr } from '../ast.ts'
import { countValues } from './aggregate-count-values.ts'
import { quantiles } from './aggregate-quantile.ts'
import { accumulate, accumulateRows } from './aggregate-rows.ts'
import { select } from './aggregate-select.ts'
import type { Evaluation } from './context.ts'
import { groupSeries } from './groups.ts'
import { unwrap } from './unwrap.ts'
import type { ScalarValue, Steps, Value, VectorValue } from './value.ts'

export async function aggregate(written: AggregateExpr, steps: Steps, evaluation: Evaluation): Promise<VectorValue> {
  const expr: AggregateExpr = { ...written, expr: unwrap(written.expr), ...(written.param === undefined ? {} : { param: unwrap(written.param) }) }
  const reduced = await accumulateRows(expr, steps, evaluation)
  if (reduced !== undefined) return reduced
  const param = expr.param === undefined ? undefined : await evaluation.evaluate(expr.param, steps)
  const input = await evaluation.evaluate(expr.expr, steps)
  if (input.type !== 'vector') throw new Error(`cannot aggregate with "${expr.op}": the operand is no vector`)
  const out = await ofVector(expr, param, input, evaluation)
  evaluation.release(param === undefined ? [input] : [param, input], out)
  return out
}

async function ofVector(expr: AggregateExpr, param: Value | undefined, input: VectorValue, evaluation: Evaluation): Promise<VectorValue> {
  if (expr.op === 'count_values') return countValues(expr, param?.type === 'string' ? param.value : '', input, evaluation)
  const groups = groupSeries(expr, input.labels)
  const scalar: ScalarValue = param?.type === 'scalar' ? param : { type: 'scalar', values: new Float64Array(input.steps) }
  switch (expr.op) {
    case 'topk':
    case 'bottomk':
    case 'limitk':
    case 'limit_ratio':
      return select(expr, scalar.values, input, groups, evaluation)
    case 'quantile':
      return quantiles(expr, scalar.values, input, groups, evaluation)
    default:
      return accumulate(expr, expr.op, input, groups, evaluation)
  }
}
