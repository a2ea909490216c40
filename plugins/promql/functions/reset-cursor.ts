/**
 * Where a counter was reset in the current window, and what it had reached. Windows of one series move on only: each sample is looked at
 * once, however many windows it is in.
 */
/** A window has fewer resets mostly; those that left make room for many more before any are moved. There is no room before the first: most functions look for none. */
const FIRST_PLACES = 256
const NO_PLACES = new Int32Array(0)
const NOTHING_REACHED = new Float64Array(0)
/** Whole numbers up to this, as many as a window may have, add up to less than 2^52: exactly, whatever the order. */
const LARGEST_WHOLE = 2 ** 32
const MAX_WHOLE = 2 ** 20
const LARGEST_CHANGE = 2 ** 51

export class ResetCursor {
  /** Samples below their predecessor: places[first] to places[end], ascending. */
  places: Int32Array = NO_PLACES
  first = 0
  end = 0
  /** The predecessors' values, beside the places. */
  private reached: Float64Array = NOTHING_REACHED
  /** Of the values that are whole, and how many others there are. */
  private wholeSum = 0
  private others = 0
  private series = -1
  private lo = 0
  private hi = 0

  /** To the window [lo, hi) of a series; a first sample that fell before the window is none of its resets. */
  move(series: number, values: Float64Array, lo: number, hi: number): void {
    let from = this.hi
    if (series !== this.series || lo < this.lo || hi < this.hi || lo >= this.hi) {
      this.series = series
      this.first = 0
      this.end = 0
      this.wholeSum = 0
      this.others = 0
      from = lo + 1
    }
    let previous = values[from - 1]
    for (let i = from; i < hi; i++) {
      const value = values[i]
      if (value < previous) this.add(i, previous)
      previous = value
    }
    while (this.first < this.end && this.places[this.first] <= lo) this.leave(this.reached[this.first++])
    this.lo = lo
    this.hi = hi
  }

  /** A difference and, one after the other, what each reset of the window took away. */
  addTo(change: number): number {
    const { first, end, reached } = this
    if (first === end) return change
    // No sum on the way is rounded, so that it need not be made anew for each window.
    if (this.others === 0 && change === Math.floor(change) && change <= LARGEST_CHANGE && change >= -LARGEST_CHANGE) return change + this.wholeSum
    let sum = change
    for (let i = first; i < end; i++) sum += reached[i]
    return sum
  }

  private add(place: number, value: number): void {
    if (this.end === this.places.length) this.makeRoom()
    this.places[this.end] = place
    this.reached[this.end++] = value
    if (isWhole(value)) this.wholeSum += value
    else this.others++
    if (this.end - this.first > MAX_WHOLE) this.others = Number.POSITIVE_INFINITY
  }

  private leave(value: number): void {
    if (isWhole(value)) this.wholeSum -= value
    else this.others--
  }

  private makeRoom(): void {
    const { first, end, places, reached } = this
    const live = end - first
    if (live * 2 > places.length || places.length === 0) {
      const room = Math.max(FIRST_PLACES, places.length * 2)
      this.places = new Int32Array(room)
      this.reached = new Float64Array(room)
      this.places.set(places.subarray(first, end))
      this.reached.set(reached.subarray(first, end))
    } else {
      places.copyWithin(0, first, end)
      reached.copyWithin(0, first, end)
    }
    this.end = live
    this.first = 0
  }
}

/** Zeros are left to the other way: they may have a sign. */
function isWhole(value: number): boolean {
  return value > 0 && value <= LARGEST_WHOLE && value === Math.floor(value)
}
