/** For tests: record batches as a client puts them. */
import { type DataType, Field, makeData, RecordBatch, Schema, Struct, Table, TimestampNanosecond, tableToIPC, vectorFromArray } from 'apache-arrow'
import { END_OF_STREAM } from 'svcdb/lib/arrow'
import { message } from './testing.ts'

export interface Column {
  name: string
  type: DataType
  values: unknown[]
  /** Metadata of the column. */
  role?: string
}

/** FlightData of batches with the same columns, the schema first; the first message has the descriptor. */
export function flightStream(to: Uint8Array, batches: Column[][], metadata: (string | undefined)[] = []): Uint8Array[] {
  const fields = batches[0].map(({ name, type, role }) => new Field(name, type, true, role === undefined ? undefined : new Map([['role', role]])))
  const schema = new Schema(fields)
  const table = new Table(
    batches.map((columns) => {
      const children = columns.map(({ type, values }) =>
        type instanceof TimestampNanosecond
          ? makeData({ type, length: values.length, nullCount: 0, data: BigInt64Array.from(values as bigint[]) })
          : vectorFromArray(values as never[], type as never).data[0],
      )
      return new RecordBatch(schema, makeData({ type: new Struct(fields), length: columns[0]?.values.length ?? 0, nullCount: 0, children: children as never }))
    }),
  )
  return messagesOf(tableToIPC(table, 'stream')).map(({ header, body }, i) =>
    message({ ...(i === 0 && { 1: to }), 2: header, ...(metadata[i] !== undefined && { 3: Buffer.from(metadata[i]) }), 1000: body }),
  )
}

/** The header of a schema with so many columns, all of them the same few bytes: each takes four of its own. */
export function sharedColumns(count: number): Uint8Array {
  const vector = 60
  const column = vector + 4 + 4 * count + 12
  const bytes = Buffer.alloc(column + 24)
  const vtable = (at: number, ...sizes: number[]) => sizes.forEach((size, i) => void bytes.writeUInt16LE(size, at + 2 * i))
  const table = (at: number, of: number) => bytes.writeInt32LE(at - of, at)
  const refer = (at: number, to: number) => bytes.writeUInt32LE(to - at, at)
  refer(0, 16)
  // Message: version, the kind of its header, the header.
  vtable(4, 10, 12, 8, 10, 4)
  table(16, 4)
  refer(20, 40)
  bytes.writeInt16LE(4, 24)
  bytes[26] = 1
  // Schema: its fields.
  vtable(32, 8, 8, 0, 4)
  table(40, 32)
  refer(44, vector)
  bytes.writeUInt32LE(count, vector)
  for (let i = 0; i < count; i++) refer(vector + 4 + 4 * i, column)
  // Field: the kind of its type, and the type, which is Utf8.
  vtable(column - 12, 12, 12, 0, 0, 8, 4)
  table(column, column - 12)
  refer(column + 4, column + 20)
  bytes[column + 8] = 5
  vtable(column + 12, 4, 4)
  table(column + 20, column + 12)
  return bytes
}

/** An Arrow stream taken apart: the last 8 bytes of each header say nothing, so bodies are found by the next mark. */
export function messagesOf(stream: Uint8Array): { header: Uint8Array; body: Uint8Array }[] {
  const view = new DataView(stream.buffer, stream.byteOffset, stream.length)
  const messages: { header: Uint8Array; body: Uint8Array }[] = []
  for (let at = 0; at < stream.length - END_OF_STREAM.length; ) {
    const length = view.getInt32(at + 4, true)
    const header = stream.subarray(at + 8, at + 8 + length)
    at += 8 + length
    const table = at - length + view.getUint32(at - length, true)
    const vtable = table - view.getInt32(table, true)
    const slot = view.getUint16(vtable, true) > 10 ? view.getUint16(vtable + 10, true) : 0
    const bodyLength = slot === 0 ? 0 : Number(view.getBigInt64(table + slot, true))
    messages.push({ header, body: stream.subarray(at, at + bodyLength) })
    at += bodyLength
  }
  return messages
}
