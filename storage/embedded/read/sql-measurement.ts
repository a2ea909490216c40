/** A measurement as SQL sees it. */
import { type TagColumn, tagColumns } from '../series/tag-source.ts'
import type { SqlMeasurement } from '../sql/host.ts'
import type { MeasurementDef } from '../threads/definitions.ts'
import type { WorkerState } from '../threads/state.ts'

/** By the names of their tags, which are another list once there are more. */
const known = new WeakMap<readonly TagColumn[], SqlMeasurement>()

export function sqlMeasurement({ series }: Pick<WorkerState, 'series'>, def: MeasurementDef): SqlMeasurement {
  const tags = tagColumns(def, series.tagKeys(def.id))
  let measurement = known.get(tags)
  if (measurement === undefined) known.set(tags, (measurement = described(def, tags)))
  return measurement
}

function described(def: MeasurementDef, tags: readonly TagColumn[]): SqlMeasurement {
  return {
    name: def.name,
    columns: [
      { name: '_time', role: 'time' },
      ...tags.map(({ column }) => ({ name: column, role: 'tag' as const })),
      ...def.fields.map(({ column, type, scale }) => ({ name: column, role: 'field' as const, type, ...(type === 'decimal' ? { scale } : {}) })),
    ],
  }
}
