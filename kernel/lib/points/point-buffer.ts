/** Points that wait to be written: bounded, and refused one by one, naming the point, before anything of a bad one is kept. */

import type { Column, TableBatch, WriteBatch } from '../columns/index.ts'
import { SvcError } from '../errors/index.ts'
import type { Work } from '../event-loop/index.ts'
import { storeDecimal } from '../numbers/index.ts'
import { type FieldValue, TypedValue } from './values.ts'

/** Tags by key. An empty value is as no tag. */
export type Tags = Readonly<Record<string, string>>

/** Fields by name: of a number float64, of a bigint int64; `uint64`, `decimal` and `histogram` make the others. */
export type Fields = Readonly<Record<string, FieldValue>>

/** Bounds of what may wait. */
export interface PointLimits {
  maxPoints: number
  /** Of names, texts and values, as they lie in memory. */
  maxBytes: number
  /** NaN and infinities are points, not mistakes. */
  nonFinite: boolean
}

/** What a batch was refused of, as `WriteResult` counts it. Positions count the points from 0. */
export interface Refusals {
  rejected: number
  rejections: { code: string; message: string; position: number }[]
}

interface Point {
  measurement: string
  /** key, value, key, value ... */
  tags: string[]
  names: string[]
  values: FieldValue[]
  time: bigint
  bytes: number
}

const MIN_INT64 = -(2n ** 63n)
const MAX_INT64 = 2n ** 63n - 1n
/** What a point costs besides its texts and values. */
const POINT_BYTES = 128
const VALUE_BYTES = 16
const MAX_REJECTIONS = 16
/** Points between two places where the event loop may have a turn. */
const POINTS_A_STEP = 64
const SHOWN = 64
const encoder = new TextEncoder()

/** Points that were added one by one, until they are put into a batch. */
export class PointBuffer {
  private points: Point[] = []
  private bytes = 0
  /** Rises when all is forgotten. */
  epoch = 0
  private readonly limits: PointLimits

  constructor(limits: PointLimits) {
    this.limits = limits
  }

  get length(): number {
    return this.points.length
  }

  /** @param time nanoseconds. @throws INVALID_POINT naming the point and the member at fault, PAYLOAD_TOO_LARGE when it is full: nothing was added. */
  add(measurement: string, tags: Tags, fields: Fields, time: bigint | Date): void {
    const refuse = (cause: string): SvcError => new SvcError('INVALID_POINT', `cannot add ${this.name(this.points.length, String(measurement))}: ${cause}`)
    const { maxPoints, maxBytes, nonFinite } = this.limits
    if (typeof measurement !== 'string' || measurement === '') throw refuse('a measurement has a name')
    const point: Point = { measurement, tags: [], names: [], values: [], time: nanosOf(time, refuse), bytes: POINT_BYTES + 2 * measurement.length }
    for (const [key, value] of Object.entries(tags)) {
      if (typeof value !== 'string') throw refuse(`tag "${key.slice(0, SHOWN)}" is ${shown(value)}; tags are strings`)
      point.tags.push(key, value)
      point.bytes += 2 * (key.length + value.length)
    }
    for (const [name, value] of Object.entries(fields)) {
      const problem = problemOf(value, nonFinite)
      if (problem !== undefined) throw refuse(`field "${name.slice(0, SHOWN)}" ${problem}`)
      point.names.push(name)
      point.values.push(value)
      point.bytes += VALUE_BYTES + 2 * (name.length + (typeof value === 'string' ? value.length : value instanceof TypedValue ? value.bytes : 0))
    }
    if (point.names.length === 0) throw refuse('it has no field; a point has at least one')
    if (this.points.length >= maxPoints || (this.bytes + point.bytes > maxBytes && this.points.length > 0)) {
      const held = `${this.points.length} points of about ${this.bytes} bytes wait, maxPoints is ${maxPoints} and maxBytes ${maxBytes}`
      throw new SvcError('PAYLOAD_TOO_LARGE', `cannot add ${this.name(this.points.length, measurement)}: ${held}; await write() first`)
    }
    this.points.push(point)
    this.bytes += point.bytes
  }

  clear(): void {
    this.points = []
    this.bytes = 0
    this.epoch++
  }

  /** Forgets the first so many: they are written. */
  drop(count: number): void {
    for (const { bytes } of this.points.splice(0, count)) this.bytes -= bytes
  }

  /** What messages call a point. */
  name(position: number, measurement = this.points[position]?.measurement ?? ''): string {
    return `points[${position}] of "${measurement.slice(0, SHOWN)}"`
  }

  /** Puts the first `count` points into a batch; one that the schema or the budget of series refuses is left out and counted. Nothing is forgotten. */
  fill(batch: WriteBatch, count: number): Work<Refusals> {
    return appendAll(batch, this.points, count)
  }
}

/** @param points as they are when the work is ordered: those that wait may be others at its first turn. */
function* appendAll(batch: WriteBatch, points: readonly Point[], count: number): Work<Refusals> {
  const refusals: Refusals = { rejected: 0, rejections: [] }
  for (let position = 0; position < count; position++) {
    if (position % POINTS_A_STEP === POINTS_A_STEP - 1) yield
    try {
      append(batch, points[position], position)
    } catch (error) {
      if (!(error instanceof SvcError) || error.kind.http >= 500) throw error
      if (refusals.rejected++ < MAX_REJECTIONS) refusals.rejections.push({ code: error.code, message: error.message, position })
    }
  }
  return refusals
}

function append(batch: WriteBatch, { measurement, tags, names, values, time }: Point, position: number): void {
  const ref = batch.resolver.measurement(batch.namespace, measurement)
  const table = batch.tableForRow(ref)
  const row = table.addRow(batch.resolver.series(ref, tags), low(time), high(time), position)
  try {
    for (let i = 0; i < names.length; i++) setField(batch, table, names[i], values[i], row)
  } catch (error) {
    table.dropRow()
    throw error
  }
}

function setField(batch: WriteBatch, table: TableBatch, name: string, value: FieldValue, row: number): void {
  switch (typeof value) {
    case 'number':
      return table.column(name, 'float64').setF64(row, value)
    case 'bigint':
      return table.column(name, 'int64').setPair(row, low(value), high(value))
    case 'boolean':
      return table.column(name, 'bool').setBool(row, value)
    case 'string': {
      const column = table.column(name, 'string')
      const at = batch.text(value)
      return column.setPair(row, at, batch.heap.length - at)
    }
    default:
      return setTyped(batch, table.column(name, value.type), value, row)
  }
}

function setTyped(batch: WriteBatch, column: Column, { value }: TypedValue, row: number): void {
  if (typeof value === 'bigint') return column.setPair(row, low(value), high(value))
  if (typeof value === 'string') {
    const bytes = encoder.encode(value)
    storeDecimal(bytes, 0, bytes.length, column, row)
    return
  }
  const at = batch.heap.reserve(value.length)
  batch.heap.bytes.set(value, at)
  column.setPair(row, at, value.length)
}

/** What is wrong with a field's value. */
function problemOf(value: unknown, nonFinite: boolean): string | undefined {
  if (typeof value === 'string' || typeof value === 'boolean' || value instanceof TypedValue) return undefined
  if (typeof value === 'number') return nonFinite || Number.isFinite(value) ? undefined : `is ${value}; leave it out, or say nonFinite to keep such values`
  if (typeof value !== 'bigint') return `is ${shown(value)}; it is a number, a bigint, a boolean, a string, or made by uint64(), decimal() or histogram()`
  return value >= MIN_INT64 && value <= MAX_INT64 ? undefined : `is ${shown(value)}, beyond int64; use uint64() or decimal()`
}

function nanosOf(time: unknown, refuse: (cause: string) => SvcError): bigint {
  if (time instanceof Date) {
    if (Number.isNaN(time.getTime())) throw refuse('its time is no date')
    return nanosOf(BigInt(time.getTime()) * 1_000_000n, refuse)
  }
  if (typeof time !== 'bigint') throw refuse(`its time is ${shown(time)}; it is a bigint of nanoseconds since 1970, or a Date`)
  if (time < MIN_INT64 || time > MAX_INT64) throw refuse(`its time ${time} is beyond 64 bits of nanoseconds since 1970`)
  return time
}

function shown(value: unknown): string {
  if (typeof value === 'bigint') return String(value).slice(0, SHOWN)
  return value === null ? 'null' : typeof value === 'object' ? 'an object' : typeof value
}

const low = (value: bigint): number => Number(BigInt.asIntN(32, value))
const high = (value: bigint): number => Number(BigInt.asIntN(32, value >> 32n))
