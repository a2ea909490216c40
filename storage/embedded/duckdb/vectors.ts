/** DuckDB's result vectors as SqlVectors: typed arrays where the type has one, JavaScript values otherwise. */
import { type DuckDBDataChunk, DuckDBLogicalType, type DuckDBType } from '@duckdb/node-api'
import duckdb from '@duckdb/node-bindings'
import type { SqlVector } from 'svcdb'
import { byPlace, plainValues } from './nested-values.ts'

const STRING_SLOT = 16
const INLINE_BYTES = 12
const { Type } = duckdb

export interface ResultColumn {
  type: duckdb.LogicalType
  id: duckdb.Type
  /** Of ENUM columns. */
  dictionary: string[] | undefined
  /** Of columns that are read value by value. */
  values: { type: DuckDBType; placed: DuckDBType } | undefined
}

export function resultColumn(type: duckdb.LogicalType): ResultColumn {
  const id = duckdb.get_type_id(type)
  let dictionary: string[] | undefined
  if (id === Type.ENUM) {
    dictionary = []
    for (let i = 0, n = duckdb.enum_dictionary_size(type); i < n; i++) dictionary.push(duckdb.enum_dictionary_value(type, i))
  }
  return { type, id, dictionary, values: isPlain(id) ? undefined : valueTypes(type) }
}

function valueTypes(logical: duckdb.LogicalType): ResultColumn['values'] {
  const type = DuckDBLogicalType.create(logical).asType()
  return { type, placed: byPlace(type) }
}

type TypedArray = { new (buffer: ArrayBuffer, offset: number, length: number): SqlVector['values'] & { BYTES_PER_ELEMENT?: number }; BYTES_PER_ELEMENT: number }
const TYPED = new Map<duckdb.Type, TypedArray>([
  [Type.BOOLEAN, Uint8Array],
  [Type.TINYINT, Int8Array],
  [Type.SMALLINT, Int16Array],
  [Type.INTEGER, Int32Array],
  [Type.BIGINT, BigInt64Array],
  [Type.UTINYINT, Uint8Array],
  [Type.USMALLINT, Uint16Array],
  [Type.UINTEGER, Uint32Array],
  [Type.UBIGINT, BigUint64Array],
  [Type.FLOAT, Float32Array],
  [Type.DOUBLE, Float64Array],
  [Type.DATE, Int32Array],
  [Type.TIME, BigInt64Array],
  [Type.TIME_NS, BigInt64Array],
  [Type.TIMESTAMP, BigInt64Array],
  [Type.TIMESTAMP_S, BigInt64Array],
  [Type.TIMESTAMP_MS, BigInt64Array],
  [Type.TIMESTAMP_NS, BigInt64Array],
  [Type.TIMESTAMP_TZ, BigInt64Array],
])

export const isText = ({ id }: ResultColumn): boolean => id === Type.VARCHAR || id === Type.BLOB

/** Types that are read without the library's values. */
const isPlain = (id: duckdb.Type): boolean => TYPED.has(id) || [Type.VARCHAR, Type.BLOB, Type.ENUM, Type.DECIMAL, Type.HUGEINT].includes(id)

/**
 * One column of a chunk. BOOLEAN 0 or 1; DATE days; times and timestamps in their unit; DECIMAL and HUGEINT bigint (unscaled); text and
 * ENUM string; BLOB Uint8Array; INTERVAL {months, days, nanoseconds}; LIST and ARRAY arrays; STRUCT an object; MAP an array of {key, value}.
 * @param textBytes text as UTF-8 of all values, ENUM as its codes; whose codes under a missing value may be any number.
 * @param from first row; of texts only, others are read as a whole.
 * @param rows behind the last one.
 */
export function readVector(chunk: DuckDBDataChunk, index: number, column: ResultColumn, textBytes = false, from = 0, rows = chunk.rowCount): SqlVector {
  const vector = duckdb.data_chunk_get_vector(chunk.chunk, index)
  const validity = readValidity(vector, rows, from)
  const typed = TYPED.get(column.id)
  if (typed !== undefined) {
    const data = duckdb.vector_get_data(vector, rows * typed.BYTES_PER_ELEMENT)
    return { values: new typed(data.buffer as ArrayBuffer, data.byteOffset, rows), validity }
  }
  if (textBytes && column.id === Type.VARCHAR) return { ...readTextBytes(vector, from, rows, validity), validity }
  if (textBytes && column.dictionary !== undefined) return { values: enumCodes(vector, rows, column), validity, dictionary: column.dictionary }
  if (column.id === Type.VARCHAR) return { values: readTexts(vector, from, rows, validity, (bytes) => bytes.toString()), validity }
  if (column.id === Type.BLOB) return { values: readTexts(vector, from, rows, validity, (bytes) => new Uint8Array(bytes)), validity }
  if (column.dictionary !== undefined) return { values: readEnum(vector, rows, validity, column), validity }
  if (column.id === Type.DECIMAL || column.id === Type.HUGEINT) return { values: readIntegers(vector, rows, validity, column), validity }
  const { type, placed } = column.values!
  return { values: plainValues(vector, rows, type, placed), validity }
}

/** One byte a row from `from` on, undefined when all are present. */
export function readValidity(vector: duckdb.Vector, rows: number, from = 0): Uint8Array | undefined {
  const bits: Uint8Array | null = duckdb.vector_get_validity(vector, Math.ceil(rows / 64) * 8)
  if (bits === null || bits === undefined) return undefined
  const out = new Uint8Array(rows - from)
  let present = 0
  for (let i = from; i < rows; i++) present += out[i - from] = (bits[i >> 3] >> (i & 7)) & 1
  return present === out.length ? undefined : out
}

/** Adds the bytes of each row's text or blob. */
export function textLengths(vector: duckdb.Vector, sizes: Float64Array): void {
  const rows = sizes.length
  const data = duckdb.vector_get_data(vector, rows * STRING_SLOT)
  const words = new Uint32Array(data.buffer as ArrayBuffer, data.byteOffset, rows * (STRING_SLOT / 4))
  const validity = readValidity(vector, rows)
  for (let i = 0; i < rows; i++) if (validity === undefined || validity[i] === 1) sizes[i] += words[4 * i]
}

function readTexts<T>(vector: duckdb.Vector, from: number, to: number, validity: Uint8Array | undefined, convert: (bytes: Buffer) => T): (T | null)[] {
  const out: (T | null)[] = new Array(to - from)
  visitBytes(vector, from, to, validity, (row, bytes) => {
    out[row] = bytes === undefined ? null : convert(bytes)
  })
  return out
}

/** Texts or blobs of a vector, in order; undefined where it has NULL. The bytes are the vector's own. */
export function bytesOfRows(vector: duckdb.Vector, rows: number, visit: (row: number, bytes: Buffer | undefined) => void): void {
  visitBytes(vector, 0, rows, readValidity(vector, rows), visit)
}

/** @param visit is told of row `from` as 0. */
function visitBytes(
  vector: duckdb.Vector,
  from: number,
  to: number,
  validity: Uint8Array | undefined,
  visit: (row: number, bytes: Buffer | undefined) => void,
): void {
  const data = duckdb.vector_get_data(vector, to * STRING_SLOT)
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength)
  for (let i = 0; i < to - from; i++) {
    if (validity !== undefined && validity[i] === 0) {
      visit(i, undefined)
      continue
    }
    const at = (from + i) * STRING_SLOT
    const length = bytes.readUInt32LE(at)
    if (length <= INLINE_BYTES) visit(i, bytes.subarray(at + 4, at + 4 + length))
    else {
      const long = duckdb.get_data_from_pointer(data.buffer as ArrayBuffer, data.byteOffset + at + 8, length)
      visit(i, Buffer.from(long.buffer, long.byteOffset, length))
    }
  }
}

/** One text of a vector that has no NULL there. */
export function textAt(vector: duckdb.Vector, row: number): string {
  const data = duckdb.vector_get_data(vector, (row + 1) * STRING_SLOT)
  const at = data.byteOffset + row * STRING_SLOT
  const length = new DataView(data.buffer).getUint32(at, true)
  if (length <= INLINE_BYTES) return Buffer.from(data.buffer, at + 4, length).toString()
  const long = duckdb.get_data_from_pointer(data.buffer as ArrayBuffer, at + 8, length)
  return Buffer.from(long.buffer, long.byteOffset, length).toString()
}

/** All texts one after the other, without a string of each; a missing one is empty. */
function readTextBytes(vector: duckdb.Vector, from: number, to: number, validity: Uint8Array | undefined): { values: Int32Array; bytes: Uint8Array } {
  const rows = to - from
  const data = duckdb.vector_get_data(vector, to * STRING_SLOT)
  const offset = data.byteOffset + from * STRING_SLOT
  const slots = new Uint8Array(data.buffer, offset, rows * STRING_SLOT)
  const words = new Uint32Array(data.buffer as ArrayBuffer, offset, rows * (STRING_SLOT / 4))
  const ends = new Int32Array(rows + 1)
  for (let i = 0; i < rows; i++) ends[i + 1] = ends[i] + (validity !== undefined && validity[i] === 0 ? 0 : words[4 * i])
  const bytes = new Uint8Array(ends[rows])
  // A long text that occurs again lies in one place: asking for what a pointer points at costs more than looking the pointer up.
  const seen = new Map<number, number>()
  for (let i = 0; i < rows; i++) {
    const at = ends[i]
    const length = ends[i + 1] - at
    if (length <= INLINE_BYTES) {
      const inline = i * STRING_SLOT + 4
      for (let k = 0; k < length; k++) bytes[at + k] = slots[inline + k]
      continue
    }
    const pointer = words[4 * i + 3] * 2 ** 32 + words[4 * i + 2]
    const same = seen.get(pointer)
    if (same !== undefined && ends[same + 1] - ends[same] >= length) {
      bytes.copyWithin(at, ends[same], ends[same] + length)
      continue
    }
    const long = duckdb.get_data_from_pointer(data.buffer as ArrayBuffer, offset + i * STRING_SLOT + 8, length)
    bytes.set(new Uint8Array(long.buffer, long.byteOffset, length), at)
    seen.set(pointer, i)
  }
  return { values: ends, bytes }
}

function enumCodes(vector: duckdb.Vector, rows: number, { type }: ResultColumn): Uint8Array | Uint16Array | Uint32Array {
  const internal = duckdb.enum_internal_type(type)
  const Codes = internal === Type.UTINYINT ? Uint8Array : internal === Type.USMALLINT ? Uint16Array : Uint32Array
  const data = duckdb.vector_get_data(vector, rows * Codes.BYTES_PER_ELEMENT)
  return new Codes(data.buffer as ArrayBuffer, data.byteOffset, rows)
}

function readEnum(vector: duckdb.Vector, rows: number, validity: Uint8Array | undefined, column: ResultColumn): (string | null)[] {
  const codes = enumCodes(vector, rows, column)
  const out: (string | null)[] = new Array(rows)
  for (let i = 0; i < rows; i++) out[i] = validity !== undefined && validity[i] === 0 ? null : column.dictionary![codes[i]]
  return out
}

function readIntegers(vector: duckdb.Vector, rows: number, validity: Uint8Array | undefined, { type, id }: ResultColumn): (bigint | null)[] {
  const internal = id === Type.DECIMAL ? duckdb.decimal_internal_type(type) : id
  const width = internal === Type.SMALLINT ? 2 : internal === Type.INTEGER ? 4 : internal === Type.BIGINT ? 8 : 16
  const data = duckdb.vector_get_data(vector, rows * width)
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength)
  const out: (bigint | null)[] = new Array(rows)
  for (let i = 0, at = 0; i < rows; i++, at += width) {
    if (validity !== undefined && validity[i] === 0) out[i] = null
    else if (width === 2) out[i] = BigInt(view.getInt16(at, true))
    else if (width === 4) out[i] = BigInt(view.getInt32(at, true))
    else if (width === 8) out[i] = view.getBigInt64(at, true)
    else out[i] = (view.getBigInt64(at + 8, true) << 64n) | view.getBigUint64(at, true)
  }
  return out
}
