/** An operator between one sample of each side. */
import type { BinaryExpr } from '../ast.ts'
import { ARITHMETIC, COMPARE, isArithmetic, isComparison, type Notes, onHistograms } from './operators.ts'
import type { VectorValue } from './value.ts'
import { setFloat, setHistogram } from './vectors.ts'

type Histogram = NonNullable<VectorValue['histograms']>[number]

/** One pair into one cell. @returns false when the two cannot be put together at all. */
export function pairSamples(
  op: BinaryExpr['op'],
  returnBool: boolean,
  a: number,
  ha: Histogram,
  b: number,
  hb: Histogram,
  out: VectorValue,
  cell: number,
  notes: Notes,
): boolean {
  if (ha !== undefined || hb !== undefined || op === '</' || op === '>/') {
    const result = onHistograms(op, a, ha, b, hb, notes)
    if (!result.valid) return false
    if (returnBool) setFloat(out, cell, result.keep ? 1 : 0)
    else if (result.keep && result.histogram !== undefined) setHistogram(out, cell, result.histogram)
    return true
  }
  if (isArithmetic(op)) setFloat(out, cell, ARITHMETIC[op](a, b))
  else if (isComparison(op)) {
    const kept = COMPARE[op](a, b)
    if (kept || returnBool) setFloat(out, cell, returnBool ? (kept ? 1 : 0) : a)
  }
  return true
}
