/** A text column's values as small numbers, equal for equal values, for one record batch: what is done for a value is then done once. */
import { KeyTable } from 'svcdb/lib/columns'
import type { Work } from 'svcdb/lib/event-loop'
import type { TextColumn } from './texts.ts'

/** Values between two places where the work can be interrupted. */
const SLICE = 4096

export interface ValueCodes {
  /** Of each row; 0 = there is no value, or an empty one. */
  codes: Int32Array
  /** For each code but 0 a place in the column's offsets: `places[code - 1]`. */
  places: Int32Array
  distinct: number
}

export class ValueCoder {
  private readonly table: KeyTable
  private places = new Int32Array(64)
  private distinct = 0

  /** @param seed any number, best a random one. */
  constructor(seed: number) {
    this.table = new KeyTable(Number.MAX_SAFE_INTEGER, seed)
  }

  /** In turns. @param valid whether a row has a value; undefined = all have. */
  *encode(column: TextColumn, rows: number, valid: ((row: number) => boolean) | undefined): Work<ValueCodes> {
    this.table.clear()
    this.distinct = 0
    const codes = new Int32Array(rows)
    const { indices } = column
    if (indices === undefined) {
      yield* this.encodeValues(column, rows, valid, codes)
    } else {
      const ofEntries = new Int32Array(column.count)
      yield* this.encodeValues(column, column.count, undefined, ofEntries)
      for (let row = 0; row < rows; row++) if (valid === undefined || valid(row)) codes[row] = ofEntries[indices[row]]
    }
    return { codes, places: this.places.slice(0, this.distinct), distinct: this.distinct }
  }

  private *encodeValues({ heap, offsets }: TextColumn, count: number, valid: ((row: number) => boolean) | undefined, codes: Int32Array): Work<void> {
    const { table } = this
    const view = new DataView(heap.buffer, heap.byteOffset, heap.length)
    let last = -1
    for (let i = 0; i < count; i++) {
      if (i % SLICE === SLICE - 1) yield
      const start = offsets[i]
      const end = offsets[i + 1]
      if (start === end || (valid !== undefined && !valid(i))) continue
      // The value of the row before again, else the one that came after it last time, else any.
      let entry = table.matchEnd(last, view, start) === end ? last : -1
      if (entry < 0 && last >= 0 && table.matchEnd(table.following[last], view, start) === end) entry = table.following[last]
      if (entry < 0) {
        const hash = table.hashOf(view, start, end)
        entry = table.find(view, start, end, hash)
        if (entry < 0) {
          const code = this.newCode(i)
          entry = table.add(heap, start, end, hash, code, 0)
          if (entry < 0) {
            codes[i] = code
            continue
          }
        }
      }
      if (last >= 0) table.following[last] = entry
      last = entry
      codes[i] = table.series[entry]
    }
  }

  private newCode(place: number): number {
    if (this.distinct === this.places.length) {
      const grown = new Int32Array(this.distinct * 2)
      grown.set(this.places)
      this.places = grown
    }
    this.places[this.distinct] = place
    return ++this.distinct
  }
}
