/** The newest sample of each series, looked for from the newest source on; sources that cannot have a newer one are not read. */
import type { SampleRows } from 'svcdb/lib/columns'
import { eachCommon } from './gather.ts'
import { timeBound, unmaskedRuns } from './mask-times.ts'
import { millisecondRange } from './millisecond-range.ts'
import { type SampleBlock, valueAt } from './sample-block.ts'
import type { ReadScope } from './segment-blocks.ts'
import type { BlockSource, MaskedBlock, SampleBlocks } from './source-blocks.ts'

const NEVER = Number.NEGATIVE_INFINITY

export async function newestSamples(sampleBlocks: SampleBlocks, sources: readonly BlockSource[], series: Int32Array, scope: ReadScope): Promise<SampleRows> {
  const newest = new Newest(series, millisecondRange([...scope.range]))
  const order = [...sources].sort((a, b) => latest(b) - latest(a) || b.order - a.order)
  for (const blockSource of order) {
    const rest = newest.unsettled(latest(blockSource))
    if (rest.length === 0) break
    for (const block of await sampleBlocks.read(blockSource, rest, scope)) newest.look(block, blockSource.order)
  }
  return newest.rows()
}

/** Milliseconds; no sample of the source is later. */
function latest({ source }: BlockSource): number {
  return Math.ceil(Number(source.maxTime) / 1e6)
}

/** The newest sample of each series among blocks, which may come in any order. */
export class Newest {
  private readonly series: Int32Array
  private readonly lo: number
  private readonly hi: number
  private readonly times: Float64Array
  /** Nanoseconds beyond the millisecond. */
  private readonly rests: Int32Array
  /** Order of the source each sample is from, and its position there. */
  private readonly orders: Int32Array
  private readonly positions: Int32Array
  private readonly blocks: SampleBlock[] = []
  private readonly blockOf: Int32Array
  private readonly parts: number[] = []

  constructor(series: Int32Array, [lo, hi]: [number, number]) {
    this.series = series
    this.lo = lo
    this.hi = hi
    this.times = new Float64Array(series.length).fill(NEVER)
    this.rests = new Int32Array(series.length)
    this.orders = new Int32Array(series.length).fill(-1)
    this.positions = new Int32Array(series.length)
    this.blockOf = new Int32Array(series.length)
  }

  /** Series for which a source with samples up to `time` may have a newer one. */
  unsettled(time: number): Int32Array {
    const { series, times } = this
    const out = new Int32Array(series.length)
    let n = 0
    for (let i = 0; i < series.length; i++) if (times[i] <= time) out[n++] = series[i]
    return n === series.length ? series : out.subarray(0, n)
  }

  look({ block, masks }: MaskedBlock, order: number): void {
    if (block.maxTime < this.lo || block.minTime > this.hi) return
    const { starts, times } = block
    const number = this.blocks.length
    const bounded = block.maxTime > this.hi
    let used = false
    eachCommon(this.series, block.series, (i, at) => {
      const start = starts[at]
      let end = bounded ? timeBound(times, this.hi + 1, start, starts[at + 1]) : starts[at + 1]
      if (masks.length > 0) {
        const n = unmaskedRuns(masks, block.series[at], block, start, end, this.parts)
        if (n === 0) return
        end = this.parts[n * 2 - 1]
      }
      if (end === start) return
      const time = times[end - 1]
      const rest = block.rests?.[end - 1] ?? 0
      if (time < this.lo || time < this.times[i]) return
      if (time === this.times[i] && (rest < this.rests[i] || (rest === this.rests[i] && order < this.orders[i]))) return
      this.times[i] = time
      this.rests[i] = rest
      this.orders[i] = order
      this.positions[i] = end - 1
      this.blockOf[i] = number
      used = true
    })
    if (used) this.blocks.push(block)
  }

  /** Calls back with each series that has one: its milliseconds, nanoseconds beyond them, and the value. Blocks have to be of doubles, whose bits the value has. */
  each(visit: (series: number, time: number, rest: number, value: Float64Array) => void): void {
    const { series, times, rests, blocks, blockOf, positions } = this
    for (let i = 0; i < series.length; i++) {
      if (times[i] === NEVER) continue
      const { values, divisor } = blocks[blockOf[i]]
      // By a view: a number in between might change a NaN.
      const value = values instanceof Float64Array ? values.subarray(positions[i], positions[i] + 1) : Float64Array.of(values[positions[i]] / (divisor ?? 1))
      visit(series[i], times[i], rests[i], value)
    }
  }

  rows(): SampleRows {
    const { series, times, blocks, blockOf, positions } = this
    const starts = new Int32Array(series.length + 1)
    for (let i = 0; i < series.length; i++) starts[i + 1] = starts[i] + (times[i] === NEVER ? 0 : 1)
    const total = starts[series.length]
    const rows: SampleRows = { first: 0, starts, times: new Float64Array(total), values: new Float64Array(total) }
    if (blocks.some(({ kinds }) => kinds !== undefined)) rows.kinds = new Uint8Array(total)
    if (blocks.some(({ blobs }) => blobs !== undefined)) rows.histograms = new Array(total)
    for (let i = 0, n = 0; i < series.length; i++) {
      if (times[i] === NEVER) continue
      const block = blocks[blockOf[i]]
      const position = positions[i]
      rows.times[n] = times[i]
      rows.values[n] = valueAt(block, position)
      if (block.kinds !== undefined) (rows.kinds as Uint8Array)[n] = block.kinds[position]
      if (block.blobs !== undefined) (rows.histograms as (Uint8Array | undefined)[])[n] = block.blobs[position]
      n++
    }
    return rows
  }
}
