/**
 * rate, increase and delta of ranges with `anchored` or `smoothed`: the difference between the values at the boundaries themselves.
 * Anchored takes the last sample at or before a boundary, smoothed a value on the line between the samples around it.
 */
import { ABSENT, FLOAT } from '../eval/value.ts'
import type { RangeCall } from './contract.ts'

export interface Bounds {
  first: number
  last: number
}
const bounds: Bounds = { first: 0, last: 0 }

/** The samples that stand for the boundaries; undefined when nothing lies inside the range. The object is used again. */
export function boundsOf(call: RangeCall): Bounds | undefined {
  const { times, lo, hi, rangeStart, rangeEnd } = call
  const smoothed = call.modifier === 'smoothed'
  let first = lo
  while (first < hi - 1 && times[first] <= rangeStart) first++
  first = Math.max(lo, first - 1)
  let last = hi - 1
  if (smoothed) while (last > lo && times[last - 1] >= rangeEnd) last--
  if (times[last] <= rangeStart) return undefined
  if (smoothed && times[first] > rangeEnd) return undefined
  bounds.first = first
  bounds.last = last
  return bounds
}

export function extendedDifference(call: RangeCall, counter: boolean, perSecond: boolean): number {
  const found = boundsOf(call)
  if (found === undefined) return ABSENT
  const { times, values, rangeStart, rangeEnd } = call
  let { first, last } = found
  const smoothed = call.modifier === 'smoothed'
  const left = smoothed && times[first] < rangeStart ? interpolate(call, first, first + 1, rangeStart, counter) : values[first]
  const right = smoothed && last > call.lo && times[last] > rangeEnd ? interpolate(call, last - 1, last, rangeEnd, counter) : values[last]
  let change = right - left
  if (counter) {
    // Samples at or outside the boundaries are in `left` and `right` already.
    if (times[first] <= rangeStart) first++
    if (times[last] >= rangeEnd) last--
    let lost = 0
    let previous = left
    for (let i = first; i <= last; i++) {
      if (values[i] < previous) lost += previous
      previous = values[i]
    }
    if (right < previous) lost += previous
    change += lost
  }
  call.value = perSecond ? change / (call.range / 1000) : change
  return FLOAT
}

/** A counter that was reset between the two samples is taken to start from zero at the first. */
function interpolate(call: RangeCall, before: number, after: number, time: number, counter: boolean): number {
  const { times, values } = call
  const to = values[after]
  const from = counter && to < values[before] ? 0 : values[before]
  return from + ((to - from) * (time - times[before])) / (times[after] - times[before])
}
