/** Where lists get their arrays from: of at least `length` numbers, of any value. */
export interface IntSource {
  ints(length: number): Int32Array
}

const NEW_ARRAYS: IntSource = { ints: (length) => new Int32Array(length) }

/** A growing list of numbers. */
export class IntList {
  values: Int32Array
  length = 0
  private readonly source: IntSource

  constructor(capacity: number = 16, source: IntSource = NEW_ARRAYS) {
    this.source = source
    this.values = source.ints(capacity)
  }

  push(value: number): void {
    if (this.length === this.values.length) this.room(this.length + 1)
    this.values[this.length++] = value
  }

  /** Makes room for `length` numbers in all. */
  room(length: number): void {
    if (length <= this.values.length) return
    const grown = this.source.ints(Math.max(this.values.length * 2, length))
    grown.set(this.values.subarray(0, this.length))
    this.values = grown
  }

  view(): Int32Array {
    return this.values.subarray(0, this.length)
  }
}
