/** What the threads that compute do: samples in, models, forecasts, errors and anomalies out. Pure, but for the modules of kinds that plugins bring. */
import { detectorOf, scoresOf } from '../detect/detectors.ts'
import { type ForecastErrors, forecastErrors } from '../forecast/errors.ts'
import { normalWidth, UnfitError } from '../forecast/model.ts'
import { OFF, type RegularSeries, regular } from '../forecast/regular.ts'
import { type FitSpec, type Fitted, fit, type KeptState, live } from './kinds.ts'
import { LEAST_COMPARED, MOST_STEPS } from './record.ts'

/** Of one series, by time. */
export interface Samples {
  times: BigInt64Array
  values: Float64Array
}

export interface Accuracy {
  /** Samples that were forecast. */
  points: number
  mse: number
  rmse: number
  mae: number
  mape: number
  r_squared: number
}

export interface Trained {
  state: KeptState
  algorithm: string
  /** Of the first and the last step. */
  start: bigint
  end: bigint
  interval: bigint
  /** Samples that it was fitted to; steps that none of them gave. */
  points: number
  bridged: number
  /** Samples that lay off their step. */
  moved: number
  /** Of forecasts one step ahead within the training. */
  accuracy: Accuracy
  candidates?: Fitted['candidates']
}

/** A version to be asked, and where its training ended. */
export interface Standing {
  state: KeptState
  end: bigint
  interval: bigint
}

export interface ForecastOf {
  timestamps: BigInt64Array
  values: Float64Array
  lower: Float64Array
  upper: Float64Array
}

/** How a version has done with what came after its training. */
interface Followed {
  /** Of the last step that samples gave. */
  end: bigint
  /** Of the newest samples within the window, from `since` on. */
  accuracy: Accuracy
}

export type Task =
  | { kind: 'train'; samples: Samples; spec: FitSpec; most: number }
  | {
      kind: 'follow'
      samples: Samples
      versions: readonly Standing[]
      /** Errors are those of samples after this time, and of at most so many newest of them. */
      since: bigint
      window: number
      /** Of the first version; 0 = none. */
      horizon: number
      level: number
      /** Of the first version: scores of samples after this time; undefined = none. */
      scoresAfter: bigint | undefined
      /** Samples after this time are counted where they lie off their step; undefined = none. */
      movedAfter: bigint | undefined
      most: number
    }
  | { kind: 'refit'; samples: Samples; spec: FitSpec; champion: Standing; most: number }
  | { kind: 'detect'; times: BigInt64Array; columns: readonly Float64Array[]; detector: string; threshold: number | undefined; most: number }

export interface Seconds {
  preprocess?: number
  fit?: number
  predict?: number
  correlation?: number
  detect?: number
}

export interface FollowResult {
  kind: 'follow'
  versions: Followed[]
  forecast: ForecastOf | undefined
  /** Distance of samples from their forecasts, in standard deviations of the forecast. */
  scores: { times: BigInt64Array; values: Float64Array; expected: Float64Array } | undefined
  moved: number
  /** Time of the newest sample. */
  newest: bigint | undefined
  seconds: Seconds
}
export interface RefitResult {
  kind: 'refit'
  /** On the samples after the champion's training; undefined = too few of them. */
  compared: { points: number; champion: Accuracy; challenger: Accuracy } | undefined
  trained: Trained
  seconds: Seconds
}
export interface DetectResult {
  kind: 'detect'
  threshold: number
  /** Rows that are anomalies, the newest `most` of them. */
  rows: Int32Array
  scores: Float64Array
  found: number
  /** Pearson's, of each pair of several columns. */
  correlations: number[][] | undefined
  seconds: Seconds
}
export type TaskResult = { kind: 'train'; trained: Trained; seconds: Seconds } | FollowResult | RefitResult | DetectResult

/** Part of a series that is held out for comparing a champion with its challenger. */
const HELD_OUT = 0.2
/** The newest, of those that were not written yet. */
const MOST_SCORES = 10_000

export async function compute(task: Task): Promise<TaskResult> {
  const seconds: Seconds = {}
  if (task.kind === 'train') return { kind: 'train', trained: await train(task.samples, task.spec, task.most, seconds), seconds }
  if (task.kind === 'follow') return { ...(await follow(task, seconds)), kind: 'follow', seconds }
  if (task.kind === 'refit') return { ...(await refit(task, seconds)), kind: 'refit', seconds }
  return { ...detect(task, seconds), kind: 'detect', seconds }
}

function timed<T>(seconds: Seconds, phase: keyof Seconds, work: () => T): T {
  const began = performance.now()
  const end = () => {
    seconds[phase] = (seconds[phase] ?? 0) + (performance.now() - began) / 1000
  }
  let result: T
  try {
    result = work()
  } catch (error) {
    end()
    throw error
  }
  if (result instanceof Promise) return result.finally(end) as T
  end()
  return result
}

async function train({ times, values }: Samples, spec: FitSpec, most: number, seconds: Seconds): Promise<Trained> {
  const series = timed(seconds, 'preprocess', () => regular(values, times, most))
  return trainedOn(series, spec, seconds)
}

async function trainedOn(series: RegularSeries, spec: FitSpec, seconds: Seconds): Promise<Trained> {
  const { state, algorithm, fitted, candidates } = await timed(seconds, 'fit', () => fit(spec, series))
  const { start, interval, used, bridged, moved } = series
  const end = start + BigInt(series.values.length - 1) * interval
  const accuracy = accuracyOf(series.values, fitted)
  return { ...{ state, algorithm, start, end, interval, points: used, bridged, moved, accuracy }, ...(candidates === undefined ? {} : { candidates }) }
}

/** Of steps that have both. */
function accuracyOf(values: Float64Array, forecasts: Float64Array): Accuracy {
  const places: number[] = []
  for (let i = 0; i < values.length; i++) if (Number.isFinite(values[i]) && Number.isFinite(forecasts[i])) places.push(i)
  if (places.length === 0) return { points: 0, mse: Number.NaN, rmse: Number.NaN, mae: Number.NaN, mape: Number.NaN, r_squared: Number.NaN }
  const all = places.length === values.length
  const pick = (from: Float64Array) => (all ? from : Float64Array.from(places, (i) => from[i]))
  const { rmse, mae, mape, r_squared }: ForecastErrors = forecastErrors(pick(values), pick(forecasts))
  return { points: places.length, mse: rmse * rmse, rmse, mae, mape, r_squared }
}

interface Steps {
  /** One a step after the training, NaN where there is no sample. */
  values: Float64Array
  /** Samples after the time given that lay off their step. */
  moved: number
}

/** Samples after a training on the steps that go on behind it; of two on one step the nearer one, then the later. */
function stepsAfter({ times, values }: Samples, { end, interval }: { end: bigint; interval: bigint }, movedAfter?: bigint): Steps {
  const step = Number(interval)
  let last = 0
  const places = new Float64Array(times.length)
  for (let i = 0; i < times.length; i++) {
    places[i] = Number.isFinite(values[i]) ? Number(times[i] - end) / step : Number.NaN
    if (places[i] > last) last = places[i]
  }
  const count = Math.round(last)
  if (count > MOST_STEPS)
    throw new UnfitError(
      `its training ended ${count} steps ago, and a model is followed over ${MOST_STEPS}; retrain it, or where its range has an end, create it anew without one`,
    )
  const out = new Float64Array(count).fill(Number.NaN)
  const distances = new Float64Array(count).fill(Number.POSITIVE_INFINITY)
  let moved = 0
  for (let i = 0; i < times.length; i++) {
    const place = Math.round(places[i])
    if (!(place >= 1 && place <= count)) continue
    const distance = Math.abs(places[i] - place)
    if (distance > OFF && movedAfter !== undefined && times[i] > movedAfter) moved++
    if (distance > distances[place - 1]) continue
    distances[place - 1] = distance
    out[place - 1] = values[i]
  }
  return { values: out, moved }
}

async function follow(
  { samples, versions, since, window, horizon, level, scoresAfter, movedAfter }: Extract<Task, { kind: 'follow' }>,
  seconds: Seconds,
): Promise<Omit<FollowResult, 'kind' | 'seconds'>> {
  const out: Followed[] = []
  let forecast: ForecastOf | undefined
  let scores: FollowResult['scores']
  let moved = 0
  for (const [i, version] of versions.entries()) {
    const model = await live(version.state)
    const steps = timed(seconds, 'preprocess', () => stepsAfter(samples, version, movedAfter))
    const { length } = steps.values
    if (i === 0) moved = steps.moved
    // Before it goes on: of how wide its next interval is.
    const { std } = timed(seconds, 'predict', () => model.predict(1))
    const fitted = timed(seconds, 'predict', () => model.follow(steps.values))
    const { end, interval } = version
    const timeOf = (step: number) => end + BigInt(step + 1) * interval
    let from = length
    for (let left = window; from > 0 && left > 0 && timeOf(from - 1) > since; from--) if (!Number.isNaN(steps.values[from - 1])) left--
    out.push({ end: end + BigInt(length) * interval, accuracy: accuracyOf(steps.values.subarray(from), fitted.subarray(from)) })
    if (i > 0) continue
    if (horizon > 0) forecast = timed(seconds, 'predict', () => forecastOf(model.predict(horizon), timeOf(length - 1), interval, level))
    if (scoresAfter === undefined) continue
    const places: number[] = []
    for (let step = 0; step < length; step++) if (!Number.isNaN(steps.values[step]) && timeOf(step) > scoresAfter) places.push(step)
    places.splice(0, Math.max(0, places.length - MOST_SCORES))
    scores = {
      times: BigInt64Array.from(places, timeOf),
      values: Float64Array.from(places, (step) => distanceOf(steps.values[step] - fitted[step], std[0])),
      expected: Float64Array.from(places, (step) => fitted[step]),
    }
  }
  return { versions: out, forecast, scores, moved, newest: samples.times.at(-1) }
}

/** Something that was never off is off by any distance. */
const distanceOf = (error: number, std: number): number => (error === 0 ? 0 : std > 0 ? Math.abs(error) / std : Number.MAX_VALUE)

function forecastOf({ values, std }: { values: Float64Array; std: Float64Array }, end: bigint, interval: bigint, level: number): ForecastOf {
  const width = normalWidth(level)
  return {
    timestamps: BigInt64Array.from(values, (_, h) => end + BigInt(h + 1) * interval),
    values: Float64Array.from(values),
    lower: values.map((v, h) => v - width * std[h]),
    upper: values.map((v, h) => v + width * std[h]),
  }
}

/**
 * Fits anew, and compares with the champion on the newest samples that came after it was trained: for that the challenger is fitted to what was before them. Both
 * follow the samples alike, and are judged on the same ones, none of which is bridged.
 */
async function refit({ samples, spec, champion, most }: Extract<Task, { kind: 'refit' }>, seconds: Seconds): Promise<Omit<RefitResult, 'kind' | 'seconds'>> {
  const trained = await train(samples, spec, most, seconds)
  const rows = Array.from(samples.values.keys()).filter((i) => Number.isFinite(samples.values[i]))
  const after = rows.filter((i) => samples.times[i] > champion.end).length
  const held = rows.slice(rows.length - Math.min(after, Math.floor(rows.length * HELD_OUT)))
  if (held.length < LEAST_COMPARED) return { compared: undefined, trained }
  const cut = held[0]
  const before = { times: samples.times.subarray(0, cut), values: samples.values.subarray(0, cut) }
  let standing: Standing
  try {
    const { state, end, interval } = await train(before, spec, most, seconds)
    standing = { state, end, interval }
  } catch (error) {
    // What is left after the part that is held out may be too short for its kind.
    if (error instanceof UnfitError) return { compared: undefined, trained }
    throw error
  }
  const forecasts = await Promise.all([champion, standing].map((each) => forecastsOf(each, samples, held)))
  // A sample that is nearer to the last step of a training than to the one after has no forecast.
  const places = held.map((_, k) => k).filter((k) => forecasts.every((all) => Number.isFinite(all[k])))
  const values = Float64Array.from(places, (k) => samples.values[held[k]])
  const [ofChampion, ofChallenger] = forecasts.map((all) =>
    accuracyOf(
      values,
      Float64Array.from(places, (k) => all[k]),
    ),
  )
  if (places.length < LEAST_COMPARED) return { compared: undefined, trained }
  return { compared: { points: places.length, champion: ofChampion, challenger: ofChallenger }, trained }
}

/** What a version forecasts of some samples, each one step before. */
async function forecastsOf(version: Standing, samples: Samples, rows: readonly number[]): Promise<Float64Array> {
  const model = await live(version.state)
  const fitted = model.follow(stepsAfter(samples, version).values)
  return Float64Array.from(rows, (i) => fitted[Math.round(Number(samples.times[i] - version.end) / Number(version.interval)) - 1] ?? Number.NaN)
}

function detect({ columns, detector, threshold: given, most }: Extract<Task, { kind: 'detect' }>, seconds: Seconds): Omit<DetectResult, 'kind' | 'seconds'> {
  const threshold = given ?? detectorOf(detector).threshold
  const scores = timed(seconds, 'fit', () => scoresOf(detector, columns))
  const { rows, found } = timed(seconds, 'detect', () => {
    const all: number[] = []
    for (let i = 0; i < scores.length; i++) if (scores[i] > threshold) all.push(i)
    return { rows: Int32Array.from(all.slice(-most)), found: all.length }
  })
  const correlations = columns.length < 2 ? undefined : timed(seconds, 'correlation', () => columns.map((a) => columns.map((b) => correlation(a, b))))
  return { threshold, rows, scores: Float64Array.from(rows, (row) => scores[row]), found, correlations }
}

/** Pearson's, of rows that have both; NaN where one of them has no spread. */
function correlation(a: Float64Array, b: Float64Array): number {
  let [count, meanA, meanB, aa, bb, ab] = [0, 0, 0, 0, 0, 0]
  for (let i = 0; i < a.length; i++) {
    if (!Number.isFinite(a[i]) || !Number.isFinite(b[i])) continue
    count++
    const da = a[i] - meanA
    const db = b[i] - meanB
    meanA += da / count
    meanB += db / count
    aa += da * (a[i] - meanA)
    bb += db * (b[i] - meanB)
    ab += da * (b[i] - meanB)
  }
  return ab / Math.sqrt(aa * bb)
}
