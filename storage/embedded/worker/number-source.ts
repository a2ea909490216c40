/** A list of series numbers as a row source, for restrictions too long to be written out. */
import duckdb from '@duckdb/node-bindings'
import { BLOCK_ROWS } from './chunk-view.ts'
import type { RowSource } from './duck.ts'
import { copyValues } from './vector-writer.ts'

export function numberSource(numbers: Int32Array): RowSource {
  return {
    columns: [{ name: 'n', type: duckdb.create_logical_type(duckdb.Type.INTEGER) }],
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
