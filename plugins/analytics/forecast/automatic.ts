/**
 * The choice of a model by rolling origin: each candidate is fitted to what lay before some moments near the end of the series and judged by its forecasts of
 * what came after each (Hyndman and Athanasopoulos, "Forecasting: Principles and Practice", section 5.10). The best one is fitted to all.
 */
import { type ArimaOrder, fitArima, nameOf, orderOf } from './arima.ts'
import { forecastErrors } from './errors.ts'
import { type Model, predict, usable } from './forecaster.ts'
import { fitHolt } from './holt.ts'
import { fitHoltWinters } from './holt-winters.ts'
import { fitLine } from './linear.ts'
import { type FitResult, UnfitError } from './model.ts'
import type { RegularSeries } from './regular.ts'
import { fitSes } from './ses.ts'
import { differencesOf, periodOf } from './stationarity.ts'

interface AutomaticOptions {
  horizon: number
  /** Moments from which candidates forecast; fewer where the series is short. Default 3. */
  folds?: number
  metric?: 'rmse' | 'mae' | 'smape'
  /** Of p and q. Default 2. */
  max_order?: number
  /** Longest season that is looked for. Default 288. */
  max_period?: number
  /** Instead of looking for it; 0 = none. */
  period?: number
  /** Newest values that candidates are compared on. Default 10,000. */
  window?: number
}

interface Candidate {
  name: string
  /** By the metric; absent of those that were not compared. */
  score?: number
  /** Why it is not the choice. */
  reason?: string
}

interface Choice extends FitResult<Model> {
  name: string
  metric: 'rmse' | 'mae' | 'smape'
  folds: number
  /** 0 = none was found. */
  period: number
  differences: number
  /** All candidates, the best first, those that were excluded last. */
  candidates: Candidate[]
}

const LEAST_FOR_TRENDS = 10
const LEAST_FOR_ARIMA = 30
const DAMPING = 0.9

/** @param quick while candidates are compared: about the same coefficients for a part of the time. */
type Fitter = (values: Float64Array, quick: boolean) => FitResult<Model>
interface Entrant {
  name: string
  fit?: Fitter
  excluded?: string
}

/** @throws UnfitError with fewer than 2 * horizon + 4 values, or where they come to no numbers. */
export function chooseModel(series: RegularSeries, options: AutomaticOptions): Choice {
  const { horizon, metric = 'rmse', window = 10_000 } = options
  const needed = 2 * horizon + 4
  const { values } = series
  if (values.length < needed) throw new UnfitError(`the automatic choice needs 2 * horizon + 4 = ${needed} points; there are ${values.length}`)
  const recent = values.subarray(Math.max(0, values.length - Math.max(window, needed)))
  const folds = Math.max(1, Math.min(options.folds ?? 3, Math.floor((recent.length - horizon - 4) / horizon)))
  const training = recent.subarray(0, recent.length - folds * horizon)
  const period = options.period ?? periodOf(training, options.max_period ?? 288)
  const differences = differencesOf(training)
  const entrants = entrantsOf(series, training, { ...options, period, differences })
  const candidates: Candidate[] = []
  let best: { entrant: Required<Pick<Entrant, 'name' | 'fit'>>; score: number } | undefined
  for (const { name, fit, excluded } of entrants) {
    if (fit === undefined) {
      candidates.push({ name, reason: excluded ?? 'excluded' })
      continue
    }
    try {
      const score = scoreOf(fit, recent, { folds, horizon, metric })
      if (!Number.isFinite(score)) throw new UnfitError('its forecasts are not finite')
      candidates.push({ name, score })
      if (best === undefined || score < best.score) best = { entrant: { name, fit }, score }
    } catch (error) {
      if (!(error instanceof UnfitError)) throw error
      candidates.push({ name, reason: error.message })
    }
  }
  if (best === undefined) throw new UnfitError('no model could be fitted')
  const { name, fit } = best.entrant
  const { score } = best
  for (const each of candidates)
    if (each.name !== name && each.score !== undefined) each.reason = `${metric} ${brief(each.score)}, that of ${name} is ${brief(score)}`
  candidates.sort((a, b) => (a.score ?? Number.POSITIVE_INFINITY) - (b.score ?? Number.POSITIVE_INFINITY) || (a.name === name ? -1 : b.name === name ? 1 : 0))
  return { ...usable(fit(values, false)), name, metric, folds, period, differences, candidates }
}

const brief = (v: number): string => v.toPrecision(4)

function scoreOf(fit: Fitter, values: Float64Array, { folds, horizon, metric }: { folds: number; horizon: number; metric: Choice['metric'] }): number {
  const found = new Float64Array(folds * horizon)
  for (let fold = 0; fold < folds; fold++) {
    const origin = values.length - (folds - fold) * horizon
    found.set(predict(fit(values.subarray(0, origin), true).model, horizon).values, fold * horizon)
  }
  return forecastErrors(values.subarray(values.length - found.length), found)[metric]
}

function entrantsOf(series: RegularSeries, training: Float64Array, options: AutomaticOptions & { period: number; differences: number }): Entrant[] {
  const { period, differences: d } = options
  const n = training.length
  const line: Fitter = (values) => {
    const { model, fitted } = fitLine(
      values,
      values.map((_, i) => i),
    )
    return { model: { ...model, start_ts: series.start, interval_ns: series.interval }, fitted }
  }
  const trends = n >= LEAST_FOR_TRENDS ? undefined : `it needs ${LEAST_FOR_TRENDS} points to be fitted to; there are ${n}`
  const orNot = (name: string, excluded: string | undefined, fit: Fitter): Entrant => (excluded === undefined ? { name, fit } : { name, excluded })
  const entrants: Entrant[] = [
    { name: 'ses', fit: (values) => fitSes(values) },
    orNot('holt', trends, (values) => fitHolt(values, 1)),
    orNot('damped_holt', trends, (values) => fitHolt(values, DAMPING)),
    orNot('linear_regression', trends, line),
  ]
  const noArima = n >= LEAST_FOR_ARIMA ? undefined : `it needs ${LEAST_FOR_ARIMA} points to be fitted to; there are ${n}`
  if (noArima === undefined) entrants.push(...arimaEntrants(training, d, options.max_order ?? 2))
  else entrants.push({ name: 'arima', excluded: noArima })
  const noSeason =
    period < 2 ? 'no period was found' : n < 2 * period ? `it needs two periods, ${2 * period} points, to be fitted to; there are ${n}` : undefined
  const positive = series.values.every((v) => v > 0) ? undefined : 'not all values are above 0'
  entrants.push(orNot('holt_winters_additive', noSeason, (values) => fitHoltWinters(values, { period })))
  entrants.push(orNot('holt_winters_multiplicative', noSeason ?? positive, (values) => fitHoltWinters(values, { period, multiplicative: true })))
  for (const [sp, sd, sq] of [
    [1, 1, 0],
    [0, 1, 1],
  ]) {
    // The seasonal difference takes a trend away, or most of it.
    const order = orderOf(1, Math.min(d, 1), 1, [sp, sd, sq, Math.max(2, period)])
    entrants.push(orNot(nameOf(order), noSeason ?? noArima, (values, quick) => fitArima(values, order, { quick })))
  }
  return entrants
}

/** Of all orders within bounds the one with the least criterion is compared; the others are listed with theirs. */
function arimaEntrants(training: Float64Array, d: number, maxOrder: number): Entrant[] {
  const tried: { order: ArimaOrder; constant: boolean; aicc: number; excluded?: string }[] = []
  for (let p = 0; p <= maxOrder; p++) {
    for (let q = 0; q <= maxOrder; q++) {
      for (const constant of d < 2 ? [true, false] : [false]) {
        if (d === 0 && !constant) continue
        if (p + q === 0 && !constant) continue
        const order = orderOf(p, d, q)
        try {
          tried.push({ order, constant, aicc: fitArima(training, order, { constant, quick: true }).model.aicc })
        } catch (error) {
          if (!(error instanceof UnfitError)) throw error
          tried.push({ order, constant, aicc: Number.POSITIVE_INFINITY, excluded: error.message })
        }
      }
    }
  }
  const title = ({ order, constant }: { order: ArimaOrder; constant: boolean }): string => `${nameOf(order)}${constant && order.d > 0 ? ' with drift' : ''}`
  tried.sort((a, b) => a.aicc - b.aicc)
  const [best, ...others] = tried
  if (best === undefined) return [{ name: 'arima', excluded: 'no order is left' }]
  return [
    { name: title(best), fit: (values, quick) => fitArima(values, best.order, { constant: best.constant, quick }) },
    ...others.map((each) => ({ name: title(each), excluded: each.excluded ?? `AICc ${brief(each.aicc)}, that of ${title(best)} is ${brief(best.aicc)}` })),
  ]
}
