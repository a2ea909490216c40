/** Arrays for one run each, shared by the evaluators of all measurements: what thousands of triggers hold between runs is nothing. */

/** Rows that are looked at in one run. */
export const RUN_ROWS = 2048
/** Arrays that are kept for the next run. */
const KEPT = 64

export class Scratch {
  private readonly numbers: Int32Array[] = []
  private readonly floats: Float64Array[] = []

  takeNumbers(): Int32Array {
    return this.numbers.pop() ?? new Int32Array(RUN_ROWS)
  }

  takeFloats(): Float64Array {
    return this.floats.pop() ?? new Float64Array(RUN_ROWS)
  }

  giveNumbers(array: Int32Array): void {
    if (this.numbers.length < KEPT) this.numbers.push(array)
  }

  giveFloats(array: Float64Array): void {
    if (this.floats.length < KEPT) this.floats.push(array)
  }
}
