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

/**
 * Each column has a name of its own: a tag that is called like a field has `_tag` behind its name, as in SQL.
 *
 * @param fields those of the result. @param others the measurement's, also those that the result leaves out, so that a tag has one name whatever is asked for.
 */
export function seriesColumns(tags: readonly string[], fields: readonly FieldInfo[], others: readonly FieldInfo[] = fields): SqlColumn[] {
  const taken = new Set(others.map(({ name }) => name))
  return [
    { name: TIME_COLUMN, type: 'Timestamp(ns)' },
    ...tags.map((tag) => ({ name: ownName(tag, taken), type: 'Utf8' })),
    ...fields.map((field) => ({ name: field.name, type: fieldTypeName(field) })),
  ]
}

function ownName(tag: string, taken: Set<string>): string {
  let name = tag
  for (let n = 1; taken.has(name); n++) name = n === 1 ? `${tag}_tag` : `${tag}_tag${n}`
  taken.add(name)
  return name
}
