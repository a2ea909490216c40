/**
 * Simple exponential smoothing: level += alpha * (v - level). The smoothing and the level before the first value are those with the least squared error of
 * forecasts one step ahead. For a given alpha the errors are linear in that level, so the best one follows at once and alpha alone is searched.
 */
import { type FitResult, type Prediction, spread } from './model.ts'

export interface Ses {
  kind: 'Ses'
  alpha: number
  /** After the last value: what is forecast. */
  level: number
  residual_std: number
}

const LEAST = 1e-4
/** A longer series is first looked at by its newest values. */
const SAMPLE = 1000
const GRID = [LEAST, 0.05, 0.15, 0.3, 0.45, 0.6, 0.8, 1]
/** Below this part of it, the level before the first value is forgotten. */
const FORGOTTEN = 1e-10

/** @param values at least 2, without gaps. @param fixed alpha, which else is searched. */
export function fitSes(values: Float64Array, fixed?: number): FitResult<Ses> {
  const alpha = fixed ?? bestAlpha(values)
  const fitted = new Float64Array(values.length)
  let level = beginning(values, alpha)
  for (let i = 0; i < values.length; i++) {
    fitted[i] = level
    level = (1 - alpha) * level + alpha * values[i]
  }
  return { model: { kind: 'Ses', alpha, level, residual_std: spread(values, fitted, fixed === undefined ? 2 : 1) }, fitted }
}

export function predictSes({ alpha, level, residual_std }: Ses, horizon: number): Prediction {
  const std = new Float64Array(horizon)
  for (let h = 0; h < horizon; h++) std[h] = residual_std * Math.sqrt(1 + h * alpha * alpha)
  return { values: new Float64Array(horizon).fill(level), std }
}

/** On a grid over the newest values, then by parabolas over all of them, each through points a eighth as far apart as the last. */
function bestAlpha(values: Float64Array): number {
  const newest = values.length > 2 * SAMPLE ? values.subarray(values.length - SAMPLE) : values
  const out = new Float64Array(8)
  fourErrors(newest, GRID, 0, out)
  fourErrors(newest, GRID, 4, out)
  let best = 0
  for (let i = 1; i < 8; i++) if (out[i] < out[best]) best = i
  let alpha = GRID[best]
  let step = Math.min(0.06, Math.max(LEAST * 2, alpha / 3))
  const at = [0, 0, 0, 0]
  for (let pass = 0; pass < 12 && step > LEAST; pass++) {
    const low = Math.max(LEAST, Math.min(1 - 3 * step, alpha - 1.5 * step))
    for (let i = 0; i < 4; i++) at[i] = low + i * step
    fourErrors(values, at, 0, out)
    best = 0
    for (let i = 1; i < 4; i++) if (out[i] < out[best]) best = i
    const inner = Math.min(2, Math.max(1, best))
    const bend = out[inner - 1] - 2 * out[inner] + out[inner + 1]
    const shift = bend > 0 ? (step * (out[inner - 1] - out[inner + 1])) / (2 * bend) : 0
    const vertex = at[inner] + shift
    if (bend > 0 && vertex >= at[0] && vertex <= at[3]) {
      alpha = vertex
      step /= 8
    } else {
      alpha = at[best]
      step = Math.min(step, Math.max(LEAST, alpha / 3))
      // At an end of all that is allowed there is nothing beyond to look at.
      if ((best === 0 && low <= LEAST) || (best === 3 && at[3] >= 1)) step /= 8
    }
  }
  return Math.max(LEAST, Math.min(1, alpha))
}

/** The level before the first value that leaves the least squared error. */
function beginning(values: Float64Array, alpha: number): number {
  const keep = 1 - alpha
  let level = values[0]
  let decay = 1
  let cross = 0
  let square = 0
  for (let i = 0; i < values.length && decay > FORGOTTEN; i++) {
    cross += (values[i] - level) * decay
    square += decay * decay
    level = keep * level + alpha * values[i]
    decay *= keep
  }
  return values[0] + cross / square
}

/**
 * Squared errors of four alphas, each with its best level before the first value, in one pass: each waits for its own additions, so four cost little more than one (analytics.bench.ts).
 * @param out gets them from `from` on.
 */
function fourErrors(values: Float64Array, alphas: readonly number[], from: number, out: Float64Array): void {
  const n = values.length
  const a = alphas[from]
  const b = alphas[from + 1]
  const c = alphas[from + 2]
  const d = alphas[from + 3]
  const least = Math.min(a, b, c, d)
  const until = least >= 1 ? 1 : Math.min(n, Math.ceil(Math.log(FORGOTTEN) / Math.log(1 - least)))
  const keepA = 1 - a
  const keepB = 1 - b
  const keepC = 1 - c
  const keepD = 1 - d
  let levelA = values[0]
  let levelB = levelA
  let levelC = levelA
  let levelD = levelA
  let sumA = 0
  let sumB = 0
  let sumC = 0
  let sumD = 0
  let decayA = 1
  let decayB = 1
  let decayC = 1
  let decayD = 1
  let crossA = 0
  let crossB = 0
  let crossC = 0
  let crossD = 0
  let i = 0
  for (; i < until; i++) {
    const v = values[i]
    const errorA = v - levelA
    const errorB = v - levelB
    const errorC = v - levelC
    const errorD = v - levelD
    levelA = keepA * levelA + a * v
    levelB = keepB * levelB + b * v
    levelC = keepC * levelC + c * v
    levelD = keepD * levelD + d * v
    sumA += errorA * errorA
    sumB += errorB * errorB
    sumC += errorC * errorC
    sumD += errorD * errorD
    crossA += errorA * decayA
    crossB += errorB * decayB
    crossC += errorC * decayC
    crossD += errorD * decayD
    decayA *= keepA
    decayB *= keepB
    decayC *= keepC
    decayD *= keepD
  }
  for (; i < n; i++) {
    const v = values[i]
    const errorA = v - levelA
    const errorB = v - levelB
    const errorC = v - levelC
    const errorD = v - levelD
    levelA = keepA * levelA + a * v
    levelB = keepB * levelB + b * v
    levelC = keepC * levelC + c * v
    levelD = keepD * levelD + d * v
    sumA += errorA * errorA
    sumB += errorB * errorB
    sumC += errorC * errorC
    sumD += errorD * errorD
  }
  out[from] = sumA - (crossA * crossA) / squares(a, until)
  out[from + 1] = sumB - (crossB * crossB) / squares(b, until)
  out[from + 2] = sumC - (crossC * crossC) / squares(c, until)
  out[from + 3] = sumD - (crossD * crossD) / squares(d, until)
}

/** The sum of (1 - alpha)^(2i) over i < n. */
function squares(alpha: number, n: number): number {
  const q = (1 - alpha) ** 2
  return q >= 1 ? n : (1 - q ** n) / (1 - q)
}
