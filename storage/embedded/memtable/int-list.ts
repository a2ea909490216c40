/** A growing list of numbers. */
export class IntList {
  values: Int32Array
  length = 0

  constructor(capacity: number = 16) {
    this.values = new Int32Array(capacity)
  }

  push(value: number): void {
    if (this.length === this.values.length) this.room(this.length + 1)
    this.values[this.length++] = value
  }

  /** Makes room for `length` numbers in all. */
  room(length: number): void {
    if (length <= this.values.length) return
    const grown = new Int32Array(Math.max(this.values.length * 2, length))
    grown.set(this.values.subarray(0, this.length))
    this.values = grown
  }

  view(): Int32Array {
    return this.values.subarray(0, this.length)
  }
}
