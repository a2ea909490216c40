/**
 * One field's values of a run of rows, as doubles: NaN where a row has none that counts. What a double cannot hold is rounded, and rounding keeps order: two
 * numbers whose doubles differ are ordered as these. Where they are equal, `compare` looks at the numbers themselves.
 */
import { type Column, isShown, valueAt } from 'svcdb/lib/columns'
import { compareScaled, type Literal } from '../statement/literal.ts'
import type { Scratch } from './scratch.ts'

/** From there on integers are not all doubles. */
const EXACT = 2 ** 53
const HIGH = 2 ** 32

const NONE = new Float64Array(0)

export class FieldView {
  /** Shorter than the run where no row has the field. */
  values: Float64Array = NONE
  /** Of the values there are; above `max` when there is none. */
  min = Number.POSITIVE_INFINITY
  max = Number.NEGATIVE_INFINITY
  /** Some value may be rounded. */
  private rounded = false
  private own: Float64Array | undefined
  private readonly scratch: Scratch
  private column: Column | undefined
  private scale = 0
  private from = 0

  constructor(scratch: Scratch) {
    this.scratch = scratch
  }

  /** Gives what it has borrowed back, and forgets the batch. */
  release(): void {
    if (this.own !== undefined) this.scratch.giveFloats(this.own)
    this.own = undefined
    this.values = NONE
    this.column = undefined
    this.min = Number.POSITIVE_INFINITY
    this.max = Number.NEGATIVE_INFINITY
  }

  /** @param scale of decimals. */
  load(column: Column, scale: number | undefined, from: number, to: number, heap: Uint8Array): void {
    this.column = column
    this.scale = scale ?? 0
    this.from = from
    this.rounded = false
    this.values = this.read(column, from, to, heap)
    let min = Number.POSITIVE_INFINITY
    let max = Number.NEGATIVE_INFINITY
    const { values } = this
    for (let i = 0; i < values.length; i++) {
      const value = values[i]
      if (value < min) min = value
      if (value > max) max = value
    }
    this.min = min
    this.max = max
    if (column.type !== 'float64' && column.type !== 'bool') this.rounded = (column.type === 'decimal' && this.scale > 0) || min <= -EXACT || max >= EXACT
  }

  /** Whether comparing `values` with `literal.value` is comparing the numbers. */
  isPlain(literal: Literal): boolean {
    const type = this.column?.type
    if (type === undefined || type === 'float64') return true
    return !this.rounded && literal.comparesIntegers
  }

  /** @param i from the first row of the run on. @returns below 0, 0, above 0; NaN where there is no value. */
  compare(i: number, literal: Literal): number {
    const value = this.values[i]
    if (value < literal.value) return -1
    if (value > literal.value) return 1
    if (value !== literal.value) return Number.NaN
    const column = this.column as Column
    if (column.type === 'float64') return 0
    const row = this.from + i
    if (column.type === 'bool') return compareScaled(BigInt(value), 0, literal)
    return compareScaled(valueAt(column, row, EMPTY) as bigint, column.type === 'decimal' ? this.scale : 0, literal)
  }

  private read(column: Column, from: number, to: number, heap: Uint8Array): Float64Array {
    if (column.type === 'float64' && column.validity === undefined && !column.nonFinite && column.next >= to) return column.f64.subarray(from, to)
    if (column.type === 'string' || column.type === 'histogram') return NONE
    this.own ??= this.scratch.takeFloats()
    const values = this.own.subarray(0, to - from)
    const { i32 } = column
    for (let i = 0; i < values.length; i++) {
      const row = from + i
      if (!isShown(column, row, heap)) values[i] = Number.NaN
      else if (column.type === 'float64') values[i] = column.f64[row]
      else if (column.type === 'int64') values[i] = i32[row * 2 + 1] * HIGH + (i32[row * 2] >>> 0)
      else if (column.type === 'uint64') values[i] = (i32[row * 2 + 1] >>> 0) * HIGH + (i32[row * 2] >>> 0)
      else if (column.type === 'bool') values[i] = column.u8[row]
      else values[i] = decimalAt(column, row, this.scale)
    }
    return values
  }
}

const EMPTY = new Uint8Array(0)

/** The nearest double. */
function decimalAt(column: Column, row: number, scale: number): number {
  const { i32 } = column
  const at = row * 4
  const low = i32[at + 1] * HIGH + (i32[at] >>> 0)
  const sign = i32[at + 1] >> 31
  // Both exact, and so the quotient is rounded once.
  if (i32[at + 2] === sign && i32[at + 3] === sign && Math.abs(low) < EXACT && scale <= 22) return low / 10 ** scale
  return Number(decimalText(valueAt(column, row, EMPTY) as bigint, scale))
}

function decimalText(unscaled: bigint, scale: number): string {
  return `${unscaled}e-${scale}`
}
