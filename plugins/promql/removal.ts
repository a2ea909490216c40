/**
 * What a delete of series by selectors comes to in points. Points have all fields of a measurement, and are deleted as wholes, so that a metric
 * that is one field of several cannot go alone. Pure.
 */
import type { Matcher, MeasurementFields } from 'svcdb'
import type { LabelMatcher } from './ast.ts'
import { MetricCatalog, splitMatchers } from './storage/metric-catalog.ts'

/** Of one selector. */
export interface Removal {
  measurements: string[]
  matchers: Matcher[]
}

export class Removals {
  private readonly catalog: MetricCatalog
  private readonly fields: ReadonlyMap<string, MeasurementFields['fields']>
  private readonly refuse: (reason: string) => Error

  constructor(schema: readonly MeasurementFields[], refuse: (reason: string) => Error) {
    this.catalog = MetricCatalog.of(schema)
    this.fields = new Map(schema.map(({ name, fields }) => [name, fields]))
    this.refuse = refuse
  }

  /** @throws what `refuse` makes of a selector that cannot be followed: nothing is to be deleted then. */
  of(selector: readonly LabelMatcher[]): Removal {
    const { names, others } = splitMatchers(selector)
    const chosen = new Map<string, Set<string>>()
    for (const { name, measurement, field, part } of this.catalog.select(names)) {
      if (part !== undefined) throw this.refuse(`${JSON.stringify(name)} is a view of a native histogram; delete that, by its own name`)
      const fields = chosen.get(measurement)
      if (fields === undefined) chosen.set(measurement, new Set([field]))
      else fields.add(field)
    }
    for (const [measurement, fields] of chosen) {
      const left = this.fields.get(measurement)?.find(({ name }) => !fields.has(name))
      if (left !== undefined)
        throw this.refuse(
          `points of measurement ${JSON.stringify(measurement)} have the field ${JSON.stringify(left.name)} too, which the selector does not match and a delete would take along; use POST /api/v1/delete`,
        )
    }
    return { measurements: [...chosen.keys()], matchers: others.map(({ name, op, value }) => ({ tag: name, op, value })) }
  }
}
