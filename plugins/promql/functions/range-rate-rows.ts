/** rate, increase and delta over all windows of a series: see range-rate.ts, of which each step here is one. */
import { FLOAT } from '../eval/value.ts'
import type { WindowPlan } from '../eval/window-plan.ts'
import type { RangeRows } from './contract.ts'
import { REACH } from './range-rate.ts'

/** Whole numbers that add up to no more, whatever the order, do so exactly. */
const EXACT = 2 ** 51

export class DifferenceRows implements RangeRows {
  private readonly plan: WindowPlan
  private readonly counter: boolean
  private readonly divisor: number
  /** The plan's version that what follows was made for, one a step: seconds from the first sample to the last, to the window's ends, and what a change is multiplied by. */
  private version = 0
  private readonly sampled: Float64Array
  private readonly toStart: Float64Array
  private readonly toEnd: Float64Array
  private readonly factors: Float64Array
  /** Resets up to each sample; what the counter had reached at each reset, and up to it in all. */
  private resets = new Int32Array(0)
  private reached = new Float64Array(0)
  private reachedUpTo = new Float64Array(0)

  constructor(plan: WindowPlan, counter: boolean, perSecond: boolean) {
    const { count } = plan.steps
    this.plan = plan
    this.counter = counter
    this.divisor = perSecond ? plan.range / 1000 : 1
    this.sampled = new Float64Array(count)
    this.toStart = new Float64Array(count)
    this.toEnd = new Float64Array(count)
    this.factors = new Float64Array(count)
  }

  fill(values: Float64Array, from: number, { values: out, kinds, base }: Parameters<RangeRows['fill']>[2]): boolean {
    const { lo, hi, first, end, version } = this.plan
    if (version !== this.version) this.measure()
    const { counter, divisor, sampled, toStart, toEnd, factors } = this
    const any = counter ? this.findResets(values, from) : 0
    const { resets, reached, reachedUpTo } = this
    const whole = any > 0 && this.isWhole(any)
    let given = false
    for (let step = first; step < end; step++) {
      const oldest = lo[step]
      const newest = hi[step] - 1
      if (newest <= oldest) continue
      const value = values[from + oldest]
      let change = values[from + newest] - value
      if (any > 0 && resets[oldest] !== resets[newest]) {
        const begin = resets[oldest]
        const stop = resets[newest]
        if (whole && change === Math.floor(change) && change <= EXACT && change >= -EXACT) change += reachedUpTo[stop] - reachedUpTo[begin]
        else for (let i = begin; i < stop; i++) change += reached[i]
      }
      let factor = factors[step]
      if (counter && change > 0 && value >= 0) {
        const seconds = sampled[step]
        const toZero = seconds * (value / change)
        if (toZero < toStart[step]) factor = (seconds + toZero + toEnd[step]) / seconds / divisor
      }
      out[base + step] = change * factor
      kinds[base + step] = FLOAT
      given = true
    }
    return given
  }

  /** Everything that follows from the times alone. */
  private measure(): void {
    const { plan, sampled, toStart, toEnd, factors, divisor } = this
    const { times, lo, hi, first, end, range, ordinals } = plan
    for (let step = first; step < end; step++) {
      if (hi[step] - lo[step] < 2) continue
      const count = ordinals === undefined ? hi[step] - lo[step] : ordinals[hi[step] - 1] - ordinals[lo[step]] + 1
      const oldest = times[lo[step]]
      const newest = times[hi[step] - 1]
      const rangeEnd = plan.endOf(step)
      const seconds = (newest - oldest) / 1000
      const average = seconds / (count - 1)
      const threshold = average * REACH
      let before = (oldest - (rangeEnd - range)) / 1000
      let after = (rangeEnd - newest) / 1000
      if (before >= threshold) before = average / 2
      if (after >= threshold) after = average / 2
      sampled[step] = seconds
      toStart[step] = before
      toEnd[step] = after
      factors[step] = (seconds + before + after) / seconds / divisor
    }
    this.version = plan.version
  }

  /** @returns how many there are. */
  private findResets(values: Float64Array, from: number): number {
    const { length } = this.plan
    if (length > this.resets.length) {
      this.resets = new Int32Array(length * 2)
      this.reached = new Float64Array(length * 2)
      this.reachedUpTo = new Float64Array(length * 2)
    }
    const { resets, reached } = this
    let count = 0
    let previous = values[from]
    resets[0] = 0
    for (let i = 1; i < length; i++) {
      const value = values[from + i]
      // Without a branch: gauges fall as often as not.
      reached[count] = previous
      count += Number(value < previous)
      resets[i] = count
      previous = value
    }
    return count
  }

  /** Whether what was reached at the resets is whole and adds up exactly; zeros are not, for they may have a sign. */
  private isWhole(count: number): boolean {
    const { reached, reachedUpTo } = this
    let sum = 0
    reachedUpTo[0] = 0
    for (let i = 0; i < count; i++) {
      const value = reached[i]
      if (!(value > 0 && value === Math.floor(value))) return false
      sum += value
      reachedUpTo[i + 1] = sum
    }
    return sum <= EXACT
  }
}
