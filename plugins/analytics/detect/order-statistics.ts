/** Quantiles by selection, without sorting: linear in the number of values. */
import { nthElement } from 'svcdb/lib/numbers'

/** The values that are numbers, in an array of their own. */
export function present(values: Float64Array): Float64Array<ArrayBuffer> {
  const out = new Float64Array(values.length)
  let count = 0
  for (let i = 0; i < values.length; i++) if (Number.isFinite(values[i])) out[count++] = values[i]
  return out.subarray(0, count)
}

/** Interpolated between the two nearest, as numpy and quantile_cont do. The values are put in another order. @param q 0 to 1. */
export function quantile(values: Float64Array, q: number): number {
  const place = q * (values.length - 1)
  const below = Math.floor(place)
  nthElement(values, 0, values.length - 1, below)
  const low = values[below]
  if (place === below) return low
  let next = Number.POSITIVE_INFINITY
  for (let i = below + 1; i < values.length; i++) if (values[i] < next) next = values[i]
  return low + (place - below) * (next - low)
}

export const median = (values: Float64Array): number => quantile(values, 0.5)
