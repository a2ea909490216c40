/** Values of functions' arguments and results between DuckDB's vectors and JavaScript's arrays: a view where that can be, never a value at a time for numbers. */
import duckdb from '@duckdb/node-bindings'
import type { SqlConstant, SqlFixedType, SqlFunctionColumn, SqlType } from 'svcdb'
import { copyValidity, copyValues, writeTexts } from '../../duckdb/vector-writer.ts'
import { bytesOfRows, readValidity, textAt } from '../../duckdb/vectors.ts'

const { Type } = duckdb
/** Rows of a DuckDB vector. */
const VECTOR_ROWS = 2048
const ENTRY_BYTES = 16
const encoder = new TextEncoder()

type FixedArray = Float64Array | BigInt64Array | BigUint64Array | Int32Array | Uint8Array
interface FixedArrays {
  new (length: number): FixedArray
  new (buffer: ArrayBufferLike, offset: number, length: number): FixedArray
  BYTES_PER_ELEMENT: number
}

const FIXED: Record<SqlFixedType, { id: duckdb.Type; array: FixedArrays }> = {
  BOOLEAN: { id: Type.BOOLEAN, array: Uint8Array as unknown as FixedArrays },
  INTEGER: { id: Type.INTEGER, array: Int32Array as unknown as FixedArrays },
  BIGINT: { id: Type.BIGINT, array: BigInt64Array as unknown as FixedArrays },
  UBIGINT: { id: Type.UBIGINT, array: BigUint64Array as unknown as FixedArrays },
  DOUBLE: { id: Type.DOUBLE, array: Float64Array as unknown as FixedArrays },
  TIMESTAMP_NS: { id: Type.TIMESTAMP_NS, array: BigInt64Array as unknown as FixedArrays },
}

const isList = (type: SqlType): type is `${SqlFixedType}[]` => type.endsWith('[]')
const elementOf = (type: SqlType): SqlFixedType => type.replace(/\[\]$/, '') as SqlFixedType

export function logicalType(type: SqlType): duckdb.LogicalType {
  if (isList(type)) return duckdb.create_list_type(logicalType(elementOf(type)))
  return duckdb.create_logical_type(type === 'VARCHAR' ? Type.VARCHAR : type === 'BLOB' ? Type.BLOB : FIXED[type as SqlFixedType].id)
}

/** An array for results of a type, of fixed width or not. */
export function newValues(type: SqlType, length: number): FixedArray | (string | Uint8Array | null)[] {
  return type === 'VARCHAR' || type === 'BLOB' ? new Array(length).fill(null) : new FIXED[elementOf(type)].array(length)
}

function fixedView(vector: duckdb.Vector, type: SqlFixedType, rows: number): FixedArray {
  const { array } = FIXED[type]
  if (rows === 0) return new array(0)
  const data = duckdb.vector_get_data(vector, rows * array.BYTES_PER_ELEMENT)
  return new array(data.buffer, data.byteOffset, rows)
}

/** @param nulls gets a 1 for each row that is NULL. */
export function readColumn(vector: duckdb.Vector, type: SqlType, rows: number, nulls: Uint8Array): SqlFunctionColumn {
  const validity = readValidity(vector, rows)
  if (validity !== undefined) for (let i = 0; i < rows; i++) if (validity[i] === 0) nulls[i] = 1
  if (isList(type)) return readLists(vector, elementOf(type), rows, validity)
  if (type === 'VARCHAR' || type === 'BLOB') {
    const values: (string | Uint8Array | null)[] = new Array(rows)
    bytesOfRows(vector, rows, (row, bytes) => {
      values[row] = bytes === undefined ? null : type === 'VARCHAR' ? bytes.toString() : bytes
    })
    return { values, validity }
  }
  return { values: fixedView(vector, type as SqlFixedType, rows), validity }
}

function readLists(vector: duckdb.Vector, type: SqlFixedType, rows: number, rowValidity: Uint8Array | undefined): SqlFunctionColumn {
  const data = duckdb.vector_get_data(vector, rows * ENTRY_BYTES)
  // 64 bits each of which no list fills more than half.
  const entries = new Uint32Array(data.buffer, data.byteOffset, rows * 4)
  const [starts, lengths] = [new Uint32Array(rows), new Uint32Array(rows)]
  for (let i = 0; i < rows; i++) {
    if (rowValidity !== undefined && rowValidity[i] === 0) continue
    starts[i] = entries[i * 4]
    lengths[i] = entries[i * 4 + 2]
  }
  const child = duckdb.list_vector_get_child(vector)
  const size = duckdb.list_vector_get_size(vector)
  const validity = readValidity(child, size)
  let values = fixedView(child, type, size)
  if (validity !== undefined && values instanceof Float64Array) {
    values = values.slice()
    for (let i = 0; i < size; i++) if (validity[i] === 0) values[i] = Number.NaN
  }
  return { values, validity, lists: { starts, lengths }, rowValidity }
}

/** A copy of one of the lists, as a column of its own. */
export function listOf({ values, validity, lists }: SqlFunctionColumn, row: number): SqlFunctionColumn {
  const [start, end] = [lists!.starts[row], lists!.starts[row] + lists!.lengths[row]]
  return { values: (values as FixedArray).slice(start, end), ...(validity === undefined ? {} : { validity: validity.slice(start, end) }) }
}

/** A constant argument, which is the same in every row. */
export function readConstant(vector: duckdb.Vector, type: SqlType): SqlConstant {
  if (type === 'VARCHAR') return textAt(vector, 0)
  const [value] = fixedView(vector, type as SqlFixedType, 1)
  return type === 'BOOLEAN' ? value === 1 : value
}

/** @param nulls 1 for rows that are NULL whatever the column says. */
export function writeColumn(vector: duckdb.Vector, type: SqlType, rows: number, column: SqlFunctionColumn | undefined, nulls: Uint8Array): void {
  const { bits, hasNulls } = bitsOf(type, rows, column, nulls)
  if (column !== undefined) {
    const { values } = column
    if (isList(type)) writeLists(vector, rows, column, bits)
    else if (type === 'VARCHAR' || type === 'BLOB') {
      const texts = values as readonly (string | Uint8Array)[]
      return writeTexts(vector, rows, hasNulls, bits, (i) => (typeof texts[i] === 'string' ? encoder.encode(texts[i]) : texts[i]))
    } else {
      const { buffer, byteOffset, BYTES_PER_ELEMENT: width } = values as FixedArray
      copyValues(vector, buffer as ArrayBuffer, byteOffset, rows * width)
    }
  }
  if (hasNulls) copyValidity(vector, bits.buffer, 0, rows)
}

/** A bit a row, 1 = present. */
function bitsOf(type: SqlType, rows: number, column: SqlFunctionColumn | undefined, nulls: Uint8Array): { bits: Uint8Array<ArrayBuffer>; hasNulls: boolean } {
  const bits = new Uint8Array(VECTOR_ROWS / 8).fill(255)
  let hasNulls = false
  const validity = column?.lists === undefined ? column?.validity : column.rowValidity
  const doubles = type === 'DOUBLE' && column !== undefined ? (column.values as Float64Array) : undefined
  const others = type === 'VARCHAR' || type === 'BLOB' ? (column?.values as readonly unknown[] | undefined) : undefined
  for (let i = 0; i < rows; i++) {
    const present =
      column !== undefined &&
      nulls[i] === 0 &&
      (validity === undefined || validity[i] === 1) &&
      (doubles === undefined || !Number.isNaN(doubles[i])) &&
      (others === undefined || (others[i] !== null && others[i] !== undefined))
    if (present) continue
    hasNulls = true
    bits[i >> 3] &= ~(1 << (i & 7))
  }
  return { bits, hasNulls }
}

function writeLists(vector: duckdb.Vector, rows: number, { values, validity, lists }: SqlFunctionColumn, bits: Uint8Array): void {
  const size = values.length
  duckdb.list_vector_reserve(vector, size)
  duckdb.list_vector_set_size(vector, size)
  const child = duckdb.list_vector_get_child(vector)
  const { buffer, byteOffset, byteLength } = values as FixedArray
  if (size > 0) duckdb.copy_data_to_vector(child, 0, buffer as ArrayBuffer, byteOffset, byteLength)
  if (validity !== undefined && size > 0) {
    const present = new Uint8Array((size + 7) >> 3)
    for (let i = 0; i < size; i++) if (validity[i] === 1) present[i >> 3] |= 1 << (i & 7)
    copyValidity(child, present.buffer, 0, size)
  }
  const entries = new Uint32Array(rows * 4)
  for (let i = 0; i < rows; i++) {
    if ((bits[i >> 3] & (1 << (i & 7))) === 0) continue
    entries[i * 4] = lists!.starts[i]
    entries[i * 4 + 2] = lists!.lengths[i]
  }
  copyValues(vector, entries.buffer, 0, rows * ENTRY_BYTES)
}

/** Why a result cannot be written; undefined when it can. */
export function problemOf(type: SqlType, rows: number, column: SqlFunctionColumn | undefined): string | undefined {
  if (column === undefined) return undefined
  const { values, validity, lists, rowValidity } = column
  const wanted = type === 'VARCHAR' || type === 'BLOB' ? undefined : FIXED[elementOf(type)].array
  if (wanted === undefined ? !Array.isArray(values) : !(values instanceof (wanted as unknown as Float64ArrayConstructor)))
    return `values that are not of type ${type}`
  if (!isList(type)) return values.length < rows || (validity !== undefined && validity.length < rows) ? `${values.length} values for ${rows} rows` : undefined
  if (lists === undefined || lists.starts.length < rows || lists.lengths.length < rows || (rowValidity !== undefined && rowValidity.length < rows))
    return `fewer lists than ${rows} rows`
  if (validity !== undefined && validity.length < values.length) return 'less validity than elements'
  for (let i = 0; i < rows; i++) if (lists.starts[i] + lists.lengths[i] > values.length) return 'a list that ends behind its elements'
  return undefined
}
