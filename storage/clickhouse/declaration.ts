/** Fields that are declared before they have values. Pure. */
import type { FieldInfo } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { MAX_DIGITS } from '../common/decimal.ts'
import type { Limits } from '../common/limits.ts'
import { checkFieldName, checkMeasurementName } from '../common/names.ts'
import { fieldEvents } from './admission.ts'
import type { Catalog, CatalogEvent } from './catalog.ts'

/** What is declared, without what a field of its type has not. @throws INVALID_POINT */
export function declaredField(measurement: string, { name, type, scale }: FieldInfo, limits: Limits): FieldInfo {
  checkFieldName(name, limits)
  checkMeasurementName(measurement, limits)
  if (type !== 'decimal') return { name, type }
  if (!(Number.isInteger(scale) && (scale as number) >= 0 && (scale as number) <= MAX_DIGITS))
    throw new SvcError('INVALID_POINT', `cannot declare field "${name}" of measurement "${measurement}": a decimal needs a scale of 0 to ${MAX_DIGITS}`)
  return { name, type, scale: scale as number }
}

/** Nothing for a field that is there. @throws SCHEMA_ERROR for another type, INVALID_POINT for one field too many. */
export function declaration(catalog: Catalog, namespace: string, measurement: string, given: FieldInfo, limits: Limits): readonly CatalogEvent[] {
  const { name } = given
  const life = catalog.find(namespace, measurement)
  const known = life?.fields.get(name)?.info
  if (known !== undefined && (known.type !== given.type || known.scale !== given.scale))
    throw new SvcError('SCHEMA_ERROR', `cannot declare field "${name}" of measurement "${measurement}" as ${shown(given)}: it is of type ${shown(known)}`)
  if (known !== undefined) return []
  const limit = limits.maxFieldsPerMeasurement
  if ((life?.fields.size ?? 0) >= limit)
    throw new SvcError('INVALID_POINT', `cannot declare field "${name}" of measurement "${measurement}": max_fields_per_measurement of ${limit} is reached`)
  return fieldEvents(namespace, measurement, life, [given])
}

function shown({ type, scale }: FieldInfo): string {
  return scale === undefined ? type : `${type}(38, ${scale})`
}
