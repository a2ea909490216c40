/** Small results, of catalogues and the like: rows into the messages of an Arrow stream. Data goes another way, see query-job.ts. */
import { type Data, type DataType, Field, makeData, RecordBatch, Schema, Struct, Table, tableToIPC, vectorFromArray } from 'apache-arrow'
import { writeFlightData } from './messages.ts'

export interface FlightTable {
  /** The schema's message with its length in front: what FlightInfo, SchemaResult and a column `table_schema` hold. */
  schema: Uint8Array
  /** FlightData: the schema, then the rows. */
  messages: Uint8Array[]
}

/** A column that is always there; others may be null. */
export function required(name: string, type: DataType): Field {
  return new Field(name, type, false)
}

export function optional(name: string, type: DataType, metadata?: Map<string, string>): Field {
  return new Field(name, type, true, metadata)
}

export function tableOfRows(fields: Field[], rows: readonly (readonly unknown[])[]): FlightTable {
  const columns = fields.map(({ type }, i) => vectorFromArray(rows.length === 0 ? [] : rows.map((row) => row[i]), type).data[0])
  return tableOf(fields, columns, rows.length)
}

export function tableOf(fields: Field[], columns: readonly Data[], rows: number): FlightTable {
  const struct = makeData({ type: new Struct(fields), length: rows, nullCount: 0, children: columns as Data[] })
  const schema = new Schema(fields)
  return split(tableToIPC(rows === 0 ? new Table(schema) : new Table([new RecordBatch(schema, struct)]), 'stream'))
}

export function schemaBytes(fields: Field[]): Uint8Array {
  return split(tableToIPC(new Table(new Schema(fields)), 'stream')).schema
}

/** An Arrow stream is messages, each with a mark and a length in front and its body behind (Arrow columnar format, "Encapsulated message format"). */
function split(stream: Uint8Array): FlightTable {
  const view = new DataView(stream.buffer, stream.byteOffset, stream.length)
  const messages: Uint8Array[] = []
  let schema: Uint8Array | undefined
  for (let at = 0; at + 8 <= stream.length; ) {
    const length = view.getInt32(at + 4, true)
    if (length === 0) break
    const header = stream.subarray(at + 8, at + 8 + length)
    const bodyLength = bodyLengthOf(view, at + 8)
    schema ??= stream.slice(at, at + 8 + length)
    at += 8 + length
    messages.push(writeFlightData(header, stream.subarray(at, at + bodyLength)))
    at += bodyLength
  }
  return { schema: schema as Uint8Array, messages }
}

/** The member bodyLength, fourth of the Flatbuffers table Message. */
function bodyLengthOf(view: DataView, start: number): number {
  const table = start + view.getUint32(start, true)
  const vtable = table - view.getInt32(table, true)
  const offset = view.getUint16(vtable, true) > 10 ? view.getUint16(vtable + 10, true) : 0
  return offset === 0 ? 0 : Number(view.getBigInt64(table + offset, true))
}
