/**
 * The live series of each measurement whose records are durable: a drop or a delete of all of them walks those and no others.
 *
 * Invariants
 * - A series is in the list of its measurement from `added` to `removed`, and in no other; new ones go to the end.
 * - A series that is removed keeps its link onward: a walk that stands on it goes on from there.
 */
import { widened } from '../memtable/grow.ts'

const NONE = -1

interface Members {
  first: number
  last: number
  count: number
}

/** Where a walk stands. */
export interface Cursor {
  readonly measurement: number
  /** The series to look at next; undefined before the first. */
  at: number | undefined
}

export class MeasurementSeries {
  private readonly members: (Members | undefined)[] = []
  private owner: Int32Array = new Int32Array(1024).fill(NONE)
  private next: Int32Array = new Int32Array(1024)
  private previous: Int32Array = new Int32Array(1024)

  /** The series has become live. */
  added(series: number, measurement: number): void {
    this.room(series)
    let members = this.members[measurement]
    if (members === undefined) this.members[measurement] = members = { first: NONE, last: NONE, count: 0 }
    const { last } = members
    this.owner[series] = measurement
    this.previous[series] = last
    this.next[series] = NONE
    if (last === NONE) members.first = series
    else this.next[last] = series
    members.last = series
    members.count++
  }

  /** The series is not live any more. */
  removed(series: number, measurement: number): void {
    const members = this.members[measurement]
    if (members === undefined || this.owner[series] !== measurement) return
    const [previous, next] = [this.previous[series], this.next[series]]
    if (previous === NONE) members.first = next
    else this.next[previous] = next
    if (next === NONE) members.last = previous
    else this.previous[next] = previous
    this.owner[series] = NONE
    if (--members.count === 0) this.members[measurement] = undefined
  }

  /** Those that have any. */
  measurements(): number[] {
    return [...this.members.keys()].filter((measurement) => this.members[measurement] !== undefined)
  }

  count(measurement: number): number {
    return this.members[measurement]?.count ?? 0
  }

  /** A walk over the measurement's series. */
  walk(measurement: number): Cursor {
    return { measurement, at: undefined }
  }

  /** Up to `max` series from the cursor on, which moves; none at the end. Series that come or go between two calls may be left out, others not. */
  take(cursor: Cursor, max: number): Int32Array {
    const { owner, next } = this
    const { measurement } = cursor
    const first = this.members[measurement]?.first ?? NONE
    let at = cursor.at ?? first
    // The number has gone to a series of another measurement meanwhile.
    if (at !== NONE && owner[at] !== measurement && owner[at] !== NONE) at = first
    const out = new Int32Array(Math.min(max, this.count(measurement)))
    let n = 0
    for (let steps = 0; at !== NONE && n < out.length && steps < max; steps++) {
      if (owner[at] === measurement) out[n++] = at
      at = next[at]
    }
    cursor.at = at
    return out.subarray(0, n)
  }

  /** Whether the walk has come to the end. */
  ended({ at, measurement }: Cursor): boolean {
    return at === NONE || this.count(measurement) === 0
  }

  /** Bytes held in memory. */
  get memory(): number {
    return this.owner.length * 12
  }

  /** Makes room for series below a number. */
  reserve(series: number): void {
    if (series > this.owner.length) this.widen(series)
  }

  private room(series: number): void {
    if (series >= this.owner.length) this.widen(Math.max(this.owner.length * 2, series + 1))
  }

  private widen(length: number): void {
    this.owner = widened(this.owner, length, NONE)
    this.next = widened(this.next, length)
    this.previous = widened(this.previous, length)
  }
}
