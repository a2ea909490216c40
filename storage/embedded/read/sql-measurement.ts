/** A measurement as SQL sees it. */
import { tagColumns } from '../series/tag-source.ts'
import type { SqlMeasurement } from '../sql/host.ts'
import type { MeasurementDef } from '../threads/definitions.ts'
import type { WorkerState } from '../threads/state.ts'

export function sqlMeasurement({ series }: Pick<WorkerState, 'series'>, def: MeasurementDef): SqlMeasurement {
  return {
    name: def.name,
    columns: [
      { name: '_time', role: 'time' },
      ...tagColumns(def, series.tagKeys(def.id)).map(({ column }) => ({ name: column, role: 'tag' as const })),
      ...def.fields.map(({ column, type, scale }) => ({ name: column, role: 'field' as const, type, ...(type === 'decimal' ? { scale } : {}) })),
    ],
  }
}
