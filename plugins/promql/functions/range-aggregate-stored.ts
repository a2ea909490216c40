/** Aggregations over windows whose samples are added where they are stored: see range-aggregate.ts, which gives the same for samples in one array. */
import { greatestInteger, isIntegers, leastInteger, type StoredSamples, sumOfIntegers } from 'svcdb/lib/columns'
import type { StoredWindow } from './contract.ts'
import { EXACT_SUMMANDS, largestOf, smallestOf } from './range-aggregate.ts'

/** Quotients that are made at once. */
const QUOTIENTS = 512

/** The state of a sum: exact as long as all is 32-bit integers, then with a compensation term, then, of an average whose sum is infinite, a mean. */
type Phase = 'exact' | 'compensated' | 'mean'

abstract class SummedWindow implements StoredWindow {
  protected sum = 0
  protected lost = 0
  protected count = 0
  protected phase: Phase = 'exact'
  private readonly quotients = new Float64Array(QUOTIENTS)

  begin(): void {
    this.sum = 0
    this.lost = 0
    this.count = 0
    this.phase = 'exact'
  }

  add({ values, divisor = 1 }: StoredSamples, from: number, to: number): void {
    if (!isIntegers(values)) return this.addDoubles(values, from, to)
    let at = from
    if (divisor === 1 && this.phase === 'exact') {
      at = Math.min(to, from + EXACT_SUMMANDS - this.count)
      this.sum += sumOfIntegers(values, from, at)
      this.count += at - from
    }
    const { quotients } = this
    while (at < to) {
      const n = Math.min(QUOTIENTS, to - at)
      for (let i = 0; i < n; i++) quotients[i] = values[at + i] / divisor
      this.addDoubles(quotients, 0, n)
      at += n
    }
  }

  abstract result(): number

  private addDoubles(values: Float64Array, from: number, to: number): void {
    let at = from
    if (this.phase === 'exact') at = this.addIntegral(values, from, to)
    if (at < to && this.phase === 'compensated') at = this.addCompensated(values, at, to)
    if (at < to) this.addToMean(values, at, to)
  }

  /** @returns the first place that is left for the next phase. */
  private addIntegral(values: Float64Array, from: number, to: number): number {
    let { sum } = this
    let i = from
    for (const exact = Math.min(to, from + EXACT_SUMMANDS - this.count); i < exact; i++) {
      const value = values[i]
      if ((value | 0) !== value) break
      sum += value
    }
    this.sum = sum
    this.count += i - from
    if (i < to) this.phase = 'compensated'
    return i
  }

  /** @returns the first place that is left for the mean. */
  private addCompensated(values: Float64Array, from: number, to: number): number {
    let { sum, lost } = this
    let i = from
    for (; i < to; i++) {
      const value = values[i]
      const next = sum + value
      if (next === Infinity || next === -Infinity) {
        if (this.isMean && this.count + i - from > 0) break
        lost = 0
      } else lost += Math.abs(sum) >= Math.abs(value) ? sum - next + value : value - next + sum
      sum = next
    }
    this.sum = sum
    this.lost = lost
    this.count += i - from
    if (i < to) {
      this.phase = 'mean'
      this.sum /= this.count
      this.lost /= this.count
    }
    return i
  }

  private addToMean(values: Float64Array, from: number, to: number): void {
    let { sum: mean, lost } = this
    for (let i = from; i < to; i++) {
      const count = this.count + i - from + 1
      const shrink = (count - 1) / count
      const part = values[i] / count
      const kept = shrink * mean
      const next = kept + part
      if (next === Infinity || next === -Infinity) lost = 0
      else lost = shrink * lost + (Math.abs(kept) >= Math.abs(part) ? kept - next + part : part - next + kept)
      mean = next
    }
    this.sum = mean
    this.lost = lost
    this.count += to - from
  }

  /** Whether an infinite sum is left for a mean. */
  protected abstract readonly isMean: boolean
}

export class StoredSum extends SummedWindow {
  protected readonly isMean = false

  result(): number {
    const { sum } = this
    return sum === Infinity || sum === -Infinity ? sum : sum + this.lost
  }
}

export class StoredAverage extends SummedWindow {
  protected readonly isMean = true

  result(): number {
    const { sum, lost, count } = this
    return this.phase === 'mean' ? sum + lost : sum / count + lost / count
  }
}

export class StoredMinimum implements StoredWindow {
  private min = NaN

  begin(): void {
    this.min = NaN
  }

  add({ values, divisor = 1 }: StoredSamples, from: number, to: number): void {
    const min = isIntegers(values) ? leastInteger(values, from, to, values[from]) / divisor : smallestOf(values, from, to)
    if (min < this.min || Number.isNaN(this.min)) this.min = min
  }

  result(): number {
    return this.min
  }
}

export class StoredMaximum implements StoredWindow {
  private max = NaN

  begin(): void {
    this.max = NaN
  }

  add({ values, divisor = 1 }: StoredSamples, from: number, to: number): void {
    const max = isIntegers(values) ? greatestInteger(values, from, to, values[from]) / divisor : largestOf(values, from, to)
    if (max > this.max || Number.isNaN(this.max)) this.max = max
  }

  result(): number {
    return this.max
  }
}

export class StoredCount implements StoredWindow {
  private count = 0

  begin(): void {
    this.count = 0
  }

  add(_samples: StoredSamples, from: number, to: number): void {
    this.count += to - from
  }

  result(): number {
    return this.count
  }
}
