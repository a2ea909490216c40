/** Doubles as 32-bit integers divided by a power of ten, as written values mostly are. */
import { narrowIntegers } from 'svcdb/lib/columns'
import type { SampleBlock } from './sample-block.ts'

/** Digits after the point that values are tried with. */
const MAX_DIVISOR = 1000

/** Kept, for its memory. */
export class DecimalScale {
  /** What `divisorOf` has found: the values times the divisor. */
  numbers = new Int32Array(0)

  /** @returns what all of the first values are integers divided by; undefined where there is no such power of ten. */
  divisorOf(values: Float64Array, count: number): number | undefined {
    if (this.numbers.length < count) this.numbers = new Int32Array(count)
    const { numbers } = this
    for (let divisor = 1; divisor <= MAX_DIVISOR; divisor *= 10) {
      let i = 0
      for (; i < count; i++) {
        const value = values[i]
        const whole = Math.round(value * divisor) | 0
        // Neither a NaN nor -0, which has a sign that no integer has.
        if (whole / divisor !== value || (whole === 0 && 1 / value < 0)) break
        numbers[i] = whole
      }
      if (i === count) return divisor
    }
    return undefined
  }

  /** The block with its values as integers, where they all are floats that can be. */
  narrowed(block: SampleBlock): SampleBlock {
    const { values, kinds, blobs } = block
    if (!(values instanceof Float64Array) || kinds !== undefined || blobs !== undefined) return block
    const divisor = this.divisorOf(values, values.length)
    return divisor === undefined ? block : { ...block, values: narrowIntegers(this.numbers.subarray(0, values.length)), divisor }
  }
}
