/**
 * Which rows of some blocks are those of a measurement: each series and millisecond once, the newest write winning, without what is masked. It takes the times of
 * rows alone, so that values need not be in memory together, and none are read of a block without a row.
 */
import { IntList, type IntSource } from '../../memtable/int-list.ts'
import { pushRun, RUN } from '../../memtable/runs.ts'
import { eachCommon } from './gather.ts'
import { timeBound, unmaskedRuns } from './mask-times.ts'
import type { Frame } from './page-block.ts'
import type { MaskedFrame } from './row-block.ts'
import { lowerBound } from './search.ts'

/** With so many times more series on one side, they are looked up instead of passed over. */
const LOOKED_UP_SHARE = 8

/** A list with less room is made anew: memory that is used again comes in larger parts. */
const SCRATCH_NUMBERS = 1024

/** A run of a series whose rows do not simply follow those of other blocks. */
interface Overlap {
  position: number
  block: number
  /** Place of the series in the block. */
  at: number
  from: number
  to: number
  begin: number
  end: number
  ascends: boolean
}

/** Blocks are added first, those of older sources before; then their runs are asked for. */
export class RowRuns {
  private readonly series: Int32Array
  private readonly first: number
  private readonly lo: number
  private readonly hi: number
  private readonly frames: Frame[] = []
  private readonly runs: IntList[] = []
  /** Of each series the newest time so far, and whether its rows have to be put in order. */
  private readonly newest: Float64Array
  private readonly disordered: Uint8Array
  private anyDisordered = false
  private readonly parts: number[] = []
  private readonly scratch: IntSource | undefined

  /** @param series ascending, those from position `first` of the request on. @param lo milliseconds, inclusive, as `hi`. @param scratch for runs, which are void once it is released. */
  constructor(series: Int32Array, first: number, lo: number, hi: number, scratch?: IntSource) {
    this.scratch = scratch
    this.series = series
    this.first = first
    this.lo = lo
    this.hi = hi
    this.newest = new Float64Array(series.length).fill(Number.NEGATIVE_INFINITY)
    this.disordered = new Uint8Array(series.length)
  }

  /** @returns whether it has rows, masked ones aside. */
  add({ frame, masks }: MaskedFrame): boolean {
    const { lo, hi, parts, frames } = this
    const { starts, series, minTime, maxTime } = frame
    const room = maxTime < lo || minTime > hi ? 0 : RUN * Math.min(series.length, this.series.length)
    const runs = new IntList(room, room < SCRATCH_NUMBERS ? undefined : this.scratch)
    frames.push(frame)
    this.runs.push(runs)
    if (maxTime < lo || minTime > hi) return false
    const whole = minTime >= lo && maxTime <= hi
    if (whole && masks.length === 0 && frame.packed === undefined && isAsLong(series, this.series)) {
      this.addWhole(frame, runs)
      return runs.length > 0
    }
    eachCommon(this.series, series, (position, at) => {
      const start = starts[at]
      const end = starts[at + 1]
      const from = whole ? start : boundIn(frame, at, lo, start, end)
      const to = whole ? end : boundIn(frame, at, hi + 1, from, end)
      if (from === to) return
      if (masks.length === 0) this.run(runs, frame, at, position, from, to)
      else {
        const n = unmaskedRuns(masks, series[at], frame.packed ?? frame, from, to, parts, at)
        for (let i = 0; i < n; i++) this.run(runs, frame, at, position, parts[i * 2], parts[i * 2 + 1])
      }
    })
    return runs.length > 0
  }

  /** All rows of the series that are wanted: the way of statements over most series, without a call a series, and by edges that lie one after the other. */
  private addWhole(frame: Frame, runs: IntList): void {
    const { series: wanted, newest } = this
    const { series, starts } = frame
    const { firsts, lasts } = edgesOf(frame)
    const list = runs.values
    let n = 0
    for (let i = 0, at = 0; i < wanted.length && at < series.length; ) {
      if (wanted[i] < series[at]) i++
      else if (wanted[i] > series[at]) at++
      else {
        const from = starts[at]
        const to = starts[at + 1]
        if (from < to) {
          if (!(newest[i] < firsts[at]) || !ascends(frame, from, to)) {
            this.disordered[i] = 1
            this.anyDisordered = true
          }
          if (newest[i] < lasts[at]) newest[i] = lasts[at]
          list[n++] = i
          list[n++] = from
          list[n++] = to
        }
        i++
        at++
      }
    }
    runs.length = n
  }

  /** Of each block in the order they were added: `RUN` numbers a run. Positions are those of the request. Times ascend within a run. */
  finish(): Int32Array[] {
    if (this.anyDisordered) this.putInOrder()
    const { first } = this
    const out = this.runs.map((runs) => runs.view())
    if (first > 0) for (const runs of out) for (let i = 0; i < runs.length; i += RUN) runs[i] += first
    return out
  }

  private run(runs: IntList, frame: Frame, at: number, position: number, from: number, to: number): void {
    const { newest } = this
    if (!(newest[position] < timeIn(frame, at, from)) || !ascends(frame, from, to)) {
      this.disordered[position] = 1
      this.anyDisordered = true
    }
    const last = timeIn(frame, at, to - 1)
    if (newest[position] < last) newest[position] = last
    pushRun(runs, position, from, to)
  }

  private putInOrder(): void {
    const found: Overlap[][] = []
    for (const [block, runs] of this.runs.entries()) {
      const frame = this.frames[block]
      const { values, length } = runs
      runs.length = 0
      for (let i = 0; i < length; i += RUN) {
        const [position, from, to] = [values[i], values[i + 1], values[i + 2]]
        if (this.disordered[position] === 0) pushRun(runs, position, from, to)
        else {
          const at = lowerBound(frame.series, this.series[position])
          const [begin, end] = [timeIn(frame, at, from), timeIn(frame, at, to - 1)]
          ;(found[position] ??= []).push({ position, block, at, from, to, begin, end, ascends: ascends(frame, from, to) })
        }
      }
    }
    found.forEach((overlaps) => {
      this.orderOne(overlaps)
    })
  }

  /** @param found the runs of one series, block by block. */
  private orderOne(found: Overlap[]): void {
    let sorted = true
    for (let i = 1; i < found.length && sorted; i++) sorted = found[i - 1].begin <= found[i].begin
    if (!sorted) found.sort((a, b) => a.begin - b.begin || a.block - b.block)
    for (let i = 0; i < found.length; ) {
      let { end } = found[i]
      let to = i + 1
      for (; to < found.length && found[to].begin <= end; to++) if (found[to].end > end) end = found[to].end
      if (to === i + 1 && found[i].ascends) pushRun(this.runs[found[i].block], found[i].position, found[i].from, found[i].to)
      else if (inPairs(found, i, to)) this.mergePairs(found, i, to)
      else this.merge(found.slice(i, to))
      i = to
    }
  }

  /**
   * As `merge`, of runs that overlap with the ones beside them only: just the rows that lose are left out. Batches that came over several connections overlap so,
   * by a few rows of each series at the ends of chunks.
   */
  private mergePairs(found: Overlap[], first: number, end: number): void {
    for (let k = first; k < end; k++) {
      if (k + 1 < end) this.leaveOut(found[k], found[k + 1])
      this.push(found[k], found[k].to)
    }
  }

  /** Pushes what lies before rows of a time that both have, of the older one, which begins behind them then. @param b begins within `a`. */
  private leaveOut(a: Overlap, b: Overlap): void {
    const [frameA, frameB] = [this.frames[a.block], this.frames[b.block]]
    const laterA = a.block > b.block || (a.block === b.block && a.from > b.from)
    let i = boundIn(frameA, a.at, b.begin, a.from, a.to)
    let j = b.from
    while (i < a.to && j < b.to) {
      const [timeA, timeB] = [timeIn(frameA, a.at, i), timeIn(frameB, b.at, j)]
      if (timeA < timeB) i++
      else if (timeA > timeB) j++
      else {
        if (laterA) this.push(b, j)
        else this.push(a, i)
        i++
        j++
      }
    }
  }

  /** The rows up to `to`, which is left out. */
  private push(overlap: Overlap, to: number): void {
    const { position, block, from } = overlap
    if (from < to) pushRun(this.runs[block], position, from, to)
    overlap.from = to + 1
  }

  /** Of rows of a millisecond those of the newest block win, and in a block the last. */
  private merge(overlaps: readonly Overlap[]): void {
    const rows = overlaps.reduce((sum, { from, to }) => sum + to - from, 0)
    const times = new Float64Array(rows)
    const blocks = new Int32Array(rows)
    const at = new Int32Array(rows)
    let n = 0
    for (const { block, at: place, from, to } of overlaps) {
      for (let row = from; row < to; row++, n++) {
        times[n] = timeIn(this.frames[block], place, row)
        blocks[n] = block
        at[n] = row
      }
    }
    const order = new Uint32Array(rows)
    for (let i = 0; i < rows; i++) order[i] = i
    order.sort((a, b) => times[a] - times[b] || blocks[a] - blocks[b] || at[a] - at[b])
    const [{ position }] = overlaps
    let [block, from, to] = [-1, 0, 0]
    for (let i = 0; i < rows; i++) {
      const row = order[i]
      if (i + 1 < rows && times[order[i + 1]] === times[row]) continue
      if (blocks[row] === block && at[row] === to) {
        to++
        continue
      }
      if (block >= 0) pushRun(this.runs[block], position, from, to)
      ;[block, from, to] = [blocks[row], at[row], at[row] + 1]
    }
    pushRun(this.runs[block], position, from, to)
  }
}

/** Neither is so much longer that its numbers are better looked up. */
function isAsLong(a: Int32Array, b: Int32Array): boolean {
  return a.length <= b.length * LOOKED_UP_SHARE && b.length <= a.length * LOOKED_UP_SHARE
}

/** Times of the first and the last row of each series. */
interface Edges {
  firsts: Float64Array
  lasts: Float64Array
}

/** By the starts of a frame, which are made for its times: a shared table's parts have starts of their own, and are looked at anew. */
const edges = new WeakMap<Int32Array, Edges>()

function edgesOf({ series, starts, times, measurements }: Frame): Edges {
  const known = edges.get(starts)
  if (known !== undefined) return known
  const own: Edges = { firsts: new Float64Array(series.length), lasts: new Float64Array(series.length) }
  for (let at = 0; at < series.length; at++) {
    if (starts[at] === starts[at + 1]) continue
    own.firsts[at] = times[starts[at]]
    own.lasts[at] = times[starts[at + 1] - 1]
  }
  if (measurements === undefined) edges.set(starts, own)
  return own
}

/** Whether no three of them, by their begins, have a time in common, and all ascend. */
function inPairs(found: readonly Overlap[], first: number, end: number): boolean {
  for (let k = first; k < end; k++) if (!found[k].ascends || (k + 2 < end && found[k + 2].begin <= found[k].end)) return false
  return true
}

/** Whether times of a series ascend; packed ones do. */
function ascends(frame: Frame, from: number, to: number): boolean {
  if (frame.duplicates !== true) return true
  const { times } = frame
  for (let i = from + 1; i < to; i++) if (!(times[i - 1] < times[i])) return false
  return true
}

/** @param at the place of the series, as in `boundIn`. */
function timeIn(frame: Frame, at: number, position: number): number {
  return frame.packed === undefined ? frame.times[position] : frame.packed.time(at, position)
}

/** The first position of [from, to) of a series whose time is not below `ms`. */
function boundIn(frame: Frame, at: number, ms: number, from: number, to: number): number {
  return frame.packed === undefined ? timeBound(frame.times, ms, from, to) : frame.packed.timeBound(at, ms, from, to)
}
