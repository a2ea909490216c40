/** The numbers of groups, filled a run of values at a time. Loops over plain arrays: nothing is made in them. */
import { greatestInteger, type Integers, isIntegers, leastInteger, narrowSumOfIntegers, sumOfIntegers } from 'svcdb/lib/columns'
import type { IntList } from '../../memtable/int-list.ts'
import { RUN } from '../../memtable/runs.ts'
import { isDeviation } from './deviations.ts'
import type { LaneBounds, LaneValues } from './host.ts'
import type { AggregatePlan } from './plan.ts'
import { type BlockZones, endZone, firstZone, ZONE, type Zones } from './zones.ts'

/** Of 32-bit integers. */
const LEAST = -(2 ** 31)
const MOST = 2 ** 31 - 1

/** Of one aggregate, by cell (group * buckets + bucket). */
export interface Cells {
  kind: AggregatePlan['kind']
  field: string | undefined
  /** Of the rows' times instead of a field. */
  ofTimes: boolean
  /** Rows, values, or what the values come to; of an average their sum, of a deviation their mean. */
  values: Float64Array
  /** Values there were, of those that are null without any. */
  counts: Float64Array | undefined
  /** Of `first` and `last`, when their values are. */
  times?: Float64Array
  /** Of a variance or standard deviation (deviations.ts): of what values differ from their mean. */
  squares?: Float64Array
  /** Of a quantile (quantiles.ts). */
  fraction?: number
  /** Rows that it does not take count in the end, as zeros. */
  zeros?: true
}

export function cellsOf({ kind, field, type, fraction, zeros }: AggregatePlan, cells: number): Cells {
  const values = new Float64Array(cells)
  if (type === 'ones' && !zeros) return { kind, field, ofTimes: false, values, counts: values }
  if (kind === 'min') values.fill(Number.POSITIVE_INFINITY)
  if (kind === 'max') values.fill(Number.NEGATIVE_INFINITY)
  if (kind === 'first' || kind === 'last') {
    const times = new Float64Array(cells).fill(kind === 'first' ? Number.POSITIVE_INFINITY : Number.NEGATIVE_INFINITY)
    return { kind, field, ofTimes: false, values: values.fill(Number.NaN), counts: undefined, times }
  }
  if (isDeviation(kind)) return { kind, field, ofTimes: false, values, counts: new Float64Array(cells), squares: new Float64Array(cells) }
  if (fraction !== undefined) return { kind, field, ofTimes: false, values: values.fill(Number.NaN), counts: undefined, fraction }
  const counts = kind === 'sum' || kind === 'avg' ? new Float64Array(cells) : undefined
  return { kind, field, ofTimes: type === 'time', values, counts, ...(zeros && { zeros }) }
}

/** Whether every sum is a number: one that is not is DuckDB's to answer. */
export function areFinite({ values, counts, squares = values }: Cells): boolean {
  if (counts === undefined) return true
  for (let i = 0; i < values.length; i++) if (values[i] - values[i] !== 0 || squares[i] - squares[i] !== 0) return false
  return true
}

/** Adds the values of [from, to) to a cell; what is not finite is no value. */
function add({ kind, values: out, counts }: Cells, cell: number, values: Float64Array, from: number, to: number): void {
  switch (kind) {
    case 'rows':
      out[cell] += to - from
      return
    case 'count':
      out[cell] += finite(values, from, to)
      return
    case 'min': {
      const least = minimum(values, from, to, out[cell])
      out[cell] = least === Number.NEGATIVE_INFINITY ? finiteMinimum(values, from, to, out[cell]) : least
      return
    }
    case 'max': {
      const most = maximum(values, from, to, out[cell])
      out[cell] = most === Number.POSITIVE_INFINITY ? finiteMaximum(values, from, to, out[cell]) : most
      return
    }
    default: {
      const sum = sumOf(values, from, to)
      // One that is not finite shows in the sum.
      if (sum - sum === 0) {
        out[cell] += sum
        counts![cell] += to - from
      } else {
        out[cell] += finiteSum(values, from, to)
        counts![cell] += finite(values, from, to)
      }
    }
  }
}

/** Adds the values of runs (runs.ts) to their cells. @param bounds of the values, if they are known. */
export function addRuns(cells: Cells, runs: IntList, { values, divisor = 1 }: LaneValues, of: BlockZones, bounds: LaneBounds | undefined): void {
  if (isIntegers(values)) addIntegers(cells, runs, values, divisor, of.integers(values), bounds)
  else {
    const { values: list, length } = runs
    const zones = of.doubles(values)
    for (let r = 0; r < length; r += RUN) {
      const [from, to] = [list[r + 1], list[r + 2]]
      if (zones === undefined || to - from < 2 * ZONE) add(cells, list[r], values, from, to)
      else addZoned(cells, list[r], values, zones, from, to)
    }
  }
}

function addIntegers(
  { kind, values: out, counts }: Cells,
  runs: IntList,
  values: Integers,
  divisor: number,
  zones: Zones<Int32Array> | undefined,
  bounds: LaneBounds | undefined,
): void {
  const { values: list, length } = runs
  if (kind === 'rows' || kind === 'count') return countRows(runs, out)
  if (counts !== undefined) countRows(runs, counts)
  // So many values at most add up within 32 bits.
  const largest = bounds === undefined ? 2 ** (values.BYTES_PER_ELEMENT * 8 - 1) : Math.max(1, -bounds.min, bounds.max) * divisor
  const narrow = 2 ** 30 / largest
  for (let r = 0; r < length; r += RUN) {
    const [cell, from, to] = [list[r], list[r + 1], list[r + 2]]
    // The part of the run that zones tell of, by zone; none: it is all before them.
    const first = firstZone(from)
    const end = zones === undefined || endZone(to) <= first ? first : endZone(to)
    const before = end === first ? to : first * ZONE
    const after = end === first ? to : end * ZONE
    if (kind === 'min') {
      let found = leastInteger(values, after, to, leastInteger(values, from, before, MOST))
      if (end > first) found = leastInteger((zones as Zones<Int32Array>).min, first, end, found)
      out[cell] = Math.min(out[cell], found / divisor)
    } else if (kind === 'max') {
      let found = greatestInteger(values, after, to, greatestInteger(values, from, before, LEAST))
      if (end > first) found = greatestInteger((zones as Zones<Int32Array>).max, first, end, found)
      out[cell] = Math.max(out[cell], found / divisor)
    } else if (to - from <= narrow) {
      let sum = narrowSumOfIntegers(values, from, before)
      if (end > first) sum += narrowSumOfIntegers((zones as Zones<Int32Array>).sum, first, end) + narrowSumOfIntegers(values, after, to)
      out[cell] += sum / divisor
    } else out[cell] += sumOfIntegers(values, from, to) / divisor
  }
}

/** Of the first or the last values of runs, whose times ascend. */
export function addEnds(
  { kind, values: out, times: found }: Cells,
  { values: runs, length }: IntList,
  { values, divisor = 1 }: LaneValues,
  times: Float64Array,
): void {
  const known = found as Float64Array
  for (let r = 0; r < length; r += RUN) {
    const [cell, from, to] = [runs[r], runs[r + 1], runs[r + 2]]
    let at = kind === 'first' ? from : to - 1
    if (kind === 'first') {
      while (at < to && values[at] - values[at] !== 0) at++
      if (at === to || !(times[at] < known[cell])) continue
    } else {
      while (at >= from && values[at] - values[at] !== 0) at--
      if (at < from || !(times[at] > known[cell])) continue
    }
    known[cell] = times[at]
    // DuckDB's sort keys know one zero.
    out[cell] = values[at] / divisor + 0
  }
}

/** Adds the number of rows of each run. */
export function countRows({ values: runs, length }: IntList, out: Float64Array): void {
  for (let r = 0; r < length; r += RUN) out[runs[r]] += runs[r + 2] - runs[r + 1]
}

/** Of times, which ascend within a run. */
export function addTimes(cells: Cells, { values: runs, length }: IntList, times: Float64Array): void {
  for (let r = 0; r < length; r += RUN) {
    const at = cells.kind === 'min' ? runs[r + 1] : runs[r + 2] - 1
    add(cells, runs[r], times, at, at + 1)
  }
}

/** Adds the values of [from, to) to a cell with their zones. */
function addZoned(cells: Cells, cell: number, values: Float64Array, zones: Zones, from: number, to: number): void {
  const [first, end] = [firstZone(from), endZone(to)]
  if (first >= end || cells.kind === 'rows') {
    add(cells, cell, values, from, to)
    return
  }
  add(cells, cell, values, from, first * ZONE)
  for (let zone = first; zone < end; zone++) addZone(cells, cell, values, zones, zone)
  add(cells, cell, values, end * ZONE, to)
}

function addZone(cells: Cells, cell: number, values: Float64Array, zones: Zones, zone: number): void {
  const { kind, values: out, counts } = cells
  if (kind === 'min') {
    if (zones.min[zone] < out[cell]) out[cell] = zones.min[zone]
  } else if (kind === 'max') {
    if (zones.max[zone] > out[cell]) out[cell] = zones.max[zone]
  } else {
    const sum = zones.sum[zone]
    if (sum - sum !== 0) add(cells, cell, values, zone * ZONE, (zone + 1) * ZONE)
    else if (counts === undefined) out[cell] += ZONE
    else {
      out[cell] += sum
      counts[cell] += ZONE
    }
  }
}

function sumOf(values: Float64Array, from: number, to: number): number {
  let [a, b, c, d] = [0, 0, 0, 0]
  let i = from
  for (; i + 3 < to; i += 4) {
    a += values[i]
    b += values[i + 1]
    c += values[i + 2]
    d += values[i + 3]
  }
  for (; i < to; i++) a += values[i]
  return a + b + (c + d)
}

function finiteSum(values: Float64Array, from: number, to: number): number {
  let sum = 0
  for (let i = from; i < to; i++) if (values[i] - values[i] === 0) sum += values[i]
  return sum
}

function finite(values: Float64Array, from: number, to: number): number {
  let count = 0
  for (let i = from; i < to; i++) if (values[i] - values[i] === 0) count++
  return count
}

function minimum(values: Float64Array, from: number, to: number, least: number): number {
  for (let i = from; i < to; i++) if (values[i] < least) least = values[i]
  return least
}

function finiteMinimum(values: Float64Array, from: number, to: number, least: number): number {
  for (let i = from; i < to; i++) if (values[i] < least && values[i] !== Number.NEGATIVE_INFINITY) least = values[i]
  return least
}

function maximum(values: Float64Array, from: number, to: number, most: number): number {
  for (let i = from; i < to; i++) if (values[i] > most) most = values[i]
  return most
}

function finiteMaximum(values: Float64Array, from: number, to: number, most: number): number {
  for (let i = from; i < to; i++) if (values[i] > most && values[i] !== Number.POSITIVE_INFINITY) most = values[i]
  return most
}
