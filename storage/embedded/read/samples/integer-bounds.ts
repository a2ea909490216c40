/** Least and greatest of a block's integers: doubles hold those below 2^53 in magnitude exactly, and round others to 2^53 or beyond. */
import type { SampleBlock } from './sample-block.ts'

/** Infinite the other way without values. */
export interface IntegerBounds {
  min: number
  max: number
}

/** Of values that were looked through: they do not change. */
const known = new WeakMap<SampleBlock['values'], IntegerBounds>()

export function integerBounds({ values }: SampleBlock): IntegerBounds {
  let bounds = known.get(values)
  if (bounds === undefined) known.set(values, (bounds = values instanceof Float64Array ? doubleBounds(values) : intBounds(values)))
  return bounds
}

function doubleBounds(values: Float64Array): IntegerBounds {
  let [min, max] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]
  for (let i = 0; i < values.length; i++) {
    const value = values[i]
    if (value < min) min = value
    if (value > max) max = value
  }
  return { min, max }
}

/** Any 32-bit integer is exact. */
function intBounds(values: Int32Array): IntegerBounds {
  return values.length === 0 ? { min: Number.POSITIVE_INFINITY, max: Number.NEGATIVE_INFINITY } : { min: -(2 ** 31), max: 2 ** 31 - 1 }
}
