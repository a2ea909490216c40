/** The columns of a measurement's rows as results have them: the time, the tags, the fields. */
import type { FieldInfo } from '../columns/index.ts'
import type { SqlColumn } from '../sql-result/index.ts'

const TIME_COLUMN = '_time'

/** A field's type as `SqlColumn.type`; histograms are shown as JSON. */
export function fieldTypeName({ type, scale }: Pick<FieldInfo, 'type' | 'scale'>): string {
  switch (type) {
    case 'float64':
      return 'Float64'
    case 'int64':
      return 'Int64'
    case 'uint64':
      return 'UInt64'
    case 'bool':
      return 'Boolean'
    case 'decimal':
      return `decimal(38, ${scale ?? 0})`
    default:
      return 'Utf8'
  }
}

export function seriesColumns(tags: readonly string[], fields: readonly FieldInfo[]): SqlColumn[] {
  return [
    { name: TIME_COLUMN, type: 'Timestamp(ns)' },
    ...tags.map((name) => ({ name, type: 'Utf8' })),
    ...fields.map((field) => ({ name: field.name, type: fieldTypeName(field) })),
  ]
}
