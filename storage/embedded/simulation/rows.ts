/**
 * What the simulated engine threads do to rows: the contents of segments are a plain encoding of their own, everything else (the order of rows, what
 * repeats, what deletes and retention mask, how parts are merged) is decided by the real threads' pure functions.
 */

import type { ChunkView } from '../memtable/chunk-view.ts'
import { groupDuplicates, orderRows } from '../memtable/row-order.ts'
import { contains, type Mask } from '../read/masks.ts'
import { dirtyIntervals, type Interval, type Source } from '../read/sources.ts'
import { HEAP_BITS, HEAP_BUFFER, NO_ROW, ROW_BITS } from '../threads/memtable-layout.ts'
import type { MemtablePart } from '../threads/state.ts'

export type Value = number | bigint | boolean | string

export interface Row {
  /** -1: its series was released. */
  measurement: number
  series: number
  time: bigint
  /** By the field's number in its table. */
  fields: Map<number, Value>
}

const OFFSET = (1 << ROW_BITS) - 1
const decoder = new TextDecoder()

type Stored = [measurement: number, series: number, time: string, fields: [field: number, value: string | number | boolean, big?: 1][]]

export function encodeRows(rows: readonly Row[]): Uint8Array {
  const stored = rows.map(
    ({ measurement, series, time, fields }): Stored => [
      measurement,
      series,
      String(time),
      [...fields].map(([field, value]) => (typeof value === 'bigint' ? [field, String(value), 1] : [field, value])),
    ],
  )
  return Buffer.from(JSON.stringify(stored))
}

export function decodeRows(bytes: Uint8Array): Row[] {
  const stored = JSON.parse(Buffer.from(bytes).toString()) as Stored[]
  return stored.map(([measurement, series, time, fields]) => ({
    measurement,
    series,
    time: BigInt(time),
    fields: new Map(fields.map(([field, value, big]) => [field, big === 1 ? BigInt(value) : value])),
  }))
}

/** A memtable's rows of a table as a flush writes them: by (measurement,) series and time, repeated ones put together. */
export function orderedRows(part: MemtablePart, measurementOf: Int32Array | undefined): { rows: Row[]; series: Int32Array } {
  const ordered = orderRows(part, {}, measurementOf)
  const groups = ordered.duplicates ? groupDuplicates(part.chunks, ordered) : undefined
  const rows: Row[] = []
  const count = groups === undefined ? ordered.rows.length : groups.length - 1
  for (let i = 0; i < count; i++) {
    const [from, to] = groups === undefined ? [i, i + 1] : [groups[i], groups[i + 1]]
    const row = rowAt(part, ordered.rows[from], measurementOf)
    for (let other = from + 1; other < to; other++) for (const [field, value] of fieldsAt(part, ordered.rows[other])) row.fields.set(field, value)
    rows.push(row)
  }
  return { rows, series: ordered.series }
}

/** In order of arrival. */
export function arrivedRows(part: MemtablePart): Row[] {
  return part.counts.flatMap((count, chunk) => Array.from({ length: count }, (_, row) => rowAt(part, (chunk << ROW_BITS) | row, undefined)))
}

function rowAt(part: MemtablePart, index: number, measurementOf: Int32Array | undefined): Row {
  const chunk = part.chunks[index >>> ROW_BITS]
  const series = chunk.series[index & OFFSET]
  return { measurement: measurementOf?.[series] ?? NO_ROW, series, time: chunk.timeAt(index & OFFSET), fields: fieldsAt(part, index) }
}

function fieldsAt({ chunks, memtable }: MemtablePart, index: number): Map<number, Value> {
  const chunk = chunks[index >>> ROW_BITS]
  const row = index & OFFSET
  const fields = new Map<number, Value>()
  for (const field of chunk.columns.fields()) {
    const view = chunk.columns.get(field)!
    if (chunk.hasNulls(view) && (view.validity[row >> 3] & (1 << (row & 7))) === 0) continue
    fields.set(field, valueAt(chunk, field, row, memtable.heap))
  }
  return fields
}

function valueAt(chunk: ChunkView, field: number, row: number, heap: readonly Uint8Array[]): Value {
  const { type, f64, i32, ints, u8 } = chunk.columns.get(field)!
  switch (type) {
    case 'float64':
      return ints === undefined ? f64[row] : ints[row]
    case 'int64':
      if (ints !== undefined) return BigInt(ints[row])
      return (BigInt(i32[row * 2 + 1]) << 32n) | BigInt(i32[row * 2] >>> 0)
    case 'bool':
      return u8[row] === 1
    case 'string': {
      const [at, length] = [i32[row * 2], i32[row * 2 + 1]]
      const start = at & (HEAP_BUFFER - 1)
      return decoder.decode(heap[at >>> HEAP_BITS].slice(start, start + length))
    }
    default:
      throw new Error(`the simulator writes no ${type}`)
  }
}

/** Without what is masked. */
export function visible(rows: readonly Row[], masks: readonly Mask[]): Row[] {
  return rows.filter(
    ({ measurement, series, time }) =>
      !masks.some(
        (one) =>
          time >= one.lo &&
          time <= one.hi &&
          (one.measurements === undefined || one.measurements.ids.includes(measurement) !== (one.measurements.but === true)) &&
          (one.series === undefined || contains(one.series, series)),
      ),
  )
}

export type Part = Pick<Source, 'minTime' | 'maxTime' | 'dirty'> & { rows: readonly Row[] }

/** Rows of all parts, oldest first: put together by field where the parts say that rows may repeat, and only there. */
export function united(parts: readonly Part[], time: Interval): Row[] {
  const within = parts.filter((part) => part.maxTime >= time[0] && part.minTime <= time[1])
  const dirty = dirtyIntervals(within as unknown as Source[], time)
  const out: Row[] = []
  const merged = new Map<string, Row>()
  for (const { rows } of within) {
    for (const row of rows) {
      if (row.time < time[0] || row.time > time[1]) continue
      if (!dirty.some(([lo, hi]) => row.time >= lo && row.time <= hi)) {
        out.push(row)
        continue
      }
      const key = `${row.series} ${row.time}`
      const known = merged.get(key)
      if (known === undefined) merged.set(key, { ...row, fields: new Map(row.fields) })
      else for (const [field, value] of row.fields) known.fields.set(field, value)
    }
  }
  return [...out, ...merged.values()]
}

export function sorted(rows: Row[]): Row[] {
  return rows.sort((a, b) => a.measurement - b.measurement || a.series - b.series || (a.time < b.time ? -1 : a.time > b.time ? 1 : 0))
}
