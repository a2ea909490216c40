/**
 * The runs of one series out of several blocks as one list in order of time, each millisecond once, the newest write winning. It costs what overlaps: what lies
 * between the beginning of one run and that of the next is passed over by searching, so that blocks which overlap by a few rows at their ends are not sorted.
 */
import { timeBound } from './mask-times.ts'
import { PackedBlock } from './packed-block.ts'

/** Rows of a run. Times do not descend. */
export interface TimedRows {
  times: Float64Array
  /** Nanoseconds beyond the millisecond. */
  rests?: Int32Array
  /** Some series of the block has several rows of a millisecond. */
  duplicates?: boolean
}

/** Called back in order of time. @param run as it was added. Rows [from, to) of its block. */
type MergedRows = (run: number, from: number, to: number) => void

const FIRST_RUNS = 16
/** In the place of a packed block. */
const NO_ROWS: TimedRows = { times: new Float64Array(0) }

/** Runs are added, then merged; then those of the next series are added. */
export class RunMerge {
  private readonly blocks: TimedRows[] = []
  private readonly packed: (PackedBlock | undefined)[] = []
  private count = 0
  /** Of each run: place of the series in its block, age, first row that is not passed, end; time of that row, and of the last. */
  private places = new Int32Array(FIRST_RUNS)
  private ages = new Int32Array(FIRST_RUNS)
  private rows = new Int32Array(FIRST_RUNS)
  private ends = new Int32Array(FIRST_RUNS)
  private times = new Float64Array(FIRST_RUNS)
  private lasts = new Float64Array(FIRST_RUNS)
  /** Runs with rows left, the earliest first, as a heap. */
  private heap = new Int32Array(FIRST_RUNS)
  private underWay = 0

  /** @param age of rows of one time those of the highest win. @param place of the series in a packed block. Rows [from, to): at least one. */
  add(block: TimedRows | PackedBlock, age: number, place: number, from: number, to: number): void {
    const run = this.count++
    if (run === this.rows.length) this.grow()
    const packed = block instanceof PackedBlock
    this.packed[run] = packed ? block : undefined
    this.blocks[run] = packed ? NO_ROWS : block
    this.places[run] = place
    this.ages[run] = age
    this.rows[run] = from
    this.ends[run] = to
    this.times[run] = this.timeOf(run, from)
    this.lasts[run] = this.timeOf(run, to - 1)
  }

  merge(found: MergedRows): void {
    for (let run = 0; run < this.count; run++) this.push(run)
    while (this.underWay > 0) {
      const run = this.heap[0]
      const time = this.times[run]
      const limit = this.second()
      if (limit > time) this.pass(run, limit, found)
      else this.newest(time, found)
    }
    this.count = 0
    // Blocks that are gone elsewhere are not held.
    this.blocks.length = 0
    this.packed.length = 0
  }

  /** The rows of the earliest run below a time that no other run is earlier than. */
  private pass(run: number, limit: number, found: MergedRows): void {
    const from = this.rows[run]
    const end = this.ends[run]
    const to = this.lasts[run] < limit ? end : this.endBelow(run, from, end, limit)
    if (this.blocks[run].duplicates === true) this.withoutRepeats(run, from, to, found)
    else found(run, from, to)
    this.advance(run, to)
  }

  /** Of rows with the same time, in several runs, the one that was written last. */
  private newest(time: number, found: MergedRows): void {
    let [winner, row, rest] = [-1, 0, 0]
    while (this.underWay > 0 && this.times[this.heap[0]] === time) {
      const run = this.heap[0]
      const last = this.lastOf(run, time)
      const own = this.blocks[run].rests?.[last] ?? 0
      if (winner < 0 || own > rest || (own === rest && this.isNewer(run, last, winner, row))) [winner, row, rest] = [run, last, own]
      this.advance(run, last + 1)
    }
    found(winner, row, row + 1)
  }

  private isNewer(run: number, row: number, other: number, otherRow: number): boolean {
    const { ages } = this
    return ages[run] > ages[other] || (ages[run] === ages[other] && row > otherRow)
  }

  /** The last row of a time that the run is at. */
  private lastOf(run: number, time: number): number {
    let row = this.rows[run]
    if (this.blocks[run].duplicates === true) while (row + 1 < this.ends[run] && this.timeOf(run, row + 1) === time) row++
    return row
  }

  private withoutRepeats(run: number, from: number, to: number, found: MergedRows): void {
    const { times } = this.blocks[run]
    let first = from
    for (let row = from + 1; row < to; row++) {
      if (times[row - 1] < times[row]) continue
      if (first < row - 1) found(run, first, row - 1)
      first = row
    }
    found(run, first, to)
  }

  /** Of the run that is first in the heap. */
  private advance(run: number, row: number): void {
    this.rows[run] = row
    if (row < this.ends[run]) this.times[run] = this.timeOf(run, row)
    else if (--this.underWay > 0) this.heap[0] = this.heap[this.underWay]
    else return
    this.sink()
  }

  /** The first row of (from, end) whose time is not below; `from` is below it. Mostly it is near. */
  private endBelow(run: number, from: number, end: number, limit: number): number {
    const packed = this.packed[run]
    if (packed !== undefined) return packed.timeBound(this.places[run], limit, from, end)
    const { times } = this.blocks[run]
    let low = from
    let step = 1
    while (low + step < end && times[low + step] < limit) {
      low += step
      step *= 2
    }
    return timeBound(times, limit, low + 1, Math.min(end, low + step))
  }

  private timeOf(run: number, row: number): number {
    const packed = this.packed[run]
    return packed === undefined ? this.blocks[run].times[row] : packed.time(this.places[run], row)
  }

  /** The earliest time but for that of the first of the heap. */
  private second(): number {
    const { heap, times, underWay } = this
    const left = underWay > 1 ? times[heap[1]] : Number.POSITIVE_INFINITY
    return underWay > 2 && times[heap[2]] < left ? times[heap[2]] : left
  }

  private push(run: number): void {
    const { heap, times } = this
    const time = times[run]
    let at = this.underWay++
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (times[heap[parent]] <= time) break
      heap[at] = heap[parent]
      at = parent
    }
    heap[at] = run
  }

  /** Puts the first of the heap where it belongs. */
  private sink(): void {
    const { heap, times, underWay } = this
    const run = heap[0]
    const time = times[run]
    let at = 0
    for (let child = 1; child < underWay; child = 2 * at + 1) {
      if (child + 1 < underWay && times[heap[child + 1]] < times[heap[child]]) child++
      if (times[heap[child]] >= time) break
      heap[at] = heap[child]
      at = child
    }
    heap[at] = run
  }

  private grow(): void {
    const length = this.rows.length * 2
    this.places = larger(this.places, new Int32Array(length))
    this.ages = larger(this.ages, new Int32Array(length))
    this.rows = larger(this.rows, new Int32Array(length))
    this.ends = larger(this.ends, new Int32Array(length))
    this.times = larger(this.times, new Float64Array(length))
    this.lasts = larger(this.lasts, new Float64Array(length))
    this.heap = new Int32Array(length)
  }
}

function larger<T extends Int32Array | Float64Array>(array: T, into: T): T {
  into.set(array)
  return into
}
