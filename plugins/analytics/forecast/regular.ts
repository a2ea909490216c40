/**
 * Samples as they were measured, as a series with one value a step: what the models of this folder need.
 * Sorted by time; of two samples of one time the later given counts; NaN and infinities are missing. The step is the median distance. Each sample goes to the
 * nearest step, missing steps are bridged by a straight line. Where that would make more than four values of a sample, as with bursts, the step is longer.
 */
import { UnfitError } from './model.ts'

export interface RegularSeries {
  values: Float64Array
  /** Nanoseconds. */
  start: bigint
  interval: bigint
  /** Samples that came, and those of them that were used: the newest, within what the caller allows. */
  samples: number
  used: number
  /** Values that no sample gave. */
  bridged: number
  /** Samples that lay off their step by more than a hundredth of it. */
  moved: number
}

const MOST_STEPS_A_SAMPLE = 4
/** Part of a step by which a sample may be off it without being counted as moved. */
export const OFF = 0.01

/** @param times nanoseconds, ascending or not. @throws UnfitError below two finite samples at different times. */
export function regular(values: Float64Array, times: BigInt64Array, most: number): RegularSeries {
  const order = ordered(values, times)
  const samples = order.length
  if (samples < 2) throw new UnfitError(`at least 2 points are needed; there are ${samples}`)
  const from = Math.max(0, samples - most)
  const count = samples - from
  const start = times[order[from]]
  // Differences to the first one are exact in a double up to 104 days in nanoseconds, and beyond to a millionth of a step that a series so long has.
  const places = new Float64Array(count)
  for (let i = 0; i < count; i++) places[i] = Number(times[order[from + i]] - start)
  const span = places[count - 1]
  let interval = Math.max(1, medianStep(places))
  if (span / interval + 1 > MOST_STEPS_A_SAMPLE * count) interval = Math.ceil(span / (MOST_STEPS_A_SAMPLE * count - 1))
  const steps = Math.round(span / interval) + 1
  const out = new Float64Array(Math.max(2, steps)).fill(Number.NaN)
  const distances = new Float64Array(out.length).fill(Number.POSITIVE_INFINITY)
  let moved = 0
  for (let i = 0; i < count; i++) {
    const step = Math.min(out.length - 1, Math.round(places[i] / interval))
    const distance = Math.abs(places[i] - step * interval)
    if (distance > OFF * interval) moved++
    if (distance > distances[step]) continue
    distances[step] = distance
    out[step] = values[order[from + i]]
  }
  return { values: out, start, interval: BigInt(Math.round(interval)), samples, used: count, bridged: bridge(out), moved }
}

/** Fills what is missing by straight lines, and by the nearest value at the ends. @returns how many there were. */
export function bridge(values: Float64Array): number {
  let last = -1
  let bridged = 0
  for (let i = 0; i < values.length; i++) {
    if (Number.isNaN(values[i])) continue
    for (let j = last + 1; j < i; j++) {
      values[j] = last < 0 ? values[i] : values[last] + ((values[i] - values[last]) * (j - last)) / (i - last)
      bridged++
    }
    last = i
  }
  if (last >= 0) for (let j = last + 1; j < values.length; j++, bridged++) values[j] = values[last]
  return bridged
}

/** Indexes of finite samples by time, one a time. */
function ordered(values: Float64Array, times: BigInt64Array): Int32Array {
  const all = new Int32Array(values.length)
  let count = 0
  let sorted = true
  for (let i = 0; i < values.length; i++) {
    if (!Number.isFinite(values[i])) continue
    if (count > 0 && times[i] < times[all[count - 1]]) sorted = false
    all[count++] = i
  }
  const found = all.subarray(0, count)
  if (!sorted) found.sort((a, b) => (times[a] < times[b] ? -1 : times[a] > times[b] ? 1 : a - b))
  let kept = 0
  for (let i = 0; i < count; i++) {
    if (kept > 0 && times[found[kept - 1]] === times[found[i]]) kept--
    found[kept++] = found[i]
  }
  return found.subarray(0, kept)
}

function medianStep(places: Float64Array): number {
  const steps = new Float64Array(places.length - 1)
  for (let i = 0; i < steps.length; i++) steps[i] = places[i + 1] - places[i]
  // Of two in the middle the shorter: a gap is longer than a step.
  return steps.sort()[(steps.length - 1) >> 1]
}
