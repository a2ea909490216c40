/** Rows and columns as admission passes them on: a decoder's table, or what is left of it. */
import { bytesPerValue, Column } from 'svcdb/lib/columns'

export interface Rows {
  rows: number
  series: Int32Array
  time: Int32Array
  position: Int32Array
  columns: Column[]
}

/** Columns that have a value. */
export const used = (rows: Rows): Column[] => rows.columns.filter((column) => column.next > 0)

/** The rows whose flag equals `keep`, in a copy. */
export function copyRows(source: Rows, flags: Uint8Array, keep: number): Rows {
  let n = 0
  for (let row = 0; row < source.rows; row++) if (flags[row] === keep) n++
  const copy: Rows = { rows: n, series: new Int32Array(n), time: new Int32Array(n * 2), position: new Int32Array(n), columns: [] }
  const kept = new Int32Array(n)
  for (let row = 0, at = 0; row < source.rows; row++) {
    if (flags[row] !== keep) continue
    kept[at] = row
    copy.series[at] = source.series[row]
    copy.time[at * 2] = source.time[row * 2]
    copy.time[at * 2 + 1] = source.time[row * 2 + 1]
    copy.position[at++] = source.position[row]
  }
  for (const column of source.columns) copy.columns.push(copyColumn(column, kept))
  return copy
}

function copyColumn(source: Column, rows: Int32Array): Column {
  // What an earlier write has left has no value, and its place only: there may be very many.
  const copy = new Column(source.name, source.type, source.next === 0 ? 0 : rows.length)
  if (source.next === 0) return copy
  copy.nonFinite = source.nonFinite
  const width = bytesPerValue(source.type)
  for (let i = 0; i < rows.length; i++) {
    const row = rows[i]
    if (!source.has(row)) continue
    copy.mark(i)
    for (let b = 0, from = row * width, to = i * width; b < width; b++) copy.u8[to + b] = source.u8[from + b]
    if (source.scales !== undefined && copy.scales !== undefined) {
      copy.scales[i] = source.scales[row]
      if (source.scales[row] > copy.scale) copy.scale = source.scales[row]
    }
  }
  return copy
}
