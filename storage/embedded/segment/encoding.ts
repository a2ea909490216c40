/**
 * Which float64 columns may lie in a segment as integers of value * 10^scale.
 *
 * Invariant: for every value v, its integer n satisfies n / 10^scale === v bit for bit: the division of two exactly represented
 * doubles rounds correctly, and it is tried on each value before the choice (docs/formats/segments.md).
 */
import type { SegmentColumn, SegmentEncoding } from '../threads/segment-entry.ts'
import { bitsColumn } from './bits-column.ts'

/** Values that are equal to others of different bits: DuckDB's dictionaries keep one of them only. */
export function needsExactBits({ encoding }: Pick<SegmentColumn, 'encoding'>): boolean {
  return encoding.kind === 'plain' && (encoding.negativeZero === true || encoding.nonFinite === true)
}

/** Option of COPY for columns that need exact bits. Not 1: all zeros are one value, and fit a dictionary of one. */
export const NO_DICTIONARIES = ', DICTIONARY_SIZE_LIMIT 0'

/** In itself or in its column of bits. */
export function mayBeNonFinite(column: Pick<SegmentColumn, 'encoding'>): boolean {
  const { encoding } = column
  return bitsColumn(column) !== undefined || (encoding.kind !== 'scaled' && encoding.nonFinite === true)
}

const MAX_SCALE = 9
const INT32_LIMIT = 2 ** 31
const EXACT_LIMIT = 2 ** 53

/** Feed it all values, and again until `settled`: a value that needs more digits reopens the question for those before it. */
export class EncodingChoice {
  private scale = 0
  private power = 1
  private largest = 0
  private raised = false
  private failed = false
  private negativeZero = false

  /**
   * @param passNonFinite NaN and infinities are passed over: they will lie elsewhere.
   * @returns false when there is no need to go on: the answer is known.
   */
  offer(values: Float64Array | Int16Array | Int32Array, from: number, to: number, bits: Uint8Array | undefined, passNonFinite = false): boolean {
    const first = bits === undefined && this.scale === 0 && !this.failed ? this.passWhole(values, from, to) : from
    let { power, largest } = this
    for (let i = first; i < to; i++) {
      if (bits !== undefined && (bits[i >> 3] & (1 << (i & 7))) === 0) continue
      const v = values[i]
      if (passNonFinite && !Number.isFinite(v)) continue
      if (v === 0 && 1 / v < 0) {
        this.failed = this.negativeZero = true
        return false
      }
      if (this.failed) continue
      let n = Math.round(v * power)
      while (n / power !== v) {
        if (this.scale === MAX_SCALE) {
          // The rest is only looked through for the sign of zero.
          this.failed = true
          break
        }
        power = 10 ** ++this.scale
        this.raised = true
        n = Math.round(v * power)
      }
      if (n < 0) n = -n
      if (n > largest) largest = n
    }
    this.power = power
    this.largest = largest
    if (largest >= EXACT_LIMIT) this.failed = true
    return true
  }

  /** Passes over 32-bit integers, which counts and gauges mostly are: one conversion each. @returns where something else comes. */
  private passWhole(values: Float64Array | Int16Array | Int32Array, from: number, to: number): number {
    let min = 0
    let max = 0
    let i = from
    for (; i < to; i++) {
      const v = values[i]
      const n = v | 0
      if (n !== v || (n === 0 && 1 / v < 0)) break
      if (n > max) max = n
      else if (n < min) min = n
    }
    this.largest = Math.max(this.largest, max, -min)
    return i
  }

  /** True when all values have been tried at the scale chosen; otherwise feed them all once more. */
  settled(): boolean {
    if (this.failed || !this.raised) return true
    this.raised = false
    this.largest = 0
    return false
  }

  result(): SegmentEncoding {
    if (this.failed) return this.negativeZero ? { kind: 'plain', negativeZero: true } : { kind: 'plain' }
    return this.largest < INT32_LIMIT ? { kind: 'scaled', scale: this.scale } : { kind: 'scaled', scale: this.scale, wide: true }
  }
}
