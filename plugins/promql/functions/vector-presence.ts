/** vector, scalar, and the absence functions. */
import type { Expr, LabelMatcher } from '../ast.ts'
import { ABSENT, FLOAT, type ScalarValue, type VectorValue } from '../eval/value.ts'
import { LabelList, Labels, METADATA } from '../labels.ts'
import { matchesNothing } from '../parser/check.ts'
import type { VectorCall, VectorFn } from './contract.ts'
import { emptyVector, scalarArg, vectorArg } from './vectors.ts'

export const PRESENCE: Record<string, VectorFn> = {
  vector: (call) => oneSeries(Labels.EMPTY, scalarArg(call, 0).values, new Uint8Array(call.steps.count).fill(FLOAT)),
  scalar,
  absent: (call) => absenceOf(vectorArg(call, 0), call.expr.args[0]),
}

/** 1 at each step at which no series has a sample, labelled with what the selector's own matchers say. */
export function absenceOf(vector: VectorValue, arg: Expr): VectorValue {
  const { steps, kinds } = vector
  const present = new Uint8Array(steps)
  for (let first = 0; first < kinds.length; first += steps) {
    for (let step = 0; step < steps; step++) if (kinds[first + step] !== ABSENT) present[step] = 1
  }
  if (!present.includes(0)) return emptyVector(steps)
  return oneSeries(
    absenceLabels(arg),
    new Float64Array(steps).fill(1),
    present.map((is) => (is === 0 ? FLOAT : ABSENT)),
  )
}

function oneSeries(labels: Labels, values: Float64Array, kinds: Uint8Array): VectorValue {
  return { type: 'vector', labels: new LabelList([labels]), steps: values.length, values, kinds }
}

/** The value of the only float at each step, NaN when there is none or more than one. */
function scalar(call: VectorCall): ScalarValue {
  const { kinds, values, steps } = vectorArg(call, 0)
  const out = new Float64Array(steps).fill(NaN)
  const found = new Uint8Array(steps)
  for (let first = 0; first < kinds.length; first += steps) {
    for (let step = 0; step < steps; step++) {
      if (kinds[first + step] !== FLOAT || found[step] === 2) continue
      out[step] = found[step] === 0 ? values[first + step] : NaN
      found[step]++
    }
  }
  return { type: 'scalar', values: out }
}

/**
 * Of the matchers of a label the one that comes last counts: the value of an equality, if it is the first of them; nothing of any other. Prometheus looks at
 * them in the order in which its index does (tsdb/querier.go, PostingsForMatchers): those that only take series away come last.
 */
function absenceLabels(expr: Expr): Labels {
  if (expr.kind === 'paren') return absenceLabels(expr.expr)
  const selector = expr.kind === 'matrix' ? expr.vector : expr
  if (selector.kind !== 'vector') return Labels.EMPTY
  const labels = new Map<string, string>()
  const seen = new Set<string>()
  for (const { name, op, value } of inIndexOrder(selector.matchers)) {
    if (METADATA.has(name)) continue
    if (op === '=' && !seen.has(name)) {
      labels.set(name, value)
      seen.add(name)
    } else {
      labels.delete(name)
    }
  }
  return Labels.of(labels)
}

function inIndexOrder(matchers: readonly LabelMatcher[]): LabelMatcher[] {
  const needed = new Set(matchers.filter((matcher) => !matchesNothing(matcher)).map(({ name }) => name))
  const subtracts = (matcher: LabelMatcher): boolean => !needed.has(matcher.name) || (matcher.op.startsWith('!') && matchesNothing(matcher))
  return [...matchers.filter((matcher) => !subtracts(matcher)), ...matchers.filter(subtracts)]
}
