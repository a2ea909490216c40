/**
 * Collects rows whose chunks have few of very many fields each: row by row, with what its chunk has, where a look at each column for each row would
 * take many times as long as there are values.
 */
import { CHUNK_ROWS, ROW_BITS } from '../threads/memtable-layout.ts'
import type { ColumnView } from './chunk-view.ts'
import type { FieldViews } from './field-views.ts'
import { type Gathered, putNumber } from './row-gather.ts'

const OFFSET = CHUNK_ROWS - 1

/** Where values of a field go. */
export interface ScatterTarget {
  field: number
  /** Bytes of a value. */
  width: number
  /** Values are stored as 32-bit integers of value * power. */
  power: number | undefined
  out: Gathered
}

export class Scatter {
  private readonly views: FieldViews
  private readonly rows: Int32Array
  private readonly groups: Int32Array | undefined
  private readonly targets: readonly ScatterTarget[]
  /** By place of the field. */
  private readonly byPlace: ScatterTarget[][] = []

  /**
   * @param views of all fields of the targets.
   * @param rows positions.
   * @param groups of rows that are one, as groupDuplicates makes them; undefined when no row duplicates another.
   */
  constructor(views: FieldViews, rows: Int32Array, groups: Int32Array | undefined, targets: readonly ScatterTarget[]) {
    this.views = views
    this.rows = rows
    this.groups = groups
    this.targets = targets
    for (const target of targets) {
      const [first] = views.of(target.field)
      if (first !== undefined) (this.byPlace[first.place] ??= []).push(target)
    }
  }

  /** Output rows [from, from + n), looked up in the order of `sequence`: each of [0, n) once. Of those that are one the last that sets a field wins. */
  collect(from: number, n: number, sequence?: Int32Array): void {
    for (const { out } of this.targets) {
      out.bits.fill(0, 0, (n + 7) >> 3)
      out.hasNulls = true
    }
    const { rows, groups } = this
    for (let k = 0; k < n; k++) {
      const i = sequence === undefined ? k : sequence[k]
      const row = from + i
      if (groups === undefined) this.put(rows[row], i)
      else for (let at = groups[row]; at < groups[row + 1]; at++) this.put(rows[at], i)
    }
  }

  private put(position: number, i: number): void {
    const row = position & OFFSET
    for (const { place, view, mayBeNull } of this.views.within[position >>> ROW_BITS]) {
      if (mayBeNull && (view.validity[row >> 3] & (1 << (row & 7))) === 0) continue
      const targets = this.byPlace[place]
      if (targets === undefined) continue
      for (const target of targets) {
        target.out.bits[i >> 3] |= 1 << (i & 7)
        putValue(view, row, target, i)
      }
    }
  }
}

function putValue(view: ColumnView, row: number, { width, power, out }: ScatterTarget, i: number): void {
  if (power !== undefined) out.i32[i] = Math.round((view.ints ?? view.f64)[row] * power)
  else if (view.ints !== undefined) putNumber(view, row, out, i)
  else if (width === 1) out.u8[i] = view.u8[row]
  else for (let lane = 0, lanes = width >> 2; lane < lanes; lane++) out.i32[i * lanes + lane] = view.i32[row * lanes + lane]
}
