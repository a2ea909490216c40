/** Puts the samples of some series together from units: by series, in ascending time, each millisecond once, the newest write winning. */
import type { SampleRows } from '../../../../kernel/samples.ts'
import { IntList } from '../int-list.ts'
import { timeBound, visibleParts } from './hidden-times.ts'
import type { VisibleUnit } from './piece-units.ts'
import { lowerBound } from './segment-units.ts'
import type { Unit } from './unit.ts'

/** Copying fewer samples than this one by one is cheaper than by `set`. */
const FEW = 24
/** With so many times more series on one side, they are looked up instead of passed over. */
const SEEK_SHARE = 8

export class Gatherer {
  private readonly series: Int32Array
  private readonly first: number
  private readonly lo: number
  private readonly hi: number
  /** Runs found so far: place of the series, unit, from, to. */
  private readonly runs = new IntList(1024)
  private readonly units: Unit[] = []
  private readonly counts: Int32Array
  private readonly parts: number[] = []

  /** @param series ascending, those from place `first` of the request on. @param lo milliseconds, inclusive, as `hi`. */
  constructor(series: Int32Array, first: number, lo: number, hi: number) {
    this.series = series
    this.first = first
    this.lo = lo
    this.hi = hi
    this.counts = new Int32Array(series.length)
  }

  /** Units of older pieces first. */
  add({ unit, hidden }: VisibleUnit): void {
    if (unit.maxTime < this.lo || unit.minTime > this.hi) return
    const whole = unit.minTime >= this.lo && unit.maxTime <= this.hi
    const number = this.units.length
    const { starts, times } = unit
    let used = false
    eachCommon(this.series, unit.series, (place, at) => {
      const start = starts[at]
      const end = starts[at + 1]
      const from = whole ? start : timeBound(times, this.lo, start, end)
      const to = whole ? end : timeBound(times, this.hi + 1, from, end)
      if (from === to) return
      used = true
      if (hidden.length === 0) this.run(place, number, from, to)
      else {
        const n = visibleParts(hidden, unit.series[at], times, from, to, this.parts)
        for (let i = 0; i < n; i++) this.run(place, number, this.parts[i * 2], this.parts[i * 2 + 1])
      }
    })
    if (used) this.units.push(unit)
  }

  rows(): SampleRows {
    const n = this.series.length
    const starts = new Int32Array(n + 1)
    for (let i = 0; i < n; i++) starts[i + 1] = starts[i] + this.counts[i]
    const rows: SampleRows = { first: this.first, starts, times: new Float64Array(starts[n]), values: new Float64Array(starts[n]) }
    if (this.units.some(({ kinds }) => kinds !== undefined)) rows.kinds = new Uint8Array(starts[n])
    if (this.units.some(({ blobs }) => blobs !== undefined)) rows.histograms = new Array(starts[n])
    const rests = this.units.some(({ rests }) => rests !== undefined) ? new Int32Array(starts[n]) : undefined
    const next = starts.slice(0, n)
    const { values: runs, length } = this.runs
    for (let r = 0; r < length; r += 4) {
      const place = runs[r]
      const unit = this.units[runs[r + 1]]
      copy(unit, runs[r + 2], runs[r + 3], rows, next[place])
      if (unit.rests !== undefined) rests!.set(unit.rests.subarray(runs[r + 2], runs[r + 3]), next[place])
      next[place] += runs[r + 3] - runs[r + 2]
    }
    return isAscending(rows) ? rows : ascending(rows, rests)
  }

  private run(place: number, unit: number, from: number, to: number): void {
    const { runs } = this
    runs.push(place)
    runs.push(unit)
    runs.push(from)
    runs.push(to)
    this.counts[place] += to - from
  }
}

/** Calls back with the places of each number that both ascending lists have. */
export function eachCommon(a: Int32Array, b: Int32Array, found: (inA: number, inB: number) => void): void {
  if (a.length * SEEK_SHARE < b.length) {
    for (let i = 0, j = 0; i < a.length && j < b.length; i++) {
      j = lowerBound(b, a[i], j)
      if (j < b.length && b[j] === a[i]) found(i, j)
    }
  } else if (b.length * SEEK_SHARE < a.length) {
    for (let j = 0, i = 0; j < b.length && i < a.length; j++) {
      i = lowerBound(a, b[j], i)
      if (i < a.length && a[i] === b[j]) found(i, j)
    }
  } else {
    for (let i = 0, j = 0; i < a.length && j < b.length; ) {
      if (a[i] === b[j]) found(i++, j++)
      else if (a[i] < b[j]) i++
      else j++
    }
  }
}

function copy(unit: Unit, from: number, to: number, rows: SampleRows, at: number): void {
  if (to - from < FEW) {
    for (let i = from, j = at; i < to; i++, j++) {
      rows.times[j] = unit.times[i]
      rows.values[j] = unit.values[i]
    }
  } else {
    rows.times.set(unit.times.subarray(from, to), at)
    rows.values.set(unit.values.subarray(from, to), at)
  }
  if (unit.kinds !== undefined) (rows.kinds as Uint8Array).set(unit.kinds.subarray(from, to), at)
  if (unit.blobs !== undefined) for (let i = from, j = at; i < to; i++, j++) (rows.histograms as (Uint8Array | undefined)[])[j] = unit.blobs[i]
}

function isAscending({ starts, times }: SampleRows): boolean {
  for (let s = 0; s + 1 < starts.length; s++) for (let i = starts[s] + 1, end = starts[s + 1]; i < end; i++) if (!(times[i - 1] < times[i])) return false
  return true
}

/** The same with each series' samples in order, and of those of a millisecond the last one: of equal times the one written last. */
function ascending(rows: SampleRows, rests: Int32Array | undefined): SampleRows {
  const { starts, times } = rows
  const places = new Int32Array(times.length)
  const kept = new Int32Array(starts.length)
  let n = 0
  for (let s = 0; s + 1 < starts.length; s++) {
    const own = Int32Array.from({ length: starts[s + 1] - starts[s] }, (_, i) => starts[s] + i).sort(
      (a, b) => times[a] - times[b] || (rests === undefined ? 0 : rests[a] - rests[b]) || a - b,
    )
    for (let i = 0; i < own.length; i++) {
      if (i + 1 < own.length && times[own[i + 1]] === times[own[i]]) continue
      places[n++] = own[i]
    }
    kept[s + 1] = n
  }
  const order = places.subarray(0, n)
  return {
    first: rows.first,
    starts: kept,
    times: Float64Array.from(order, (place) => times[place]),
    values: Float64Array.from(order, (place) => rows.values[place]),
    ...(rows.kinds === undefined ? {} : { kinds: Uint8Array.from(order, (place) => (rows.kinds as Uint8Array)[place]) }),
    ...(rows.histograms === undefined ? {} : { histograms: Array.from(order, (place) => (rows.histograms as (Uint8Array | undefined)[])[place]) }),
  }
}
