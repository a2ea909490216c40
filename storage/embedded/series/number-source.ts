/** A list of series numbers as a row source, for restrictions too long to be written out. */
import type { RowSource } from '../duckdb/duckdb.ts'
import { duckdb } from '../duckdb/native.ts'
import { copyValues } from '../duckdb/vector-writer.ts'
import { BLOCK_ROWS } from '../memtable/chunk-view.ts'

export function numberSource(numbers: Int32Array): RowSource {
  return {
    columns: [{ name: 'n', type: duckdb().create_logical_type(duckdb().Type.INTEGER) }],
    rows: numbers.length,
    open() {
      let at = 0
      return {
        next(vectors) {
          const block = numbers.slice(at, at + BLOCK_ROWS)
          if (vectors.length > 0) copyValues(vectors[0], block.buffer, 0, block.byteLength)
          at += block.length
          return block.length
        },
      }
    },
  }
}
