/** Declaring a field before anything is written to it. */
import type { FieldInfo } from 'svcdb'
import { typeConflict } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import { MAX_DIGITS } from '../../common/decimal.ts'
import { type Measurement, type Schema, tooManyFields, type Undo } from '../catalog/schema.ts'
import type { Definitions } from '../wal/record.ts'

const TYPES = new Set(['float64', 'int64', 'uint64', 'bool', 'string', 'decimal'])

/** @returns what must be made durable; nothing when the field exists with this type. @throws SCHEMA_ERROR, INVALID_POINT, CARDINALITY_EXCEEDED. */
export function declareField(schema: Schema, measurement: Measurement, field: FieldInfo, maxFields: number): { definitions: Definitions; undo: Undo } {
  const definitions: Definitions = {}
  const undo: Undo = []
  if (!TYPES.has(field.type))
    throw new SvcError('INVALID_POINT', `cannot declare field "${field.name}" of type "${field.type}": the types are ${[...TYPES].join(', ')}`)
  if (field.scale !== undefined && field.type !== 'decimal')
    throw new SvcError('INVALID_POINT', `cannot declare field "${field.name}": only a decimal has a scale`)
  const scale = field.type === 'decimal' ? field.scale : 0
  if (scale === undefined || !Number.isInteger(scale) || scale < 0 || scale > MAX_DIGITS) {
    throw new SvcError('INVALID_POINT', `cannot declare decimal field "${field.name}" with scale ${scale}: give an integer from 0 to ${MAX_DIGITS}`)
  }
  const known = measurement.fields.get(field.name)
  if (known !== undefined) {
    if (known.type !== field.type) throw typeConflict(measurement.name, field.name, known.type, field.type)
    if (known.type === 'decimal' && field.scale !== undefined && known.scale !== field.scale) {
      throw new SvcError(
        'SCHEMA_ERROR',
        `cannot declare field "${field.name}" of measurement "${measurement.name}" with scale ${field.scale}: its scale is ${known.scale} since it was created`,
      )
    }
    return { definitions, undo }
  }
  if (measurement.list.length >= maxFields) throw tooManyFields(measurement.name, field.name, measurement.list.length + 1, maxFields)
  if (schema.fieldsLeft(measurement.namespace) < 1) throw schema.noFieldLeft(measurement, field.name)
  schema.keep(measurement, definitions, undo)
  schema.addField(measurement, field.name, field.type, scale, definitions, undo)
  // Where its rows go is settled by the first write, unless it has a home that the new field changes.
  if (measurement.home !== undefined) schema.settle(measurement, definitions, undo)
  return { definitions, undo }
}
