/** Values of a memtable chunk's rows, whatever their type. */
import type { ChunkView, ColumnView } from '../../memtable/chunk-view.ts'
import { heapBytes } from '../../memtable/row-gather.ts'
import type { FieldDef } from '../../threads/definitions.ts'
import type { MemtablePart } from '../../threads/state.ts'
import { SampleBlockBuilder } from './sample-block.ts'

const TWO_32 = 2 ** 32

/** @param positions rows by series, time, arrival. */
export function built(part: MemtablePart, chunk: ChunkView, view: ColumnView, positions: Int32Array, field: FieldDef): SampleBlockBuilder {
  const out = new SampleBlockBuilder(positions.length)
  const { series, time } = chunk
  const { i32, ints, u8, validity } = view
  const nulls = chunk.hasNulls(view)
  const scale = 10 ** field.scale
  for (let i = 0; i < positions.length; i++) {
    const row = positions[i]
    const s = series[row]
    const low = time[row * 2]
    const high = time[row * 2 + 1]
    if (nulls && (validity[row >> 3] & (1 << (row & 7))) === 0) {
      out.skip()
      continue
    }
    switch (field.type) {
      case 'float64':
        if (ints === undefined) out.addFloat(s, low, high, i32[row * 2], i32[row * 2 + 1])
        else out.addNumber(s, low, high, ints[row])
        break
      case 'int64':
        out.addNumber(s, low, high, ints === undefined ? i32[row * 2 + 1] * TWO_32 + (i32[row * 2] >>> 0) : ints[row])
        break
      case 'uint64':
        out.addNumber(s, low, high, ints === undefined ? (i32[row * 2 + 1] >>> 0) * TWO_32 + (i32[row * 2] >>> 0) : ints[row])
        break
      case 'bool':
        out.addNumber(s, low, high, u8[row])
        break
      case 'decimal':
        out.addNumber(s, low, high, decimalOf(i32, row * 4) / scale)
        break
      case 'histogram':
        out.addBlob(s, low, high, heapBytes(part.memtable.heap, i32[row * 2], i32[row * 2 + 1]).slice())
        break
    }
  }
  return out
}

/** Whether values are numbers as they lie there. */
export function areNumbers({ type }: FieldDef, chunk: ChunkView, view: ColumnView): boolean {
  return type === 'float64' ? !chunk.hasNonFinite(view) : type === 'int64' || type === 'uint64' || type === 'bool'
}

/** The numbers of rows order[from, to) at their places in `out`. */
export function gatherNumbers({ f64, i32, ints, u8 }: ColumnView, { type }: FieldDef, order: Int32Array, from: number, to: number, out: Float64Array): void {
  if (ints !== undefined) return gatherIntegers(ints, order, from, to, out)
  if (type === 'float64') for (let i = from; i < to; i++) out[i] = f64[order[i]]
  else if (type === 'int64') for (let i = from; i < to; i++) out[i] = i32[order[i] * 2 + 1] * TWO_32 + (i32[order[i] * 2] >>> 0)
  else if (type === 'uint64') for (let i = from; i < to; i++) out[i] = (i32[order[i] * 2 + 1] >>> 0) * TWO_32 + (i32[order[i] * 2] >>> 0)
  else for (let i = from; i < to; i++) out[i] = u8[order[i]]
}

// A loop for each kind of array, as of memtable/value-widths.ts.
function gatherIntegers(ints: Int16Array | Int32Array, order: Int32Array, from: number, to: number, out: Float64Array): void {
  if (ints instanceof Int16Array) gatherShorts(ints, order, from, to, out)
  else for (let i = from; i < to; i++) out[i] = ints[order[i]]
}

function gatherShorts(ints: Int16Array, order: Int32Array, from: number, to: number, out: Float64Array): void {
  for (let i = from; i < to; i++) out[i] = ints[order[i]]
}

/** 128-bit two's complement, low half first. */
function decimalOf(i32: Int32Array, at: number): number {
  const word = (n: number): bigint => BigInt(i32[at + n] >>> 0)
  return Number((BigInt(i32[at + 3]) << 96n) | (word(2) << 64n) | (word(1) << 32n) | word(0))
}
