/**
 * Which samples matter to functions that need no more of a window than its first and its last sample, how many there are, and where values fall: those beside
 * the ends of windows, the first and last of each run, and all around a fall.
 */
import type { SampleWindows } from 'svcdb/lib/columns'
import type { PackedBlock } from './packed-block.ts'

/** Ends of windows and times after which they begin: milliseconds, ascending, each once. */
export function windowEdges({ first, interval, count, range }: SampleWindows): Float64Array {
  const edges = new Float64Array(count * 2)
  for (let i = 0; i < count; i++) {
    edges[i * 2] = Math.floor(first + i * interval)
    edges[i * 2 + 1] = Math.floor(first + i * interval - range)
  }
  edges.sort()
  let n = 0
  for (let i = 0; i < edges.length; i++) if (n === 0 || edges[i] !== edges[n - 1]) edges[n++] = edges[i]
  return edges.subarray(0, n)
}

/** Samples that there is room for at first. */
const FIRST_ROOM = 4096

/** Samples of some series that were picked, one after the other. Its arrays are used again; there are none before the first sample. */
export class PickedSamples {
  length = 0
  times = new Float64Array(0)
  values = new Float64Array(0)
  /** Places among all samples of their series. */
  ordinals = new Int32Array(0)

  /** Makes room for so many more. */
  reserve(count: number): void {
    const length = this.length + count
    if (length <= this.times.length) return
    const room = Math.max(length, this.times.length * 2, FIRST_ROOM)
    this.times = grown(this.times, new Float64Array(room))
    this.values = grown(this.values, new Float64Array(room))
    this.ordinals = grown(this.ordinals, new Int32Array(room))
  }

  /** Samples without any left out. */
  whole(times: Float64Array, values: Float64Array, ordinal: number): void {
    this.reserve(times.length)
    this.times.set(times, this.length)
    this.values.set(values, this.length)
    this.count(times.length, ordinal)
  }

  /** The same when the caller has written them, from `length` on. */
  count(count: number, ordinal: number): void {
    for (let i = 0; i < count; i++) this.ordinals[this.length + i] = ordinal + i
    this.length += count
  }

  /** What matters of samples [from, to) of a series in a block; the first has the place `ordinal`. */
  pick(block: PackedBlock, run: number, from: number, to: number, edges: Float64Array, ordinal: number): void {
    const last = to - 1
    let done = this.take(block, run, from, from, ordinal - from)
    if (last === from) return
    const begin = this.times[this.length - 1]
    const end = block.time(run, last)
    for (let e = firstNotBelow(edges, begin); e < edges.length && edges[e] < end; e++) {
      const after = block.timeBound(run, edges[e] + 1, done, to)
      if (after - 1 > done) done = this.upTo(block, run, done, after - 1, ordinal - from)
      if (after > done) done = this.upTo(block, run, done, after, ordinal - from)
    }
    if (done < last) this.upTo(block, run, done, last, ordinal - from)
  }

  /** The sample at `to`, and those before it, from `done` on, at which values fall. */
  private upTo(block: PackedBlock, run: number, done: number, to: number, shift: number): number {
    if (!block.falls || done + 1 >= to) return this.take(block, run, to, to, shift)
    let before = done
    while (before < to) {
      const fall = block.nextFall(run, before, to)
      if (fall < to) before = this.take(block, run, fall, Math.min(to, block.endOfMiniblock(run, fall + 1)), shift)
      else before = this.take(block, run, to, to, shift)
    }
    return to
  }

  /** Samples from `first` up to and with `last`. @returns the last. */
  private take(block: PackedBlock, run: number, first: number, last: number, shift: number): number {
    this.reserve(last - first + 1)
    for (let position = first; position <= last; position++) {
      const at = this.length++
      this.times[at] = block.time(run, position)
      this.values[at] = block.value(run, position)
      this.ordinals[at] = position + shift
    }
    return last
  }
}

function grown<T extends Float64Array | Int32Array>(array: T, larger: T): T {
  larger.set(array)
  return larger
}

function firstNotBelow(edges: Float64Array, time: number): number {
  let low = 0
  let high = edges.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (edges[middle] < time) low = middle + 1
    else high = middle
  }
  return low
}
