/** Columns of an answer as columns of the storage interface. */
import type { ColumnChunk, FieldInfo } from 'svcdb'
import { isStaleHistogram } from 'svcdb/lib/histogram'
import type { ReadColumn } from './native/decode.ts'

const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

/** Whether readers of points are to see a row's value. */
export function isShown({ type }: FieldInfo, column: ReadColumn, row: number): boolean {
  if (column.nulls?.[row] === 1) return false
  if (type === 'float64') return Number.isFinite(floats(column)[row])
  return type !== 'histogram' || !isStaleHistogram(column.texts?.[row] as Uint8Array)
}

export function floats({ bytes }: ReadColumn): Float64Array {
  return new Float64Array(bytes.buffer, bytes.byteOffset, bytes.length / 8)
}

export function decimalAt({ bytes }: ReadColumn, row: number): bigint {
  const view = new DataView(bytes.buffer, bytes.byteOffset)
  return (view.getBigInt64(row * 16 + 8, true) << 64n) | view.getBigUint64(row * 16, true)
}

/** The values of some rows; undefined when none of them is shown. */
export function chunkOf(field: FieldInfo, column: ReadColumn, rows: readonly number[]): ColumnChunk | undefined {
  const shown = Uint8Array.from(rows, (row) => (isShown(field, column, row) ? 1 : 0))
  if (!shown.includes(1)) return undefined
  return { ...field, values: vectorOf(field, column, rows, shown), ...(shown.includes(0) ? { validity: shown } : {}) }
}

function vectorOf({ type }: FieldInfo, column: ReadColumn, rows: readonly number[], shown: Uint8Array): ColumnChunk['values'] {
  const { bytes, texts } = column
  const { buffer } = bytes
  switch (type) {
    case 'float64': {
      const all = floats(column)
      return Float64Array.from(rows, (row, i) => (shown[i] === 1 ? all[row] : 0))
    }
    case 'int64': {
      const all = new BigInt64Array(buffer)
      return BigInt64Array.from(rows, (row) => all[row])
    }
    case 'uint64': {
      const all = new BigUint64Array(buffer)
      return BigUint64Array.from(rows, (row) => all[row])
    }
    case 'bool':
      return Uint8Array.from(rows, (row) => bytes[row])
    case 'decimal':
      return rows.map((row) => decimalAt(column, row))
    case 'string':
      return rows.map((row, i) => (shown[i] === 1 ? decoder.decode(texts?.[row]) : null))
    case 'histogram':
      return rows.map((row) => texts?.[row] as Uint8Array)
  }
}
