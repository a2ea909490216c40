/** The k largest or smallest of a stream of cells, by their values; NaN only where there is nothing else. Of equal ones, the first stay. */
export class ValueHeap {
  private readonly largest: boolean
  private readonly values: Float64Array
  /** A binary heap with the one to go next at the root. */
  private cells: number[] = []

  constructor(largest: boolean, values: Float64Array) {
    this.largest = largest
    this.values = values
  }

  offer(cell: number, k: number): void {
    const { cells, values } = this
    if (cells.length < k) {
      cells.push(cell)
      this.up(cells.length - 1)
      return
    }
    const worst = values[cells[0]]
    const value = values[cell]
    const better = this.largest ? value > worst : value < worst
    if (!better && !(Number.isNaN(worst) && !Number.isNaN(value))) return
    cells[0] = cell
    this.down()
  }

  /** The cells, best first; the heap is empty then. */
  drain(): number[] {
    const { cells, values, largest } = this
    this.cells = []
    return cells.sort((a, b) => {
      const [x, y] = [values[a], values[b]]
      if (Number.isNaN(x)) return Number.isNaN(y) ? 0 : 1
      if (Number.isNaN(y)) return -1
      return largest ? y - x || 0 : x - y || 0
    })
  }

  /** Whether the cell at i goes before the one at j. */
  private before(i: number, j: number): boolean {
    const x = this.values[this.cells[i]]
    const y = this.values[this.cells[j]]
    return Number.isNaN(x) || (this.largest ? x < y : x > y)
  }

  private up(from: number): void {
    let i = from
    while (i > 0) {
      const parent = (i - 1) >> 1
      if (!this.before(i, parent)) return
      this.swap(i, parent)
      i = parent
    }
  }

  private down(): void {
    const { length } = this.cells
    let i = 0
    for (;;) {
      let child = 2 * i + 1
      if (child >= length) return
      if (child + 1 < length && this.before(child + 1, child)) child++
      if (!this.before(child, i)) return
      this.swap(i, child)
      i = child
    }
  }

  private swap(i: number, j: number): void {
    const { cells } = this
    const cell = cells[i]
    cells[i] = cells[j]
    cells[j] = cell
  }
}
