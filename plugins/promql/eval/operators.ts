/** Binary operators on two samples. */
import type { ArithmeticOp, BinaryOp, ComparisonOp, Pos } from '../ast.ts'
import type { AnnotationSink } from '../functions/contract.ts'
import { mismatchedBounds, resetCollision } from '../functions/messages.ts'
import { ADD_COLLISION, ADD_INCOMPATIBLE, ADD_RECONCILED, type FloatHistogram } from '../histogram/float-histogram.ts'

type FloatFn = (a: number, b: number) => number
type CompareFn = (a: number, b: number) => boolean

export const ARITHMETIC: Readonly<Record<ArithmeticOp, FloatFn>> = {
  '+': (a, b) => a + b,
  '-': (a, b) => a - b,
  '*': (a, b) => a * b,
  '/': (a, b) => a / b,
  '%': (a, b) => a % b,
  '^': power,
  atan2: Math.atan2,
}

export const COMPARE: Readonly<Record<ComparisonOp, CompareFn>> = {
  '==': (a, b) => a === b,
  '!=': (a, b) => a !== b,
  '<': (a, b) => a < b,
  '<=': (a, b) => a <= b,
  '>': (a, b) => a > b,
  '>=': (a, b) => a >= b,
}

/** IEEE 754 pow: one to whatever power is one, also where ECMAScript says NaN. */
export function power(base: number, exponent: number): number {
  if (base === 1 || (base === -1 && (exponent === Infinity || exponent === -Infinity))) return 1
  return base ** exponent
}

export function isArithmetic(op: BinaryOp): op is ArithmeticOp {
  return op in ARITHMETIC
}

export function isComparison(op: BinaryOp): op is ComparisonOp {
  return op in COMPARE
}

/** What operations of histograms leave; one object, used again. */
interface HistogramOutcome {
  /** There is a result, though a comparison may not hold. */
  valid: boolean
  /** A comparison holds. */
  keep: boolean
  histogram: FloatHistogram | undefined
}
const outcome: HistogramOutcome = { valid: false, keep: false, histogram: undefined }

/** Where operators leave their annotations. */
export interface Notes {
  sink: AnnotationSink
  pos: Pos
}

/** Any pair of samples of which one is a histogram; absent histograms mean floats. Trim operators also of two floats. */
export function onHistograms(
  op: BinaryOp,
  a: number,
  ha: FloatHistogram | undefined,
  b: number,
  hb: FloatHistogram | undefined,
  { sink, pos }: Notes,
): HistogramOutcome {
  if (ha !== undefined && hb !== undefined) {
    if (op === '+' || op === '-') return addOrSubtract(op, ha, hb, { sink, pos })
    if (op === '==' || op === '!=') return left(ha, ha.equals(hb) === (op === '=='))
  } else if (ha !== undefined) {
    if (op === '*') return left(ha.copy().mul(b).compact(), true)
    if (op === '/') return left(ha.copy().div(b).compact(), true)
    if (op === '</' || op === '>/') return left(ha.copy().trim(b, op === '</'), true)
  } else if (hb !== undefined && op === '*') return left(hb.copy().mul(a).compact(), true)
  const kind = (histogram: FloatHistogram | undefined): string => (histogram === undefined ? 'float' : 'histogram')
  sink.info(`incompatible sample types encountered for binary operator "${op}": ${kind(ha)} ${op} ${kind(hb)}`, pos)
  return nothing()
}

function addOrSubtract(op: '+' | '-', a: FloatHistogram, b: FloatHistogram, { sink, pos }: Notes): HistogramOutcome {
  const result = a.copy()
  const met = op === '+' ? result.add(b) : result.sub(b)
  if ((met & ADD_INCOMPATIBLE) !== 0) {
    sink.warning(`incompatible bucket layout encountered for binary operator ${op}`, pos)
    return nothing()
  }
  const operation = op === '+' ? 'addition' : 'subtraction'
  // As with other warnings, Prometheus leaves the pair out.
  if ((met & ADD_COLLISION) !== 0) {
    sink.warning(resetCollision(operation), pos)
    return nothing()
  }
  if (op === '-') result.counterReset = 'gauge'
  if ((met & ADD_RECONCILED) !== 0) sink.info(mismatchedBounds(operation), pos)
  return left(result.compact(), true)
}

function left(histogram: FloatHistogram, keep: boolean): HistogramOutcome {
  outcome.valid = true
  outcome.keep = keep
  outcome.histogram = histogram
  return outcome
}

function nothing(): HistogramOutcome {
  outcome.valid = false
  outcome.keep = false
  outcome.histogram = undefined
  return outcome
}
