/** A columnar batch taken apart into one object a row. Slow and plain on purpose: this engine is the oracle of the others. */
import type { FieldType } from 'svcdb'
import type { Column, TableBatch, WriteBatch } from 'svcdb/lib/columns'
import type { SvcError } from 'svcdb/lib/errors'
import { isStaleHistogram } from 'svcdb/lib/histogram'
import { toNs } from '../common/time.ts'
import type { Series, SeriesTable } from './series.ts'

/** Decimals are unscaled integers at the scale that stands beside them; a float64 that is NaN or infinite is its 64 bits, as bigint. */
export type Value = number | bigint | boolean | string | Uint8Array

export interface IncomingField {
  name: string
  type: FieldType
  scale: number
  value: Value
}

export interface IncomingRow {
  series: Series
  timeLow: number
  timeHigh: number
  time: bigint
  position: number
  fields: IncomingField[]
  /** Set once admission has refused the row. */
  refused?: SvcError
}

export function rowsOf(batch: WriteBatch, series: SeriesTable): IncomingRow[] {
  const rows: IncomingRow[] = []
  for (const table of batch.tables) for (let row = 0; row < table.rows; row++) rows.push(rowOf(batch, table, row, series))
  return rows
}

function rowOf(batch: WriteBatch, table: TableBatch, row: number, series: SeriesTable): IncomingRow {
  const timeLow = table.time[row * 2]
  const timeHigh = table.time[row * 2 + 1]
  const fields: IncomingField[] = []
  for (const column of table.columns) {
    if (!column.has(row)) continue
    fields.push({ name: column.name, type: column.type, scale: column.scales?.[row] ?? 0, value: readValue(batch, column, row) })
  }
  return { series: series.byNumber(table.series[row]), timeLow, timeHigh, time: toNs(timeLow, timeHigh), position: table.position[row], fields }
}

function readValue(batch: WriteBatch, column: Column, row: number): Value {
  const pair = () => toNs(column.i32[row * 2], column.i32[row * 2 + 1])
  switch (column.type) {
    case 'float64':
      return Number.isFinite(column.f64[row]) ? column.f64[row] : BigInt.asUintN(64, pair())
    case 'int64':
      return pair()
    case 'uint64':
      return BigInt.asUintN(64, pair())
    case 'bool':
      return column.u8[row] === 1
    case 'decimal': {
      const half = (i: number) => BigInt(column.i32[row * 4 + i] >>> 0) << BigInt(32 * i)
      return BigInt.asIntN(128, half(0) | half(1) | half(2) | half(3))
    }
    case 'string':
      return Buffer.from(heapBytes(batch, column, row)).toString('utf8')
    case 'histogram':
      return heapBytes(batch, column, row)
  }
}

/** Whether readers are to see a stored value. */
export function isShown(type: FieldType, value: Value | undefined): boolean {
  if (type === 'histogram' && value !== undefined) return !isStaleHistogram(value as Uint8Array)
  return value !== undefined && !(type === 'float64' && typeof value === 'bigint')
}

function heapBytes(batch: WriteBatch, column: Column, row: number): Uint8Array {
  const at = column.i32[row * 2]
  return batch.heap.bytes.slice(at, at + column.i32[row * 2 + 1])
}
