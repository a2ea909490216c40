/**
 * PromQL evaluation: every node of the syntax tree turns the values of its operands, over all steps at once, into its own.
 *
 * Selectors read each window once and keep results only; what a value takes is counted in the budget while something still needs it.
 */
import type { Expr, UnaryExpr, VectorSelector } from '../ast.ts'
import { aggregate } from './aggregate.ts'
import { binary } from './binary.ts'
import { evaluateCall } from './calls.ts'
import { type EvalContext, type Evaluation, Pacer, STEP_BYTES, valueBytes } from './context.ts'
import { mergeSame, withoutNames } from './finish.ts'
import { statsOnlySelectors } from './histogram-stats.ts'
import { Invariants } from './invariant.ts'
import { matrixResult } from './matrix-result.ts'
import { checkDurations } from './modifiers.ts'
import { negate } from './negate.ts'
import { isRange } from './range-functions.ts'
import { instantVector } from './selectors.ts'
import { repeatedSelectors, selectorKey } from './shared.ts'
import { smoothedVector } from './smoothed.ts'
import { unwrap } from './unwrap.ts'
import type { MatrixValue, Steps, Value } from './value.ts'
import { constant, emptyVector, repeat } from './vectors.ts'

/**
 * @param steps `count` 1 for an instant query, which may also be a bare range selector: its samples come back as a MatrixValue.
 * @throws ExecutionError for what Prometheus answers with error type "execution"; QueryStoppedError when the signal ends it.
 * Series come in no certain order but for functions and aggregations that order them at one step; some may have no cell.
 */
export async function evaluate(expr: Expr, steps: Steps, context: EvalContext): Promise<Value | MatrixValue> {
  checkDurations(expr, context)
  const run = new Run(expr, context)
  run.pacer.check()
  const plain = unwrap(expr)
  if (plain.kind === 'matrix' || plain.kind === 'subquery') return matrixResult(plain, steps, run)
  const value = await run.evaluate(expr, steps)
  if (value.type !== 'vector') return value
  // The labels of plain selectors differ.
  return plain.kind === 'vector' ? value : mergeSame(withoutNames(value), context.budget)
}

class Run implements Evaluation {
  readonly context: EvalContext
  readonly pacer: Pacer
  readonly statsOnly: ReadonlySet<VectorSelector>
  private readonly invariants: Invariants
  readonly repeated: ReadonlySet<string>
  private readonly shared = new Map<string, Promise<Value>>()
  /** Values that are counted in the budget, with their bytes. */
  private readonly counted = new WeakMap<Value, number>()
  private readonly kept = new WeakSet<Value>()

  constructor(expr: Expr, context: EvalContext) {
    this.context = context
    this.pacer = new Pacer(context.signal)
    this.statsOnly = statsOnlySelectors(expr)
    this.invariants = new Invariants(context.query)
    this.repeated = repeatedSelectors(expr)
  }

  async evaluate(expr: Expr, steps: Steps): Promise<Value> {
    // Subqueries may have more steps than there can be arrays for.
    this.context.budget.expect(steps.count * STEP_BYTES)
    if (steps.count > 1 && this.invariants.has(expr) && !isRange(expr)) {
      const one = await this.evaluate(expr, { ...steps, count: 1 })
      const value = repeat(one, steps.count, this.context.budget)
      this.release([one], value)
      return this.count(value)
    }
    return this.count(await this.dispatch(expr, steps))
  }

  release(operands: readonly Value[], result?: Value): void {
    for (const operand of operands) {
      const bytes = this.counted.get(operand)
      if (operand === result || this.kept.has(operand) || bytes === undefined) continue
      this.counted.delete(operand)
      this.context.budget.give(bytes)
    }
  }

  private count(value: Value): Value {
    if (this.counted.has(value)) return value
    const bytes = valueBytes(value)
    this.context.budget.take(bytes)
    this.counted.set(value, bytes)
    return value
  }

  private async dispatch(expr: Expr, steps: Steps): Promise<Value> {
    switch (expr.kind) {
      case 'number':
        return constant(expr.value, steps.count)
      case 'string':
        return { type: 'string', value: expr.value }
      case 'paren':
        return this.evaluate(expr.expr, steps)
      case 'unary':
        return this.unary(expr, steps)
      case 'binary':
        return binary(expr, steps, this)
      case 'aggregate':
        return steps.count === 0 ? emptyVector(0) : aggregate(expr, steps, this)
      case 'call':
        // A subquery between whose ends no step lies evaluates nothing, and so refuses nothing.
        return steps.count === 0 && expr.type === 'vector' ? emptyVector(0) : evaluateCall(expr, steps, this)
      case 'vector':
        return this.selector(expr, steps)
      case 'matrix':
      case 'subquery':
        throw new Error('cannot evaluate a range vector: only functions take one')
    }
  }

  private async unary(expr: UnaryExpr, steps: Steps): Promise<Value> {
    const operand = await this.evaluate(expr.expr, steps)
    if (expr.op === '+') return operand
    const value = negate(operand, this.context.budget)
    this.release([operand], value)
    return value
  }

  private selector(expr: VectorSelector, steps: Steps): Promise<Value> {
    if (steps.count === 0) return Promise.resolve(emptyVector(0))
    const select = async (): Promise<Value> =>
      expr.modifier === 'smoothed' ? smoothedVector(expr, steps, this) : (await instantVector(expr, steps, this)).value
    if (this.repeated.size === 0 || this.statsOnly.has(expr)) return select()
    const key = selectorKey(expr)
    if (!this.repeated.has(key)) return select()
    const place = `${key} ${steps.start} ${steps.interval} ${steps.count}`
    let value = this.shared.get(place)
    if (value === undefined) {
      value = select().then((made) => {
        this.kept.add(made)
        return made
      })
      this.shared.set(place, value)
    }
    return value
  }
}
