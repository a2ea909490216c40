/**
 * One write as a record of the queue. Layout: docs/formats/forward-queue.md.
 *
 * A record says how many points there are before it in the whole queue and when it was taken, so that what waits can be counted without reading it.
 */
import { bytesPerValue, type Column, type WriteBatch } from 'svcdb/lib/columns'
import { ByteReader, type ByteWriter } from '../common/log/bytes.ts'
import { decodeInts, decodeTimes, encodeInts, encodeTimes, requireRows } from '../common/log/column-codec.ts'
import { COLUMN_TYPES, decodeColumn, encodeColumn } from '../common/log/columns.ts'

const RECORD_POINTS = 1
const BACKFILL = 1
const NON_FINITE = 2

export interface RecordHead {
  /** Of records, from 0; ascending, without gaps but behind what a start could not read. */
  sequence: number
  /** Points of all records before. */
  before: number
  points: number
  /** When it was taken, milliseconds since the Unix epoch. */
  takenMs: number
  namespace: string
  backfill: boolean
  nonFinite: boolean
}

export interface RecordTable {
  rows: number
  /** Places in `keys`. */
  series: Int32Array
  time: Int32Array
  names: string[]
  columns: Column[]
}

export interface QueueRecord extends RecordHead {
  /** Fields 1 and 2 of svc.Point, by series. */
  keys: Uint8Array[]
  tables: RecordTable[]
  heap: Uint8Array
}

/** @param keyOf the key of a series by its number. */
export function encodeRecord(out: ByteWriter, head: RecordHead, batch: WriteBatch, keyOf: (series: number) => Uint8Array): void {
  out.u8(RECORD_POINTS)
  out.varint(head.sequence)
  out.varint(head.before)
  out.varint(head.points)
  out.varint(head.takenMs)
  out.u8((head.backfill ? BACKFILL : 0) | (head.nonFinite ? NON_FINITE : 0))
  out.text(head.namespace)
  const tables = batch.tables.filter(({ rows }) => rows > 0)
  const places = new Map<number, number>()
  const refs = tables.map((table) => {
    const series = new Int32Array(table.rows)
    for (let row = 0; row < table.rows; row++) {
      const number = table.series[row]
      let place = places.get(number)
      if (place === undefined) places.set(number, (place = places.size))
      series[row] = place
    }
    return series
  })
  out.varint(places.size)
  for (const number of places.keys()) {
    const key = keyOf(number)
    out.varint(key.length)
    out.put(key)
  }
  out.varint(tables.length)
  for (const [i, table] of tables.entries()) {
    const { rows } = table
    out.varint(rows)
    encodeInts(out, refs[i], rows)
    encodeTimes(out, table.time, rows)
    const columns = table.columns.filter(({ next }) => next > 0)
    out.varint(columns.length)
    for (const column of columns) {
      out.varint(column.nameBytes.length)
      out.put(column.nameBytes)
      out.u8(COLUMN_TYPES.indexOf(column.type))
      encodeColumn(out, column, rows, batch.heap.bytes)
      if (column.scales !== undefined) for (let row = 0; row < rows; row++) if (column.has(row)) out.u8(column.scales[row])
    }
  }
}

/** @throws RangeError or TypeError when the bytes are no record. */
export function decodeHead(reader: ByteReader): RecordHead {
  const kind = reader.u8()
  if (kind !== RECORD_POINTS) throw new RangeError(`unknown record kind ${kind}`)
  const [sequence, before, points, takenMs] = [reader.varint(), reader.varint(), reader.varint(), reader.varint()]
  const flags = reader.u8()
  if (flags > (BACKFILL | NON_FINITE)) throw new RangeError(`unknown flags ${flags}`)
  return { sequence, before, points, takenMs, namespace: reader.text(), backfill: (flags & BACKFILL) !== 0, nonFinite: (flags & NON_FINITE) !== 0 }
}

/** @throws RangeError or TypeError when the bytes are no record. */
export function decodeRecord(bytes: Uint8Array, start: number, end: number): QueueRecord {
  const reader = new ByteReader(bytes, start, end)
  const head = decodeHead(reader)
  const keys: Uint8Array[] = []
  for (let left = reader.varint(); left > 0; left--) {
    const length = reader.varint()
    const at = reader.take(length)
    keys.push(bytes.subarray(at, at + length))
  }
  const parts: Uint8Array[] = []
  let heapLength = 0
  const keep = (part: Uint8Array): number => {
    parts.push(part)
    heapLength += part.length
    return heapLength - part.length
  }
  const tables: RecordTable[] = []
  for (let left = reader.varint(); left > 0; left--) tables.push(decodeTable(reader, keys.length, keep))
  if (reader.position !== end) throw new RangeError(`the record has ${end - reader.position} bytes too many`)
  return { ...head, keys, tables, heap: Buffer.concat(parts, heapLength) }
}

function decodeTable(reader: ByteReader, keys: number, keep: (bytes: Uint8Array) => number): RecordTable {
  const rows = reader.varint()
  requireRows(reader, rows)
  const series = new Int32Array(rows)
  decodeInts(reader, series, rows)
  for (const place of series) if (place < 0 || place >= keys) throw new RangeError(`a row is of series ${place}, there are ${keys}`)
  const time = new Int32Array(rows * 2)
  decodeTimes(reader, time, rows)
  const names: string[] = []
  const columns: Column[] = []
  for (let left = reader.varint(); left > 0; left--) {
    names.push(reader.text())
    const type = COLUMN_TYPES[reader.u8()]
    if (type === undefined) throw new RangeError('unknown column type')
    const column = decodeColumn(reader, type, rows, keep)
    if (column.scales !== undefined) for (let row = 0; row < rows; row++) if (column.has(row)) column.scales[row] = reader.u8()
    columns.push(column)
  }
  return { rows, series, time, names, columns }
}

/** About the bytes that a record of a batch takes, for the bound of the queue. @param keyOf the key of a series by its number. */
export function estimateBytes(batch: WriteBatch, keyOf: (series: number) => Uint8Array): number {
  let bytes = batch.heap.length + 256
  const known = new Set<number>()
  for (const { rows, series } of batch.tables) for (let row = 0; row < rows; row++) known.add(series[row])
  for (const number of known) bytes += keyOf(number).length
  for (const table of batch.tables) {
    bytes += table.rows * 12
    for (const column of table.columns) if (column.next > 0) bytes += table.rows * bytesPerValue(column.type)
  }
  return bytes
}
