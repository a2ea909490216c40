/** The rows of a record, measurement by measurement, in an order that is the same whenever the record is read. */
import type { RowsChanged } from 'svcdb'
import { bytesPerValue, Column } from 'svcdb/lib/columns'
import type { TableRows } from '../wal/record.ts'
import type { ChangeNames, MeasurementName } from './names.ts'

/** Rows of one measurement in one table of a record. */
export interface Group {
  /** Rises from group to group of a record. */
  part: number
  owner: MeasurementName
  table: TableRows
  /** Absent = all. */
  rows: Int32Array | undefined
}

const MEASUREMENTS = 2 ** 32
/** Measurement ids of a shared table's rows in one record beyond which the array of counts is not kept. */
const partOf = (table: number, measurement: number): number => table * MEASUREMENTS + measurement

/** @param wants says of a measurement, by its id, whether its rows are asked for. */
export function groupsOf(tables: readonly TableRows[], wants: (measurement: MeasurementName) => boolean, names: ChangeNames): Group[] {
  const groups: Group[] = []
  for (const [i, table] of tables.entries()) {
    if (table.rows === 0) continue
    const own = names.table(table.table)?.measurement ?? -1
    if (own < 0) sharedGroups(i, table, wants, names, groups)
    else {
      const owner = names.measurement(own)
      if (owner !== undefined && wants(owner)) groups.push({ part: partOf(i, own), owner, table, rows: undefined })
    }
  }
  return groups
}

/** Whether some rows are of measurements that are asked for. */
export function someWanted(tables: readonly TableRows[], wants: (measurement: MeasurementName) => boolean, names: ChangeNames): boolean {
  return tables.some(({ table, rows, series }) => {
    const own = names.table(table)?.measurement ?? -1
    let last = -1
    for (let row = 0; row < rows; row++) {
      const id = own < 0 ? names.ownerOf(series[row]) : own
      if (id === last) continue
      last = id
      const owner = id < 0 ? undefined : names.measurement(id)
      if (owner !== undefined && wants(owner)) return true
      if (own >= 0) return false
    }
    return false
  })
}

function sharedGroups(i: number, table: TableRows, wants: (measurement: MeasurementName) => boolean, names: ChangeNames, groups: Group[]): void {
  const counts = new Map<number, number>()
  let last = -1
  let run = 0
  for (let row = 0; row < table.rows; row++) {
    const owner = names.ownerOf(table.series[row])
    if (owner === last) run++
    else {
      if (run > 0) counts.set(last, (counts.get(last) ?? 0) + run)
      last = owner
      run = 1
    }
  }
  counts.set(last, (counts.get(last) ?? 0) + run)
  const found = new Map<number, { rows: Int32Array; next: number }>()
  for (const id of [...counts.keys()].sort((a, b) => a - b)) {
    const owner = id < 0 ? undefined : names.measurement(id)
    if (owner === undefined || !wants(owner)) continue
    const count = counts.get(id) as number
    const rows = count === table.rows ? undefined : new Int32Array(count)
    groups.push({ part: partOf(i, id), owner, table, rows })
    if (rows !== undefined) found.set(id, { rows, next: 0 })
  }
  if (found.size === 0) return
  for (let row = 0; row < table.rows; row++) {
    const group = found.get(names.ownerOf(table.series[row]))
    if (group !== undefined) group.rows[group.next++] = row
  }
}

export function rowsChanged(
  { owner, table, rows }: Group,
  heap: Uint8Array,
  backfill: boolean,
  names: ChangeNames,
): Omit<RowsChanged, 'position' | 'sequence'> {
  const { series, time, columns, rows: count } = rows === undefined ? table : gathered(table, rows)
  return {
    kind: 'rows',
    ...{ namespace: owner.namespace, measurement: owner.name, backfill, rows: count, times: time, series, columns, heap },
    fields: table.fields.map((def) => names.info(def)),
    tagsOf: (number) => names.tagsOf(number),
  }
}

/** A copy of some rows of a table; their texts stay in the heap. */
export function gathered(table: TableRows, rows: Int32Array): TableRows {
  const n = rows.length
  const copy: TableRows = { ...table, rows: n, series: new Int32Array(n), time: new Int32Array(n * 2), columns: [] }
  for (let i = 0; i < n; i++) {
    const row = rows[i]
    copy.series[i] = table.series[row]
    copy.time[i * 2] = table.time[row * 2]
    copy.time[i * 2 + 1] = table.time[row * 2 + 1]
  }
  copy.columns = table.columns.map((column) => gatheredColumn(column, rows))
  return copy
}

function gatheredColumn(source: Column, rows: Int32Array): Column {
  const n = rows.length
  const copy = new Column(source.name, source.type, n)
  copy.nonFinite = source.nonFinite
  const width = bytesPerValue(source.type)
  const dense = source.validity === undefined && source.next > rows[n - 1]
  if (dense) copy.next = n
  for (let i = 0; i < n; i++) {
    const row = rows[i]
    if (!dense) {
      if (!source.has(row)) continue
      copy.mark(i)
    }
    if (width === 8) {
      copy.i32[i * 2] = source.i32[row * 2]
      copy.i32[i * 2 + 1] = source.i32[row * 2 + 1]
    } else for (let b = 0; b < width; b++) copy.u8[i * width + b] = source.u8[row * width + b]
  }
  return copy
}

/** Bytes of memory that rows take, and those that they need. */
export function sizesOf(tables: readonly TableRows[], heap: Uint8Array): { held: number; needed: number } {
  let held = heap.length
  let needed = 0
  for (const { rows, series, time, columns } of tables) {
    held += series.byteLength + time.byteLength
    needed += rows * 12
    for (const column of columns) {
      held += column.buffer.byteLength + (column.validity?.length ?? 0)
      needed += rows * bytesPerValue(column.type)
    }
  }
  return { held, needed }
}

/** Rows in buffers of their own, no larger than they need. @param length of the heap that is in use. */
export function copied(tables: readonly TableRows[], heap: Uint8Array, length: number): { tables: TableRows[]; heap: Uint8Array } {
  return { tables: tables.map((table) => gathered(table, ascending(table.rows))), heap: heap.slice(0, length) }
}

function ascending(n: number): Int32Array {
  const rows = new Int32Array(n)
  for (let i = 0; i < n; i++) rows[i] = i
  return rows
}
