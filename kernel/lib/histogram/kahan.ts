/** Sums that keep what rounding loses: Neumaier's variant of Kahan's summation. */

/** Adds to `sums[at]`; what the sum cannot hold goes to `lost[at]`, to be added at the end. */
export function kahanAt(sums: Float64Array, lost: Float64Array, at: number, value: number): void {
  const sum = sums[at]
  const next = sum + value
  if (next > Number.MAX_VALUE || next < -Number.MAX_VALUE) lost[at] = 0
  else lost[at] += Math.abs(sum) >= Math.abs(value) ? sum - next + value : value - next + sum
  sums[at] = next
}
