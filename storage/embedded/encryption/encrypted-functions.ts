/** The functions that statements read encrypted columns by (encrypted-sql.ts), block by block. */
import duckdb from '@duckdb/node-bindings'
import type { FieldType } from 'svcdb'
import { raise } from '../duckdb/raised.ts'
import { copyValues, writeGathered, writeTexts } from '../duckdb/vector-writer.ts'
import { textAt } from '../duckdb/vectors.ts'
import { Gathered } from '../memtable/row-gather.ts'
import { fixedWidth, hasValue } from './block.ts'
import type { ColumnLocation, EncryptedColumns, PlacedBlock } from './columns.ts'
import { functionName, PRESENT } from './encrypted-sql.ts'

const TYPES: FieldType[] = ['float64', 'int64', 'uint64', 'bool', 'string', 'histogram']
const MAX_SCALE = 38

type LogicalType = (type: FieldType, scale: number) => duckdb.LogicalType

/** @param logicalType a field's type in DuckDB. */
export function registerEncrypted(connection: duckdb.Connection, columns: EncryptedColumns, logicalType: LogicalType): void {
  const locations = new Locations()
  const out = new Gathered()
  const define = (
    name: string,
    type: duckdb.LogicalType,
    fill: (vector: duckdb.Vector, location: ColumnLocation, rows: Int32Array, n: number) => void,
  ): void => {
    const fn = duckdb.create_scalar_function()
    duckdb.scalar_function_set_name(fn, name)
    duckdb.scalar_function_add_parameter(fn, duckdb.create_logical_type(duckdb.Type.VARCHAR))
    duckdb.scalar_function_add_parameter(fn, duckdb.create_logical_type(duckdb.Type.BIGINT))
    duckdb.scalar_function_set_return_type(fn, type)
    duckdb.scalar_function_set_function(fn, (info, input, output) => {
      try {
        const n = duckdb.data_chunk_get_size(input)
        if (n === 0) return
        // The first argument is a constant: all rows of a chunk are of one segment.
        const location = locations.of(textAt(duckdb.data_chunk_get_vector(input, 0), 0))
        const numbers = duckdb.vector_get_data(duckdb.data_chunk_get_vector(input, 1), n * 8)
        fill(output, location, new Int32Array(numbers.buffer, numbers.byteOffset, n * 2), n)
      } catch (error) {
        duckdb.scalar_function_set_error(info, raise(error))
      }
    })
    duckdb.register_scalar_function(connection, fn)
    duckdb.destroy_scalar_function_sync(fn)
  }
  const values = (type: FieldType, scale: number): void =>
    define(functionName(type, scale), logicalType(type, scale), (vector, location, rows, n) => {
      const width = fixedWidth(type)
      if (width === 0) return writeLong(vector, columns, location, rows, n, out)
      gather(columns, location, rows, n, width, out)
      writeGathered(vector, out, n, width)
    })
  for (const type of TYPES) values(type, 0)
  for (let scale = 0; scale <= MAX_SCALE; scale++) values('decimal', scale)
  define(PRESENT, duckdb.create_logical_type(duckdb.Type.BOOLEAN), (vector, location, rows, n) => {
    eachRow(columns, location, rows, n, (i, block, row) => {
      out.u8[i] = hasValue(block.bits, row) ? 1 : 0
    })
    copyValues(vector, out.buffer, 0, n)
  })
}

/** @param rows row numbers as low and high halves; the high ones are zero. */
function eachRow(
  columns: EncryptedColumns,
  location: ColumnLocation,
  rows: Int32Array,
  n: number,
  visit: (i: number, block: PlacedBlock, row: number) => void,
): void {
  let block: PlacedBlock | undefined
  for (let i = 0; i < n; i++) {
    const number = rows[i * 2]
    if (block === undefined || number < block.first || number >= block.first + block.rows) block = columns.blockOf(location, number)
    visit(i, block, number - block.first)
  }
}

function gather(columns: EncryptedColumns, location: ColumnLocation, rows: Int32Array, n: number, width: number, out: Gathered): void {
  out.hasNulls = false
  out.bits.fill(0, 0, (n + 7) >> 3)
  const { u8, bits } = out
  eachRow(columns, location, rows, n, (i, block, row) => {
    if (!hasValue(block.bits, row)) {
      out.hasNulls = true
      return
    }
    bits[i >> 3] |= 1 << (i & 7)
    const { values } = block
    for (let b = 0, from = row * width, to = i * width; b < width; b++) u8[to + b] = values[from + b]
  })
}

/** Texts and blobs. Their blocks are kept here until they are copied: the cache may let go of them meanwhile. */
function writeLong(vector: duckdb.Vector, columns: EncryptedColumns, location: ColumnLocation, rows: Int32Array, n: number, out: Gathered): void {
  const blocks: PlacedBlock[] = new Array(n)
  out.bits.fill(0, 0, (n + 7) >> 3)
  let present = 0
  eachRow(columns, location, rows, n, (i, block, row) => {
    blocks[i] = block
    if (!hasValue(block.bits, row)) return
    out.bits[i >> 3] |= 1 << (i & 7)
    present++
  })
  writeTexts(vector, n, present < n, out.bits, (i) => {
    const { offsets, values, first } = blocks[i]
    const row = rows[i * 2] - first
    return values.subarray(offsets![row], offsets![row + 1])
  })
}

/** Locations as statements name them, read once. */
class Locations {
  private readonly known = new Map<string, ColumnLocation>()

  of(text: string): ColumnLocation {
    let location = this.known.get(text)
    if (location === undefined) {
      if (this.known.size >= 256) this.known.clear()
      this.known.set(text, (location = JSON.parse(text) as ColumnLocation))
    }
    return location
  }
}
