/**
 * One write as a WAL record: what it defines (measurements, fields, tables, series) and its rows. Layout: docs/formats/wal.md.
 * Decoding checks every length; what does not decode is corruption, never a guess.
 */
import type { FieldType } from 'svcdb'
import type { Column } from 'svcdb/lib/columns'
import { ByteReader, type ByteWriter } from '../../common/log/bytes.ts'
import { decodeInts, decodeTimes, encodeInts, encodeTimes, requireRows } from '../../common/log/column-codec.ts'
import { COLUMN_TYPES, decodeColumn, encodeColumn } from '../../common/log/columns.ts'
import { KeyRing } from '../encryption/keys.ts'
import type { RowPart } from '../memtable/row-parts.ts'
import type { FieldDef } from '../threads/definitions.ts'
import { type ChangeRecord, decodeChange, RECORD_CHANGE } from './change-record.ts'
import { LoggedSeries } from './logged-series.ts'
import { readSealed, SEALED, writeSealed } from './sealed-column.ts'

const RECORD_WRITE = 1

/** Definitions that must exist before the rows; applied in this order. */
export interface Definitions {
  measurements?: { id: number; namespace: string; name: string }[]
  tables?: { id: number; measurement: number }[]
  fields?: { measurement: number; field: FieldDef }[]
  homes?: { measurement: number; table: number }[]
  sharedFields?: { table: number; field: FieldDef }[]
}

/** A series that a write names for the first time. */
export interface NewSeries {
  series: number
  measurement: number
}

/** Rows for one table; `columns[i]` stores `fields[i]`. */
export interface TableRows {
  table: number
  rows: number
  series: Int32Array
  time: Int32Array
  columns: Column[]
  fields: FieldDef[]
  /** Of the memtable. */
  parts?: RowPart[]
}

export interface WriteRecord {
  sequence: number
  definitions: Definitions | undefined
  series: LoggedSeries
  tables: TableRows[]
  heap: Uint8Array
  /** The write was a backfill. */
  backfill?: boolean
  /** A change of what lives, in a record of its own. */
  change?: ChangeRecord
}

/** What is encoded: as `WriteRecord`, with the tags of new series still where they are. */
export interface PendingWrite extends Omit<WriteRecord, 'series' | 'change'> {
  series: NewSeries[]
}

/**
 * @param index writes the tags of a series: varint count, then text of each key and value, ordered by key.
 * @param keys of encrypted fields; absent when there are none.
 */
export function encodeWrite(out: ByteWriter, record: PendingWrite, index: { writeTags(out: ByteWriter, series: number): void }, keys?: KeyRing): void {
  out.u8(RECORD_WRITE)
  out.varint(record.sequence)
  const { definitions, backfill } = record
  out.text(definitions === undefined && backfill !== true ? '' : JSON.stringify(backfill === true ? { ...definitions, backfill } : definitions))
  out.varint(record.series.length)
  for (const { series, measurement } of record.series) {
    out.varint(series)
    out.varint(measurement)
    index.writeTags(out, series)
  }
  out.varint(record.tables.length)
  for (const table of record.tables) {
    out.varint(table.table)
    out.varint(table.rows)
    encodeInts(out, table.series, table.rows)
    encodeTimes(out, table.time, table.rows)
    out.varint(table.columns.length)
    for (const [i, column] of table.columns.entries()) {
      const field = table.fields[i]
      out.varint(field.id)
      const type = COLUMN_TYPES.indexOf(column.type)
      const key = keys?.keyOf(field.name)
      if (keys === undefined || key === undefined) {
        out.u8(type)
        encodeColumn(out, column, table.rows, record.heap)
        continue
      }
      out.u8(type | SEALED)
      const place = { sequence: record.sequence, table: table.table, field: field.id }
      writeSealed(out, keys, key, place, type, (plain) => encodeColumn(plain, column, table.rows, record.heap))
    }
  }
}

/** @throws RangeError (or SyntaxError, TypeError of its parts) when the bytes are not a record, ENCRYPTION_KEY_UNAVAILABLE. */
export function decodeWrite(bytes: Uint8Array, start: number, end: number, keys: KeyRing = new KeyRing()): WriteRecord {
  const reader = new ByteReader(bytes, start, end)
  const kind = reader.u8()
  if (kind !== RECORD_WRITE && kind !== RECORD_CHANGE) throw new RangeError(`unknown record kind ${kind}`)
  const sequence = reader.varint()
  if (kind === RECORD_CHANGE) {
    const change = decodeChange(reader)
    if (reader.position !== end) throw new RangeError(`the record has ${end - reader.position} bytes too many`)
    return { sequence, definitions: undefined, series: LoggedSeries.NONE, tables: [], heap: new Uint8Array(0), change }
  }
  const json = reader.text()
  const { backfill, ...defined } = json === '' ? {} : (JSON.parse(json) as Definitions & { backfill?: boolean })
  const definitions = Object.keys(defined).length === 0 ? undefined : defined
  const series = LoggedSeries.read(reader)
  const heap: Uint8Array[] = []
  let heapLength = 0
  const keep = (bytes: Uint8Array): number => {
    heap.push(bytes)
    heapLength += bytes.length
    return heapLength - bytes.length
  }
  const tables: TableRows[] = []
  for (let left = reader.varint(); left > 0; left--) tables.push(decodeTable(reader, keep, sequence, keys))
  if (reader.position !== end) throw new RangeError(`the record has ${end - reader.position} bytes too many`)
  const joined = new Uint8Array(heapLength)
  let at = 0
  for (const bytes of heap) {
    joined.set(bytes, at)
    at += bytes.length
  }
  return { sequence, definitions, series, tables, heap: joined, ...(backfill === true ? { backfill } : {}) }
}

/** The series that a record defines, without the rest of it. @throws as `decodeWrite`. */
export function decodeSeries(bytes: Uint8Array, start: number, end: number): LoggedSeries {
  const reader = new ByteReader(bytes, start, end)
  if (reader.u8() !== RECORD_WRITE) return LoggedSeries.NONE
  reader.varint()
  reader.take(reader.varint()) // the definitions
  return LoggedSeries.read(reader)
}

function decodeTable(reader: ByteReader, keep: (bytes: Uint8Array) => number, sequence: number, keys: KeyRing): TableRows {
  const table = reader.varint()
  const rows = reader.varint()
  requireRows(reader, rows)
  const series = new Int32Array(rows)
  decodeInts(reader, series, rows)
  const time = new Int32Array(rows * 2)
  decodeTimes(reader, time, rows)
  const columns: Column[] = []
  const fields: FieldDef[] = []
  for (let left = reader.varint(); left > 0; left--) {
    const id = reader.varint()
    const byte = reader.u8()
    const type = COLUMN_TYPES[byte & ~SEALED]
    if (type === undefined) throw new RangeError('unknown column type')
    const column =
      byte & SEALED
        ? decodeSealed(readSealed(reader, keys, { sequence, table, field: id }, byte & ~SEALED), type, rows, keep)
        : decodeColumn(reader, type, rows, keep)
    columns.push(column)
    fields.push({ id, name: '', type: column.type, scale: 0, column: '' })
  }
  return { table, rows, series, time, columns, fields }
}

function decodeSealed(plain: Uint8Array, type: FieldType, rows: number, keep: (bytes: Uint8Array) => number): Column {
  const reader = new ByteReader(plain)
  const column = decodeColumn(reader, type, rows, keep)
  if (reader.position !== reader.end) throw new RangeError(`an encrypted column has ${reader.end - reader.position} bytes too many`)
  return column
}
