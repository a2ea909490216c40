/** Single values of a column, for those who do not go through it whole. */
import { isStaleHistogram } from '../histogram/index.ts'
import type { Column } from './column.ts'

/** A byte order mark at the beginning is part of the text. */
const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

/** Whether the row has a value that readers of points are to see: one that is set, finite, and no mark for the end of a series. @param heap of texts and histograms. */
export function isShown(column: Column, row: number, heap: Uint8Array): boolean {
  if (!column.has(row)) return false
  if (column.nonFinite && !Number.isFinite(column.f64[row])) return false
  if (column.type !== 'histogram') return true
  const { i32 } = column
  return !isStaleHistogram(heap, i32[row * 2], i32[row * 2] + i32[row * 2 + 1])
}

/** The value of a row that has one (`Column.has`): int64, uint64 and decimals, unscaled, as bigint; histograms as a copy of their bytes. */
export function valueAt(column: Column, row: number, heap: Uint8Array): number | bigint | boolean | string | Uint8Array {
  const { i32 } = column
  switch (column.type) {
    case 'float64':
      return column.f64[row]
    case 'bool':
      return column.u8[row] === 1
    case 'int64':
      return (BigInt(i32[row * 2 + 1]) << 32n) | BigInt(i32[row * 2] >>> 0)
    case 'uint64':
      return (BigInt(i32[row * 2 + 1] >>> 0) << 32n) | BigInt(i32[row * 2] >>> 0)
    case 'decimal': {
      let value = BigInt(i32[row * 4 + 3])
      for (let lane = 2; lane >= 0; lane--) value = (value << 32n) | BigInt(i32[row * 4 + lane] >>> 0)
      return value
    }
    default: {
      const bytes = heap.slice(i32[row * 2], i32[row * 2] + i32[row * 2 + 1])
      return column.type === 'string' ? decoder.decode(bytes) : bytes
    }
  }
}
