/**
 * A chunk of a result in parts of bounded size. DuckDB has a text once that many columns and rows show, and a reader gets a copy for each: 2048 rows of a
 * hundred such columns are no memory there, and gigabytes here.
 */
import type { DuckDBDataChunk } from '@duckdb/node-api'
import duckdb from '@duckdb/node-bindings'
import type { SqlChunk } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { vectorSlice } from './vector-slice.ts'
import { isText, type ResultColumn, readVector, textLengths } from './vectors.ts'

const PART_BYTES = 1 << 20
/** Of the row of an answer. */
export const MAX_ROW_BYTES = 16 << 20

/** @throws SQL_ERROR for a row whose texts have more bytes than that. */
export function* readParts(
  chunk: DuckDBDataChunk,
  columns: readonly ResultColumn[],
  textBytes = false,
  maxRowBytes = Number.POSITIVE_INFINITY,
): Generator<SqlChunk> {
  const ends = endsOf(chunk, columns, maxRowBytes)
  if (ends.length === 1) return void (yield { rows: chunk.rowCount, columns: columns.map((column, i) => readVector(chunk, i, column, textBytes)) })
  // What is no text is read once, and is small.
  const others = columns.map((column, i) => (isText(column) ? undefined : readVector(chunk, i, column, textBytes)))
  let from = 0
  for (const to of ends) {
    const part = others.map((vector, i) => (vector === undefined ? readVector(chunk, i, columns[i], textBytes, from, to) : vectorSlice(vector, from, to)))
    yield { rows: to - from, columns: part }
    from = to
  }
}

/** Where each part ends. */
function endsOf(chunk: DuckDBDataChunk, columns: readonly ResultColumn[], maxRowBytes: number): number[] {
  const rows = chunk.rowCount
  const sizes = new Float64Array(rows)
  for (const [i, column] of columns.entries()) if (isText(column)) textLengths(duckdb.data_chunk_get_vector(chunk.chunk, i), sizes)
  const ends: number[] = []
  let bytes = 0
  for (const [row, size] of sizes.entries()) {
    if (size > maxRowBytes) throw tooLarge(size, maxRowBytes)
    if (bytes > 0 && bytes + size > PART_BYTES) {
      ends.push(row)
      bytes = 0
    }
    bytes += size
  }
  ends.push(rows)
  return ends
}

export function tooLarge(bytes: number, limit: number): SvcError {
  return new SvcError('SQL_ERROR', `cannot run this query: a row of its result has about ${bytes} bytes, and at most ${limit} can be answered`)
}
