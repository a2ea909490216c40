/** The columns of a measurement as Flight SQL describes them: names and types of `SELECT *`, and what each is in metadata. */
import { Field, Schema } from 'apache-arrow'
import type { FieldInfo, MeasurementInfo } from 'svcdb'
import { dataType, fieldTypeName } from 'svcdb/lib/arrow'

interface Column {
  name: string
  /** As `SqlColumn.type`. */
  type: string
  /** In SQL. */
  sqlType: string
  precision?: number
  scale?: number
  role: 'timestamp' | 'tag' | 'field'
}

const PREFIX = 'ARROW:FLIGHT:SQL:'

/** @param names as SQL has them, where they differ. @param described with metadata; without it, it is the schema of `SELECT *`. */
export function tableSchema({ tags, fields }: MeasurementInfo, names: readonly string[] | undefined, described: boolean): Schema {
  const columns: Column[] = [
    { name: '_time', type: 'Timestamp(ns)', sqlType: 'TIMESTAMP_NS', role: 'timestamp' },
    ...tags.map((name): Column => ({ name, type: 'Utf8', sqlType: 'VARCHAR', role: 'tag' })),
    ...fields.map((field): Column => ({ name: field.name, type: fieldTypeName(field), ...sqlTypeOf(field), role: 'field' })),
  ]
  const metadata = (column: Column): Map<string, string> | undefined => (described ? metadataOf(column) : undefined)
  return new Schema(columns.map((column, i) => new Field(names?.[i] ?? column.name, dataType(column.type), true, metadata(column))))
}

/** Columns whose names differ in case only have other names in SQL. */
export function namesCollide({ tags, fields }: MeasurementInfo): boolean {
  const names = ['_time', ...tags, ...fields.map(({ name }) => name)]
  return new Set(names.map((name) => name.toLowerCase())).size < names.length
}

function sqlTypeOf({ type, scale = 0 }: FieldInfo): Pick<Column, 'sqlType' | 'precision' | 'scale'> {
  switch (type) {
    case 'float64':
      return { sqlType: 'DOUBLE' }
    case 'int64':
      return { sqlType: 'BIGINT' }
    case 'uint64':
      return { sqlType: 'UBIGINT' }
    case 'bool':
      return { sqlType: 'BOOLEAN' }
    case 'decimal':
      return { sqlType: 'DECIMAL', precision: 38, scale }
    // SQL answers histograms as JSON.
    case 'string':
    case 'histogram':
      return { sqlType: 'VARCHAR' }
  }
}

/** `role` is what a put takes: record batches with this schema are written as what they were. */
function metadataOf({ sqlType, precision, scale, role }: Column): Map<string, string> {
  return new Map([
    ['role', role],
    [`${PREFIX}TYPE_NAME`, sqlType],
    ...(precision === undefined ? [] : [[`${PREFIX}PRECISION`, String(precision)] as const, [`${PREFIX}SCALE`, String(scale)] as const]),
    [`${PREFIX}IS_AUTO_INCREMENT`, '0'],
    [`${PREFIX}IS_CASE_SENSITIVE`, sqlType === 'VARCHAR' ? '1' : '0'],
    [`${PREFIX}IS_READ_ONLY`, '1'],
    [`${PREFIX}IS_SEARCHABLE`, '1'],
    [`${PREFIX}REMARKS`, role],
  ])
}
