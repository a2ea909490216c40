/**
 * Numbers of a memtable take 2, 4 or 8 bytes each, as those need that have come: most are small and whole, floats too, and memtables are what writes take most memory for.
 *
 * Invariant: what is kept in less than 8 bytes is read as the number that was written, to the last bit. -0, NaN and infinities take 8.
 */
import { bytesPerValue, type Column } from 'svcdb/lib/columns'
import type { FieldDef } from '../threads/definitions.ts'
import type { WrittenColumn } from './chunk.ts'
import type { AppendedRows } from './memtable.ts'
import type { SlabViews } from './slabs.ts'

const WIDE = 8
/** Later values may be so many times as large as the first ones. */
const HEADROOM = 4
/** A batch that widens columns may need another chunk: a table that has more of these gets columns of 8 bytes. */
const MOST_WIDENINGS = 16

/** Of one table. */
export class ValueWidths {
  private readonly widths = new Map<number, number>()
  private widenings = 0

  /** Bytes that each value of a field is to have room for. */
  of({ id, type }: FieldDef): number {
    if (!mayBeNarrow(type)) return bytesPerValue(type)
    return this.widenings > MOST_WIDENINGS ? WIDE : (this.widths.get(id) ?? WIDE)
  }

  /** Makes room for the values of a batch, whose columns store these fields. */
  take({ rows, columns }: AppendedRows, targets: readonly FieldDef[]): void {
    if (this.widenings > MOST_WIDENINGS) return
    let widened = false
    for (let i = 0; i < targets.length; i++) {
      const { id, type } = targets[i]
      const known = this.widths.get(id)
      if (!mayBeNarrow(type) || known === WIDE) continue
      const bits = type === 'float64' ? bitsOfFloats(columns[i], rows) : bitsOfIntegers(columns[i], rows, type === 'uint64')
      if (bits === undefined || (known !== undefined && bits < limitOf(known))) continue
      widened ||= known !== undefined
      this.widths.set(id, widthFor(bits * HEADROOM))
    }
    if (widened) this.widenings++
  }
}

const mayBeNarrow = (type: FieldDef['type']): boolean => type === 'int64' || type === 'uint64' || type === 'float64'
/** Magnitudes are below it. */
const limitOf = (width: number): number => 2 ** (8 * width - 1)
const widthFor = (bits: number): number => (bits < limitOf(2) ? 2 : bits < limitOf(4) ? 4 : WIDE)

/** A number that is at least each value's magnitude and less than twice the largest; infinite where 32 bits do not hold one, undefined where there are none. */
function bitsOfIntegers({ i32, validity, next }: Column, rows: number, unsigned: boolean): number | undefined {
  const end = Math.min(rows, next)
  let bits = 0
  let any = false
  for (let row = 0; row < end; row++) {
    if (validity !== undefined && validity[row] === 0) continue
    const low = i32[row * 2]
    const sign = low >> 31
    if (i32[row * 2 + 1] !== sign || (unsigned && sign !== 0)) return Number.POSITIVE_INFINITY
    bits |= low ^ sign
    any = true
  }
  return any ? bits : undefined
}

/** The same of floats, where those that are not whole need more than 32 bits. */
function bitsOfFloats({ f64, i32, validity, next }: Column, rows: number): number | undefined {
  const end = Math.min(rows, next)
  let bits = 0
  let any = false
  for (let row = 0; row < end; row++) {
    if (validity !== undefined && validity[row] === 0) continue
    const value = f64[row]
    const whole = value | 0
    if (whole !== value || (whole === 0 && i32[row * 2 + 1] !== 0)) return Number.POSITIVE_INFINITY
    bits |= whole ^ (whole >> 31)
    any = true
  }
  return any ? bits : undefined
}

/** Values of a batch's column, which fit. @param to a column of 2 or 4 bytes a value. @param row where they go. */
export function storeNarrow({ i16, i32 }: SlabViews, to: WrittenColumn, row: number, source: Column, from: number, n: number): void {
  const at = to.offset / to.width + row
  // A loop for each kind of array: V8 compiles one that has met both to one that looks which it has for each value.
  if (to.field.type === 'float64') {
    if (to.width === 2) floatsToShorts(i16, at, source.f64, from, n)
    else for (let i = 0; i < n; i++) i32[at + i] = source.f64[from + i]
  } else if (to.width === 2) lowsToShorts(i16, at, source.i32, from, n)
  else for (let i = 0; i < n; i++) i32[at + i] = source.i32[(from + i) * 2]
}

function floatsToShorts(to: Int16Array, at: number, source: Float64Array, from: number, n: number): void {
  for (let i = 0; i < n; i++) to[at + i] = source[from + i]
}

function lowsToShorts(to: Int16Array, at: number, source: Int32Array, from: number, n: number): void {
  for (let i = 0; i < n; i++) to[at + i] = source[(from + i) * 2]
}

/** The first n values of a column in a wider one. */
export function copyWider({ i32, u8 }: SlabViews, to: WrittenColumn, views: SlabViews, from: WrittenColumn, n: number): void {
  const start = from.offset / from.width
  const source = (from.width === 2 ? views.i16 : views.i32).subarray(start, start + n)
  const at = to.offset >> 2
  if (to.width < WIDE) i32.set(source, at)
  else if (to.field.type === 'float64') new Float64Array(u8.buffer, to.offset, n).set(source)
  else
    for (let i = 0; i < n; i++) {
      i32[at + i * 2] = source[i]
      i32[at + i * 2 + 1] = source[i] >> 31
    }
}
