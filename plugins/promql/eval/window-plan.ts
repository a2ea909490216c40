/** Where the windows of all steps lie among the samples of a series. Series that were scraped together have the same times, and share it. */
import type { Steps } from './value.ts'

export class WindowPlan {
  readonly steps: Steps
  /** Milliseconds. */
  readonly range: number
  private readonly offset: number
  /** A step's window is [lo, hi) of the samples, counted from the series' first; empty where both are the same. */
  readonly lo: Int32Array
  readonly hi: Int32Array
  /** Of the samples; what lies behind `length` is of other series. */
  times = new Float64Array(0)
  length = 0
  /** Where samples were left out: their places among all of the series. */
  ordinals: Int32Array | undefined
  private places = new Int32Array(0)
  /** Steps outside [first, end) have empty windows. */
  first = 0
  end = 0
  /** Of all windows together. */
  samples = 0
  /** Another one for other times. */
  version = 0

  constructor(steps: Steps, range: number, offset: number) {
    this.steps = steps
    this.range = range
    this.offset = offset
    this.lo = new Int32Array(steps.count)
    this.hi = new Int32Array(steps.count)
  }

  /** Milliseconds: the closed end of a step's window. */
  endOf(step: number): number {
    return this.steps.start + step * this.steps.interval - this.offset
  }

  /** Makes the plan that of the series whose samples are at these times[from, to). @param ordinals of the samples, where some were left out. */
  follow(times: Float64Array, from: number, to: number, ordinals?: Int32Array): void {
    if (this.has(times, from, to, ordinals)) return
    const length = to - from
    if (ordinals === undefined) this.ordinals = undefined
    else {
      if (length > this.places.length) this.places = new Int32Array(length * 2)
      for (let i = 0; i < length; i++) this.places[i] = ordinals[from + i]
      this.ordinals = this.places
    }
    if (length > this.times.length) this.times = new Float64Array(length * 2)
    const own = this.times
    for (let i = 0; i < length; i++) own[i] = times[from + i]
    this.length = length
    this.version++
    this.lay()
  }

  private has(times: Float64Array, from: number, to: number, ordinals: Int32Array | undefined): boolean {
    const { times: own, length, ordinals: places } = this
    if (to - from !== length || (places === undefined) !== (ordinals === undefined)) return false
    for (let i = 0; i < length; i++) if (own[i] !== times[from + i]) return false
    if (places !== undefined && ordinals !== undefined) for (let i = 0; i < length; i++) if (places[i] !== ordinals[from + i]) return false
    return true
  }

  /** Two cursors that only move forward, one at each end of the window. */
  private lay(): void {
    const { times, length, lo, hi, range } = this
    const { count } = this.steps
    const newest = times[length - 1]
    let low = 0
    let high = 0
    let step = 0
    this.first = count
    this.samples = 0
    for (; step < count; step++) {
      const end = this.endOf(step)
      while (high < length && times[high] <= end) high++
      if (newest <= end - range) break
      while (low < high && times[low] <= end - range) low++
      lo[step] = low
      hi[step] = high
      if (low === high) continue
      this.samples += high - low
      if (this.first === count) this.first = step
    }
    this.end = step
  }
}
