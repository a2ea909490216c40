/** Puts the samples of some series together from blocks: by series, in ascending time, each millisecond once, the newest write winning. */
import type { Integers, SampleRows, StoredRows, StoredSamples } from 'svcdb/lib/columns'
import { IntList } from '../../memtable/int-list.ts'
import type { BlockBuffer } from './block-buffers.ts'
import { timeBound, unmaskedRuns } from './mask-times.ts'
import { PackedBlock } from './packed-block.ts'
import { RunMerge } from './run-merge.ts'
import type { SampleBlock } from './sample-block.ts'
import type { Scratch } from './scratch.ts'
import { lowerBound } from './search.ts'
import type { AnyBlock } from './segment-blocks.ts'
import type { MaskedBlock } from './source-blocks.ts'
import { PickedSamples } from './window-edges.ts'

/** Copying fewer samples than this one by one is cheaper than by `set`. */
const FEW = 192
/** With so many times more series on one side, they are looked up instead of passed over. */
const SEEK_SHARE = 8
/** Runs that there is room for at first, at most. */
const FIRST_RUNS = 256
/** What is found of fewer series is in new arrays: memory that is used again comes in larger parts. */
const SCRATCH_SERIES = 1024
const NEW_ARRAYS: Pick<Scratch, 'ints' | 'doubles'> = { ints: (length) => new Int32Array(length), doubles: (length) => new Float64Array(length) }
/** Numbers that a run takes. */
const RUN = 5
/** And one of StoredRows. */
const STORED_RUN = 3
/** With fewer samples a run than this, a series' samples are put together. */
const SHORT_RUN = 8

interface RunOrder {
  order: Int32Array
  runStarts: Int32Array
}

/** Sample blocks are added first, then rows are asked for. */
export class Gatherer {
  private readonly series: Int32Array
  private readonly first: number
  private readonly lo: number
  private readonly hi: number
  /** Runs found so far: position of the series, block, from, to, place of the series in the block. */
  private readonly runs: IntList
  private readonly blocks: AnyBlock[] = []
  private readonly counts: Int32Array
  private readonly parts: number[] = []
  private ordered: RunOrder | undefined
  private picked: PickedSamples | undefined
  private readonly scratch: Pick<Scratch, 'ints' | 'doubles'>

  /**
   * @param series ascending, those from position `first` of the request on. @param lo milliseconds, inclusive, as `hi`. @param scratch for what is found: the gatherer is void
   * once it is released. @param picked memory for `pickedRows`.
   */
  constructor(series: Int32Array, first: number, lo: number, hi: number, scratch: Scratch, picked?: PickedSamples) {
    this.series = series
    this.first = first
    this.lo = lo
    this.hi = hi
    this.scratch = series.length < SCRATCH_SERIES ? NEW_ARRAYS : scratch
    this.counts = this.scratch.ints(series.length).subarray(0, series.length).fill(0)
    this.picked = picked
    this.runs = new IntList(Math.min(FIRST_RUNS, series.length * 2) * RUN, this.scratch)
  }

  /** Sample blocks of older sources first. */
  add({ block, masks }: MaskedBlock<AnyBlock>): void {
    if (block.maxTime < this.lo || block.minTime > this.hi) return
    const whole = block.minTime >= this.lo && block.maxTime <= this.hi
    const number = this.blocks.length
    const { starts } = block
    let used = false
    eachCommon(this.series, block.series, (position, at) => {
      const start = starts[at]
      const end = starts[at + 1]
      const from = whole ? start : boundIn(block, at, this.lo, start, end)
      const to = whole ? end : boundIn(block, at, this.hi + 1, from, end)
      if (from === to) return
      used = true
      if (masks.length === 0) this.run(position, number, from, to, at)
      else {
        const n = unmaskedRuns(masks, block.series[at], block, from, to, this.parts, at)
        for (let i = 0; i < n; i++) this.run(position, number, this.parts[i * 2], this.parts[i * 2 + 1], at)
      }
    })
    if (used) this.blocks.push(block)
  }

  /** Samples of a series of the request, at most: some may be of one time. */
  samples(from: number, to: number): number {
    let sum = 0
    for (let i = from; i < to; i++) sum += this.counts[i]
    return sum
  }

  /** The end of as many series from `from` on as have no more samples together, at least one. */
  blockEnd(from: number, max: number): number {
    let to = from + 1
    for (let sum = this.counts[from]; to < this.series.length && sum + this.counts[to] <= max; to++) sum += this.counts[to]
    return to
  }

  /** The samples of series [first, end). @param buffer room for them; the result may lie in it. */
  rows(first: number, end: number, buffer: BlockBuffer): SampleRows {
    const n = end - first
    const { order, runStarts } = this.inOrder()
    const { counts, blocks } = this
    const { values: runs } = this.runs
    const starts = new Int32Array(n + 1)
    for (let i = 0; i < n; i++) starts[i + 1] = starts[i] + counts[first + i]
    const total = starts[n]
    const rows: SampleRows = { first: this.first + first, starts, times: buffer.times.subarray(0, total), values: buffer.values.subarray(0, total) }
    if (blocks.some((block) => !isPacked(block) && block.kinds !== undefined)) rows.kinds = new Uint8Array(total)
    if (blocks.some((block) => !isPacked(block) && block.blobs !== undefined)) rows.histograms = new Array(total)
    for (let position = 0; position < n; position++) {
      let at = starts[position]
      for (let r = runStarts[first + position]; r < runStarts[first + position + 1]; r++) {
        const run = order[r] * RUN
        const block = blocks[runs[run + 1]]
        const from = runs[run + 2]
        const to = runs[run + 3]
        if (isPacked(block)) block.unpack(runs[run + 4], from, to, rows.times, rows.values, at)
        else copy(block, from, to, rows, at)
        at += to - from
      }
    }
    return rows
  }

  /**
   * As `rows`, with samples left out that lie between the ends of windows (window-edges.ts), as far as blocks are packed. Undefined where not all are numbers.
   * The arrays are those of `picked`.
   */
  pickedRows(first: number, end: number, edges: Float64Array): SampleRows | undefined {
    const { blocks } = this
    if (blocks.some((block) => !isPacked(block) && (block.kinds !== undefined || block.blobs !== undefined))) return undefined
    const starts = new Int32Array(end - first + 1)
    this.picked ??= new PickedSamples()
    const { picked } = this
    picked.length = 0
    const { order, runStarts } = this.inOrder()
    const { values: runs } = this.runs
    for (let position = first; position < end; position++) {
      let ordinal = 0
      for (let r = runStarts[position]; r < runStarts[position + 1]; r++) {
        const run = order[r] * RUN
        const block = blocks[runs[run + 1]]
        const [from, to] = [runs[run + 2], runs[run + 3]]
        if (isPacked(block)) picked.pick(block, runs[run + 4], from, to, edges, ordinal)
        else {
          picked.reserve(to - from)
          copy(block, from, to, picked, picked.length)
          picked.count(to - from, ordinal)
        }
        ordinal += to - from
      }
      starts[position - first + 1] = picked.length
    }
    const { length, times, values, ordinals } = picked
    return {
      first: this.first + first,
      starts,
      times: times.subarray(0, length),
      values: values.subarray(0, length),
      ordinals: ordinals.subarray(0, length),
    }
  }

  /** Whether `storedRows` can say where samples are: blocks are not packed, and all samples are floats. */
  get areStored(): boolean {
    return this.blocks.every((block) => !isPacked(block) && block.kinds === undefined && block.blobs === undefined)
  }

  /** The samples of series [first, end) where they are in their blocks; those of series with many short runs are put together. Void when the blocks are. */
  storedRows(first: number, end: number): StoredRows {
    const stored = [...this.blocks] as StoredSamples[]
    const starts = new Int32Array(end - first + 1)
    const { order, runStarts } = this.inOrder()
    const { values: own } = this.runs
    const runs = new IntList((runStarts[end] - runStarts[first]) * STORED_RUN)
    const together = this.togetherOf(first, end)
    let at = 0
    for (let position = first; position < end; position++) {
      if (this.isScattered(position)) {
        runs.push(this.blocks.length)
        runs.push(at)
        for (let r = runStarts[position]; r < runStarts[position + 1]; r++) {
          const run = order[r] * RUN
          copy(this.blocks[own[run + 1]] as SampleBlock, own[run + 2], own[run + 3], together, at)
          at += own[run + 3] - own[run + 2]
        }
        runs.push(at)
      } else {
        for (let r = runStarts[position]; r < runStarts[position + 1]; r++) for (let k = 1; k <= STORED_RUN; k++) runs.push(own[order[r] * RUN + k])
      }
      starts[position - first + 1] = runs.length / STORED_RUN
    }
    if (at > 0) stored.push(together)
    return { first: this.first + first, starts, runs: runs.view(), stored }
  }

  /** Room for the samples of the series that are put together. */
  private togetherOf(first: number, end: number): BlockBuffer {
    let samples = 0
    for (let position = first; position < end; position++) if (this.isScattered(position)) samples += this.counts[position]
    return { times: new Float64Array(samples), values: new Float64Array(samples) }
  }

  /** Whether a series has so many short runs that going from one to the next costs more than copying them. */
  private isScattered(position: number): boolean {
    const { runStarts } = this.inOrder()
    const runs = runStarts[position + 1] - runStarts[position]
    return runs > 1 && this.counts[position] < runs * SHORT_RUN
  }

  /** The runs of each series in order of time, no time twice; counts are exact from then on. */
  private inOrder(): RunOrder {
    this.ordered ??= this.withoutOverlaps(this.bySeries())
    return this.ordered
  }

  /** The same where no runs of a series overlap; else with new runs in the place of those that do. */
  private withoutOverlaps(found: RunOrder): RunOrder {
    const { order, runStarts } = found
    const { length } = this.series
    let position = 0
    while (position < length && !this.overlaps(found, position)) position++
    if (position === length) return found
    const merge = new RunMerge()
    const ordered = new IntList(order.length, this.scratch)
    const starts = this.scratch.ints(length + 1)
    starts.set(runStarts.subarray(0, position + 1))
    for (let r = 0; r < runStarts[position]; r++) ordered.push(order[r])
    for (; position < length; position++) {
      if (this.overlaps(found, position)) this.mergeRuns(found, position, merge, ordered)
      else for (let r = runStarts[position]; r < runStarts[position + 1]; r++) ordered.push(order[r])
      starts[position + 1] = ordered.length
    }
    return { order: ordered.values, runStarts: starts }
  }

  /** Adds runs of a series that have each time once, and their numbers to `ordered`. */
  private mergeRuns({ order, runStarts }: RunOrder, position: number, merge: RunMerge, ordered: IntList): void {
    const { runs, blocks, counts } = this
    const first = runStarts[position]
    for (let r = first; r < runStarts[position + 1]; r++) {
      const run = order[r] * RUN
      const [block, from, to, place] = runs.values.subarray(run + 1, run + RUN)
      merge.add(blocks[block], block, place, from, to)
    }
    counts[position] = 0
    let before = -1
    merge.merge((merged, from, to) => {
      const end = runs.length - 2
      if (merged === before && runs.values[end] === from) {
        runs.values[end] = to
        counts[position] += to - from
        return
      }
      before = merged
      const run = order[first + merged] * RUN
      ordered.push(runs.length / RUN)
      this.run(position, runs.values[run + 1], from, to, runs.values[run + 4])
    })
  }

  /** Whether runs of a series have times in common, or a run has one twice. */
  private overlaps({ order, runStarts }: RunOrder, position: number): boolean {
    const { values: runs } = this.runs
    let last = Number.NEGATIVE_INFINITY
    for (let r = runStarts[position]; r < runStarts[position + 1]; r++) {
      const run = order[r] * RUN
      const block = this.blocks[runs[run + 1]]
      const [from, to, place] = [runs[run + 2], runs[run + 3], runs[run + 4]]
      if (!(last < timeIn(block, place, from)) || (!isPacked(block) && block.duplicates === true && !ascending(block.times, from, to))) return true
      last = timeIn(block, place, to - 1)
    }
    return false
  }

  /** Numbers of the runs by series, those of a series in ascending time of their first sample, older sources first where that is the same. */
  private bySeries(): RunOrder {
    const { values: runs, length } = this.runs
    const { scratch } = this
    const count = this.series.length + 1
    const runStarts = scratch.ints(count).subarray(0, count).fill(0)
    for (let r = 0; r < length; r += RUN) runStarts[runs[r] + 1]++
    for (let i = 1; i < runStarts.length; i++) runStarts[i] += runStarts[i - 1]
    const next = scratch.ints(count)
    next.set(runStarts)
    const order = scratch.ints(length / RUN)
    const begins = scratch.doubles(length / RUN)
    for (let r = 0, number = 0; r < length; r += RUN, number++) {
      order[next[runs[r]]++] = number
      begins[number] = timeIn(this.blocks[runs[r + 1]], runs[r + 4], runs[r + 2])
    }
    for (let position = 0; position + 1 < runStarts.length; position++) {
      // Sources mostly follow each other in time already.
      for (let i = runStarts[position] + 1; i < runStarts[position + 1]; i++) {
        const run = order[i]
        let j = i
        while (j > runStarts[position] && begins[order[j - 1]] > begins[run]) {
          order[j] = order[j - 1]
          j--
        }
        order[j] = run
      }
    }
    return { order, runStarts }
  }

  private run(position: number, block: number, from: number, to: number, at: number): void {
    const { runs } = this
    runs.push(position)
    runs.push(block)
    runs.push(from)
    runs.push(to)
    runs.push(at)
    this.counts[position] += to - from
  }
}

/** Calls back with the positions of each number that both ascending lists have. */
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

function isPacked(block: AnyBlock): block is PackedBlock {
  return block instanceof PackedBlock
}

function timeIn(block: AnyBlock, at: number, position: number): number {
  return isPacked(block) ? block.time(at, position) : block.times[position]
}

/** The first position of [from, to) of a series whose time is not below `ms`. */
function boundIn(block: AnyBlock, at: number, ms: number, from: number, to: number): number {
  return isPacked(block) ? block.timeBound(at, ms, from, to) : timeBound(block.times, ms, from, to)
}

function ascending(times: Float64Array, from: number, to: number): boolean {
  for (let i = from + 1; i < to; i++) if (!(times[i - 1] < times[i])) return false
  return true
}

function copy(block: SampleBlock, from: number, to: number, rows: Pick<SampleRows, 'times' | 'values' | 'kinds' | 'histograms'>, at: number): void {
  const { times, values, divisor } = block
  const { times: ownTimes, values: ownValues } = rows
  if (to - from < FEW) for (let i = from, j = at; i < to; i++, j++) ownTimes[j] = times[i]
  else ownTimes.set(times.subarray(from, to), at)
  if (divisor !== undefined) divide(values as Integers, divisor, from, to, ownValues, at)
  else if (to - from < FEW) copyFew(values as Float64Array, from, to, ownValues, at)
  else ownValues.set(values.subarray(from, to), at)
  if (block.kinds !== undefined) (rows.kinds as Uint8Array).set(block.kinds.subarray(from, to), at)
  if (block.blobs !== undefined) for (let i = from, j = at; i < to; i++, j++) (rows.histograms as (Uint8Array | undefined)[])[j] = block.blobs[i]
}

function copyFew(values: Float64Array, from: number, to: number, out: Float64Array, at: number): void {
  for (let i = from, j = at; i < to; i++, j++) out[j] = values[i]
}

/** Both are exact doubles, and so the quotient is the number nearest to the decimal that was written (segment/encoding.ts). */
function divide(values: Integers, divisor: number, from: number, to: number, out: Float64Array, at: number): void {
  if (divisor === 1) for (let i = from, j = at; i < to; i++, j++) out[j] = values[i]
  else for (let i = from, j = at; i < to; i++, j++) out[j] = values[i] / divisor
}
