/** What a model is of and how it is made: as requests give it and as it is kept. */
import { createHash } from 'node:crypto'
import { SvcError } from 'svcdb/lib/errors'
import { BUILT_IN, nameOf, parametersProblem } from './kind-names.ts'

/** Times are nanoseconds as decimal text: definitions are kept as JSON. */
export interface Definition {
  namespace: string
  name: string
  measurement: string
  field: string
  tags: Record<string, string>
  /** A name: ses, holt, ..., auto, or one that a plugin has registered. */
  model: string
  parameters: Record<string, unknown>
  range: { start?: string; end?: string; last_secs?: number }
  forecast?: ForecastJob
}

/** Forecasts that are written into a measurement, again and again. */
interface ForecastJob {
  target: string
  horizon: number
  every_secs: number
  level: number
}

export interface CreateBody {
  name: string
  measurement: string
  field: string
  tags?: Record<string, string>
  model_type?: string
  params?: Record<string, unknown>
  range?: { start?: number | string; end?: number | string; last_secs?: number }
  forecast?: { target_measurement?: string; horizon: number; every_secs?: number; level?: number }
}

export const MAX_NAME = 128
const NAME = /^[A-Za-z0-9_.:-]+$/
const DEFAULT_EVERY_SECS = 300
const DEFAULT_LEVEL = 0.95

/** @throws INVALID_REQUEST saying what is wrong. @param custom names that plugins have registered. */
export function definitionOf(body: CreateBody, namespace: string, { custom, maxHorizon }: { custom: readonly string[]; maxHorizon: number }): Definition {
  const { name, measurement, field, tags = {}, model_type = 'ses', params = {}, range = {}, forecast } = body
  const refuse = (cause: string) => new SvcError('INVALID_REQUEST', `cannot create model "${name.slice(0, MAX_NAME)}": ${cause}`)
  if (!NAME.test(name)) throw refuse('a name is of letters, digits, "_", ".", ":" and "-"')
  const model = nameOf(model_type, custom)
  if (model === undefined) throw refuse(`there is no model "${model_type.slice(0, MAX_NAME)}"; use one of ${namesOf(custom).join(', ')}`)
  const problem = parametersProblem(model, params)
  if (problem !== undefined) throw refuse(problem)
  const [start, end] = [timeOf(range.start), timeOf(range.end)]
  if (start !== undefined && end !== undefined && start >= end) throw refuse(`its range ends at ${end}, not after its start ${start}`)
  if (range.last_secs !== undefined && start !== undefined) throw refuse('its range has both start and last_secs; give one of them')
  const definition: Definition = {
    ...{ namespace, name, measurement, field, tags, model, parameters: params },
    range: {
      ...(start === undefined ? {} : { start: String(start) }),
      ...(end === undefined ? {} : { end: String(end) }),
      ...(range.last_secs === undefined ? {} : { last_secs: range.last_secs }),
    },
  }
  if (forecast === undefined) return definition
  const { target_measurement: target = `${measurement}_forecast`, horizon, every_secs = DEFAULT_EVERY_SECS, level = DEFAULT_LEVEL } = forecast
  if (target === measurement) throw refuse('its forecasts would be written into the measurement that it is trained on; choose another target_measurement')
  if (horizon > maxHorizon) throw refuse(`forecast.horizon is ${horizon}, and analytics.max_forecast_horizon is ${maxHorizon}`)
  return { ...definition, forecast: { target, horizon, every_secs, level } }
}

const namesOf = (custom: readonly string[]): string[] => [...BUILT_IN, ...custom]

function timeOf(given: number | string | undefined): bigint | undefined {
  return given === undefined ? undefined : BigInt.asIntN(64, BigInt(given))
}

/** The times that a training reads, end excluded. @param now nanoseconds. */
export function rangeOf({ range }: Definition, now: bigint): { start?: bigint; end?: bigint } {
  const end = range.end === undefined ? undefined : BigInt(range.end)
  const start = range.last_secs === undefined ? range.start : String((end ?? now) - BigInt(range.last_secs) * 1_000_000_000n)
  return { ...(start === undefined ? {} : { start: BigInt(start) }), ...(end === undefined ? {} : { end }) }
}

/** Of a model in the state store: names are longer than keys may be. */
export function keyOf(namespace: string, measurement: string, name: string): string {
  const digest = createHash('sha256').update(`${measurement}\0${name}`).digest('hex').slice(0, 32)
  return `${namespace}/${digest}`
}
