/** Functions of single values: arithmetic, trigonometry, rounding, clamping. */
import { ABSENT, FLOAT, type ScalarValue, type VectorValue } from '../eval/value.ts'
import type { VectorCall, VectorFn } from './contract.ts'
import { mapFloats, scalarArg, vectorArg } from './vectors.ts'

const simple =
  (f: (value: number) => number): VectorFn =>
  (call) =>
    mapFloats(vectorArg(call, 0), f)

export const MATH: Record<string, VectorFn> = {
  abs: simple(Math.abs),
  ceil: simple(Math.ceil),
  floor: simple(Math.floor),
  exp: simple(Math.exp),
  sqrt: simple(Math.sqrt),
  ln: simple(Math.log),
  log2: simple(Math.log2),
  log10: simple(Math.log10),
  sin: simple(Math.sin),
  cos: simple(Math.cos),
  tan: simple(Math.tan),
  asin: simple(Math.asin),
  acos: simple(Math.acos),
  atan: simple(Math.atan),
  sinh: simple(Math.sinh),
  cosh: simple(Math.cosh),
  tanh: simple(Math.tanh),
  asinh: simple(Math.asinh),
  acosh: simple(Math.acosh),
  atanh: simple(Math.atanh),
  // By a constant: the product of a large angle with 180 alone may be infinite.
  deg: simple((x) => x * (180 / Math.PI)),
  rad: simple((x) => x * (Math.PI / 180)),
  sgn: simple((x) => (x < 0 ? -1 : x > 0 ? 1 : x)),
  round,
  clamp: (call) => clamp(vectorArg(call, 0), scalarArg(call, 1).values, scalarArg(call, 2).values),
  clamp_min: (call) => clamp(vectorArg(call, 0), scalarArg(call, 1).values, every(call, Infinity)),
  clamp_max: (call) => clamp(vectorArg(call, 0), every(call, -Infinity), scalarArg(call, 1).values),
  max_of: (call) => pairwise(call, larger),
  min_of: (call) => pairwise(call, smaller),
}

/** To the nearest multiple, ties upwards. Multiplying by the inverse leaves fewer digits off. */
function round(call: VectorCall): VectorValue {
  const nearest = call.args.length > 1 ? scalarArg(call, 1).values : every(call, 1)
  return mapFloats(vectorArg(call, 0), (value, step) => {
    const inverse = 1 / nearest[step]
    return Math.floor(value * inverse + 0.5) / inverse
  })
}

function clamp(vector: VectorValue, low: Float64Array, high: Float64Array): VectorValue {
  const out = mapFloats(vector, (value, step) => larger(low[step], smaller(high[step], value)))
  for (let step = 0; step < out.steps; step++) {
    if (!(high[step] < low[step])) continue
    if (out.kinds === vector.kinds) out.kinds = out.kinds.slice()
    for (let cell = step; cell < out.kinds.length; cell += out.steps) if (out.kinds[cell] === FLOAT) out.kinds[cell] = ABSENT
  }
  return out
}

/** Like Math.max, but an infinity on its own side wins against NaN. */
function larger(a: number, b: number): number {
  return a === Infinity || b === Infinity ? Infinity : Math.max(a, b)
}

function smaller(a: number, b: number): number {
  return a === -Infinity || b === -Infinity ? -Infinity : Math.min(a, b)
}

function pairwise(call: VectorCall, f: (a: number, b: number) => number): ScalarValue {
  const a = scalarArg(call, 0).values
  const b = scalarArg(call, 1).values
  return { type: 'scalar', values: a.map((value, step) => f(value, b[step])) }
}

function every(call: VectorCall, value: number): Float64Array {
  return new Float64Array(call.steps.count).fill(value)
}
