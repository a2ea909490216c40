/** Records as the points of a svc.WriteRequest: bytes to bytes, without an object a point. */
import type { Column } from 'svcdb/lib/columns'
import { decimalText } from 'svcdb/lib/numbers'
import { ProtobufWriter } from 'svcdb/lib/protobuf'
import type { QueueRecord, RecordTable } from './record.ts'

/** Rows of records in the order in which they were taken. */
export interface Rows {
  records: QueueRecord[]
  /** Record, table and row, three numbers each. */
  places: Int32Array
}

export interface RequestHead {
  backfill: boolean
  dedupKey: string
}

const FIELD_KEY = new Map<string, Uint8Array>()
const MOST_KEYS = 10_000
const part = new ProtobufWriter()
const encoder = new TextEncoder()

export function rowsOf(records: QueueRecord[]): Rows {
  const count = records.reduce((sum, { points }) => sum + points, 0)
  const places = new Int32Array(count * 3)
  let at = 0
  for (const [r, { tables }] of records.entries())
    for (const [t, { rows }] of tables.entries())
      for (let row = 0; row < rows; row++) {
        places[at++] = r
        places[at++] = t
        places[at++] = row
      }
  return { records, places: places.subarray(0, at) }
}

export const countOf = ({ places }: Rows): number => places.length / 3

export function partOf({ records, places }: Rows, from: number, to: number): Rows {
  return { records, places: places.subarray(from * 3, to * 3) }
}

/** The rows at these positions. */
export function chosenOf({ records, places }: Rows, positions: readonly number[]): Rows {
  const chosen = new Int32Array(positions.length * 3)
  for (const [i, position] of positions.entries()) chosen.set(places.subarray(position * 3, position * 3 + 3), i * 3)
  return { records, places: chosen }
}

export function writeRequest(writer: ProtobufWriter, rows: Rows, { backfill, dedupKey }: RequestHead): Uint8Array {
  const { records, places } = rows
  writer.at = 0
  for (let i = 0; i < places.length; i += 3) {
    const record = records[places[i]]
    const table = record.tables[places[i + 1]]
    const point = writer.open(1)
    writePoint(writer, record, table, places[i + 2])
    writer.close(point)
  }
  if (backfill) writer.int(2, 1)
  writer.int(3, 1)
  writer.string(4, dedupKey)
  return writer.bytes.subarray(0, writer.at)
}

/** The members of a svc.Point. */
function writePoint(writer: ProtobufWriter, { keys, heap }: QueueRecord, table: RecordTable, row: number): void {
  writer.append(keys[table.series[row]])
  for (let i = 0; i < table.columns.length; i++) {
    const column = table.columns[i]
    if (!column.has(row)) continue
    const field = writer.open(3)
    writer.append(keyOf(table.names[i]))
    const value = writer.open(2)
    writeValue(writer, column, row, heap)
    writer.close(value)
    writer.close(field)
  }
  const [low, high] = [table.time[row * 2], table.time[row * 2 + 1]]
  writer.int64(4, low, high)
}

function writeValue(writer: ProtobufWriter, column: Column, row: number, heap: Uint8Array): void {
  const { i32 } = column
  switch (column.type) {
    case 'float64':
      return writer.fixed64(1, i32[row * 2], i32[row * 2 + 1])
    case 'int64':
      return writer.int64(2, i32[row * 2], i32[row * 2 + 1])
    case 'uint64':
      return writer.int64(3, i32[row * 2], i32[row * 2 + 1])
    case 'bool':
      return writer.int(4, column.u8[row])
    case 'string':
      return writer.blob(5, heap.subarray(i32[row * 2], i32[row * 2] + i32[row * 2 + 1]))
    case 'decimal':
      return writer.string(6, decimalOf(column, row))
    case 'histogram':
      return writer.blob(8, heap.subarray(i32[row * 2], i32[row * 2] + i32[row * 2 + 1]))
  }
}

export function decimalOf({ i32, scales }: Column, row: number): string {
  const part = (i: number): bigint => BigInt(i32[row * 4 + i] >>> 0) << BigInt(32 * i)
  return decimalText(BigInt.asIntN(128, part(0) | part(1) | part(2) | part(3)), scales?.[row] ?? 0)
}

/** `Field.key`, encoded. */
function keyOf(name: string): Uint8Array {
  let key = FIELD_KEY.get(name)
  if (key === undefined) {
    if (FIELD_KEY.size >= MOST_KEYS) FIELD_KEY.clear()
    part.blob(1, encoder.encode(name))
    FIELD_KEY.set(name, (key = part.take()))
  }
  return key
}
