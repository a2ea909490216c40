/** The values of a batch's column in a record of a log: which rows have one, and those. Layout: docs/formats/wal.md. */
import type { FieldType } from 'svcdb'
import { bytesPerValue, Column } from 'svcdb/lib/columns'
import type { ByteReader, ByteWriter } from './bytes.ts'
import { decodeFloats, decodeInt64s, decodeInts, encodeFloats, encodeInt64s, encodeInts } from './column-codec.ts'

/** A type is its place in here. */
export const COLUMN_TYPES: readonly FieldType[] = ['float64', 'int64', 'uint64', 'bool', 'string', 'decimal', 'histogram']

/** @param heap texts and histograms of the batch. */
export function encodeColumn(out: ByteWriter, column: Column, rows: number, heap: Uint8Array): void {
  const dense = column.validity === undefined && column.next >= rows
  out.u8(dense ? 0 : 1)
  let source = column
  let n = rows
  if (!dense) {
    const at = out.reserve((rows + 7) >> 3)
    out.bytes.fill(0, at, at + ((rows + 7) >> 3))
    for (let i = 0; i < rows; i++) if (column.has(i)) out.bytes[at + (i >> 3)] |= 1 << (i & 7)
    ;[source, n] = gathered(column, rows)
  }
  switch (column.type) {
    case 'float64':
      return encodeFloats(out, source.f64, n)
    case 'int64':
    case 'uint64':
      return encodeInt64s(out, source.i32, n)
    case 'bool':
      return out.put(source.u8.subarray(0, n))
    case 'decimal':
      return out.put(source.u8.subarray(0, n * 16))
    default: {
      encodeInts(out, source.i32, n, 2, 1)
      for (let i = 0; i < n; i++) out.put(heap.subarray(source.i32[i * 2], source.i32[i * 2] + source.i32[i * 2 + 1]))
    }
  }
}

/** The present values of a sparse column, close together. */
function gathered(column: Column, rows: number): [Column, number] {
  const width = bytesPerValue(column.type)
  const dense = new Column(column.name, column.type, rows)
  let n = 0
  for (let i = 0; i < rows; i++) if (column.has(i)) dense.u8.set(column.u8.subarray(i * width, (i + 1) * width), n++ * width)
  return [dense, n]
}

/** @param keep takes the bytes of a text or histogram, and says where they will be in the heap. */
export function decodeColumn(reader: ByteReader, type: FieldType, rows: number, keep: (bytes: Uint8Array) => number): Column {
  const sparse = reader.u8() === 1
  const present: number[] = []
  if (sparse) {
    const at = reader.take((rows + 7) >> 3)
    for (let i = 0; i < rows; i++) if (reader.bytes[at + (i >> 3)] & (1 << (i & 7))) present.push(i)
  }
  const n = sparse ? present.length : rows
  const column = new Column('', type, rows)
  const packed = sparse ? new Column('', type, n) : column
  switch (type) {
    case 'float64':
      column.nonFinite = decodeFloats(reader, packed.f64, n)
      break
    case 'int64':
    case 'uint64':
      decodeInt64s(reader, packed.i32, n)
      break
    case 'bool':
    case 'decimal': {
      const length = n * bytesPerValue(type)
      const at = reader.take(length)
      packed.u8.set(reader.bytes.subarray(at, at + length))
      break
    }
    default: {
      const lengths = new Int32Array(n)
      decodeInts(reader, lengths, n)
      for (let i = 0; i < n; i++) {
        const at = reader.take(lengths[i])
        packed.i32[i * 2] = keep(reader.bytes.subarray(at, at + lengths[i]))
        packed.i32[i * 2 + 1] = lengths[i]
      }
    }
  }
  if (!sparse) column.next = rows
  else {
    const width = bytesPerValue(type)
    for (const [i, row] of present.entries()) {
      column.mark(row)
      column.u8.set(packed.u8.subarray(i * width, (i + 1) * width), row * width)
    }
  }
  return column
}
