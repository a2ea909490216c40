/**
 * What of a batch may be stored, decided before the log sees it: window, future bound, values, schema, series. Refused rows are counted and
 * named, the rest is routed to tables. Nothing here waits; what it changes in schema and series index can be undone.
 */
import type { Rejection, WriteOptions } from 'svcdb'
import { type Column, type TableBatch, typeConflict, type WriteBatch } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import { hasNonFinite } from '../../common/floats.ts'
import type { Limits } from '../../common/limits.ts'
import { checkFieldName } from '../../common/names.ts'
import { staleSeries } from '../../common/retention.ts'
import { toNs } from '../../common/time.ts'
import { ADMITTED, type Bounds, boundsOf, TOO_OLD, verdict, type Window } from '../../common/window.ts'
import { type Measurement, type Schema, type Table, tooManyFields, type Undo } from '../catalog/schema.ts'
import type { Interval } from '../read/sources.ts'
import type { RetentionClock } from '../retention/clock.ts'
import { NOT_DURABLE, UNKNOWN } from '../series/provisional-series.ts'
import { FIRST_HANDLE, RELEASED, type SeriesIndex } from '../series/series-index.ts'
import type { FieldDef } from '../threads/definitions.ts'
import type { Definitions, NewSeries, TableRows } from '../wal/record.ts'
import { checkDecimals, newScales, rescaleColumn } from './decimals.ts'
import { type MaxNew, NewSeriesList, tooManyDefinitions } from './new-bounds.ts'
import { NewTagKeys } from './new-tag-keys.ts'
import { Owners } from './owners.ts'
import { Refusals } from './refusals.ts'
import { copyRows, type Rows, used } from './rows.ts'

const KEPT_REJECTIONS = 16

/** A batch after admission. */
export interface Admitted {
  rows: number
  rejected: number
  rejections: Rejection[]
  tables: TableRows[]
  definitions: Definitions | undefined
  series: NewSeries[]
  /** Highest series number with a row, -1 when there is none. */
  lastSeries: number
  /** Of the rows, nanoseconds, inclusive. */
  times: Interval
  /** Newest time of the window before the batch. */
  newestBefore: bigint | undefined
  undo: Undo
}

export class Admission {
  private readonly schema: Schema
  private readonly index: SeriesIndex
  private readonly limits: Limits
  private readonly maxNew: MaxNew
  private readonly owners: Owners
  private readonly retention: RetentionClock

  /** @param retention says what it does not keep. */
  constructor(schema: Schema, index: SeriesIndex, limits: Limits, maxNew: MaxNew, retention: RetentionClock) {
    this.retention = retention
    this.schema = schema
    this.index = index
    this.limits = limits
    this.maxNew = maxNew
    this.owners = new Owners(schema, index)
  }

  /** @param window of the batch's namespace. @throws BAD_REQUEST for a batch that begins too much, staleSeries; nothing has changed then. */
  admit(batch: WriteBatch, window: Window, { backfill = false, nonFinite = false }: WriteOptions): Admitted {
    const work = new Work(this.schema, this.index, this.limits, this.maxNew, this.owners, nonFinite)
    const bounds = window.open(this.retention.wallClock, backfill, this.retention.admission())
    let admitted: Admitted
    try {
      // Each of these begins a field at least: a batch of far too many is found out before any of them is begun.
      const fresh = new Set(batch.tables.flatMap(({ measurement, rows }) => (rows > 0 && measurement?.fields.size === 0 ? measurement : [])))
      if (2 * fresh.size > this.maxNew.definitions) throw tooManyDefinitions(this.maxNew.definitions)
      for (const table of batch.tables) {
        if (table.rows === 0) continue
        const refused = judge(table, bounds, window, work, (row) => this.nameOf(table, row))
        const rows = refused === undefined ? table : copyRows(table, refused, 0)
        if (rows.rows > 0) work.route(table, rows)
      }
      admitted = work.finish()
    } catch (error) {
      work.takeBack() // it begins too much, what it writes to is gone, or there is no memory
      throw error
    }
    if (admitted.rows === 0) work.takeBack()
    else {
      const before = window.newest
      admitted.newestBefore = before
      window.advance(work.newestLow, work.newestHigh)
      admitted.undo.push(() => {
        window.newest = before
      })
    }
    return admitted
  }

  private nameOf({ measurement, series }: TableBatch, row: number): string | undefined {
    if (measurement !== null) return measurement.name
    return this.schema.any(this.index.measurementOf(series[row]))?.name
  }
}

/**
 * Judges all times of a table: a byte a row, 1 = refused; undefined when all rows are good.
 * @param nameOf the measurement of a row; undefined when it is gone.
 */
function judge(table: TableBatch, bounds: Bounds, window: Window, work: Work, nameOf: (row: number) => string | undefined): Uint8Array | undefined {
  const { time, rows } = table
  let refused: Uint8Array | undefined
  let goodLow = 0
  let goodHigh = 0
  let anyGood = false
  for (let row = 0; row < rows; row++) {
    const low = time[row * 2]
    const high = time[row * 2 + 1]
    // Rows next to each other mostly have the same time.
    if (anyGood && low === goodLow && high === goodHigh) continue
    const answer = verdict(bounds, low, high)
    if (answer === ADMITTED) {
      goodLow = low
      goodHigh = high
      anyGood = true
      continue
    }
    const own = answer === TOO_OLD ? boundsOf(bounds, nameOf(row)) : bounds
    if (own !== bounds && verdict(own, low, high) === ADMITTED) continue
    refused ??= new Uint8Array(rows)
    refused[row] = 1
    work.reject(() => window.refusal(answer, own, low, high), table.position[row])
  }
  return refused
}

/** One batch's way through admission. */
class Work {
  /** Halves of the newest and the oldest time stored. */
  newestLow = 0
  newestHigh = -0x80000000
  private oldestLow = -1
  private oldestHigh = 0x7fffffff
  private readonly schema: Schema
  private readonly index: SeriesIndex
  private readonly limits: Limits
  private readonly maxNew: MaxNew
  private readonly nonFinite: boolean
  private readonly definitions: Definitions = {}
  private readonly undo: Undo = []
  private readonly series: NewSeries[] = []
  /** Handles of `series`. */
  private readonly promoted: NewSeriesList
  private readonly tagKeys: NewTagKeys
  private readonly tables: TableRows[] = []
  private readonly owners: Owners
  /** Checked rows whose table is not settled yet, and whose they are. */
  private readonly pending: { owners: Measurement[]; rows: Rows; columns: Column[] }[] = []
  private readonly rejections: Rejection[] = []
  private rejected = 0
  private rows = 0
  private lastSeries = -1

  /** @param nonFinite NaN and infinities are admitted. */
  constructor(schema: Schema, index: SeriesIndex, limits: Limits, maxNew: MaxNew, owners: Owners, nonFinite: boolean) {
    this.schema = schema
    this.index = index
    this.limits = limits
    this.maxNew = maxNew
    this.promoted = new NewSeriesList(maxNew)
    this.tagKeys = new NewTagKeys(index, limits.maxTagsPerMeasurement)
    this.owners = owners
    this.nonFinite = nonFinite
  }

  reject(reason: () => SvcError, position: number): void {
    this.rejected++
    if (this.rejections.length >= KEPT_REJECTIONS) return
    const { code, message } = reason()
    this.rejections.push({ code, message, position })
  }

  route(batch: TableBatch, rows: Rows): void {
    if (batch.measurement !== null) return this.single(batch.measurement as Measurement, rows)
    this.mixed(rows)
  }

  finish(): Admitted {
    this.settleAll()
    const { definitions, undo, series, tables, rejections, rejected, rows, lastSeries } = this
    rejections.sort((a, b) => a.position - b.position)
    return {
      rows,
      rejected,
      rejections,
      tables,
      definitions: Object.keys(definitions).length === 0 ? undefined : definitions,
      series,
      lastSeries,
      times: [toNs(this.oldestLow, this.oldestHigh), toNs(this.newestLow, this.newestHigh)],
      newestBefore: undefined,
      undo,
    }
  }

  /** Undoes what the batch has changed. */
  takeBack(): void {
    for (const step of this.undo.splice(0).reverse()) step()
  }

  /** Rows of one measurement. A row is refused for its values before its schema, as every engine does it. */
  private single(measurement: Measurement, rows: Rows): void {
    if (this.schema.byId[measurement.id] !== measurement) throw staleSeries()
    const whole = this.sifted(rows, (refused) => this.checkValues(measurement.name, rows, refused))
    const fit = this.sifted(whole, (refused) => this.checkSchema(measurement, whole, refused))
    const scales = newScales(measurement, fit)
    const good = this.sifted(fit, (refused) => checkDecimals(measurement.name, fit, scales, refused))
    const columns = used(good)
    if (columns.length === 0) return
    this.schema.keep(measurement, this.definitions, this.undo)
    for (const { name, type } of columns) {
      if (!measurement.fields.has(name)) this.schema.addField(measurement, name, type, scales.get(name) ?? 0, this.definitions, this.undo)
    }
    this.requireRoom()
    this.pending.push({ owners: [measurement], rows: good, columns })
  }

  /** The rows that a check leaves: the same object when it refuses none. */
  private sifted(rows: Rows, check: (refused: Refusals) => void): Rows {
    const refused = new Refusals(rows, (reason, position) => this.reject(reason, position))
    check(refused)
    return refused.flags === undefined ? rows : copyRows(rows, refused.flags, 0)
  }

  /** Rows of many measurements: together while all of them have just this one field, else by measurement. */
  private mixed(rows: Rows): void {
    const columns = used(rows)
    const owners = columns.length === 1 ? this.owners.of(rows) : undefined
    if (owners !== undefined && haveJust(owners, columns[0]) && this.hasRoomFor(owners)) {
      const good = this.sifted(rows, (refused) => {
        this.checkValues('', rows, refused)
        this.checkTagKeys(rows, refused)
      })
      const left = good === rows ? owners : this.owners.of(good)
      const [column] = used(good)
      if (column === undefined || left === undefined) return
      for (const measurement of left) {
        this.schema.keep(measurement, this.definitions, this.undo)
        if (measurement.list.length === 0) this.schema.addField(measurement, column.name, column.type, column.scale, this.definitions, this.undo)
        this.requireRoom()
      }
      this.pending.push({ owners: left, rows: good, columns: [column] })
      return
    }
    for (const [measurement, own] of this.byMeasurement(rows)) {
      if (measurement === undefined) throw staleSeries()
      this.single(measurement, own)
    }
  }

  /** Each of them that has no field may have its first. */
  private hasRoomFor(owners: readonly Measurement[]): boolean {
    const fresh = owners.filter(({ list }) => list.length === 0)
    return fresh.length === 0 || fresh.length <= this.schema.fieldsLeft(fresh[0].namespace)
  }

  private byMeasurement(rows: Rows): [Measurement | undefined, Rows][] {
    const skips = new Map<number, Uint8Array>()
    for (let row = 0; row < rows.rows; row++) {
      const id = this.index.measurementOf(rows.series[row])
      let skip = skips.get(id)
      if (skip === undefined) skips.set(id, (skip = new Uint8Array(rows.rows).fill(1)))
      skip[row] = 0
    }
    return [...skips].map(([id, skip]) => [id === RELEASED ? undefined : this.schema.byId[id], copyRows(rows, skip, 0)])
  }

  /** Where each part's rows go: decided when all fields of the write are known, so that a measurement's rows stay together. */
  private settleAll(): void {
    for (const { owners, rows, columns } of this.pending) {
      if (owners.length === 1) this.settle(owners[0], rows, columns)
      else if (haveJust(owners, columns[0])) {
        const tables = owners.map((owner) => this.schema.settle(owner, this.definitions, this.undo))
        this.store(tables[0], rows, columns, [tables[0].fields[0]])
      } else for (const [each, own] of this.byMeasurement(rows)) if (each !== undefined) this.settle(each, own, used(own))
    }
  }

  private settle(measurement: Measurement, rows: Rows, columns: Column[]): void {
    const table = this.schema.settle(measurement, this.definitions, this.undo)
    this.requireRoom()
    const fields = columns.map((column) => (table.measurement < 0 ? table.fields[0] : (measurement.fields.get(column.name) as FieldDef)))
    for (const [i, column] of columns.entries()) if (column.type === 'decimal') rescaleColumn(column, fields[i].scale)
    this.store(table, rows, columns, fields)
  }

  private store(table: Table, rows: Rows, columns: Column[], fields: FieldDef[]): void {
    const { index } = this
    const { series, time } = rows
    let { newestLow, newestHigh, oldestLow, oldestHigh, lastSeries } = this
    for (let row = 0; row < rows.rows; row++) {
      let s = series[row]
      if (s >= FIRST_HANDLE || !index.isLive(s)) {
        s = this.durable(s)
        if (s === UNKNOWN) throw staleSeries()
        series[row] = s
      }
      const low = time[row * 2]
      const high = time[row * 2 + 1]
      if (high > newestHigh || (high === newestHigh && low >>> 0 > newestLow >>> 0)) {
        newestLow = low
        newestHigh = high
      }
      if (high < oldestHigh || (high === oldestHigh && low >>> 0 < oldestLow >>> 0)) {
        oldestLow = low
        oldestHigh = high
      }
      if (s > lastSeries) lastSeries = s
    }
    this.newestLow = newestLow
    this.newestHigh = newestHigh
    this.oldestLow = oldestLow
    this.oldestHigh = oldestHigh
    this.lastSeries = lastSeries
    this.rows += rows.rows
    this.tables.push({ table: table.id, rows: rows.rows, series, time, columns, fields })
  }

  private requireRoom(): void {
    const { measurements, fields, tables } = this.definitions
    const total = (measurements?.length ?? 0) + (fields?.length ?? 0) + (tables?.length ?? 0)
    if (total > this.maxNew.definitions) throw tooManyDefinitions(this.maxNew.definitions)
  }

  /** The number of a series from a decoder, given now if it has none; UNKNOWN for one that was called in. */
  private durable(series: number): number {
    const { index } = this
    const known = index.numberOf(series)
    if (known !== NOT_DURABLE) return known
    if (this.promoted.handles.length === 0) {
      const symbols = index.symbols.count
      this.undo.push(() => index.revoke(this.promoted.handles, symbols))
    }
    const next = index.count
    const number = index.promote(series)
    if (number < next) return number
    this.promoted.add(series, index.tagBytes(number)) // what is not here is not taken back
    this.series.push({ series: number, measurement: index.measurementOf(number) })
    return number
  }

  private checkValues(measurement: string, rows: Rows, refused: Refusals): void {
    const columns = used(rows)
    if (!columns.some((column) => column.validity === undefined && column.next >= rows.rows)) {
      for (let row = 0; row < rows.rows; row++) {
        if (columns.some((column) => column.has(row))) continue
        refused.row(row, () => new SvcError('INVALID_POINT', `cannot write point of measurement "${measurement}": it has no field; a point has at least one`))
      }
    }
    for (const column of columns) {
      if (column.type === 'float64') checkNumbers(column, rows, measurement, refused, this.nonFinite)
      else if (column.type === 'string') checkStrings(column, rows, measurement, this.limits.maxStringBytes, refused)
    }
  }

  private checkSchema(measurement: Measurement, rows: Rows, refused: Refusals): void {
    const fresh: Column[] = []
    for (const column of used(rows)) {
      const known = measurement.fields.get(column.name)
      if (known === undefined) fresh.push(column)
      else if (known.type !== column.type) refused.all(column, () => typeConflict(measurement.name, column.name, known.type, column.type))
    }
    const scales = new Map(measurement.list.flatMap(({ name, type, scale }) => (type === 'decimal' ? [[name, scale] as const] : [])))
    if (scales.size > 0) checkDecimals(measurement.name, rows, scales, refused)
    const good = fresh.filter((column) => {
      try {
        checkFieldName(column.name, this.limits)
        return true
      } catch (error) {
        refused.all(column, () => error as SvcError)
        return false
      }
    })
    const own = this.limits.maxFieldsPerMeasurement - measurement.list.length
    const left = good.length === 0 ? 0 : this.schema.fieldsLeft(measurement.namespace)
    if (good.length > Math.min(own, left)) this.checkCounts(measurement, good, left, rows, refused)
    else this.checkTagKeys(rows, refused)
  }

  /** Series bring theirs in order of arrival, and those that find no room are refused. */
  private checkTagKeys(rows: Rows, refused: Refusals): void {
    const { series } = rows
    for (let row = 0; row < rows.rows; row++) {
      if (series[row] < FIRST_HANDLE || refused.has(row)) continue
      const refusal = this.tagKeys.refusal(series[row], this.nameOf)
      if (refusal === undefined) this.tagKeys.keep()
      else refused.row(row, refusal)
    }
  }

  /** More new fields than there is room for: rows create theirs in order of arrival, and those that find none left are refused, and bring no tag key either. @param left of all measurements' fields together. */
  private checkCounts(measurement: Measurement, fresh: Column[], left: number, rows: Rows, refused: Refusals): void {
    const created = new Set<Column>()
    for (let row = 0; row < rows.rows; row++) {
      if (refused.has(row)) continue
      const refusal = this.tagKeys.refusal(rows.series[row], this.nameOf)
      const wanted = fresh.filter((column) => !created.has(column) && column.has(row))
      const total = measurement.list.length + created.size + wanted.length
      if (refusal !== undefined) refused.row(row, refusal)
      else if (wanted.length > 0 && total > this.limits.maxFieldsPerMeasurement)
        refused.row(row, () => tooManyFields(measurement.name, wanted[0].name, total, this.limits.maxFieldsPerMeasurement))
      else if (wanted.length > 0 && created.size + wanted.length > left) refused.row(row, () => this.schema.noFieldLeft(measurement, wanted[0].name))
      else {
        this.tagKeys.keep()
        for (const column of wanted) created.add(column)
      }
    }
  }

  private readonly nameOf = (measurement: number): string => this.schema.any(measurement)?.name ?? ''
}

/** Whether none of the measurements has another field than this one would be. A decimal's scale is each measurement's own. */
function haveJust(measurements: readonly Measurement[], { name, type }: Column): boolean {
  return type !== 'decimal' && measurements.every(({ list }) => list.length === 0 || (list.length === 1 && list[0].name === name && list[0].type === type))
}

/** Refuses NaN and infinities unless they are admitted; the column says then that it has some. */
function checkNumbers(column: Column, rows: Rows, measurement: string, refused: Refusals, admitted: boolean): void {
  const { f64 } = column
  const n = Math.min(column.next, rows.rows)
  if (!hasNonFinite(f64, n)) return
  for (let row = 0; row < n; row++) {
    if (Number.isFinite(f64[row]) || !column.has(row)) continue
    if (admitted) {
      column.nonFinite = true
      return
    }
    refused.row(
      row,
      () =>
        new SvcError('INVALID_POINT', `cannot write field "${column.name}" of measurement "${measurement}": ${f64[row]} is not stored; leave the field out`),
    )
  }
}

function checkStrings(column: Column, rows: Rows, measurement: string, limit: number, refused: Refusals): void {
  for (let row = 0; row < Math.min(column.next, rows.rows); row++) {
    const bytes = column.i32[row * 2 + 1]
    if (bytes <= limit || !column.has(row)) continue
    refused.row(
      row,
      () =>
        new SvcError(
          'INVALID_POINT',
          `cannot write field "${column.name}" of measurement "${measurement}": the text takes ${bytes} bytes of UTF-8, max_string_bytes is ${limit}`,
        ),
    )
  }
}
