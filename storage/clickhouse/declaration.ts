/** Fields that are declared, without a point that has them. */
import type { FieldInfo } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { MAX_DIGITS } from '../common/decimal.ts'
import type { Limits } from '../common/limits.ts'
import { checkFieldName, checkMeasurementName } from '../common/names.ts'
import { fieldEvents, type Judge } from './admission.ts'
import type { CatalogEvent } from './catalog.ts'

/** The field as the catalog keeps it. @throws INVALID_POINT for a bad name or scale. */
export function checkedField(measurement: string, { name, type, scale }: FieldInfo, limits: Limits): FieldInfo {
  checkFieldName(name, limits)
  checkMeasurementName(measurement, limits)
  if (type !== 'decimal') return { name, type }
  if (!(Number.isInteger(scale) && (scale as number) >= 0 && (scale as number) <= MAX_DIGITS))
    throw new SvcError('INVALID_POINT', `cannot declare field "${name}" of measurement "${measurement}": a decimal needs a scale of 0 to ${MAX_DIGITS}`)
  return { name, type, scale: scale as number }
}

/** What a declaration does to the catalog. @throws SCHEMA_ERROR for a field of another type, INVALID_POINT and what the gate says for one too many. */
export function declarationEvents(
  { catalog, gate, limits }: Pick<Judge, 'catalog' | 'gate' | 'limits'>,
  namespace: string,
  measurement: string,
  field: FieldInfo,
): CatalogEvent[] {
  const life = catalog.find(namespace, measurement)
  if (life === undefined) gate.requireRoom(namespace, 'measurements', catalog.count(namespace))
  const known = life?.fields.get(field.name)?.info
  const cannot = `cannot declare field "${field.name}" of measurement "${measurement}"`
  if (known !== undefined && (known.type !== field.type || known.scale !== field.scale))
    throw new SvcError('SCHEMA_ERROR', `${cannot} as ${shown(field)}: it is of type ${shown(known)}`)
  if (known !== undefined) return []
  const limit = limits.maxFieldsPerMeasurement
  if ((life?.fields.size ?? 0) >= limit) throw new SvcError('INVALID_POINT', `${cannot}: max_fields_per_measurement of ${limit} is reached`)
  const own = catalog.fieldsOf(namespace)
  if (gate.fieldsLeft(namespace, own, catalog.fields) < 1) throw gate.noFieldLeft({ namespace, name: measurement }, field.name, own, catalog.fields)
  return fieldEvents(namespace, measurement, life, [field])
}

function shown({ type, scale }: FieldInfo): string {
  return scale === undefined ? type : `${type}(38, ${scale})`
}
