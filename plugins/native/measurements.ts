/** Measurements and their columns, as the API shows them. */
import type { FieldInfo, FieldType, MeasurementInfo } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'

interface ColumnView {
  name: string
  role: 'tag' | 'field' | 'timestamp'
  data_type: string
}

interface MeasurementView {
  name: string
  columns: ColumnView[]
}

export function view(measurement: MeasurementInfo): MeasurementView {
  return {
    name: measurement.name,
    columns: [
      { name: '_time', role: 'timestamp', data_type: 'timestamp(ns)' },
      ...measurement.tags.map((name): ColumnView => ({ name, role: 'tag', data_type: 'string' })),
      ...measurement.fields.map((field): ColumnView => ({ name: field.name, role: 'field', data_type: dataType(field) })),
    ],
  }
}

function dataType(field: FieldInfo): string {
  return field.type === 'decimal' ? `decimal(38, ${field.scale ?? 0})` : field.type
}

const DECLARABLE: readonly FieldType[] = ['float64', 'int64', 'uint64', 'bool', 'string', 'decimal']
const MAX_SCALE = 38

/** @throws BAD_REQUEST for an unknown type, a scale without a decimal, a scale out of bounds. */
export function declaredField(body: { name: string; type: string; scale?: number }): FieldInfo {
  const { name, type, scale } = body
  if (!DECLARABLE.includes(type as FieldType)) {
    throw new SvcError('BAD_REQUEST', `cannot declare field "${name}": there is no type "${type.slice(0, 64)}"; types are ${DECLARABLE.join(', ')}`)
  }
  if (type !== 'decimal') {
    if (scale !== undefined) throw new SvcError('BAD_REQUEST', `cannot declare field "${name}" of type ${type}: only a decimal has a scale; leave it out`)
    return { name, type: type as FieldType }
  }
  if (scale === undefined || !Number.isInteger(scale) || scale < 0 || scale > MAX_SCALE) {
    throw new SvcError('BAD_REQUEST', `cannot declare field "${name}": a decimal needs a scale of 0 to ${MAX_SCALE}, its digits behind the point`)
  }
  return { name, type, scale }
}
