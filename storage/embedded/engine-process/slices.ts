/** A result in parts of bounded size: 2048 rows of long texts are no message to send. */
import type { SqlChunk } from 'svcdb'
import { MAX_ROW_BYTES, tooLarge } from '../duckdb/row-parts.ts'
import { vectorSlice } from '../duckdb/vector-slice.ts'

const SLICE_BYTES = 1 << 20

interface Slice {
  chunk: SqlChunk
  /** About. */
  bytes: number
}

/** @throws SQL_ERROR for a row that is too large. */
export function* slicesOf(chunk: SqlChunk): Generator<Slice> {
  let [from, bytes] = [0, 0]
  for (let row = 0; row < chunk.rows; row++) {
    const size = rowBytes(chunk, row)
    if (size > MAX_ROW_BYTES) throw tooLarge(size, MAX_ROW_BYTES)
    if (bytes + size > SLICE_BYTES && row > from) {
      yield { chunk: sliceOf(chunk, from, row), bytes }
      ;[from, bytes] = [row, 0]
    }
    bytes += size
  }
  if (from < chunk.rows) yield { chunk: from === 0 ? chunk : sliceOf(chunk, from, chunk.rows), bytes }
}

function rowBytes({ columns }: SqlChunk, row: number): number {
  let sum = 0
  for (const { values, bytes } of columns) sum += bytes === undefined ? valueBytes(values[row]) : 4 + (values[row + 1] as number) - (values[row] as number)
  return sum
}

function valueBytes(value: unknown): number {
  if (typeof value === 'string') return 8 + value.length * 2
  if (typeof value !== 'object' || value === null) return 8
  if (value instanceof Uint8Array) return 8 + value.length
  let sum = 8
  for (const key in value) sum += valueBytes((value as Record<string, unknown>)[key])
  return sum
}

function sliceOf({ columns }: SqlChunk, from: number, to: number): SqlChunk {
  return { rows: to - from, columns: columns.map((vector) => vectorSlice(vector, from, to)) }
}
