/** Minimum of a smooth function of a few variables: BFGS with central differences and a backtracking line search. */

const STEP = 1e-5
const GRADIENT_END = 1e-7
const VALUE_END = 1e-11

interface Minimum {
  x: Float64Array
  value: number
}

/**
 * The function may answer NaN or Infinity where it is not defined, but not at the start.
 * @param iterations at most; each costs about 2 * x.length + 2 calls.
 */
export function minimise(f: (x: Float64Array) => number, start: Float64Array, iterations = 60): Minimum {
  const n = start.length
  let x = Float64Array.from(start)
  let value = f(x)
  if (n === 0) return { x, value }
  let gradient = gradientAt(f, x)
  // The inverse of the Hessian, row by row.
  let inverse = identity(n)
  for (let iteration = 0; iteration < iterations; iteration++) {
    if (largest(gradient) < GRADIENT_END) break
    let direction = descent(inverse, gradient)
    let slope = dot(direction, gradient)
    if (!(slope < 0)) {
      inverse = identity(n)
      direction = gradient.map((g) => -g)
      slope = -dot(gradient, gradient)
    }
    const reach = largest(direction)
    let length = reach > 2 ? 2 / reach : 1
    let next = x
    let found = Number.POSITIVE_INFINITY
    for (let tries = 0; tries < 25; tries++) {
      next = x.map((v, i) => v + length * direction[i])
      found = f(next)
      if (found <= value + 1e-4 * length * slope) break
      length /= 2
    }
    if (!(found < value)) break
    const nextGradient = gradientAt(f, next)
    const gain = value - found
    update(
      inverse,
      next.map((v, i) => v - x[i]),
      nextGradient.map((g, i) => g - gradient[i]),
    )
    x = next
    value = found
    gradient = nextGradient
    if (gain < VALUE_END * (1 + Math.abs(value))) break
  }
  return { x, value }
}

/** Starts that are followed to their minimum. */
const FOLLOWED = 3
/** Of the slope of `bounded`: less is at a bound. */
const AT_BOUND = 1e-3
/** Some 6 % of the way from one bound to the other. */
const BESIDE = 0.25

/**
 * The least of several minima, over variables of `bounded`: those of the best starts are found. The least of a grid is not always where the least minimum is. At a
 * bound the slope is 0 whatever lies beside it, so that a search which has come there stays: it is begun once more from beside it.
 */
export function leastMinimum(f: (x: Float64Array) => number, starts: readonly Float64Array[], iterations: number): Minimum {
  const less = (a: Minimum, b: Minimum): Minimum => (b.value < a.value ? b : a)
  let found = starts
    .map((x) => ({ x, value: f(x) }))
    .sort((a, b) => (Number.isNaN(a.value) ? 1 : Number.isNaN(b.value) ? -1 : a.value - b.value))
    .slice(0, FOLLOWED)
    .map(({ x }) => minimise(f, x, iterations))
    .reduce(less)
  for (let i = 0; i < found.x.length; i++) {
    if (Math.abs(Math.sin(2 * found.x[i])) > AT_BOUND) continue
    const beside = Float64Array.from(found.x)
    beside[i] += BESIDE
    if (Number.isFinite(f(beside))) found = less(found, minimise(f, beside, iterations))
  }
  return found
}

function gradientAt(f: (x: Float64Array) => number, x: Float64Array): Float64Array<ArrayBuffer> {
  const out = new Float64Array(x.length)
  const probe = Float64Array.from(x)
  for (let i = 0; i < x.length; i++) {
    const step = STEP * Math.max(1, Math.abs(x[i]))
    probe[i] = x[i] + step
    const above = f(probe)
    probe[i] = x[i] - step
    const below = f(probe)
    probe[i] = x[i]
    const difference = (above - below) / (2 * step)
    out[i] = Number.isFinite(difference) ? difference : 0
  }
  return out
}

function identity(n: number): Float64Array {
  const out = new Float64Array(n * n)
  for (let i = 0; i < n; i++) out[i * n + i] = 1
  return out
}

function descent(inverse: Float64Array, gradient: Float64Array<ArrayBuffer>): Float64Array<ArrayBuffer> {
  const n = gradient.length
  return gradient.map((_, i) => {
    let sum = 0
    for (let j = 0; j < n; j++) sum -= inverse[i * n + j] * gradient[j]
    return sum
  })
}

/** The BFGS update for a step `s` over which the gradient changed by `y`. */
function update(inverse: Float64Array, s: Float64Array, y: Float64Array): void {
  const n = s.length
  const sy = dot(s, y)
  if (!(sy > 1e-14)) return
  const hy = new Float64Array(n)
  for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) hy[i] += inverse[i * n + j] * y[j]
  const scale = (1 + dot(y, hy) / sy) / sy
  for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) inverse[i * n + j] += scale * s[i] * s[j] - (hy[i] * s[j] + s[i] * hy[j]) / sy
}

function dot(a: Float64Array, b: Float64Array): number {
  let sum = 0
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i]
  return sum
}

const largest = (x: Float64Array): number => x.reduce((most, v) => Math.max(most, Math.abs(v)), 0)

/** A variable without bounds as one between `low` and `high`, both of which it reaches at finite places. */
export const bounded = (u: number, low: number, high: number): number => low + (high - low) * Math.sin(u) ** 2
/** The inverse of `bounded`. */
export const unbounded = (v: number, low: number, high: number): number => Math.asin(Math.sqrt(Math.min(1, Math.max(0, (v - low) / (high - low)))))
