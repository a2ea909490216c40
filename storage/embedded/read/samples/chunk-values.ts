/** Values of a memtable chunk's rows, whatever their type. */
import type { ChunkView, ColumnView } from '../../memtable/chunk-view.ts'
import { heapBytes } from '../../memtable/row-gather.ts'
import type { FieldDef } from '../../threads/definitions.ts'
import type { MemtablePart } from '../../threads/state.ts'
import { SampleBlockBuilder } from './sample-block.ts'

/** @param positions rows by series, time, arrival. */
export function built(part: MemtablePart, chunk: ChunkView, view: ColumnView, positions: Int32Array, field: FieldDef): SampleBlockBuilder {
  const out = new SampleBlockBuilder(positions.length)
  const { series, time } = chunk
  const { i32, u8, validity } = view
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
        out.addFloat(s, low, high, i32[row * 2], i32[row * 2 + 1])
        break
      case 'int64':
        out.addNumber(s, low, high, i32[row * 2 + 1] * 4294967296 + (i32[row * 2] >>> 0))
        break
      case 'uint64':
        out.addNumber(s, low, high, (i32[row * 2 + 1] >>> 0) * 4294967296 + (i32[row * 2] >>> 0))
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

/** 128-bit two's complement, low half first. */
function decimalOf(i32: Int32Array, at: number): number {
  const word = (n: number): bigint => BigInt(i32[at + n] >>> 0)
  return Number((BigInt(i32[at + 3]) << 96n) | (word(2) << 64n) | (word(1) << 32n) | word(0))
}
