/** Function calls: arguments are evaluated, the function's own module does the rest. */
import type { CallExpr } from '../ast.ts'
import type { VectorCall, VectorFunction } from '../functions/contract.ts'
import { IMPLEMENTATIONS, implementationOf } from '../functions/index.ts'
import type { Evaluation } from './context.ts'
import { callRangeFunction } from './range-functions.ts'
import { instantVector } from './selectors.ts'
import { unwrap } from './unwrap.ts'
import type { Steps, Value } from './value.ts'

export async function evaluateCall(written: CallExpr, steps: Steps, evaluation: Evaluation): Promise<Value> {
  // Parentheses around an argument mean nothing, and are no part of where a message says that it stands.
  const expr = written.args.some((arg) => arg.kind === 'paren') ? { ...written, args: written.args.map(unwrap) } : written
  const fn = implementationOf(expr.name)
  if (fn.kind === 'range') return callRangeFunction(expr, fn, steps, evaluation, namesWith)
  return callVectorFunction(expr, fn, steps, evaluation)
}

async function callVectorFunction(expr: CallExpr, fn: VectorFunction, steps: Steps, evaluation: Evaluation): Promise<Value> {
  const { context } = evaluation
  const args: Value[] = []
  let sampleTimes: Float64Array | undefined
  for (const arg of expr.args.slice(0, fn.argsUpTo)) {
    if (expr.name === 'timestamp' && arg.kind === 'vector' && arg.modifier === undefined) {
      const instants = await instantVector(arg, steps, evaluation, true)
      args.push(instants.value)
      sampleTimes = instants.times
    } else args.push(await evaluation.evaluate(arg, steps))
  }
  const { query, annotations } = context
  const instants: VectorCall['instants'] = async (selector) => {
    const { value, times } = await instantVector(selector, steps, evaluation, true)
    return { value, times: times ?? new Float64Array(0) }
  }
  const value = await fn.apply({ expr, args, steps, annotations, query, instants, ...(sampleTimes === undefined ? {} : { sampleTimes }) })
  evaluation.release(args, value)
  return value
}

function namesWith(modifier: 'anchored' | 'smoothed'): string[] {
  const names: string[] = []
  for (const [name, fn] of IMPLEMENTATIONS) if (fn.kind === 'range' && fn[modifier] === true) names.push(name)
  return names.sort()
}
