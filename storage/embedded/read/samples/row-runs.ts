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
import { RunMerge } from './run-merge.ts'
import { lowerBound } from './search.ts'

/** With so many times more series on one side, they are looked up instead of passed over. */
const LOOKED_UP_SHARE = 8

/** A list with less room is made anew: memory that is used again comes in larger parts. */
const SCRATCH_NUMBERS = 1024

/** Numbers of a run whose rows do not simply follow those of other blocks: block, first row, row after the last. */
const MOVED = 3
const FIRST_RUNS = 16

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

  /** Leaves out rows of times that others have, too. Runs are not divided where those of other blocks lie between their rows. */
  private putInOrder(): void {
    const { moved, starts } = this.takeDisordered()
    const merge = new RunMerge()
    const { series, frames } = this
    let begun = new Int32Array(FIRST_RUNS)
    let ended = new Int32Array(FIRST_RUNS)
    for (let position = 0; position < series.length; position++) {
      const first = starts[position]
      const count = starts[position + 1] - first
      if (count === 0) continue
      for (let i = first; i < first + count; i++) {
        const block = moved[i * MOVED]
        const frame = frames[block]
        const place = frame.packed === undefined ? 0 : lowerBound(frame.series, series[position])
        merge.add(frame.packed ?? frame, block, place, moved[i * MOVED + 1], moved[i * MOVED + 2])
      }
      if (count > begun.length) {
        begun = new Int32Array(count * 2)
        ended = new Int32Array(count * 2)
      }
      begun.fill(-1, 0, count)
      const push = (run: number): void => pushRun(this.runs[moved[(first + run) * MOVED]], position, begun[run], ended[run])
      merge.merge((run, from, to) => {
        if (begun[run] >= 0 && ended[run] !== from) push(run)
        if (begun[run] < 0 || ended[run] !== from) begun[run] = from
        ended[run] = to
      })
      for (let run = 0; run < count; run++) if (begun[run] >= 0) push(run)
    }
  }

  /** Takes the runs of series that have to be put in order out of the lists. @returns them by series, of each block by block. */
  private takeDisordered(): { moved: Int32Array; starts: Int32Array } {
    const { runs, disordered, series } = this
    const starts = new Int32Array(series.length + 1)
    for (const { values, length } of runs) for (let i = 0; i < length; i += RUN) starts[values[i] + 1] += disordered[values[i]]
    for (let i = 0; i < series.length; i++) starts[i + 1] += starts[i]
    const next = starts.slice()
    const moved = new Int32Array(starts[series.length] * MOVED)
    for (const [block, list] of runs.entries()) {
      const { values, length } = list
      list.length = 0
      for (let i = 0; i < length; i += RUN) {
        const [position, from, to] = [values[i], values[i + 1], values[i + 2]]
        if (disordered[position] === 0) pushRun(list, position, from, to)
        else {
          const at = next[position]++ * MOVED
          moved[at] = block
          moved[at + 1] = from
          moved[at + 2] = to
        }
      }
    }
    return { moved, starts }
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
