/** Rows whose value satisfies a comparison; what is not finite is null, and satisfies none. */
import type { IntList } from '../../memtable/int-list.ts'
import { pushRun, RUN } from '../../memtable/runs.ts'
import type { LaneValues } from './host.ts'
import type { FilterPlan } from './plan.ts'
import { type BlockZones, ZONE, type Zones, zoneOf } from './zones.ts'

const LEAST = -(2 ** 31)
const MOST = 2 ** 31 - 1

/** Numbers from `low` to `high`, or all others. */
interface Among {
  low: number
  high: number
  inside: boolean
}

/** Leaves the parts of the runs whose values satisfy it. */
export function refine(runs: IntList, { values, divisor = 1 }: LaneValues, filter: FilterPlan, out: IntList): void {
  out.length = 0
  const { values: list, length } = runs
  if (values instanceof Int32Array) refineIntegers(list, length, values, integersOf(filter, divisor), out)
  else {
    const among = doublesOf(filter)
    for (let r = 0; r < length; r += RUN) refineDoubles(list[r], values, list[r + 1], list[r + 2], among, out)
  }
}

function refineIntegers(runs: Int32Array, length: number, values: Int32Array, { low, high, inside }: Among, out: IntList): void {
  for (let r = 0; r < length; r += RUN) {
    const to = runs[r + 2]
    let start = -1
    for (let i = runs[r + 1]; i < to; i++) {
      const value = values[i]
      if ((value >= low && value <= high) === inside) {
        if (start < 0) start = i
      } else if (start >= 0) {
        pushRun(out, runs[r], start, i)
        start = -1
      }
    }
    if (start >= 0) pushRun(out, runs[r], start, to)
  }
}

function refineDoubles(of: number, values: Float64Array, from: number, to: number, { low, high, inside }: Among, out: IntList): void {
  let start = -1
  for (let i = from; i < to; i++) {
    const value = values[i]
    if ((value >= low && value <= high) === inside && value - value === 0) {
      if (start < 0) start = i
    } else if (start >= 0) {
      pushRun(out, of, start, i)
      start = -1
    }
  }
  if (start >= 0) pushRun(out, of, start, to)
}

/** Adds to each list, at the cell of each run, how many of the run's values satisfy it. */
export function countRuns(runs: IntList, { values, divisor = 1 }: LaneValues, of: BlockZones, filter: FilterPlan, into: readonly Float64Array[]): void {
  const { values: list, length } = runs
  const count =
    values instanceof Int32Array ? integerCounter(values, of.integers(values), integersOf(filter, divisor)) : doubleCounter(values, of.doubles(values), filter)
  for (let r = 0; r < length; r += RUN) {
    const n = count(list[r + 1], list[r + 2])
    for (let i = 0; i < into.length; i++) into[i][list[r]] += n
  }
}

type Counter = (from: number, to: number) => number

function integerCounter(values: Int32Array, zones: Zones<Int32Array> | undefined, among: Among): Counter {
  if (zones === undefined) return (from, to) => countIntegers(values, from, to, among)
  const { low, high, inside } = among
  const { min, max } = zones
  return (from, to) => {
    let n = 0
    for (let at = from; at < to; ) {
      const zone = zoneOf(at)
      const end = zone < min.length ? Math.min(to, (zone + 1) * ZONE) : to
      if (zone >= min.length) n += countIntegers(values, at, end, among)
      else if (max[zone] < low || min[zone] > high) n += inside ? 0 : end - at
      else if (min[zone] >= low && max[zone] <= high) n += inside ? end - at : 0
      else n += countIntegers(values, at, end, among)
      at = end
    }
    return n
  }
}

function doubleCounter(values: Float64Array, zones: Zones | undefined, filter: FilterPlan): Counter {
  const among = doublesOf(filter)
  if (zones === undefined) return (from, to) => countDoubles(values, from, to, among)
  return (from, to) => countZoned(values, zones, from, to, filter, among)
}

function countIntegers(values: Int32Array, from: number, to: number, { low, high, inside }: Among): number {
  let n = 0
  for (let i = from; i < to; i++) if (values[i] >= low && values[i] <= high) n++
  return inside ? n : to - from - n
}

function countDoubles(values: Float64Array, from: number, to: number, { low, high, inside }: Among): number {
  let n = 0
  if (inside) for (let i = from; i < to; i++) if (values[i] >= low && values[i] <= high) n++
  if (!inside) for (let i = from; i < to; i++) if (!(values[i] >= low && values[i] <= high) && values[i] - values[i] === 0) n++
  return n
}

/** Values of zones that their least and greatest settle are not looked at, of zones that the run has a part of neither. */
function countZoned(values: Float64Array, zones: Zones, from: number, to: number, filter: FilterPlan, doubles: Among): number {
  let n = 0
  for (let at = from; at < to; ) {
    const zone = zoneOf(at)
    const end = zone < zones.min.length ? Math.min(to, (zone + 1) * ZONE) : to
    const known = zone < zones.min.length ? settles(zones, zone, filter) : undefined
    if (known !== false) {
      const sum = zones.sum[zone]
      n += known === true && sum - sum === 0 ? end - at : countDoubles(values, at, end, doubles)
    }
    at = end
  }
  return n
}

function settles({ min, max }: Zones, zone: number, filter: FilterPlan): boolean | undefined {
  return settled({ min: min[zone], max: max[zone] }, filter)
}

/** Whether all values from `min` to `max` satisfy it, or none; undefined: some may. */
export function settled({ min, max }: { min: number; max: number }, { comparison, value }: FilterPlan): boolean | undefined {
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

/** The finite doubles that satisfy it. */
function doublesOf({ comparison, value }: FilterPlan): Among {
  const [least, most] = [-Number.MAX_VALUE, Number.MAX_VALUE]
  switch (comparison) {
    case '=':
      return { low: value, high: value, inside: true }
    case '<>':
      return { low: value, high: value, inside: false }
    case '<':
      return { low: value, high: Number.POSITIVE_INFINITY, inside: false }
    case '<=':
      return { low: least, high: value, inside: true }
    case '>':
      return { low: Number.NEGATIVE_INFINITY, high: value, inside: false }
    case '>=':
      return { low: value, high: most, inside: true }
  }
}

/** The integers that satisfy it once they are divided. */
export function integersOf({ comparison, value }: FilterPlan, divisor: number): Among {
  const first = atLeast(value, divisor)
  let above = first
  while (above <= MOST && above / divisor <= value) above++
  switch (comparison) {
    case '=':
      return { low: first, high: above - 1, inside: true }
    case '<>':
      return { low: first, high: above - 1, inside: false }
    case '<':
      return { low: LEAST, high: first - 1, inside: true }
    case '<=':
      return { low: LEAST, high: above - 1, inside: true }
    case '>':
      return { low: above, high: MOST, inside: true }
    case '>=':
      return { low: first, high: MOST, inside: true }
  }
}

/** The least 32-bit integer whose quotient is not below `value`, which grows with it; one more than the greatest when there is none. */
function atLeast(value: number, divisor: number): number {
  let first = Math.max(LEAST, Math.min(MOST + 1, Math.ceil(value * divisor)))
  while (first > LEAST && (first - 1) / divisor >= value) first--
  while (first <= MOST && first / divisor < value) first++
  return first
}
