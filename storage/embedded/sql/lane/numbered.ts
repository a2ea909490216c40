/** A list in which each value stands once, however often it is named: a statement may name thousands. */
export class Numbered<T> {
  readonly values: T[] = []
  private readonly numbers = new Map<string, number>()

  /** The number of an equal value; undefined where there is none. */
  find(value: T): number | undefined {
    return this.numbers.get(JSON.stringify(value))
  }

  /** The number of the value, which is added unless an equal one is there. */
  add(value: T): number {
    const key = JSON.stringify(value)
    let number = this.numbers.get(key)
    if (number === undefined) this.numbers.set(key, (number = this.values.push(value) - 1))
    return number
  }
}
