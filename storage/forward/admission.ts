/**
 * What an engine that knows no points can check of a batch: times against the clock, the window since its start, values, names and types known since its start.
 * Series in all, quotas and what the upstream has are the upstream's to judge, when the rows get there.
 */
import type { FieldInfo, Rejection } from 'svcdb'
import { bytesPerValue, Column, type TableBatch, typeConflict, type WriteBatch } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import type { Limits } from '../common/limits.ts'
import { checkFieldName } from '../common/names.ts'
import { ADMITTED, type Bounds, boundsOf, verdict, type Window } from '../common/window.ts'
import type { Measurement, SeriesNames } from './series.ts'

interface AdmissionOptions {
  names: SeriesNames
  limits: Limits
  window: Window
  bounds: Bounds
  nonFinite: boolean
}

interface Admitted {
  rows: number
  refused: Rejection[]
  /** Fields that nobody knew before. */
  learned: { measurement: Measurement; field: FieldInfo }[]
  /** Newest time of the window before. */
  newestBefore: bigint | undefined
}

/** Takes the rows that are refused out of the batch; the others' fields are known from then on, and the window has moved. */
export function admit(batch: WriteBatch, options: AdmissionOptions): Admitted {
  const result: Admitted = { rows: 0, refused: [], learned: [], newestBefore: options.window.newest }
  for (const table of batch.tables) {
    if (table.rows === 0) continue
    let kept: Int32Array | undefined
    let count = 0
    for (let row = 0; row < table.rows; row++) {
      const refusal = refusalOf(table, row, options)
      if (refusal === undefined) {
        learn(table, row, options, result.learned)
        if (kept !== undefined) kept[count] = row
        count++
        continue
      }
      result.refused.push({ code: refusal.code, message: refusal.message, position: table.position[row] })
      if (kept === undefined) {
        kept = new Int32Array(table.rows)
        for (let i = 0; i < row; i++) kept[i] = i
      }
    }
    if (kept !== undefined) keepRows(table, kept.subarray(0, count))
    result.rows += count
  }
  result.refused.sort((a, b) => a.position - b.position)
  return result
}

function refusalOf(table: TableBatch, row: number, { names, limits, window, bounds, nonFinite }: AdmissionOptions): SvcError | undefined {
  const [low, high] = [table.time[row * 2], table.time[row * 2 + 1]]
  const measurement = table.measurement === null ? names.of(table.series[row]).measurement : (table.measurement as Measurement)
  const time = verdict(bounds, low, high)
  if (time !== ADMITTED) return window.refusal(time, boundsOf(bounds, measurement.name), low, high)
  let fields = 0
  let fresh = 0
  for (const column of table.columns) {
    if (!column.has(row)) continue
    fields++
    const { name, type } = column
    if (type === 'float64' && !nonFinite && !Number.isFinite(column.f64[row]))
      return refused(measurement, name, `${column.f64[row]} is not stored; leave the field out`)
    if (type === 'string' && column.i32[row * 2 + 1] > limits.maxStringBytes)
      return refused(measurement, name, `the text takes ${column.i32[row * 2 + 1]} bytes of UTF-8, max_string_bytes is ${limits.maxStringBytes}`)
    const known = measurement.fields.get(name)
    if (known === undefined) {
      const problem = problemOf(measurement, name, fresh++, limits)
      if (problem !== undefined) return problem
    } else if (known.type !== type) return typeConflict(measurement.name, name, known.type, type)
  }
  return fields === 0 ? new SvcError('INVALID_POINT', `cannot write point of measurement "${measurement.name}": it has no field`) : undefined
}

/** @param fresh fields before it in the row that the measurement would get as well. */
function problemOf(measurement: Measurement, name: string, fresh: number, limits: Limits): SvcError | undefined {
  try {
    checkFieldName(name, limits)
  } catch (error) {
    if (error instanceof SvcError) return error
    throw error
  }
  if (measurement.fields.size + fresh < limits.maxFieldsPerMeasurement) return undefined
  return new SvcError(
    'INVALID_POINT',
    `cannot add field "${name}" to measurement "${measurement.name}": max_fields_per_measurement of ${limits.maxFieldsPerMeasurement} is reached`,
  )
}

/** Takes back what a write has changed that was not stored after all. Newest first, of several. */
export function takeBack({ learned, newestBefore }: Admitted, window: Window): void {
  for (const { measurement, field } of learned) if (measurement.fields.get(field.name) === field) measurement.fields.delete(field.name)
  window.newest = newestBefore
}

function learn(table: TableBatch, row: number, { names, window }: AdmissionOptions, learned: Admitted['learned']): void {
  window.advance(table.time[row * 2], table.time[row * 2 + 1])
  const measurement = table.measurement === null ? names.of(table.series[row]).measurement : (table.measurement as Measurement)
  for (const column of table.columns) {
    if (!column.has(row) || measurement.fields.has(column.name)) continue
    const field: FieldInfo =
      column.type === 'decimal' ? { name: column.name, type: column.type, scale: column.scale } : { name: column.name, type: column.type }
    names.learn(measurement, field)
    learned.push({ measurement, field })
  }
}

function refused(measurement: Measurement, field: string, cause: string): SvcError {
  return new SvcError('INVALID_POINT', `cannot write field "${field}" of measurement "${measurement.name}": ${cause}`)
}

/** @param kept ascending. */
function keepRows(table: TableBatch, kept: Int32Array): void {
  for (let to = 0; to < kept.length; to++) {
    const from = kept[to]
    table.series[to] = table.series[from]
    table.time[to * 2] = table.time[from * 2]
    table.time[to * 2 + 1] = table.time[from * 2 + 1]
    table.position[to] = table.position[from]
  }
  for (const [i, column] of table.columns.entries()) table.columns[i] = columnOf(column, kept)
  table.rows = kept.length
}

function columnOf(column: Column, kept: Int32Array): Column {
  // Of a column without values, which an earlier write may have left, only the place.
  const other = new Column(column.name, column.type, column.next === 0 ? 1 : Math.max(kept.length, 1))
  if (column.next === 0) return other
  const width = bytesPerValue(column.type)
  for (let to = 0; to < kept.length; to++) {
    const from = kept[to]
    if (!column.has(from)) continue
    other.mark(to)
    other.u8.set(column.u8.subarray(from * width, (from + 1) * width), to * width)
    if (other.scales !== undefined && column.scales !== undefined) other.scales[to] = column.scales[from]
  }
  other.scale = column.scale
  return other
}
