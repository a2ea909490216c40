/** Forecasts in SQL: from the samples of each group to the list of what comes next. */
import { createHash } from 'node:crypto'
import type { SqlConstant, SqlFunctionBody, SqlFunctionColumn } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { chooseModel } from './forecast/automatic.ts'
import { fitModel, MODEL_NAMES, type Model, predict } from './forecast/forecaster.ts'
import { normalWidth, UnfitError } from './forecast/model.ts'
import { regular } from './forecast/regular.ts'
import { fitVector, predictVector } from './forecast/vector.ts'

/** Newest samples of a group that are looked at. */
const MOST_SAMPLES = 1_000_000

type Lists = NonNullable<SqlFunctionColumn['lists']>

function perGroup(next: (columns: Float64Array[], times: BigInt64Array, constants: readonly SqlConstant[]) => Float64Array): SqlFunctionBody {
  return (columns, rows, constants) => {
    const horizon = Number(constants[0])
    const values = new Float64Array(rows * horizon)
    const starts = new Uint32Array(rows)
    const lengths = new Uint32Array(rows)
    const rowValidity = new Uint8Array(rows)
    for (let row = 0; row < rows; row++) {
      const slices = columns.map(({ values: all, lists }) => {
        const { starts, lengths } = lists as Lists
        return (all as Float64Array).subarray(starts[row], starts[row] + lengths[row])
      })
      const times = slices.pop() as unknown as BigInt64Array
      starts[row] = row * horizon
      const found = whereFit(() => next(slices, times, constants))
      if (found === undefined) continue
      values.set(found, row * horizon)
      lengths[row] = horizon
      rowValidity[row] = 1
    }
    return { values, lists: { starts, lengths }, rowValidity }
  }
}

/** A group with too few samples has no forecast; that is no reason to refuse the others theirs. */
function whereFit<T>(work: () => T): T | undefined {
  try {
    return work()
  } catch (error) {
    if (error instanceof UnfitError) return undefined
    throw error
  }
}

/** The automatic choice, by name. */
const AUTO = 'auto'
/** Fits that are kept: a statement that asks for a forecast and its interval fits each group once. */
const KEPT = 4096
const recent = new Map<string, Model>()

function fitted(values: Float64Array, times: BigInt64Array, model: string, horizon: number): Model {
  if (model !== AUTO && !(MODEL_NAMES as readonly string[]).includes(model))
    throw new SvcError('SQL_ERROR', `cannot forecast: there is no model "${model}"; use one of ${[...MODEL_NAMES, AUTO].join(', ')}`)
  const digest = createHash('sha1').update(bytesOf(values)).update(bytesOf(times)).digest('base64')
  const key = `${model}/${model === AUTO ? horizon : ''}/${values.length}/${digest}`
  const known = recent.get(key)
  if (known !== undefined) return known
  const series = regular(values, times, MOST_SAMPLES)
  const made = model === AUTO ? chooseModel(series, { horizon }).model : fitModel(model, series).model
  if (recent.size >= KEPT) recent.delete(recent.keys().next().value as string)
  recent.set(key, made)
  return made
}

const bytesOf = ({ buffer, byteOffset, byteLength }: Float64Array | BigInt64Array): Uint8Array => new Uint8Array(buffer, byteOffset, byteLength)

export const forecast = perGroup(([values], times, [horizon, model]) => {
  return predict(fitted(values, times, String(model), Number(horizon)), Number(horizon)).values
})

export const auto_forecast = perGroup(([values], times, [horizon]) => {
  return predict(fitted(values, times, AUTO, Number(horizon)), Number(horizon)).values
})

const edge = (sign: number): SqlFunctionBody =>
  perGroup(([values], times, [horizon, model, level]) => {
    const prediction = predict(fitted(values, times, String(model), Number(horizon)), Number(horizon))
    const width = sign * normalWidth(Number(level))
    return prediction.values.map((v, h) => v + width * prediction.std[h])
  })
export const forecast_lower = edge(-1)
export const forecast_upper = edge(1)

export const multivariate_forecast = perGroup(([target, predictor], times, [horizon]) => {
  // Rows in which both are there: then both lie on the same steps.
  const both = target.map((v, i) => (Number.isFinite(predictor[i]) ? v : Number.NaN))
  const series = regular(both, times, MOST_SAMPLES)
  const other = regular(
    predictor.map((v, i) => (Number.isFinite(target[i]) ? v : Number.NaN)),
    times,
    MOST_SAMPLES,
  )
  return predictVector(fitVector(series.values, other.values), series.values, other.values, Number(horizon))[0]
})
