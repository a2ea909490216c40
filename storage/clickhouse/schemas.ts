/** Fields of all measurements of a namespace, as jobs are told them: an array that stays the same as long as it says the same. */
import type { MeasurementFields } from 'svcdb'
import { fieldsOf } from './catalog.ts'
import type { CatalogLog } from './catalog-log.ts'
import type { SeriesNumbers } from './series-numbers.ts'

export class Schemas {
  private readonly log: CatalogLog
  private readonly numbers: SeriesNumbers
  private readonly known = new Map<string, { generation: number; fields: readonly MeasurementFields[] }>()

  constructor(log: CatalogLog, numbers: SeriesNumbers) {
    this.log = log
    this.numbers = numbers
  }

  /** The same array until the schema, or the meaning of numbers, changes. */
  of(namespace: string): readonly MeasurementFields[] {
    const { generation } = this.numbers
    const known = this.known.get(namespace)
    if (known?.generation === generation) return known.fields
    const fields = this.log.catalog.list(namespace).map((life) => ({ name: life.name, fields: fieldsOf(life) }))
    this.known.set(namespace, { generation, fields })
    return fields
  }

  forget(namespace: string): void {
    this.known.delete(namespace)
  }
}
