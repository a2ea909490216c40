/** Fields, measurements and tables as threads and catalog name them. */
import type { FieldInfo, FieldType } from 'svcdb'

/** A field of a table. `id` is its index in the measurement's field list; `column` its name in SQL and in segments. */
export interface FieldDef {
  id: number
  name: string
  type: FieldType
  scale: number
  column: string
}

/** A field as interfaces show it. */
export function fieldInfo({ name, type, scale }: FieldDef): FieldInfo {
  return type === 'decimal' ? { name, type, scale } : { name, type }
}

/**
 * A measurement. `shared`: it has (so far) one field and keeps its rows in the table shared by all such measurements; `tables` are all
 * tables that may hold rows of it, oldest first (a shared one and its own, once it has grown a second field).
 */
export interface MeasurementDef {
  id: number
  namespace: string
  name: string
  fields: FieldDef[]
  tables: number[]
}

/** A table of rows: one measurement's own, or (measurement -1) the one shared by measurements whose only field is `fields[0]`. */
export interface TableDef {
  id: number
  measurement: number
  fields: FieldDef[]
}
