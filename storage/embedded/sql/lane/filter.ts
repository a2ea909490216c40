/** Rows whose value satisfies a comparison; what is not finite is null, and satisfies none. */
import type { FilterPlan } from './plan.ts'
import { endZone, firstZone, ZONE, type Zones } from './zones.ts'

/** Clears the marks of the rows of values [from, to) that do not satisfy it; the first mark is that of `from`. */
export function keepOnly(kept: Uint8Array, values: Float64Array, from: number, to: number, { comparison, value }: FilterPlan): void {
  const n = to - from
  switch (comparison) {
    case '=':
      for (let i = 0; i < n; i++) if (values[from + i] !== value) kept[i] = 0
      return
    case '<>':
      for (let i = 0; i < n; i++) if (values[from + i] === value || values[from + i] - values[from + i] !== 0) kept[i] = 0
      return
    case '<':
      for (let i = 0; i < n; i++) if (!(values[from + i] < value) || values[from + i] === Number.NEGATIVE_INFINITY) kept[i] = 0
      return
    case '<=':
      for (let i = 0; i < n; i++) if (!(values[from + i] <= value) || values[from + i] === Number.NEGATIVE_INFINITY) kept[i] = 0
      return
    case '>':
      for (let i = 0; i < n; i++) if (!(values[from + i] > value) || values[from + i] === Number.POSITIVE_INFINITY) kept[i] = 0
      return
    case '>=':
      for (let i = 0; i < n; i++) if (!(values[from + i] >= value) || values[from + i] === Number.POSITIVE_INFINITY) kept[i] = 0
  }
}

/** How many of values [from, to) satisfy it. */
export function countOf(values: Float64Array, from: number, to: number, { comparison, value }: FilterPlan): number {
  let n = 0
  switch (comparison) {
    case '=':
      for (let i = from; i < to; i++) if (values[i] === value) n++
      return n
    case '<>':
      for (let i = from; i < to; i++) if (values[i] !== value && values[i] - values[i] === 0) n++
      return n
    case '<':
      for (let i = from; i < to; i++) if (values[i] < value && values[i] !== Number.NEGATIVE_INFINITY) n++
      return n
    case '<=':
      for (let i = from; i < to; i++) if (values[i] <= value && values[i] !== Number.NEGATIVE_INFINITY) n++
      return n
    case '>':
      for (let i = from; i < to; i++) if (values[i] > value && values[i] !== Number.POSITIVE_INFINITY) n++
      return n
    case '>=':
      for (let i = from; i < to; i++) if (values[i] >= value && values[i] !== Number.POSITIVE_INFINITY) n++
      return n
  }
}

/** The same with the zones of the values: those that all of a zone settles are not looked at. */
export function countZoned(values: Float64Array, zones: Zones, from: number, to: number, filter: FilterPlan): number {
  const [first, end] = [firstZone(from), endZone(to)]
  if (first >= end) return countOf(values, from, to, filter)
  let n = countOf(values, from, first * ZONE, filter) + countOf(values, end * ZONE, to, filter)
  for (let zone = first; zone < end; zone++) {
    const settled = settles(zones.min[zone], zones.max[zone], filter)
    if (settled === false) continue
    const sum = zones.sum[zone]
    n += settled === true && sum - sum === 0 ? ZONE : countOf(values, zone * ZONE, (zone + 1) * ZONE, filter)
  }
  return n
}

/** Whether all values from `min` to `max` satisfy it, or none; undefined: some may. */
function settles(min: number, max: number, { comparison, value }: FilterPlan): boolean | undefined {
  switch (comparison) {
    case '=':
      return value < min || value > max ? false : min === max ? true : undefined
    case '<>':
      return value < min || value > max ? true : min === max ? false : undefined
    case '<':
      return max < value ? true : min >= value ? false : undefined
    case '<=':
      return max <= value ? true : min > value ? false : undefined
    case '>':
      return min > value ? true : max <= value ? false : undefined
    case '>=':
      return min >= value ? true : max < value ? false : undefined
  }
}
