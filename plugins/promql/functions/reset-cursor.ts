/**
 * Where a counter was reset in the current window. Windows of one series move on only: each sample is looked at once, however many
 * windows it is in.
 */
const FIRST_PLACES = 16

export class ResetCursor {
  /** Samples below their predecessor: places[first] to places[end], ascending. */
  places = new Int32Array(FIRST_PLACES)
  first = 0
  end = 0
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
      from = lo + 1
    }
    let previous = values[from - 1]
    for (let i = from; i < hi; i++) {
      const value = values[i]
      if (value < previous) this.add(i)
      previous = value
    }
    while (this.first < this.end && this.places[this.first] <= lo) this.first++
    this.lo = lo
    this.hi = hi
  }

  private add(place: number): void {
    if (this.end === this.places.length) {
      const live = this.places.subarray(this.first, this.end)
      const next = live.length * 2 > this.places.length ? new Int32Array(this.places.length * 2) : new Int32Array(this.places.length)
      next.set(live)
      this.places = next
      this.end -= this.first
      this.first = 0
    }
    this.places[this.end++] = place
  }
}
