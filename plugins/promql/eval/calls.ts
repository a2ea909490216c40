/** Function calls: arguments are evaluated, the function's own module does the rest. */
import type { CallExpr } from '../ast.ts'
import type { VectorCall, VectorFunction } from '../functions/contract.ts'
import { IMPLEMENTATIONS, implementationOf } from '../functions/index.ts'
import type { Evaluation } from './context.ts'
import { callRangeFunction, type RangeFunctionCall } from './range-functions.ts'
import { instantVector } from './selectors.ts'
import { unwrap } from './unwrap.ts'
import type { Steps, Value } from './value.ts'

export async function evaluateCall(written: CallExpr, steps: Steps, evaluation: Evaluation): Promise<Value> {
  const expr = withPlainArguments(written)
  const fn = implementationOf(expr.name)
  if (fn.kind === 'range') return callRangeFunction({ expr, fn, namesWith }, steps, evaluation)
  return callVectorFunction(expr, fn, steps, evaluation)
}

/** The call of a range function whose rows can be taken one by one; undefined of anything else. */
export function rangeFunctionCall(written: CallExpr): RangeFunctionCall | undefined {
  const fn = implementationOf(written.name)
  return fn.kind === 'range' && fn.finish === undefined ? { expr: withPlainArguments(written), fn, namesWith } : undefined
}

/** Parentheses around an argument mean nothing, and are no part of where a message says that it stands. */
function withPlainArguments(expr: CallExpr): CallExpr {
  return expr.args.some((arg) => arg.kind === 'paren') ? { ...expr, args: expr.args.map(unwrap) } : expr
}

async function callVectorFunction(expr: CallExpr, fn: VectorFunction, steps: Steps, evaluation: Evaluation): Promise<Value> {
  const { context, pacer } = evaluation
  fn.check?.(expr)
  const args: Value[] = []
  let sampleTimes: Float64Array | undefined
  for (const arg of expr.args.slice(0, fn.argsUpTo)) {
    if (expr.name === 'timestamp' && arg.kind === 'vector' && arg.modifier === undefined) {
      const instants = await instantVector(arg, steps, evaluation, true)
      args.push(instants.value)
      sampleTimes = instants.times
    } else args.push(await evaluation.evaluate(arg, steps))
  }
  const { query, annotations, budget } = context
  const instants: VectorCall['instants'] = async (selector) => {
    const { value, times } = await instantVector(selector, steps, evaluation, true)
    return { value, times: times ?? new Float64Array(0) }
  }
  const value = await fn.apply({ expr, args, steps, annotations, query, pacer, budget, instants, ...(sampleTimes === undefined ? {} : { sampleTimes }) })
  evaluation.release(args, value)
  return value
}

function namesWith(modifier: 'anchored' | 'smoothed'): string[] {
  const names: string[] = []
  for (const [name, fn] of IMPLEMENTATIONS) if (fn.kind === 'range' && fn[modifier] === true) names.push(name)
  return names.sort()
}
