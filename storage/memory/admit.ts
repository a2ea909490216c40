/**
 * Admission: which rows of a write are stored. The order of the checks is part of what engines must agree on: a row with several
 * faults is refused for the first of time, values, schema; within values and schema in the order of its columns. A write with a row
 * in time of a measurement that is gone is refused whole.
 *
 * A field comes into being with the first row that is admitted with it; a decimal's scale is then the most fractional digits
 * among the rows of this write that pass all other checks. Fields are created only for rows that are admitted.
 */
import type { FieldInfo } from 'svcdb'
import { typeConflict } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import { rescale } from '../common/decimal.ts'
import type { Limits } from '../common/limits.ts'
import { checkFieldName, tooManyTags } from '../common/names.ts'
import { staleSeries } from '../common/retention.ts'
import { ADMITTED, type Bounds, boundsOf, verdict, type Window } from '../common/window.ts'
import { type IncomingField, type IncomingRow, isShown } from './rows.ts'
import type { Measurement } from './series.ts'

/** Of the fields of all measurements together. */
export interface FieldRoom {
  left(namespace: string): number
  refusal(measurement: Measurement, field: string): SvcError
}

/** Marks the rows that are refused, creates the fields of the others and brings their decimals to scale. @param nonFinite NaN and infinities are admitted. @throws staleSeries: nothing has changed then. */
export function admit(rows: IncomingRow[], window: Window, bounds: Bounds, limits: Limits, room: FieldRoom, nonFinite: boolean): void {
  for (const row of rows) {
    const own = boundsOf(bounds, row.series.measurement.name)
    const time = verdict(own, row.timeLow, row.timeHigh)
    if (time !== ADMITTED) row.refused = window.refusal(time, own, row.timeLow, row.timeHigh)
    else if (row.series.measurement.gone) throw staleSeries()
    else attempt(row, () => checkValues(row, limits, nonFinite))
  }
  const groups = Map.groupBy(
    rows.filter((row) => row.refused === undefined),
    (row) => row.series.measurement,
  )
  for (const [measurement, group] of groups) admitSchema(measurement, group, limits, room)
}

function checkValues(row: IncomingRow, limits: Limits, nonFinite: boolean): void {
  const measurement = row.series.measurement.name
  if (row.fields.length === 0) throw new SvcError('INVALID_POINT', `cannot write point of measurement "${measurement}": it has no field`)
  for (const { name, type, value } of row.fields) {
    if (!nonFinite && type === 'float64' && !isShown(type, value)) {
      throw new SvcError(
        'INVALID_POINT',
        `cannot write field "${name}" of measurement "${measurement}": ${floatOf(value as bigint)} is not stored; leave the field out`,
      )
    }
    if (type === 'string') {
      const bytes = Buffer.byteLength(value as string)
      if (bytes > limits.maxStringBytes) {
        throw new SvcError(
          'INVALID_POINT',
          `cannot write field "${name}" of measurement "${measurement}": the text takes ${bytes} bytes of UTF-8, max_string_bytes is ${limits.maxStringBytes}`,
        )
      }
    }
  }
}

const floatOf = (bits: bigint): number => new Float64Array(BigUint64Array.of(bits).buffer)[0]

function admitSchema(measurement: Measurement, rows: IncomingRow[], limits: Limits, room: FieldRoom): void {
  const created = new Map<string, FieldInfo>()
  const tagKeys = new Set<string>()
  for (const row of rows) {
    attempt(row, () => {
      const fresh = checkTags(row, tagKeys, limits)
      checkSchema(measurement, created, row, limits, room)
      for (const key of fresh) tagKeys.add(key)
    })
  }
  // Only now are the scales of new decimals known.
  for (const row of rows.filter((r) => r.refused === undefined)) {
    attempt(row, () => {
      for (const field of row.fields) {
        if (field.type !== 'decimal') continue
        const { scale = 0 } = (measurement.fields.get(field.name) ?? created.get(field.name)) as FieldInfo
        field.value = rescale(field.value as bigint, field.scale, scale, measurement.name, field.name)
      }
    })
  }
  const used = new Set(rows.filter((r) => r.refused === undefined).flatMap((r) => r.fields.map((f) => f.name)))
  for (const [name, field] of created) if (used.has(name)) measurement.fields.set(name, field)
}

/**
 * @param begun keys that rows before it bring.
 * @returns those that its series would bring.
 */
function checkTags({ series: { measurement, tags, live } }: IncomingRow, begun: ReadonlySet<string>, limits: Limits): string[] {
  if (live) return []
  const fresh = Object.keys(tags).filter((key) => !measurement.tagKeys.has(key) && !begun.has(key))
  const total = measurement.tagKeys.size + begun.size + fresh.length
  if (fresh.length > 0 && total > limits.maxTagsPerMeasurement) throw tooManyTags(measurement.name, fresh[0], total, limits.maxTagsPerMeasurement)
  return fresh
}

function checkSchema(measurement: Measurement, created: Map<string, FieldInfo>, row: IncomingRow, limits: Limits, room: FieldRoom): void {
  const fresh: IncomingField[] = []
  for (const field of row.fields) {
    const known = measurement.fields.get(field.name) ?? created.get(field.name)
    if (known === undefined) {
      checkFieldName(field.name, limits)
      fresh.push(field)
    } else if (known.type !== field.type) {
      throw typeConflict(measurement.name, field.name, known.type, field.type)
    } else if (field.type === 'decimal' && measurement.fields.has(field.name)) {
      rescale(field.value as bigint, field.scale, known.scale ?? 0, measurement.name, field.name)
    }
  }
  const total = measurement.fields.size + created.size + fresh.length
  if (fresh.length > 0 && total > limits.maxFieldsPerMeasurement) {
    throw new SvcError(
      'INVALID_POINT',
      `cannot add field "${fresh[0].name}" to measurement "${measurement.name}": it would have ${total} fields, max_fields_per_measurement is ${limits.maxFieldsPerMeasurement}`,
    )
  }
  if (fresh.length > 0 && created.size + fresh.length > room.left(measurement.namespace)) throw room.refusal(measurement, fresh[0].name)
  for (const { name, type } of fresh) created.set(name, type === 'decimal' ? { name, type, scale: 0 } : { name, type })
  for (const { name, scale } of row.fields) {
    const field = created.get(name)
    if (field?.scale !== undefined && scale > field.scale) field.scale = scale
  }
}

function attempt(row: IncomingRow, check: () => void): void {
  try {
    check()
  } catch (error) {
    if (!(error instanceof SvcError)) throw error
    row.refused = error
  }
}
