/** The kinds of models by name: those that are built in, and those of other plugins, behind one interface. Used in the threads that compute. */
import type { ModelKind } from 'svcdb'
import { chooseModel } from '../forecast/automatic.ts'
import { followed } from '../forecast/following.ts'
import { fitModel, type Model, type ModelParameters, predict } from '../forecast/forecaster.ts'
import { type Prediction, UnfitError } from '../forecast/model.ts'
import type { RegularSeries } from '../forecast/regular.ts'
import { AUTO, kindOf } from './kind-names.ts'

/** How a model is to be made. */
export interface FitSpec {
  /** A name that is built in, `auto`, or one that a plugin has registered. */
  model: string
  /** Of a registered one. */
  module?: string
  parameters: Readonly<Record<string, unknown>>
  /** Steps that `auto` compares candidates by. */
  horizon: number
}

/** A model as it is kept: its state as JSON. */
export interface KeptState {
  /** Ses, HoltLinear, ..., Custom(name). */
  kind: string
  module?: string
  text: string
}

/** A model that can be asked. */
interface LiveModel {
  predict(horizon: number): Prediction
  /** @returns forecasts of the values, one step before each. */
  follow(values: Float64Array): Float64Array
}

export interface Fitted {
  state: KeptState
  /** Name of the algorithm, with the orders of one that was chosen. */
  algorithm: string
  fitted: Float64Array
  /** Of the automatic choice. */
  candidates?: { name: string; score?: number; reason?: string }[]
}

/** Of a version that a plugin's kind has made, as JSON in characters: each is kept in the state store. */
const MAX_STATE = 4 * 2 ** 20

export async function fit(spec: FitSpec, series: RegularSeries): Promise<Fitted> {
  const { model, module, parameters, horizon } = spec
  if (module !== undefined) {
    const kind = await customKind(module)
    const made = byPlugin(model, () => kind.fit(series.values, parameters))
    if (!(made.fitted instanceof Float64Array) || made.fitted.length !== series.values.length)
      throw new UnfitError(`the model kind "${model}" gave no forecast for each value; its plugin has to be mended`)
    const text = JSON.stringify(made.state) ?? 'null'
    if (text.length > MAX_STATE)
      throw new UnfitError(`the model kind "${model}" has a state of ${text.length} characters, and at most ${MAX_STATE} are kept; its plugin has to be mended`)
    return { state: { kind: kindOf(model), module, text }, algorithm: model, fitted: made.fitted }
  }
  if (model === AUTO) {
    const choice = chooseModel(series, { horizon, ...(parameters as object) })
    return { ...kept(choice.model, choice.fitted), algorithm: choice.name, candidates: choice.candidates }
  }
  const { model: made, fitted } = fitModel(model, series, parameters as ModelParameters)
  return { ...kept(made, fitted), algorithm: model }
}

const kept = (model: Model, fitted: Float64Array): { state: KeptState; fitted: Float64Array } => ({
  state: { kind: model.kind, text: JSON.stringify(model, (_, value) => (typeof value === 'bigint' ? String(value) : value)) },
  fitted,
})

export async function live({ kind, module, text }: KeptState): Promise<LiveModel> {
  if (module !== undefined) return liveCustom(kind, await customKind(module), JSON.parse(text))
  let model = JSON.parse(text) as Model
  return {
    predict: (horizon) => predict(model, horizon),
    follow(values) {
      const next = followed(model, values)
      model = next.model
      return next.fitted
    },
  }
}

function liveCustom(name: string, kind: ModelKind, begin: unknown): LiveModel {
  let state = begin
  /** Steps behind the state, of a kind that does not follow. */
  let ahead = 0
  return {
    predict(horizon) {
      const { values, std } = byPlugin(name, () => kind.predict(state, ahead + horizon))
      return { values: values.subarray(ahead), std: std.subarray(ahead) }
    },
    follow(values) {
      if (kind.follow !== undefined) {
        const next = byPlugin(name, () => (kind.follow as NonNullable<ModelKind['follow']>)(state, values))
        state = next.state
        return next.fitted
      }
      const forecasts = byPlugin(name, () => kind.predict(state, ahead + values.length)).values.subarray(ahead)
      ahead += values.length
      return forecasts
    },
  }
}

/** What a plugin throws is what is wrong with the values or the parameters. */
function byPlugin<T>(name: string, work: () => T): T {
  try {
    return work()
  } catch (error) {
    throw new UnfitError(`${name}: ${error instanceof Error ? error.message : String(error)}`)
  }
}

async function customKind(module: string): Promise<ModelKind> {
  const { default: kind } = (await import(module)) as { default?: ModelKind }
  if (typeof kind?.fit !== 'function' || typeof kind.predict !== 'function')
    throw new UnfitError('the module of its kind has no default export with fit and predict; its plugin has to be mended')
  return kind
}
