/** Quantiles by selection, without sorting: linear in the number of values. */

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
  const low = select(values, below)
  if (place === below) return low
  let next = Number.POSITIVE_INFINITY
  for (let i = below + 1; i < values.length; i++) if (values[i] < next) next = values[i]
  return low + (place - below) * (next - low)
}

export const median = (values: Float64Array): number => quantile(values, 0.5)

/**
 * The k-th smallest, 0 the smallest; afterwards none before it is larger and none behind it smaller. Floyd and Rivest's algorithm (Communications of the ACM 18,
 * 1975): the pivots come from a sample, so that about 1.5 n comparisons do.
 */
function select(values: Float64Array, k: number): number {
  narrow(values, 0, values.length - 1, k)
  return values[k]
}

function narrow(values: Float64Array, from: number, to: number, k: number): void {
  let left = from
  let right = to
  while (right > left) {
    if (right - left > 600) {
      const n = right - left + 1
      const i = k - left + 1
      const z = Math.log(n)
      const s = 0.5 * Math.exp((2 * z) / 3)
      const spread = 0.5 * Math.sqrt((z * s * (n - s)) / n) * (i < n / 2 ? -1 : 1)
      narrow(values, Math.max(left, Math.floor(k - (i * s) / n + spread)), Math.min(right, Math.floor(k + ((n - i) * s) / n + spread)), k)
    }
    const pivot = values[k]
    let i = left
    let j = right
    values[k] = values[left]
    values[left] = pivot
    if (values[right] > pivot) {
      values[left] = values[right]
      values[right] = pivot
    }
    while (i < j) {
      const held = values[i]
      values[i] = values[j]
      values[j] = held
      i++
      j--
      while (values[i] < pivot) i++
      while (values[j] > pivot) j--
    }
    if (values[left] === pivot) {
      values[left] = values[j]
      values[j] = pivot
    } else {
      j++
      values[right] = values[j]
      values[j] = pivot
    }
    if (j <= k) left = j + 1
    if (k <= j) right = j - 1
  }
}
