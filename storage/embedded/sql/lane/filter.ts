/** Rows whose value satisfies a comparison; what is not finite is null, and satisfies none. */
import { type Integers, isIntegers } from 'svcdb/lib/columns'
import type { IntList } from '../../memtable/int-list.ts'
import { pushRun, RUN } from '../../memtable/runs.ts'
import type { LaneValues } from './host.ts'
import type { FilterPlan } from './plan.ts'
import { type BlockZones, ZONE, type Zones, zoneOf } from './zones.ts'

const LEAST = -(2 ** 31)
const MOST = 2 ** 31 - 1
/** Two numbers that are nearer to zero differ by less than 2^31. */
const NEAR = 2 ** 30

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
  if (isIntegers(values)) refineIntegers(list, length, values, integersOf(filter, divisor), out)
  else {
    const among = doublesOf(filter)
    for (let r = 0; r < length; r += RUN) refineDoubles(list[r], values, list[r + 1], list[r + 2], among, out)
  }
}

function refineIntegers(runs: Int32Array, length: number, values: Integers, { low, high, inside }: Among, out: IntList): void {
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
  if (isIntegers(values)) {
    const among = integersOf(filter, divisor)
    const zones = of.integers(values)
    for (let r = 0; r < length; r += RUN) add(into, list[r], countIntegers(values, zones, list[r + 1], list[r + 2], among))
  } else {
    const among = doublesOf(filter)
    const zones = of.doubles(values)
    for (let r = 0; r < length; r += RUN) add(into, list[r], countDoubles(values, zones, list[r + 1], list[r + 2], among))
  }
}

function add(into: readonly Float64Array[], cell: number, count: number): void {
  for (let i = 0; i < into.length; i++) into[i][cell] += count
}

/** Values of zones that their least and greatest settle are not looked at, of zones that the run has a part of neither. */
function countIntegers(values: Integers, zones: Zones<Int32Array> | undefined, from: number, to: number, among: Among): number {
  if (zones === undefined) return integersAmong(values, from, to, among)
  const { low, high, inside } = among
  const { min, max } = zones
  const last = Math.min(min.length, zoneOf(to - 1) + 1)
  let n = 0
  let at = from
  for (let zone = zoneOf(from); zone < last; zone++) {
    const end = Math.min(to, (zone + 1) * ZONE)
    if (max[zone] < low || min[zone] > high) n += inside ? 0 : end - at
    else if (min[zone] >= low && max[zone] <= high) n += inside ? end - at : 0
    else n += zoneIntegers(values, at, end, among)
    at = end
  }
  return at < to ? n + integersAmong(values, at, to, among) : n
}

/** As of integers. Bounds are those of the finite values: of a zone with others, these are counted one by one. */
function countDoubles(values: Float64Array, zones: Zones | undefined, from: number, to: number, among: Among): number {
  const { low, high, inside } = among
  if (zones === undefined || Number.isNaN(low)) return doublesAmong(values, from, to, among)
  const { min, max, sum } = zones
  const last = Math.min(min.length, zoneOf(to - 1) + 1)
  let n = 0
  let at = from
  for (let zone = zoneOf(from); zone < last; zone++) {
    const end = Math.min(to, (zone + 1) * ZONE)
    const outside = max[zone] < low || min[zone] > high
    const within = min[zone] >= low && max[zone] <= high
    if (!(inside ? outside : within)) {
      if (sum[zone] - sum[zone] !== 0) n += doublesAmong(values, at, end, among)
      else if (inside ? within : outside) n += end - at
      else if (min[zone] > -NEAR && max[zone] < NEAR) n += zoneDoubles(values, at, end, among, min[zone], max[zone])
      else n += doublesAmong(values, at, end, among)
    }
    at = end
  }
  return at < to ? n + doublesAmong(values, at, to, among) : n
}

/** Integers of a zone are so small that no difference leaves 32 bits (zones.ts): its sign says which is larger, without a branch that cannot be foreseen. */
function zoneIntegers(values: Integers, from: number, to: number, { low, high, inside }: Among): number {
  const below = Math.max(low, -NEAR) | 0
  const above = Math.min(high, NEAR) | 0
  const out =
    values instanceof Int8Array
      ? outside8(values, from, to, below, above)
      : values instanceof Int16Array
        ? outside16(values, from, to, below, above)
        : outside32(values, from, to, below, above)
  return inside ? to - from - out : out
}

function outside8(values: Int8Array, from: number, to: number, below: number, above: number): number {
  let out = 0
  for (let i = from; i < to; i++) out += ((values[i] - below) | (above - values[i])) >>> 31
  return out
}

function outside16(values: Int16Array, from: number, to: number, below: number, above: number): number {
  let out = 0
  for (let i = from; i < to; i++) out += ((values[i] - below) | (above - values[i])) >>> 31
  return out
}

function outside32(values: Int32Array, from: number, to: number, below: number, above: number): number {
  let out = 0
  for (let i = from; i < to; i++) out += ((values[i] - below) | (above - values[i])) >>> 31
  return out
}

/** The same of finite doubles that are nearer to zero than NEAR, as their bounds say: a difference that is negative is so by a whole one once it is rounded down. */
function zoneDoubles(values: Float64Array, from: number, to: number, { low, high, inside }: Among, least: number, most: number): number {
  let out = 0
  if (least < low) for (let i = from, bound = Math.min(low, NEAR); i < to; i++) out += (Math.floor(values[i] - bound) | 0) >>> 31
  if (most > high) for (let i = from, bound = Math.max(high, -NEAR); i < to; i++) out += (Math.floor(bound - values[i]) | 0) >>> 31
  return inside ? to - from - out : out
}

function integersAmong(values: Integers, from: number, to: number, { low, high, inside }: Among): number {
  let n = 0
  for (let i = from; i < to; i++) if (values[i] >= low && values[i] <= high) n++
  return inside ? n : to - from - n
}

function doublesAmong(values: Float64Array, from: number, to: number, { low, high, inside }: Among): number {
  let n = 0
  if (inside) for (let i = from; i < to; i++) if (values[i] >= low && values[i] <= high) n++
  if (!inside) for (let i = from; i < to; i++) if (!(values[i] >= low && values[i] <= high) && values[i] - values[i] === 0) n++
  return n
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
function integersOf({ comparison, value }: FilterPlan, divisor: number): Among {
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
