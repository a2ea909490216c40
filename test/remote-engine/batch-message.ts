/** A batch as a message: its columns, and the names of the series that its numbers stand for. */
import type { FieldType, Rejection, Storage } from 'svcdb'
import { bytesPerValue, type Column, type TableBatch, type WriteBatch } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import type { LateResolver, SeriesName } from './resolver.ts'

interface ColumnMessage {
  name: string
  type: FieldType
  values: Uint8Array
  /** One byte a row, 1 = present. */
  present: Uint8Array
  scales: Uint8Array | undefined
}

interface TableMessage {
  mixed: boolean
  rows: number
  /** Positions in `names`. */
  series: Int32Array
  time: Int32Array
  position: Int32Array
  columns: ColumnMessage[]
}

export interface BatchMessage {
  namespace: string
  names: SeriesName[]
  tables: TableMessage[]
  heap: Uint8Array
}

export function messageOf(batch: WriteBatch, resolver: LateResolver): BatchMessage {
  const names: SeriesName[] = []
  const positions = new Map<number, number>()
  const positionOf = (series: number): number => {
    let at = positions.get(series)
    if (at === undefined) {
      at = names.push(resolver.nameOf(series)) - 1
      positions.set(series, at)
    }
    return at
  }
  const tables = batch.tables.map((table) => ({
    mixed: table.measurement === null,
    rows: table.rows,
    series: table.series.subarray(0, table.rows).map(positionOf),
    time: table.time.slice(0, table.rows * 2),
    position: table.position.slice(0, table.rows),
    columns: table.columns.map((column) => ({
      name: column.name,
      type: column.type,
      values: column.u8.slice(0, table.rows * bytesPerValue(column.type)),
      present: Uint8Array.from({ length: table.rows }, (_, row) => Number(column.has(row))),
      scales: column.scales?.slice(0, table.rows),
    })),
  }))
  return { namespace: batch.namespace, names, tables, heap: batch.heap.bytes.slice(0, batch.heap.length) }
}

/** Fills a batch of the engine. Series are resolved here, and rows whose names or types the engine refuses are left out. */
export function fillFrom(message: BatchMessage, storage: Storage): { batch: WriteBatch; refused: Rejection[] } {
  const batch = storage.batch(message.namespace)
  const heap = batch.heap.reserve(message.heap.length)
  batch.heap.bytes.set(message.heap, heap)
  const refused: Rejection[] = []
  for (const table of message.tables)
    for (let row = 0; row < table.rows; row++) {
      try {
        addRow(storage, batch, message, table, row, heap)
      } catch (error) {
        if (!(error instanceof SvcError)) throw error
        refused.push({ code: error.code, message: error.message, position: table.position[row] })
      }
    }
  return { batch, refused }
}

function addRow({ resolver }: Storage, batch: WriteBatch, { namespace, names }: BatchMessage, from: TableMessage, row: number, heap: number): void {
  const { measurement, tags } = names[from.series[row]]
  const ref = resolver.measurement(namespace, measurement)
  const series = resolver.series(ref, tags)
  const table: TableBatch = from.mixed ? batch.mixed() : batch.table(ref)
  const to = table.addRow(series, from.time[row * 2], from.time[row * 2 + 1], from.position[row])
  try {
    for (const column of from.columns) if (column.present[row] === 1) setValue(table.column(column.name, column.type), to, column, row, heap)
  } catch (error) {
    table.dropRow()
    throw error
  }
}

function setValue(column: Column, to: number, { type, values, scales }: ColumnMessage, row: number, heap: number): void {
  const bytes = bytesPerValue(type)
  column.mark(to)
  column.u8.set(values.subarray(row * bytes, (row + 1) * bytes), to * bytes)
  if (type === 'string' || type === 'histogram') column.i32[to * 2] += heap
  if (column.scales !== undefined && scales !== undefined) {
    column.scales[to] = scales[row]
    column.scale = Math.max(column.scale, scales[row])
  }
}
