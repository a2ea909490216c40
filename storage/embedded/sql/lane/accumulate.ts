/** The numbers of groups, filled a run of values at a time. Loops over plain arrays: nothing is made in them. */
import type { AggregatePlan } from './plan.ts'
import { endZone, firstZone, ZONE, type Zones } from './zones.ts'

/** Of one aggregate, by cell (group * buckets + bucket). */
export interface Cells {
  kind: AggregatePlan['kind']
  field: string | undefined
  /** Of the rows' times instead of a field. */
  ofTimes: boolean
  /** Rows, values, or what the values come to; of an average their sum. */
  values: Float64Array
  /** Values there were, of those that are null without any. */
  counts: Float64Array | undefined
}

export function cellsOf({ kind, field, type }: AggregatePlan, cells: number): Cells {
  const values = new Float64Array(cells)
  if (kind === 'min') values.fill(Number.POSITIVE_INFINITY)
  if (kind === 'max') values.fill(Number.NEGATIVE_INFINITY)
  return { kind, field, ofTimes: type === 'time', values, counts: kind === 'sum' || kind === 'avg' ? new Float64Array(cells) : undefined }
}

/** Whether every sum is a number: one that is not is DuckDB's to answer. */
export function areFinite({ values, counts }: Cells): boolean {
  if (counts === undefined) return true
  for (let i = 0; i < values.length; i++) if (values[i] - values[i] !== 0) return false
  return true
}

/** Adds the values of [from, to) to a cell; what is not finite is no value. */
export function add({ kind, values: out, counts }: Cells, cell: number, values: Float64Array, from: number, to: number): void {
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

/** Of times, which ascend. */
export function addTimes(cells: Cells, cell: number, times: Float64Array, from: number, to: number): void {
  if (cells.kind === 'min') add(cells, cell, times, from, from + 1)
  else add(cells, cell, times, to - 1, to)
}

/** The same with the zones of the values. */
export function addZoned(cells: Cells, cell: number, values: Float64Array, zones: Zones, from: number, to: number): void {
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

/** The same for those values alone whose row is kept. @param base the row whose mark is the first. */
export function addKept(
  { kind, values: out, counts }: Cells,
  cell: number,
  values: Float64Array,
  kept: Uint8Array,
  from: number,
  to: number,
  base: number,
): void {
  for (let i = from; i < to; i++) {
    if (kept[i - base] === 0) continue
    if (kind === 'rows') {
      out[cell]++
      continue
    }
    const value = values[i]
    if (value - value !== 0) continue
    if (kind === 'count') out[cell]++
    else if (kind === 'min') {
      if (value < out[cell]) out[cell] = value
    } else if (kind === 'max') {
      if (value > out[cell]) out[cell] = value
    } else {
      out[cell] += value
      counts![cell]++
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
