/** The models by name: fitting and predictions. */
import { type Arima, type ArimaOptions, type ArimaOrder, fitArima, predictArima, type Sarima } from './arima.ts'
import { fitHolt, type HoltLinear, predictHolt } from './holt.ts'
import { fitHoltWinters, type HoltWinters, type HoltWintersOptions, predictHoltWinters } from './holt-winters.ts'
import { fitLine, type LinearRegression, predictLine } from './linear.ts'
import { type FitResult, type Prediction, UnfitError } from './model.ts'
import type { RegularSeries } from './regular.ts'
import { fitSes, predictSes, type Ses } from './ses.ts'

export type Model = Ses | HoltLinear | HoltWinters | Arima | Sarima | LinearRegression
export const MODEL_NAMES = ['ses', 'holt', 'holt_winters', 'arima', 'sarima', 'linear_regression'] as const

/** What may be set of a model; everything else is estimated. */
export interface ModelParameters {
  /** Smoothings of ses, holt and holt_winters, 0 to 1. */
  alpha?: number
  beta?: number
  gamma?: number
  /** Damping of the trend of holt and holt_winters; 1 = none. Default 0.98 for holt, 1 for holt_winters. */
  phi?: number
  /** Values in a season, of holt_winters and sarima; default 24. */
  period?: number
  multiplicative?: boolean
  /** [p, d, q], default [1, 1, 1]. */
  order?: readonly number[]
  /** [P, D, Q] of sarima, default [1, 1, 1]. */
  seasonal_order?: readonly number[]
  constant?: boolean
}

const DAMPING = 0.98
const PERIOD = 24
const ORDER = [1, 1, 1]

/** @throws UnfitError for a name that is not known, an argument that means nothing, too few points, or values that come to no numbers. */
export function fitModel(name: string, series: RegularSeries, parameters: ModelParameters = {}): FitResult<Model> {
  return usable(fitted(name, series, parameters))
}

/** The model, if it can be kept as JSON and says how sure it is. @throws UnfitError */
export function usable(result: FitResult<Model>): FitResult<Model> {
  const { values, std } = predict(result.model, 1)
  if (!Number.isFinite(values[0]) || !Number.isFinite(std[0]))
    throw new UnfitError('its errors are no finite numbers: values lie too far apart; leave out those that stand for no value')
  return result
}

function fitted(name: string, series: RegularSeries, parameters: ModelParameters): FitResult<Model> {
  const { values } = series
  if (!(MODEL_NAMES as readonly string[]).includes(name)) throw new UnfitError(`there is no model "${name}"; use one of ${MODEL_NAMES.join(', ')}`)
  requireValid(parameters)
  const { alpha, beta, gamma, period = PERIOD, multiplicative } = parameters
  if (name === 'ses') return fitSes(values, alpha)
  if (name === 'holt') return fitHolt(values, parameters.phi ?? DAMPING, given({ alpha, beta }))
  if (name === 'holt_winters')
    return fitHoltWinters(values, { period, ...given({ multiplicative, alpha, beta, gamma, phi: parameters.phi }) } as HoltWintersOptions)
  if (name === 'linear_regression') {
    const { model, fitted } = fitLine(
      values,
      values.map((_, i) => i),
    )
    return { model: { ...model, start_ts: series.start, interval_ns: series.interval }, fitted }
  }
  const [p, d, q] = parameters.order ?? ORDER
  const [sp, sd, sq] = name === 'sarima' ? (parameters.seasonal_order ?? ORDER) : [0, 0, 0]
  const order: ArimaOrder = { p, d, q, sp, sd, sq, m: name === 'sarima' ? period : 1 }
  return fitArima(values, order, given({ constant: parameters.constant }) as ArimaOptions)
}

export function predict(model: Model, horizon: number): Prediction {
  switch (model.kind) {
    case 'Ses':
      return predictSes(model, horizon)
    case 'HoltLinear':
      return predictHolt(model, horizon)
    case 'HoltWinters':
      return predictHoltWinters(model, horizon)
    case 'LinearRegression':
      return predictLine(model, horizon)
    default:
      return predictArima(model, horizon)
  }
}

function requireValid({ alpha, beta, gamma, phi, period, order, seasonal_order }: ModelParameters): void {
  for (const [name, value] of Object.entries({ alpha, beta, gamma, phi })) {
    if (value !== undefined && !(value >= 0 && value <= 1)) throw new UnfitError(`${name} is between 0 and 1, not ${value}`)
  }
  if (alpha === 0 || phi === 0) throw new UnfitError(`${alpha === 0 ? 'alpha' : 'phi'} is above 0`)
  if (alpha !== undefined && gamma !== undefined && alpha + gamma > 1) throw new UnfitError('alpha and gamma are at most 1 together')
  if (period !== undefined && !(Number.isInteger(period) && period >= 2)) throw new UnfitError(`a period is a whole number from 2, not ${period}`)
  for (const [name, three] of Object.entries({ order, seasonal_order })) {
    if (three !== undefined && !(three.length === 3 && three.every((v) => Number.isInteger(v) && v >= 0 && v <= 5) && three[1] <= 2))
      throw new UnfitError(`${name} is three whole numbers from 0 to 5, the second at most 2, not [${three.join(', ')}]`)
  }
}

/** Without the members that are undefined. */
const given = <T extends object>(members: T): { [K in keyof T]?: Exclude<T[K], undefined> } =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as never
