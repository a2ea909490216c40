/**
 * ARIMA (p, d, q) and SARIMA (p, d, q)(P, D, Q) by maximum likelihood, begun from the least conditional sum of squares. Coefficients are sought among those of
 * stationary and invertible processes only. A constant is the mean of the differenced series: the drift, where there is a difference.
 */
import { ArmaFilter } from './arma-likelihood.ts'
import { minimise } from './minimise.ts'
import { type FitResult, magnitude, type Prediction, UnfitError } from './model.ts'
import { applied, differencing, fromPartial, lagPolynomial, multiply, type Polynomial, stationary } from './polynomials.ts'

export interface ArimaOrder {
  p: number
  d: number
  q: number
  /** Of the season; all 0 and `m` 1 without one. */
  sp: number
  sd: number
  sq: number
  m: number
}

interface Fitted {
  p: number
  d: number
  q: number
  ar_coeffs: number[]
  ma_coeffs: number[]
  /** Mean of the differenced series; 0 without a constant. */
  constant: number
  residual_std: number
  /** Concentrated log-likelihood of the differenced series, and Akaike's criterion for small samples. */
  log_likelihood: number
  aicc: number
  /** What forecasts begin with: the filter's state about the mean, and the last values that differencing needs. */
  state: number[]
  tail: number[]
}
export interface Arima extends Fitted {
  kind: 'Arima'
}
export interface Sarima extends Fitted {
  kind: 'Sarima'
  sp: number
  sd: number
  sq: number
  m: number
  sar_coeffs: number[]
  sma_coeffs: number[]
}

export interface ArimaOptions {
  /** Default: where nothing is differenced. */
  constant?: boolean
  /** Conditional sum of squares alone: for choosing among orders. */
  quick?: boolean
}

/** State elements squared times values beyond which the conditional sum of squares has to do: one evaluation of the likelihood would take some tenths of a second. */
const EXACT_WORK = 4e6
const EXACT_SIZE = 64
const PARTIALS = [-0.7, -0.3, 0, 0.3, 0.7, 0.95]
const QUICK_PARTIALS = [-0.5, 0, 0.5]
const FOLLOWED = 2

export const orderOf = (p: number, d: number, q: number, [sp, sd, sq, m]: readonly number[] = [0, 0, 0, 1]): ArimaOrder => ({ p, d, q, sp, sd, sq, m })

/** @param values without gaps. @throws UnfitError with fewer values than coefficients can be told from. */
export function fitArima(values: Float64Array, order: ArimaOrder, options: ArimaOptions = {}): FitResult<Arima | Sarima> {
  const { p, d, q, sp, sd, sq, m } = order
  const difference = differencing(d, sd, m)
  const constant = options.constant ?? d + sd === 0
  const lost = difference.length - 1
  const parameters = p + q + sp + sq
  const needed = lost + Math.max(p + sp * m, q + sq * m) + parameters + (constant ? 1 : 0) + 2
  if (values.length < needed) throw new UnfitError(`${nameOf(order)} needs ${needed} points; there are ${values.length}`)
  const w = applied(difference, values)
  // Near 1 in size, so that steps and ends of the search mean the same for every series.
  const scale = deviation(w, constant)
  const flat = !(scale > 1e-12 * magnitude(values))
  const scaled = flat ? w : w.map((v) => v / scale)
  const filter = new ArmaFilter(scaled, constant)
  const size = Math.max(p + sp * m, q + sq * m + 1)
  const exact = options.quick !== true && size <= EXACT_SIZE && w.length * size * size <= EXACT_WORK
  const x = flat ? new Float64Array(parameters) : search(filter, order, exact, options.quick === true)
  const { ar, ma } = polynomialsOf(x, order)
  const { cost, variance, mean } = filter.run(ar, ma, exact)
  filter.center(mean, ar, ma)
  const unit = flat ? 0 : scale
  const count = w.length
  const likelihood = flat ? 0 : -count * (cost + Math.log(scale) + 0.5 * Math.log(2 * Math.PI) + 0.5)
  const k = parameters + (constant ? 1 : 0) + 1
  const level = flat ? (constant ? (w[0] ?? 0) : 0) : mean * scale
  const common: Fitted = {
    ...{ p, d, q, ar_coeffs: numbers(stationary(x, 0, p)), ma_coeffs: numbers(stationary(x, p, q)).map((c) => -c) },
    ...{ constant: level, residual_std: flat ? 0 : scale * Math.sqrt(variance) },
    ...{ log_likelihood: likelihood, aicc: count > k + 1 ? -2 * likelihood + (2 * k * count) / (count - k - 1) : Number.POSITIVE_INFINITY },
    ...{ state: Array.from(filter.state, (v) => v * unit), tail: Array.from(values.subarray(values.length - lost)) },
  }
  const fitted = Float64Array.from(values)
  for (let t = lost; t < values.length; t++) fitted[t] = values[t] - (flat ? 0 : filter.innovations[t - lost] * scale)
  if (sp + sd + sq === 0) return { model: { kind: 'Arima', ...common }, fitted }
  const seasonal = { sar_coeffs: numbers(stationary(x, p + q, sp)), sma_coeffs: numbers(stationary(x, p + q + sp, sq)).map((c) => -c) }
  return { model: { kind: 'Sarima', ...common, sp, sd, sq, m, ...seasonal }, fitted }
}

/** The polynomials that forecasts follow from. */
function lagsOf(model: Arima | Sarima): { ar: Polynomial; ma: Polynomial; difference: Polynomial } {
  const sarima = model.kind === 'Sarima' ? model : undefined
  const { sd = 0, m = 1 } = sarima ?? {}
  return {
    ar: multiply(lagPolynomial(model.ar_coeffs, -1), lagPolynomial(sarima?.sar_coeffs ?? [], -1, m)),
    ma: multiply(lagPolynomial(model.ma_coeffs, 1), lagPolynomial(sarima?.sma_coeffs ?? [], 1, m)),
    difference: differencing(model.d, sd, m),
  }
}

/** Forecasts one step, is told what came, and so on. */
interface OneStep {
  /** @param v what came; NaN = nothing, the forecast stands in for it. @returns what was forecast. */
  next(v: number): number
  readonly state: Float64Array
  /** The last values that differencing needs. */
  tail(): number[]
}

export function oneStep(model: Arima | Sarima): OneStep {
  const { ar, ma, difference } = lagsOf(model)
  const lost = difference.length - 1
  const state = Float64Array.from(model.state)
  // A ring: what was `lag` steps ago is at (at - lag) % lost.
  const past = Float64Array.from(model.tail)
  let at = 0
  return {
    state,
    tail: () => Array.from(past, (_, i) => past[(at + i) % lost]),
    next(v) {
      const first = state[0] ?? 0
      let forecast = first + model.constant
      for (let lag = 1; lag <= lost; lag++) forecast -= difference[lag] * past[(at - lag + lost * lag) % lost]
      const shock = Number.isNaN(v) ? 0 : v - forecast
      const now = first + shock
      for (let i = 0; i < state.length; i++) {
        state[i] = (i + 1 < ar.length ? -ar[i + 1] * now : 0) + (i + 1 < ma.length ? ma[i + 1] * shock : 0) + (state[i + 1] ?? 0)
      }
      if (lost > 0) {
        past[at] = forecast + shock
        at = (at + 1) % lost
      }
      return forecast
    },
  }
}

export function predictArima(model: Arima | Sarima, horizon: number): Prediction {
  const { ar, ma, difference } = lagsOf(model)
  const step = oneStep(model)
  const values = new Float64Array(horizon)
  for (let h = 0; h < horizon; h++) values[h] = step.next(Number.NaN)
  return { values, std: deviations(multiply(ar, difference), ma, model.residual_std, horizon) }
}

export const nameOf = ({ p, d, q, sp, sd, sq, m }: ArimaOrder): string =>
  sp + sd + sq === 0 ? `arima(${p},${d},${q})` : `sarima(${p},${d},${q})(${sp},${sd},${sq})[${m}]`

/** The weights of past shocks (psi) say how their errors add up. */
function deviations(ar: Polynomial, ma: Polynomial, std: number, horizon: number): Float64Array {
  const psi = new Float64Array(horizon)
  const out = new Float64Array(horizon)
  let variance = 0
  for (let h = 0; h < horizon; h++) {
    let weight = h < ma.length ? ma[h] : 0
    for (let lag = 1; lag < Math.min(ar.length, h + 1); lag++) weight -= ar[lag] * psi[h - lag]
    psi[h] = weight
    variance += weight * weight
    out[h] = std * Math.sqrt(variance)
  }
  return out
}

function polynomialsOf(x: ArrayLike<number>, { p, q, sp, sq, m }: ArimaOrder): { ar: Polynomial; ma: Polynomial } {
  return {
    ar: multiply(lagPolynomial(stationary(x, 0, p), -1), lagPolynomial(stationary(x, p + q, sp), -1, m)),
    ma: multiply(lagPolynomial(stationary(x, p, q), -1), lagPolynomial(stationary(x, p + q + sp, sq), -1, m)),
  }
}

/** Variables of the coefficients with the greatest likelihood. */
function search(filter: ArmaFilter, order: ArimaOrder, exact: boolean, quick: boolean): Float64Array {
  const costOf =
    (likelihood: boolean) =>
    (x: Float64Array): number => {
      const { ar, ma } = polynomialsOf(x, order)
      return filter.run(ar, ma, likelihood).cost
    }
  const conditional = costOf(false)
  const partials = quick ? QUICK_PARTIALS : PARTIALS
  let starts: Float64Array[] = [new Float64Array(order.p + order.q + order.sp + order.sq)]
  starts = grid(starts, conditional, partials, [order.p > 0 ? 0 : -1, order.q > 0 ? order.p : -1])
  const first = order.p + order.q
  starts = grid(starts, conditional, partials, [order.sp > 0 ? first : -1, order.sq > 0 ? first + order.sp : -1])
  if (quick) return minimise(conditional, starts[0], 20).x
  const rough = starts.map((start) => minimise(conditional, start, 40).x)
  if (!exact) return least(rough, conditional)
  const likelihood = costOf(true)
  return minimise(likelihood, least([...rough, ...rough.map(tame), ...starts], likelihood), 60).x
}

/**
 * The likelihood may have several maxima, mostly where the autoregression and the moving average nearly cancel: the two best of a grid over the first partial
 * autocorrelation of both are followed. @param places of the two among the variables; -1 = there is none.
 */
function grid(starts: Float64Array[], cost: (x: Float64Array) => number, partials: readonly number[], [ar, ma]: readonly number[]): Float64Array[] {
  const found = starts.flatMap((start) =>
    (ar < 0 ? [0] : partials).flatMap((a) =>
      (ma < 0 ? [0] : partials).map((m) => {
        const x = Float64Array.from(start)
        if (ar >= 0) x[ar] = fromPartial(a)
        if (ma >= 0) x[ma] = fromPartial(m)
        return { x, cost: cost(x) }
      }),
    ),
  )
  return found
    .sort((a, b) => a.cost - b.cost)
    .slice(0, FOLLOWED)
    .map(({ x }) => x)
}

function least(found: readonly Float64Array[], cost: (x: Float64Array) => number): Float64Array {
  const costs = found.map(cost)
  return found[costs.indexOf(Math.min(...costs))]
}

/** The conditional sum of squares may run to the edge, where the likelihood is flat: back to where it has a slope. */
const tame = (x: Float64Array): Float64Array => x.map((v) => Math.max(-6, Math.min(6, v)))

const numbers = (values: Float64Array): number[] => Array.from(values, (v) => v + 0)

function deviation(values: Float64Array, aboutMean: boolean): number {
  let mean = 0
  if (aboutMean) for (let i = 0; i < values.length; i++) mean += values[i] / values.length
  let sum = 0
  for (let i = 0; i < values.length; i++) sum += (values[i] - mean) ** 2
  return Math.sqrt(sum / Math.max(1, values.length))
}
