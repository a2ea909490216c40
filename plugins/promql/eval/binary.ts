/** Binary operators, by what stands on their sides. */
import type { BinaryExpr, ComparisonOp } from '../ast.ts'
import type { Evaluation, Pacer } from './context.ts'
import { matchVectors } from './matching.ts'
import { ARITHMETIC, COMPARE, isArithmetic, isComparison, type Notes, onHistograms } from './operators.ts'
import { setOperation } from './sets.ts'
import { ABSENT, FLOAT, type ScalarValue, type Steps, type Value, type VectorValue } from './value.ts'
import { dropAllNames, newVector, setFloat, setHistogram } from './vectors.ts'

export async function binary(expr: BinaryExpr, steps: Steps, evaluation: Evaluation): Promise<Value> {
  const lhs = await evaluation.evaluate(expr.lhs, steps)
  const rhs = await evaluation.evaluate(expr.rhs, steps)
  const value = await combine(expr, lhs, rhs, evaluation)
  evaluation.release([lhs, rhs], value)
  return value
}

async function combine(expr: BinaryExpr, lhs: Value, rhs: Value, evaluation: Evaluation): Promise<Value> {
  if (lhs.type === 'scalar' && rhs.type === 'scalar') return ofScalars(expr, lhs, rhs)
  if (lhs.type === 'vector' && rhs.type === 'scalar') return ofVectorAndScalar(expr, lhs, rhs, false, evaluation)
  if (lhs.type === 'scalar' && rhs.type === 'vector') return ofVectorAndScalar(expr, rhs, lhs, true, evaluation)
  if (lhs.type !== 'vector' || rhs.type !== 'vector') throw new Error(`cannot evaluate operator "${expr.op}": strings have none`)
  const { op } = expr
  if (op === 'and' || op === 'or' || op === 'unless') return setOperation(op, expr.matching, lhs, rhs, evaluation)
  return matchVectors(expr, lhs, rhs, evaluation)
}

function ofScalars({ op }: BinaryExpr, lhs: ScalarValue, rhs: ScalarValue): ScalarValue {
  const steps = lhs.values.length
  const values = new Float64Array(steps)
  if (isArithmetic(op)) {
    const f = ARITHMETIC[op]
    for (let t = 0; t < steps; t++) values[t] = f(lhs.values[t], rhs.values[t])
  } else if (isComparison(op)) {
    const f = COMPARE[op]
    for (let t = 0; t < steps; t++) values[t] = f(lhs.values[t], rhs.values[t]) ? 1 : 0
  } else throw new Error(`cannot evaluate operator "${op}" between scalars`)
  return { type: 'scalar', values }
}

/** @param swapped the scalar stands on the left. */
async function ofVectorAndScalar(
  expr: BinaryExpr,
  vector: VectorValue,
  scalar: ScalarValue,
  swapped: boolean,
  { context, pacer }: Evaluation,
): Promise<VectorValue> {
  const series = vector.labels.length
  const { steps } = vector
  if (isComparison(expr.op) && !expr.returnBool && vector.histograms === undefined) return filtered(expr.op, vector, scalar.values, swapped, pacer)
  const out = newVector(vector.labels, steps, context.budget)
  const row = rowOperation(expr, vector, scalar.values, swapped, out, { sink: context.annotations, pos: expr.pos })
  for (let i = 0; i < series; i++) {
    row(i * steps)
    if (pacer.due(steps)) await pacer.pause()
  }
  if (isArithmetic(expr.op) || expr.returnBool) out.dropName = dropAllNames(series)
  else if (vector.dropName !== undefined) out.dropName = vector.dropName
  return out
}

/** The cells for which a comparison holds; the others' values stay where they are, unseen. */
async function filtered(op: ComparisonOp, vector: VectorValue, scalar: Float64Array, swapped: boolean, pacer: Pacer): Promise<VectorValue> {
  const { values, kinds, steps } = vector
  const passing = new Uint8Array(kinds.length)
  const filter = comparisonFilter(op, swapped)
  for (let base = 0; base < kinds.length; base += steps) {
    filter(values, kinds, scalar, base, passing)
    if (pacer.due(steps)) await pacer.pause()
  }
  return { ...vector, kinds: passing }
}

/** Marks the cells of a row for which a comparison with a scalar holds: those that pass have their kind, the others stay as they are. */
export type Filter = (values: Float64Array, kinds: Uint8Array, scalar: Float64Array, base: number, passing: Uint8Array) => void

export function comparisonFilter(op: ComparisonOp, swapped: boolean): Filter {
  return FILTERS[swapped ? SWAPPED[op] : op]
}

const SWAPPED: Readonly<Record<ComparisonOp, ComparisonOp>> = { '==': '==', '!=': '!=', '<': '>', '<=': '>=', '>': '<', '>=': '<=' }

/** A loop each: a comparison called for every cell takes longer than the comparison. Absent cells stay absent. */
const FILTERS: Readonly<Record<ComparisonOp, Filter>> = {
  '==': (values, kinds, scalar, base, passing) => {
    for (let t = 0, cell = base; t < scalar.length; t++, cell++) if (values[cell] === scalar[t]) passing[cell] = kinds[cell]
  },
  '!=': (values, kinds, scalar, base, passing) => {
    for (let t = 0, cell = base; t < scalar.length; t++, cell++) if (values[cell] !== scalar[t]) passing[cell] = kinds[cell]
  },
  '<': (values, kinds, scalar, base, passing) => {
    for (let t = 0, cell = base; t < scalar.length; t++, cell++) if (values[cell] < scalar[t]) passing[cell] = kinds[cell]
  },
  '<=': (values, kinds, scalar, base, passing) => {
    for (let t = 0, cell = base; t < scalar.length; t++, cell++) if (values[cell] <= scalar[t]) passing[cell] = kinds[cell]
  },
  '>': (values, kinds, scalar, base, passing) => {
    for (let t = 0, cell = base; t < scalar.length; t++, cell++) if (values[cell] > scalar[t]) passing[cell] = kinds[cell]
  },
  '>=': (values, kinds, scalar, base, passing) => {
    for (let t = 0, cell = base; t < scalar.length; t++, cell++) if (values[cell] >= scalar[t]) passing[cell] = kinds[cell]
  },
}

/** Calculates the row of cells that begins at a place. */
function rowOperation(expr: BinaryExpr, vector: VectorValue, scalar: Float64Array, swapped: boolean, out: VectorValue, notes: Notes): (base: number) => void {
  const { op } = expr
  const { values, kinds, steps } = vector
  if (vector.histograms !== undefined || op === '</' || op === '>/') return (base) => mixedRow(expr, vector, scalar, swapped, out, notes, base)
  if (isArithmetic(op)) {
    const f = ARITHMETIC[op]
    return (base) => {
      for (let t = 0, cell = base; t < steps; t++, cell++) {
        if (kinds[cell] === ABSENT) continue
        out.values[cell] = swapped ? f(scalar[t], values[cell]) : f(values[cell], scalar[t])
        out.kinds[cell] = FLOAT
      }
    }
  }
  if (!isComparison(op)) throw new Error(`cannot evaluate operator "${op}" between a vector and a scalar`)
  const compare = COMPARE[op]
  return (base) => {
    for (let t = 0, cell = base; t < steps; t++, cell++) {
      if (kinds[cell] === ABSENT) continue
      const holds = swapped ? compare(scalar[t], values[cell]) : compare(values[cell], scalar[t])
      out.values[cell] = holds ? 1 : 0
      out.kinds[cell] = FLOAT
    }
  }
}

function mixedRow(expr: BinaryExpr, vector: VectorValue, scalar: Float64Array, swapped: boolean, out: VectorValue, notes: Notes, base: number): void {
  const { op, returnBool } = expr
  for (let t = 0, cell = base; t < vector.steps; t++, cell++) {
    if (vector.kinds[cell] === ABSENT) continue
    const histogram = vector.histograms?.[cell]
    const a = swapped ? scalar[t] : vector.values[cell]
    const b = swapped ? vector.values[cell] : scalar[t]
    if (histogram !== undefined || op === '</' || op === '>/') {
      const result = onHistograms(op, a, swapped ? undefined : histogram, b, swapped ? histogram : undefined, notes)
      if (result.valid && result.keep && result.histogram !== undefined) setHistogram(out, cell, result.histogram)
    } else if (isArithmetic(op)) setFloat(out, cell, ARITHMETIC[op](a, b))
    else if (isComparison(op)) {
      const holds = COMPARE[op](a, b)
      if (holds || returnBool) setFloat(out, cell, returnBool ? (holds ? 1 : 0) : vector.values[cell])
    }
  }
}
