/**
 * What is compared with statsmodels and scikit-learn: tasks for test/interop/clients/analytics_reference.py, and what must hold of its answers. The tolerances
 * are stated here. `npm test` does it with answers that were kept, test/interop with fresh ones.
 */
import { clusterScores } from './detect/clusters.ts'
import { isolationScores } from './detect/isolation-forest.ts'
import { mahalanobisScores, pcaDistances } from './detect/multivariate.ts'
import { stl } from './detect/stl.ts'
import { fitArima, nameOf, orderOf, predictArima } from './forecast/arima.ts'
import { fitHolt, predictHolt } from './forecast/holt.ts'
import { fitHoltWinters, predictHoltWinters } from './forecast/holt-winters.ts'
import { fitLine, predictLine } from './forecast/linear.ts'
import type { Prediction } from './forecast/model.ts'
import { fitSes, predictSes } from './forecast/ses.ts'
import { kpss } from './forecast/stationarity.ts'
import { fitVector, predictVector } from './forecast/vector.ts'
import { normal, seriesOf, uniform } from './testing-series.ts'

/** What has a closed form: of the standard deviation of the series. */
const EXACT = 1e-7
/** Outliers are told from others in steps that feed back. */
const ROBUST = 1e-4
/** Squared errors may be this part above those of the reference, which searches too. */
const SSE = 2e-4
/** Log-likelihood that may be missing. */
const LIKELIHOOD = 0.05
/** Where both have found the same optimum: of the standard deviation of the series. */
const FORECAST = 0.05
export const HORIZON = 12
const PERIOD = 12

export type Answer = Record<string, number | number[] | string>
export interface ReferenceCase {
  name: string
  task: Record<string, unknown>
  /** It is a search that does not always end at the greatest maximum: of a hundred one may fail. */
  search?: true
  /** @returns what is wrong. */
  problem(answer: Answer): string | undefined
}

/** Of one series. @param seasonal with models of a period of 12. @param sarima with SARIMA among them, which takes the reference some seconds each. */
export function forecastCases(name: string, values: Float64Array, seasonal: boolean, sarima = seasonal): ReferenceCase[] {
  const unit = deviation(values) || 1
  const list = Array.from(values)
  const cases: ReferenceCase[] = []
  const add = (title: string, task: Record<string, unknown>, problem: ReferenceCase['problem'], search?: true): void => {
    cases.push({ name: `${title} of ${name}`, task: { ...task, values: list, horizon: HORIZON }, problem, ...(search === undefined ? {} : { search }) })
  }
  const smoothing = (title: string, task: Record<string, unknown>, fitted: Float64Array, { values: ahead }: Prediction, skip = -1): void => {
    const sse = values.reduce((sum, v, i) => sum + (v - fitted[i]) ** 2, 0)
    add(title, task, (answer) => {
      const ratio = sse / Number(answer.sse)
      if (!(ratio <= 1 + SSE)) return `squared errors are ${ratio} of theirs`
      // Where ours is better, the forecasts differ for that.
      return ratio < 1 - SSE ? undefined : apart(ahead, numbers(answer.forecast), FORECAST * unit, skip)
    })
  }
  /** From the same states before the first value: a forecast that has seen its value would have less error than theirs. */
  const known = (title: string, task: Record<string, unknown>, fitted: Float64Array, { values: ahead }: Prediction): void => {
    const sse = values.reduce((sum, v, i) => sum + (v - fitted[i]) ** 2, 0)
    add(title, task, (answer) =>
      Math.abs(sse / Number(answer.sse) - 1) > EXACT ? `squared errors ${sse}, theirs ${answer.sse}` : apart(ahead, numbers(answer.forecast), EXACT * unit),
    )
  }
  const [alpha, beta] = [0.3, 0.2]
  const level = fitSes(values, alpha)
  known('ses of known smoothing', { task: 'ses', smoothing: [alpha], initial: [level.fitted[0]] }, level.fitted, predictSes(level.model, HORIZON))
  for (const phi of [0.9, 1]) {
    const { model, fitted } = fitHolt(values, phi, { alpha, beta })
    // What is forecast of the first two values says from which states.
    const error = values[0] - fitted[0]
    const trend = ((fitted[1] - fitted[0] - alpha * error) / phi - alpha * beta * error) / phi
    const task = { task: 'holt', phi, smoothing: [alpha, beta], initial: [fitted[0] - phi * trend, trend] }
    known(`holt, phi ${phi}, of known smoothing`, task, fitted, predictHolt(model, HORIZON))
  }
  const ses = fitSes(values)
  smoothing('ses', { task: 'ses' }, ses.fitted, predictSes(ses.model, HORIZON))
  for (const phi of [0.98, 1]) {
    const { model, fitted } = fitHolt(values, phi)
    smoothing(`holt, phi ${phi},`, { task: 'holt', phi }, fitted, predictHolt(model, HORIZON))
  }
  // Their forecast of the last value's phase leaves that value out of the season (its slice `s[nobs + m - 1:]`).
  const skip = PERIOD - 1
  for (const multiplicative of seasonal ? [false, true] : []) {
    if (multiplicative && values.some((v) => v <= 0)) continue
    const { model, fitted } = fitHoltWinters(values, { period: PERIOD, multiplicative })
    const kind = multiplicative ? 'multiplied' : 'added'
    smoothing(`holt_winters, ${kind},`, { task: 'holt_winters', period: PERIOD, multiplicative }, fitted, predictHoltWinters(model, HORIZON), skip)
    const given = { alpha: 0.3, beta: 0.1, gamma: 0.2 }
    const known = fitHoltWinters(values, { period: PERIOD, multiplicative, ...given })
    const sse = values.reduce((sum, v, i) => sum + (v - known.fitted[i]) ** 2, 0)
    add(`holt_winters, ${kind}, of known smoothing,`, { task: 'holt_winters', period: PERIOD, multiplicative, smoothing: Object.values(given) }, (answer) =>
      Math.abs(sse / Number(answer.sse) - 1) > EXACT
        ? `squared errors ${sse}, theirs ${answer.sse}`
        : apart(predictHoltWinters(known.model, HORIZON).values, numbers(answer.forecast), EXACT * unit, skip),
    )
  }
  const orders = [orderOf(1, 1, 1), orderOf(1, 0, 1), orderOf(2, 0, 0), orderOf(0, 1, 1)]
  if (sarima) orders.push(orderOf(1, 0, 1, [0, 1, 1, PERIOD]), orderOf(1, 1, 1, [1, 1, 0, PERIOD]))
  for (const order of orders) {
    const { model } = fitArima(values, order)
    const { p, d, q, sp, sd, sq, m } = order
    const task = { task: 'arima', order: [p, d, q], ...(sp + sd + sq > 0 ? { seasonal: [sp, sd, sq, m] } : {}) }
    add(
      nameOf(order),
      task,
      (answer) => {
        const gain = model.log_likelihood - Number(answer.llf)
        // A trend that no constant explains leads to the edge of stationarity, where the likelihood hardly changes.
        if (gain < -(sp + sd + sq > 0 ? 30 : 1) * LIKELIHOOD) return `log-likelihood ${model.log_likelihood}, theirs ${answer.llf}`
        if (Math.abs(gain) > 0.01) return undefined
        const { values: ahead, std } = predictArima(model, HORIZON)
        return apart(ahead, numbers(answer.forecast), FORECAST * unit) ?? apart(std, numbers(answer.se), FORECAST * unit)
      },
      true,
    )
  }
  const line = fitLine(
    values,
    values.map((_, i) => i),
  )
  const ahead = predictLine({ ...line.model, start_ts: 0n, interval_ns: 1n }, HORIZON)
  add(
    'linear_regression',
    { task: 'line' },
    (answer) =>
      apart(ahead.values, numbers(answer.forecast), EXACT * unit) ??
      apart(ahead.std, numbers(answer.se), EXACT * unit) ??
      apart([line.model.r_squared], [Number(answer.r_squared)], EXACT),
  )
  add('kpss', { task: 'kpss', lags: 4 }, (answer) => apart([kpss(values, 4)], [Number(answer.statistic)], EXACT))
  const other = seriesOf('ar', values.length, 99)
  const most = Math.min(10, Math.floor((values.length - 4) / 6))
  const vector = fitVector(values, other)
  const next = predictVector(vector, values, other, HORIZON)[0]
  add('vector autoregression', { task: 'vector', other: Array.from(other), max_lags: most }, (answer) =>
    // They also try none at all.
    answer.order === 0
      ? undefined
      : answer.order !== vector.order
        ? `order ${vector.order}, theirs ${answer.order}`
        : apart(next, numbers(answer.forecast), EXACT * unit),
  )
  return cases
}

export function decompositionCases(name: string, values: Float64Array): ReferenceCase[] {
  return [false, true].map((robust) => {
    const parts = stl(values, PERIOD, robust)!
    const limit = (robust ? ROBUST : EXACT) * deviation(values)
    return {
      name: `STL${robust ? ', robust,' : ''} of ${name}`,
      task: { task: 'stl', values: Array.from(values), period: PERIOD, robust },
      problem: (answer) => apart(parts.trend, numbers(answer.trend), limit) ?? apart(parts.seasonal, numbers(answer.seasonal), limit),
    }
  })
}

/** Three columns that go together, with some rows that do not. */
export function rowsOf(n: number, seed: number): Float64Array[] {
  const shock = normal(seed)
  const chance = uniform(seed + 1)
  const a = Float64Array.from({ length: n }, () => shock())
  const b = a.map((v) => 0.8 * v + 0.3 * shock())
  const c = a.map((v, i) => v - b[i] + 0.2 * shock())
  for (let k = 0; k < n / 40; k++) b[Math.floor(chance() * n)] += 5
  return [a, b, c].map((column) => column.map((v) => Math.round(v * 1e6) / 1e6))
}

export function rowCases(name: string, columns: readonly Float64Array[]): ReferenceCase[] {
  const lists = columns.map((column) => Array.from(column))
  const options = { eps: 0.6, minSamples: 5 }
  const noise = Array.from(clusterScores(columns, options)).flatMap((score, i) => (score > 1 ? [i] : []))
  const { distances, components } = pcaDistances(columns, 0.9)
  return [
    {
      name: `mahalanobis of ${name}`,
      task: { task: 'mahalanobis', columns: lists },
      problem: (answer) => apart(mahalanobisScores(columns), numbers(answer.scores), 1e-6),
    },
    {
      name: `PCA of ${name}`,
      task: { task: 'pca', columns: lists, variance: 0.9 },
      problem: (answer) =>
        answer.components !== components ? `${components} components, theirs ${answer.components}` : apart(distances, numbers(answer.scores), 1e-6),
    },
    {
      name: `DBSCAN of ${name}`,
      task: { task: 'dbscan', columns: lists, eps: options.eps, min_samples: options.minSamples },
      problem: (answer) => (String(noise) === String(answer.noise) ? undefined : `noise ${noise}, theirs ${answer.noise}`),
    },
    {
      name: `isolation forest of ${name}`,
      task: { task: 'isolation_forest', columns: lists, trees: 100, sample: 256 },
      // Both draw by chance: the same rows stand out, by about as much.
      problem: (answer) => {
        const r = correlation(isolationScores(columns), numbers(answer.scores))
        return r > 0.93 ? undefined : `its scores go with theirs by ${r} only`
      },
    },
  ]
}

const numbers = (value: Answer[string] | undefined): number[] => value as number[]

function apart(ours: ArrayLike<number>, theirs: readonly number[], limit: number, skip = -1): string | undefined {
  if (ours.length !== theirs.length) return `${ours.length} values, theirs are ${theirs.length}`
  for (let i = 0; i < ours.length; i++) {
    if (i !== skip && !(Math.abs(ours[i] - theirs[i]) <= limit)) return `value ${i} is ${ours[i]}, theirs ${theirs[i]}; ${limit} apart would do`
  }
  return undefined
}

function deviation(values: Float64Array): number {
  const mean = values.reduce((sum, v) => sum + v, 0) / values.length
  return Math.sqrt(values.reduce((sum, v) => sum + (v - mean) ** 2, 0) / values.length)
}

function correlation(a: ArrayLike<number>, b: ArrayLike<number>): number {
  const n = a.length
  let [ma, mb] = [0, 0]
  for (let i = 0; i < n; i++) [ma, mb] = [ma + a[i] / n, mb + b[i] / n]
  let [ab, aa, bb] = [0, 0, 0]
  for (let i = 0; i < n; i++) [ab, aa, bb] = [ab + (a[i] - ma) * (b[i] - mb), aa + (a[i] - ma) ** 2, bb + (b[i] - mb) ** 2]
  return ab / Math.sqrt(aa * bb)
}

/** The cases of `npm test`, whose answers are in testcases/reference.json. */
export function keptCases(): ReferenceCase[] {
  return [
    ...forecastCases('level', seriesOf('level', 90, 11), false),
    ...forecastCases('arma', seriesOf('arma', 90, 12), false),
    ...forecastCases('season_trend', seriesOf('season_trend', 96, 13), true),
    ...forecastCases('season_multiplied', seriesOf('season_multiplied', 96, 14), true),
    ...decompositionCases('season', seriesOf('season', 96, 15)),
    ...rowCases('120 rows', rowsOf(120, 16)),
  ]
}
