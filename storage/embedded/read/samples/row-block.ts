/** Rows of a source as a block whose values are read field by field, when they are asked for. */
import type { BlockMask } from './mask-times.ts'
import type { Frame } from './page-block.ts'
import type { SampleBlock } from './sample-block.ts'
import type { Scratch } from './scratch.ts'

/** Of values as they are read; none is outside. */
export interface ValueBounds {
  min: number
  max: number
}

export interface RowValues {
  /** A value a row of the frame, to be divided where there is a divisor. */
  values: SampleBlock['values']
  divisor?: number
}

export interface RowBlock {
  /** Series and times of the rows. */
  frame: Frame
  /** Whether each row surely has a value of the field, by its number in the request. */
  dense(field: number): boolean
  /** Undefined where that is not known, or where some value is not finite. */
  bounds(field: number): ValueBounds | undefined
  /**
   * Values of a field at least where `runs` (row-runs.ts) are; they hold until the scratch is released.
   * @returns undefined where some rows have none.
   */
  values(field: number, runs: Int32Array, scratch: Scratch): RowValues | undefined
  /** Lets go of what reading values has opened. */
  close(): void
}

export interface MaskedFrame {
  frame: Frame
  masks: readonly BlockMask[]
}
