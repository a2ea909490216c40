/**
 * What a delete of series by selectors comes to in points. Points have all fields of a measurement, and are deleted as wholes, so that a metric
 * that is one field of several cannot go alone. Pure.
 */
import type { DeleteRequest, MeasurementFields } from 'svcdb'
import type { LabelMatcher } from './ast.ts'
import { MetricCatalog, splitMatchers } from './storage/metric-catalog.ts'

export type Removal = Pick<DeleteRequest, 'measurement' | 'matchers'>

/** @throws what `refuse` makes of a selector that cannot be followed: nothing is to be deleted then. */
export function removalsOf(
  selectors: readonly (readonly LabelMatcher[])[],
  schema: readonly MeasurementFields[],
  refuse: (reason: string) => Error,
): Removal[] {
  const catalog = MetricCatalog.of(schema)
  return selectors.flatMap((selector) => {
    const { names, others } = splitMatchers(selector)
    const chosen = new Map<string, Set<string>>()
    for (const { name, measurement, field, part } of catalog.select(names)) {
      if (part !== undefined) throw refuse(`${JSON.stringify(name)} is a view of a native histogram; delete that, by its own name`)
      const fields = chosen.get(measurement) ?? new Set()
      chosen.set(measurement, fields.add(field))
    }
    return [...chosen].map(([measurement, fields]): Removal => {
      const left = fieldsOf(schema, measurement).filter((field) => !fields.has(field))
      if (left.length > 0)
        throw refuse(
          `points of measurement ${JSON.stringify(measurement)} have the field ${JSON.stringify(left[0])} too, which the selector does not match and a delete would take along; use POST /api/v1/delete`,
        )
      return { measurement, matchers: others.map(({ name, op, value }) => ({ tag: name, op, value })) }
    })
  })
}

function fieldsOf(schema: readonly MeasurementFields[], measurement: string): string[] {
  return schema.find(({ name }) => name === measurement)?.fields.map(({ name }) => name) ?? []
}
