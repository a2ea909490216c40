/** Rows that were handed over in messages, as DuckDB scans them. */
import duckdb from '@duckdb/node-bindings'
import type { SqlChunk, SqlVector } from 'svcdb'
import type { RowSource } from '../duckdb/duckdb.ts'
import { copyValidity, copyValues, writeTexts } from '../duckdb/vector-writer.ts'
import type { View } from './messages.ts'

const { Type } = duckdb
const TYPES: Record<string, duckdb.Type> = {
  TIMESTAMP_NS: Type.TIMESTAMP_NS,
  VARCHAR: Type.VARCHAR,
  DOUBLE: Type.DOUBLE,
  BIGINT: Type.BIGINT,
  UBIGINT: Type.UBIGINT,
  BOOLEAN: Type.BOOLEAN,
  BLOB: Type.BLOB,
}

/** @param chunks of the view's columns, text as UTF-8 of all values. */
export function chunkSource({ columns }: View, chunks: readonly SqlChunk[]): RowSource {
  return {
    columns: columns.map(({ name, type }) => ({ name, type: logicalType(type) })),
    rows: chunks.reduce((sum, { rows }) => sum + rows, 0),
    open(projected) {
      let next = 0
      return {
        next(vectors) {
          const chunk = chunks[next++]
          if (chunk === undefined) return 0
          for (const [i, vector] of vectors.entries()) write(vector, chunk.columns[projected[i]], chunk.rows)
          return chunk.rows
        },
      }
    },
  }
}

function logicalType(type: string): duckdb.LogicalType {
  const decimal = /^DECIMAL\((\d+),(\d+)\)$/.exec(type)
  return decimal === null ? duckdb.create_logical_type(TYPES[type]) : duckdb.create_decimal_type(Number(decimal[1]), Number(decimal[2]))
}

function write(vector: duckdb.Vector, { values, validity, bytes }: SqlVector, rows: number): void {
  const bits = bitsOf(validity, rows)
  if (bytes !== undefined) {
    const ends = values as Int32Array
    return writeTexts(vector, rows, validity !== undefined, bits, (i) => bytes.subarray(ends[i], ends[i + 1]))
  }
  if (ArrayBuffer.isView(values)) copyValues(vector, values.buffer, values.byteOffset, values.byteLength)
  else if (typeof firstOf(values) === 'bigint') copyValues(vector, wide(values as ArrayLike<bigint | null>), 0, rows * 16)
  else return writeTexts(vector, rows, validity !== undefined, bits, (i) => values[i] as Uint8Array)
  if (validity !== undefined) copyValidity(vector, bits.buffer, 0, rows)
}

const firstOf = (values: ArrayLike<unknown>): unknown => Array.prototype.find.call(values, (value) => value !== null)

/** A bit a row, 1 = present. */
function bitsOf(validity: Uint8Array | undefined, rows: number): Uint8Array<ArrayBuffer> {
  const bits = new Uint8Array((rows + 7) >> 3)
  for (let i = 0; i < rows; i++) if (validity === undefined || validity[i] === 1) bits[i >> 3] |= 1 << (i & 7)
  return bits
}

/** Integers of 128 bits, the low half first. */
function wide(values: ArrayLike<bigint | null>): ArrayBuffer {
  const out = new BigUint64Array(values.length * 2)
  for (let i = 0; i < values.length; i++) {
    const value = BigInt.asUintN(128, values[i] ?? 0n)
    out[i * 2] = BigInt.asUintN(64, value)
    out[i * 2 + 1] = value >> 64n
  }
  return out.buffer
}
