/** The newest sample of each series, looked for from the newest source on; sources that cannot have a newer one are not read. */
import type { SampleRows } from 'svcdb/lib/columns'
import { eachCommon } from './gather.ts'
import { timeBound, visibleParts } from './mask-times.ts'
import type { Unit } from './sample-block.ts'
import type { ReadScope } from './segment-blocks.ts'
import { millisecondRange, type SampleUnits, type Source, type VisibleUnit } from './source-blocks.ts'

const NEVER = Number.NEGATIVE_INFINITY

export async function newestSamples(units: SampleUnits, sources: readonly Source[], series: Int32Array, scope: ReadScope): Promise<SampleRows> {
  const newest = new Newest(series, millisecondRange([...scope.range]))
  const order = [...sources].sort((a, b) => latest(b) - latest(a) || b.order - a.order)
  for (const source of order) {
    const rest = newest.unsettled(latest(source))
    if (rest.length === 0) break
    for (const unit of await units.read(source, rest, scope)) newest.look(unit, source.order)
  }
  return newest.rows()
}

/** Milliseconds; no sample of the source is later. */
function latest({ piece }: Source): number {
  return Math.ceil(Number(piece.maxTime) / 1e6)
}

class Newest {
  private readonly series: Int32Array
  private readonly lo: number
  private readonly hi: number
  private readonly times: Float64Array
  /** Nanoseconds beyond the millisecond. */
  private readonly rests: Int32Array
  /** Order of the source each sample is from, and its place there. */
  private readonly orders: Int32Array
  private readonly places: Int32Array
  private readonly units: Unit[] = []
  private readonly unitOf: Int32Array
  private readonly parts: number[] = []

  constructor(series: Int32Array, [lo, hi]: [number, number]) {
    this.series = series
    this.lo = lo
    this.hi = hi
    this.times = new Float64Array(series.length).fill(NEVER)
    this.rests = new Int32Array(series.length)
    this.orders = new Int32Array(series.length).fill(-1)
    this.places = new Int32Array(series.length)
    this.unitOf = new Int32Array(series.length)
  }

  /** Series for which a source with samples up to `time` may have a newer one. */
  unsettled(time: number): Int32Array {
    const { series, times } = this
    const out = new Int32Array(series.length)
    let n = 0
    for (let i = 0; i < series.length; i++) if (times[i] <= time) out[n++] = series[i]
    return n === series.length ? series : out.subarray(0, n)
  }

  look({ unit, hidden }: VisibleUnit, order: number): void {
    if (unit.maxTime < this.lo || unit.minTime > this.hi) return
    const { starts, times } = unit
    const number = this.units.length
    const bounded = unit.maxTime > this.hi
    let used = false
    eachCommon(this.series, unit.series, (i, at) => {
      const start = starts[at]
      let end = bounded ? timeBound(times, this.hi + 1, start, starts[at + 1]) : starts[at + 1]
      if (hidden.length > 0) {
        const n = visibleParts(hidden, unit.series[at], times, start, end, this.parts)
        if (n === 0) return
        end = this.parts[n * 2 - 1]
      }
      if (end === start) return
      const time = times[end - 1]
      const rest = unit.rests?.[end - 1] ?? 0
      if (time < this.lo || time < this.times[i]) return
      if (time === this.times[i] && (rest < this.rests[i] || (rest === this.rests[i] && order < this.orders[i]))) return
      this.times[i] = time
      this.rests[i] = rest
      this.orders[i] = order
      this.places[i] = end - 1
      this.unitOf[i] = number
      used = true
    })
    if (used) this.units.push(unit)
  }

  rows(): SampleRows {
    const { series, times, units, unitOf, places } = this
    const starts = new Int32Array(series.length + 1)
    for (let i = 0; i < series.length; i++) starts[i + 1] = starts[i] + (times[i] === NEVER ? 0 : 1)
    const total = starts[series.length]
    const rows: SampleRows = { first: 0, starts, times: new Float64Array(total), values: new Float64Array(total) }
    if (units.some(({ kinds }) => kinds !== undefined)) rows.kinds = new Uint8Array(total)
    if (units.some(({ blobs }) => blobs !== undefined)) rows.histograms = new Array(total)
    for (let i = 0, n = 0; i < series.length; i++) {
      if (times[i] === NEVER) continue
      const unit = units[unitOf[i]]
      const place = places[i]
      rows.times[n] = times[i]
      rows.values[n] = unit.values[place]
      if (unit.kinds !== undefined) (rows.kinds as Uint8Array)[n] = unit.kinds[place]
      if (unit.blobs !== undefined) (rows.histograms as (Uint8Array | undefined)[])[n] = unit.blobs[place]
      n++
    }
    return rows
  }
}
