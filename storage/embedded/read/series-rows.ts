/** Rows of one series as columns: collected from memtable positions or result vectors, joined, and merged field by field. */
import type { ColumnChunk, FieldType } from 'svcdb'
import { isStaleHistogram } from 'svcdb/lib/histogram'
import { hasNonFinite } from '../../common/floats.ts'
import { type ChunkView, valueBytes } from '../memtable/chunk-view.ts'
import { gatherTimes } from '../memtable/memtable-source.ts'
import { type Gathered, type GatheredColumn, heapBytes } from '../memtable/row-gather.ts'
import type { FieldDef } from '../threads/definitions.ts'

export interface SeriesRows {
  times: BigInt64Array
  columns: { values: ColumnChunk['values']; validity: Uint8Array | undefined }[]
}

type Values = { [i: number]: unknown; length: number; slice(from: number, to: number): ColumnChunk['values'] }

function emptyValues(type: FieldType, n: number): ColumnChunk['values'] {
  switch (type) {
    case 'float64':
      return new Float64Array(n)
    case 'int64':
      return new BigInt64Array(n)
    case 'uint64':
      return new BigUint64Array(n)
    case 'bool':
      return new Uint8Array(n)
    case 'decimal':
      return new Array<bigint>(n).fill(0n)
    case 'string':
      return new Array<string | null>(n).fill(null)
    case 'histogram':
      return new Array<Uint8Array>(n).fill(NO_BYTES)
  }
}
const NO_BYTES = new Uint8Array(0)

export function sliceRows(rows: SeriesRows, from: number, to: number): SeriesRows {
  return {
    times: rows.times.slice(from, to),
    columns: rows.columns.map(({ values, validity }) => ({ values: (values as unknown as Values).slice(from, to), validity: validity?.slice(from, to) })),
  }
}

export function concatRows(fields: readonly FieldDef[], parts: readonly SeriesRows[]): SeriesRows {
  if (parts.length === 1) return parts[0]
  const n = parts.reduce((sum, part) => sum + part.times.length, 0)
  const times = new BigInt64Array(n)
  const columns = fields.map((field, f) => ({
    values: emptyValues(field.type, n),
    validity: parts.some((part) => part.columns[f].validity !== undefined) ? new Uint8Array(n) : undefined,
  }))
  let at = 0
  for (const part of parts) {
    times.set(part.times, at)
    for (const [f, { values, validity }] of part.columns.entries()) {
      const target = columns[f]
      if (ArrayBuffer.isView(values)) (target.values as Float64Array).set(values as Float64Array, at)
      else for (let i = 0; i < values.length; i++) (target.values as unknown as Values)[at + i] = values[i]
      if (target.validity === undefined) continue
      if (validity === undefined) target.validity.fill(1, at, at + part.times.length)
      else target.validity.set(validity, at)
    }
    at += part.times.length
  }
  return { times, columns }
}

/** Takes NaN, infinities and staleness markers out of the columns that may hold some; a write of one has ended the value before it. */
export function readableOnly({ times, columns }: SeriesRows, guarded: readonly boolean[]): SeriesRows {
  if (!guarded.includes(true)) return { times, columns }
  return {
    times,
    columns: columns.map(({ values, validity }, f) => {
      if (!guarded[f]) return { values, validity }
      if (!(values instanceof Float64Array)) return { values, validity: withoutMarkers(values as unknown as (Uint8Array | null)[], validity) }
      if (!hasNonFinite(values, values.length)) return { values, validity }
      return { values, validity: Uint8Array.from(values, (value, i) => (Number.isFinite(value) && validity?.[i] !== 0 ? 1 : 0)) }
    }),
  }
}

function withoutMarkers(histograms: readonly (Uint8Array | null)[], validity: Uint8Array | undefined): Uint8Array | undefined {
  const isMarker = (bytes: Uint8Array | null): boolean => bytes !== null && isStaleHistogram(bytes)
  if (!histograms.some(isMarker)) return validity
  return Uint8Array.from(histograms, (bytes, i) => (isMarker(bytes) || validity?.[i] === 0 ? 0 : 1))
}

/** Leaves out rows that have none of the fields. */
export function withValues(rows: SeriesRows): SeriesRows {
  const { columns, times } = rows
  if (columns.some(({ validity }) => validity === undefined)) return rows
  const kept: number[] = []
  for (let i = 0; i < times.length; i++) if (columns.some(({ validity }) => validity![i] === 1)) kept.push(i)
  if (kept.length === times.length) return rows
  return {
    times: BigInt64Array.from(kept, (i) => times[i]),
    columns: columns.map(({ values, validity }) => ({
      values: (values as unknown as { filter(keep: (value: unknown, i: number) => boolean): ColumnChunk['values'] }).filter((_, i) =>
        columns.some((column) => column.validity![i] === 1),
      ),
      validity: Uint8Array.from(kept, (i) => validity![i]),
    })),
  }
}

/** Both in ascending time; where a time is in both, fields of `newer` win. */
export function mergeRows(fields: readonly FieldDef[], older: SeriesRows, newer: SeriesRows): SeriesRows {
  const from: [a: number, b: number][] = []
  let a = 0
  let b = 0
  while (a < older.times.length || b < newer.times.length) {
    if (b === newer.times.length || (a < older.times.length && older.times[a] < newer.times[b])) from.push([a++, -1])
    else if (a === older.times.length || newer.times[b] < older.times[a]) from.push([-1, b++])
    else from.push([a++, b++])
  }
  const times = BigInt64Array.from(from, ([i, j]) => (i < 0 ? newer.times[j] : older.times[i]))
  const columns = fields.map((field, f) => {
    const values = emptyValues(field.type, from.length) as unknown as Values
    const validity = new Uint8Array(from.length)
    const [old, young] = [older.columns[f], newer.columns[f]]
    for (const [row, [i, j]] of from.entries()) {
      if (j >= 0 && young.validity?.[j] !== 0) values[row] = young.values[j]
      else if (i >= 0 && old.validity?.[i] !== 0) values[row] = old.values[i]
      else continue
      validity[row] = 1
    }
    return { values: values as unknown as ColumnChunk['values'], validity: validity.includes(0) ? validity : undefined }
  })
  return { times, columns }
}

/**
 * Rows of one series out of memtables.
 * @param out room for all of them, overwritten.
 * @param positions in ascending time. @param groups where each output row starts in `positions`, when times repeat.
 */
export function memtableRows(
  chunks: readonly ChunkView[],
  heapOf: (position: number) => readonly Uint8Array[],
  fields: readonly FieldDef[],
  columns: readonly GatheredColumn[],
  positions: Int32Array,
  groups: Int32Array | undefined,
  out: Gathered,
): SeriesRows {
  const n = groups === undefined ? positions.length : groups.length - 1
  const picked = groups === undefined ? positions : new Int32Array(n)
  if (groups !== undefined) for (let i = 0; i < n; i++) picked[i] = positions[groups[i]]
  gatherTimes(chunks, picked, 0, n, out.i32)
  const times = new BigInt64Array(out.buffer.slice(0, n * 8))
  return {
    times,
    columns: fields.map((field, f) => {
      if (groups !== undefined) for (let i = 0; i < n; i++) picked[i] = columns[f].lastSet(positions, groups[i], groups[i + 1])
      columns[f].gather(picked, 0, n, valueBytes(field.type), out)
      return {
        values: gatheredValues(field.type, out, n, (i) => heapBytes(heapOf(picked[i]), out.i32[i * 2], out.i32[i * 2 + 1])),
        validity: gatheredValidity(out, n),
      }
    }),
  }
}

function gatheredValidity(out: Gathered, n: number): Uint8Array | undefined {
  if (!out.hasNulls) return undefined
  const validity = new Uint8Array(n)
  let present = 0
  for (let i = 0; i < n; i++) present += validity[i] = (out.bits[i >> 3] >> (i & 7)) & 1
  return present === n ? undefined : validity
}

function gatheredValues(type: FieldType, out: Gathered, n: number, bytesAt: (i: number) => Uint8Array): ColumnChunk['values'] {
  switch (type) {
    case 'float64':
      return out.f64.slice(0, n)
    case 'int64':
      return new BigInt64Array(out.buffer.slice(0, n * 8))
    case 'uint64':
      return new BigUint64Array(out.buffer.slice(0, n * 8))
    case 'bool':
      return out.u8.slice(0, n)
    case 'decimal': {
      const halves = new BigInt64Array(out.buffer, 0, n * 2)
      return Array.from({ length: n }, (_, i) => (out.isNull(i) ? 0n : (halves[i * 2 + 1] << 64n) | BigInt.asUintN(64, halves[i * 2])))
    }
    case 'string':
      // Decoding wants memory that is not shared.
      return Array.from({ length: n }, (_, i) => (out.isNull(i) ? null : Buffer.from(bytesAt(i)).toString()))
    case 'histogram':
      return Array.from({ length: n }, (_, i) => (out.isNull(i) ? NO_BYTES : bytesAt(i).slice()))
  }
}
