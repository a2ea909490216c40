/** Aggregations over all windows of a series: see range-aggregate.ts, of which each step here is one. */
import { FLOAT } from '../eval/value.ts'
import type { WindowPlan } from '../eval/window-plan.ts'
import type { RangeRows } from './contract.ts'
import { averageOf, largestOf, smallestOf, sumOf } from './range-aggregate.ts'

type Row = Parameters<RangeRows['fill']>[2]

/** Whole numbers that add up to no more, whatever the order, do so exactly, and lose nothing that would have to be made up for. */
const EXACT = 2 ** 52

/** Running sums are worth making where samples are in more windows than this. */
const OVERLAP = 2

/** Sums of a series' first samples. */
class WholeSums {
  sums = new Float64Array(1)

  /** @returns whether all are exact. */
  add(values: Float64Array, from: number, length: number): boolean {
    if (length >= this.sums.length) this.sums = new Float64Array(length * 2)
    const { sums } = this
    let sum = 0
    let magnitudes = 0
    for (let i = 0; i < length; i++) {
      const value = values[from + i]
      // Not of NaN, nor, in the end, of what is infinite.
      if (value !== Math.floor(value)) return false
      sum += value
      magnitudes += Math.abs(value)
      sums[i + 1] = sum
    }
    return magnitudes <= EXACT
  }
}

export class SumRows implements RangeRows {
  private readonly plan: WindowPlan
  private readonly whole = new WholeSums()

  constructor(plan: WindowPlan) {
    this.plan = plan
  }

  fill(values: Float64Array, from: number, { values: out, kinds, base }: Row): boolean {
    const { lo, hi, first, end, length, samples } = this.plan
    const exact = samples > length * OVERLAP && this.whole.add(values, from, length)
    const { sums } = this.whole
    for (let step = first; step < end; step++) {
      if (lo[step] === hi[step]) continue
      out[base + step] = exact ? sums[hi[step]] - sums[lo[step]] : sumOf(values, from + lo[step], from + hi[step])
      kinds[base + step] = FLOAT
    }
    return first < end
  }
}

export class AverageRows implements RangeRows {
  private readonly plan: WindowPlan
  private readonly whole = new WholeSums()

  constructor(plan: WindowPlan) {
    this.plan = plan
  }

  fill(values: Float64Array, from: number, { values: out, kinds, base }: Row): boolean {
    const { lo, hi, first, end, length, samples } = this.plan
    const exact = samples > length * OVERLAP && this.whole.add(values, from, length)
    const { sums } = this.whole
    for (let step = first; step < end; step++) {
      if (lo[step] === hi[step]) continue
      out[base + step] = exact ? (sums[hi[step]] - sums[lo[step]]) / (hi[step] - lo[step]) : averageOf(values, from + lo[step], from + hi[step])
      kinds[base + step] = FLOAT
    }
    return first < end
  }
}

export class SmallestRows implements RangeRows {
  private readonly plan: WindowPlan

  constructor(plan: WindowPlan) {
    this.plan = plan
  }

  fill(values: Float64Array, from: number, { values: out, kinds, base }: Row): boolean {
    const { lo, hi, first, end } = this.plan
    for (let step = first; step < end; step++) {
      if (lo[step] === hi[step]) continue
      out[base + step] = smallestOf(values, from + lo[step], from + hi[step])
      kinds[base + step] = FLOAT
    }
    return first < end
  }
}

export class LargestRows implements RangeRows {
  private readonly plan: WindowPlan

  constructor(plan: WindowPlan) {
    this.plan = plan
  }

  fill(values: Float64Array, from: number, { values: out, kinds, base }: Row): boolean {
    const { lo, hi, first, end } = this.plan
    for (let step = first; step < end; step++) {
      if (lo[step] === hi[step]) continue
      out[base + step] = largestOf(values, from + lo[step], from + hi[step])
      kinds[base + step] = FLOAT
    }
    return first < end
  }
}

export class CountRows implements RangeRows {
  private readonly plan: WindowPlan

  constructor(plan: WindowPlan) {
    this.plan = plan
  }

  fill(_values: Float64Array, _from: number, { values: out, kinds, base }: Row): boolean {
    const { lo, hi, first, end, ordinals } = this.plan
    for (let step = first; step < end; step++) {
      if (lo[step] === hi[step]) continue
      out[base + step] = ordinals === undefined ? hi[step] - lo[step] : ordinals[hi[step] - 1] - ordinals[lo[step]] + 1
      kinds[base + step] = FLOAT
    }
    return first < end
  }
}
