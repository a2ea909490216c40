/**
 * The newest row of each of some series, or the newest with a value of a field: its time, and the value as 64 bits. Rows of memtables are offered in
 * order of arrival or by the links of their series; of equal times the later write wins.
 */
import { type ChunkView, type ColumnView, timeOf } from '../../memtable/chunk-view.ts'
import { Gathered, putNumber } from '../../memtable/row-gather.ts'
import { ROW_BITS } from '../../threads/memtable-layout.ts'
import type { MemtablePart } from '../../threads/state.ts'
import { contains, type Mask } from '../masks.ts'
import type { SeriesSlots } from './series-slots.ts'

/** Whether a series' newest row is known. `NONE`: it has no row from the first time on that was looked at. */
export const UNKNOWN = 0
export const NONE = 1
export const KNOWN = 2

const NO_ROW = -1
const OFFSET = (1 << ROW_BITS) - 1
const TWO_32 = 4294967296
/** Above the rounding error of a difference of two times as a double. */
const COARSEST = 4096
/** A step along a link costs about as much as this many rows that are read one after the other. */
const LINK_COST = 4
/** Of a value on its way. */
const one = new Gathered(1, 8)

/** Whether a row is to be seen; its time in two halves. */
type KeepRow = (series: number, low: number, high: number) => boolean

/** Rows of a memtable's table that are read: those from address `from` on that a snapshot sees. */
export interface RowRange {
  part: MemtablePart
  /** Chunk << ROW_BITS | row. */
  from: number
  /** Whether the links of the series lead through this table alone. */
  linked: boolean
  /** Rows of an earlier time are passed over. */
  floor: bigint
  keep: KeepRow | undefined
}

export class NewestRows {
  readonly states: Uint8Array
  /** Two halves each. */
  readonly times: Int32Array
  readonly bits: Int32Array

  /** @param states those to begin with. */
  constructor(length: number, state: number) {
    this.states = new Uint8Array(length).fill(state)
    this.times = new Int32Array(length * 2)
    this.bits = new Int32Array(length * 2)
  }

  /** Takes over a series from others. */
  copy(slot: number, other: NewestRows, from: number): void {
    this.states[slot] = other.states[from]
    this.times[slot * 2] = other.times[from * 2]
    this.times[slot * 2 + 1] = other.times[from * 2 + 1]
    this.bits[slot * 2] = other.bits[from * 2]
    this.bits[slot * 2 + 1] = other.bits[from * 2 + 1]
  }

  set(slot: number, low: number, high: number, valueLow: number, valueHigh: number): void {
    this.states[slot] = KNOWN
    this.times[slot * 2] = low
    this.times[slot * 2 + 1] = high
    this.bits[slot * 2] = valueLow
    this.bits[slot * 2 + 1] = valueHigh
  }

  /** Negative when the series' newest row is older than the time, or there is none; 0 when it is of the time. */
  compare(slot: number, low: number, high: number): number {
    if (this.states[slot] !== KNOWN) return -1
    return this.times[slot * 2 + 1] - high || (this.times[slot * 2] >>> 0) - (low >>> 0)
  }

  timeAt(slot: number): bigint {
    return timeOf(this.times, slot)
  }

  /**
   * Takes in the rows of a range; series that are not known are passed over. @param series ascending, one a slot. @param field undefined: of a row only
   * its time matters.
   */
  take(range: RowRange, series: Int32Array, slots: () => SeriesSlots, field: number | undefined): void {
    const { part, from, linked } = range
    let rows = 0
    for (let c = from >>> ROW_BITS; c < part.chunks.length; c++) rows += part.counts[c]
    rows -= from & OFFSET
    if (rows <= 0) return
    if (linked && series.length * LINK_COST < rows && this.walk(range, series, field, rows)) return
    this.sweep(range, slots(), field)
  }

  /** All rows, in order of arrival. */
  private sweep({ part, from, keep, floor }: RowRange, slots: SeriesSlots, field: number | undefined): void {
    const { states } = this
    const [floorLow, floorHigh] = halves(floor)
    for (let c = from >>> ROW_BITS, first = from & OFFSET; c < part.chunks.length; c++, first = 0) {
      const chunk = part.chunks[c]
      const view = field === undefined ? undefined : chunk.columns.get(field)
      if (field !== undefined && view === undefined) continue
      const { series, time } = chunk
      const nulls = view !== undefined && chunk.hasNulls(view)
      const rows = part.counts[c]
      for (let row = first; row < rows; row++) {
        const slot = slots.of(series[row])
        if (slot < 0 || states[slot] === UNKNOWN) continue
        if (nulls && (view!.validity[row >> 3] & (1 << (row & 7))) === 0) continue
        const low = time[row * 2]
        const high = time[row * 2 + 1]
        if (this.compare(slot, low, high) > 0) continue
        if (high < floorHigh || (high === floorHigh && low >>> 0 < floorLow)) continue
        if (keep !== undefined && !keep(series[row], low, high)) continue
        this.put(slot, view, row, low, high)
      }
    }
  }

  /**
   * The rows of each series from its newest on, as far as one may be newer than the best so far. @param budget steps that are worth it.
   * @returns whether the links could be followed to where they are wanted.
   */
  private walk({ part, from, keep, floor }: RowRange, series: Int32Array, field: number | undefined, budget: number): boolean {
    const { chunks, counts } = part
    const { heads } = part.memtable
    const { states } = this
    const [floorLow, floorHigh] = halves(floor)
    const lateness = Number(part.lateness)
    const slack = lateness === 0 ? 0 : lateness + COARSEST
    for (let slot = 0, steps = 0; slot < series.length; slot++) {
      if (states[slot] === UNKNOWN) continue
      const number = series[slot]
      let address = number < heads.length ? ~heads[number] : NO_ROW
      // Of equal times the first row met here is the later write, but those that were there before this range are older than all of it.
      let found = false
      while (address !== NO_ROW && address >= from) {
        if (++steps > budget) return false
        const c = address >>> ROW_BITS
        const row = address & OFFSET
        const chunk: ChunkView | undefined = chunks[c]
        if (chunk === undefined || row >= chunk.def.capacity) return false
        if (row < counts[c]) {
          if (chunk.series[row] !== number) return false
          const low = chunk.time[row * 2]
          const high = chunk.time[row * 2 + 1]
          const order = this.compare(slot, low, high)
          if ((order < 0 || (order === 0 && !found)) && !(high < floorHigh || (high === floorHigh && low >>> 0 < floorLow))) {
            const view = field === undefined ? undefined : chunk.columns.get(field)
            if ((field === undefined || hasValue(chunk, view, row)) && (keep === undefined || keep(number, low, high))) {
              this.put(slot, view, row, low, high)
              found = true
            }
          }
          if (states[slot] === KNOWN) {
            const gap = this.ahead(slot, low, high)
            if (gap > slack || (found && gap === slack)) break
          }
        } else if (row >= chunk.published()) return false
        address = chunk.prev[row]
      }
    }
    return true
  }

  /** Nanoseconds from a time to the series' newest row, about; what is below zero is never positive. */
  private ahead(slot: number, low: number, high: number): number {
    return (this.times[slot * 2 + 1] - high) * TWO_32 + ((this.times[slot * 2] >>> 0) - (low >>> 0))
  }

  private put(slot: number, view: ColumnView | undefined, row: number, low: number, high: number): void {
    if (view === undefined) this.set(slot, low, high, 0, 0)
    else if (view.ints !== undefined) {
      putNumber(view, row, one, 0)
      this.set(slot, low, high, one.i32[0], one.i32[1])
    } else if (view.width === 1) this.set(slot, low, high, view.u8[row], 0)
    else this.set(slot, low, high, view.i32[row * 2], view.i32[row * 2 + 1])
  }
}

function hasValue(chunk: ChunkView, view: ColumnView | undefined, row: number): boolean {
  return view !== undefined && (!chunk.hasNulls(view) || (view.validity[row >> 3] & (1 << (row & 7))) !== 0)
}

/** A time's halves, the low one unsigned. */
export function halves(time: bigint): [low: number, high: number] {
  return [Number(BigInt.asUintN(32, time)), Number(time >> 32n)]
}

/** Undefined when nothing is masked. */
export function keepOf(masks: readonly Mask[]): KeepRow | undefined {
  if (masks.length === 0) return undefined
  const bounds = masks.map(({ series, lo, hi }) => ({ series, from: halves(lo), to: halves(hi) }))
  return (number, low, high) => {
    for (const { series, from, to } of bounds) {
      if (high < from[1] || (high === from[1] && low >>> 0 < from[0]) || high > to[1] || (high === to[1] && low >>> 0 > to[0])) continue
      if (series === undefined || contains(series, number)) return false
    }
    return true
  }
}
