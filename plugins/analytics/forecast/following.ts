/**
 * A fitted model over values that came after those it was fitted to: states follow them, coefficients stay. So a model that was trained once forecasts from the
 * newest value, and its errors one step ahead can be compared with those of the training.
 */
import { type Arima, oneStep, type Sarima } from './arima.ts'
import type { Model } from './forecaster.ts'
import type { HoltLinear } from './holt.ts'
import type { HoltWinters } from './holt-winters.ts'
import { type FitResult, UnfitError } from './model.ts'
import type { Ses } from './ses.ts'

/**
 * @param values one a step, from the step after the last one that the model has seen on; NaN = missing, its forecast stands in for it. To a multiplied season values
 * that are not above 0 are missing, too.
 * @returns the model after them, and its forecast of each, one step before. The model given stays as it is. @throws UnfitError where that comes to no numbers.
 */
export function followed(model: Model, values: Float64Array): FitResult<Model> {
  const result = follow(model, values)
  const before = model as unknown as Record<string, unknown>
  for (const [name, value] of Object.entries(result.model))
    if (!allFinite(value) && allFinite(before[name]))
      throw new UnfitError(`its ${name} is no finite number after the ${values.length} steps since its training; retrain it`)
  return result
}

const allFinite = (value: unknown): boolean => (Array.isArray(value) ? value.every(allFinite) : typeof value !== 'number' || Number.isFinite(value))

function follow(model: Model, values: Float64Array): FitResult<Model> {
  switch (model.kind) {
    case 'Ses':
      return followedSes(model, values)
    case 'HoltLinear':
      return followedHolt(model, values)
    case 'HoltWinters':
      return followedHoltWinters(model, values)
    case 'LinearRegression':
      return {
        model: { ...model, last: model.last + values.length },
        fitted: values.map((_, i) => model.intercept + model.slope * (model.last + 1 + i)),
      }
    default:
      return followedArima(model, values)
  }
}

function followedSes(model: Ses, values: Float64Array): FitResult<Ses> {
  let { level } = model
  const fitted = values.map((v) => {
    const forecast = level
    if (!Number.isNaN(v)) level += model.alpha * (v - level)
    return forecast
  })
  return { model: { ...model, level }, fitted }
}

function followedHolt(model: HoltLinear, values: Float64Array): FitResult<HoltLinear> {
  const { alpha, beta, phi } = model
  let { level, trend } = model
  const fitted = values.map((v) => {
    const forecast = level + phi * trend
    const error = Number.isNaN(v) ? 0 : v - forecast
    level = forecast + alpha * error
    trend = phi * trend + alpha * beta * error
    return forecast
  })
  return { model: { ...model, level, trend }, fitted }
}

function followedHoltWinters(model: HoltWinters, values: Float64Array): FitResult<HoltWinters> {
  const { alpha, beta, gamma, phi, period, multiplicative } = model
  let { level, trend, seasonal_phase: phase } = model
  const seasonal = [...model.seasonal]
  const fitted = values.map((given) => {
    const season = seasonal[phase]
    const base = level + phi * trend
    const forecast = multiplicative ? base * season : base + season
    const v = Number.isNaN(given) || (multiplicative && given <= 0) ? forecast : given
    const next = alpha * (multiplicative ? v / season : v - season) + (1 - alpha) * base
    // Of a level that has fallen below 0 no value above is a multiple.
    if (!multiplicative) seasonal[phase] = gamma * (v - base) + (1 - gamma) * season
    else if (base > 0) seasonal[phase] = gamma * (v / base) + (1 - gamma) * season
    trend = beta * (next - level) + (1 - beta) * phi * trend
    level = next
    phase = phase + 1 === period ? 0 : phase + 1
    return forecast
  })
  return { model: { ...model, level, trend, seasonal, seasonal_phase: phase }, fitted }
}

function followedArima<M extends Arima | Sarima>(model: M, values: Float64Array): FitResult<M> {
  const step = oneStep(model)
  const fitted = values.map((v) => step.next(v))
  return { model: { ...model, state: Array.from(step.state), tail: step.tail() }, fitted }
}
