/** CommandGetXdbcTypeInfo: the SQL types that columns have, with their numbers in JDBC and ODBC. */
import { Bool, Field, Int32, List, Utf8 } from 'apache-arrow'
import { type FlightTable, optional, required, tableOfRows } from './flight-table.ts'

const utf8 = new Utf8()
const int32 = new Int32()
const bool = new Bool()

const FIELDS: Field[] = [
  required('type_name', utf8),
  required('data_type', int32),
  optional('column_size', int32),
  optional('literal_prefix', utf8),
  optional('literal_suffix', utf8),
  optional('create_params', new List(new Field('item', utf8, false))),
  required('nullable', int32),
  required('case_sensitive', bool),
  required('searchable', int32),
  optional('unsigned_attribute', bool),
  required('fixed_prec_scale', bool),
  optional('auto_increment', bool),
  optional('local_type_name', utf8),
  optional('minimum_scale', int32),
  optional('maximum_scale', int32),
  required('sql_data_type', int32),
  optional('datetime_subcode', int32),
  optional('num_prec_radix', int32),
  optional('interval_precision', int32),
]

interface TypeInfo {
  name: string
  type: number
  /** The general type of dates and times; `type` otherwise. */
  general?: number
  subcode?: number
  size: number | null
  quote?: [prefix: string, suffix: string]
  params?: string[]
  radix?: number
  unsigned?: boolean
  scale?: [least: number, most: number]
}

const NULLABLE = 1
const SEARCHABLE_BASIC = 2
const SEARCHABLE_FULL = 3
const XDBC_DATETIME = 9

/** By type number, then name. */
const TYPES: TypeInfo[] = [
  { name: 'BOOLEAN', type: -7, size: 1 },
  { name: 'TINYINT', type: -6, size: 3, radix: 10, unsigned: false },
  { name: 'UTINYINT', type: -6, size: 3, radix: 10, unsigned: true },
  { name: 'BIGINT', type: -5, size: 19, radix: 10, unsigned: false },
  { name: 'UBIGINT', type: -5, size: 20, radix: 10, unsigned: true },
  { name: 'BLOB', type: -3, size: null, quote: ["'", "'"] },
  { name: 'DECIMAL', type: 3, size: 38, radix: 10, unsigned: false, params: ['precision', 'scale'], scale: [0, 38] },
  { name: 'INTEGER', type: 4, size: 10, radix: 10, unsigned: false },
  { name: 'UINTEGER', type: 4, size: 10, radix: 10, unsigned: true },
  { name: 'SMALLINT', type: 5, size: 5, radix: 10, unsigned: false },
  { name: 'USMALLINT', type: 5, size: 5, radix: 10, unsigned: true },
  { name: 'FLOAT', type: 7, size: 24, radix: 2, unsigned: false },
  { name: 'DOUBLE', type: 8, size: 53, radix: 2, unsigned: false },
  { name: 'INTERVAL', type: 10, size: null, quote: ["INTERVAL '", "'"] },
  { name: 'VARCHAR', type: 12, size: null, quote: ["'", "'"] },
  { name: 'DATE', type: 91, general: XDBC_DATETIME, subcode: 1, size: 10, quote: ["DATE '", "'"] },
  { name: 'TIME', type: 92, general: XDBC_DATETIME, subcode: 2, size: 15, quote: ["TIME '", "'"] },
  { name: 'TIMESTAMP', type: 93, general: XDBC_DATETIME, subcode: 3, size: 26, quote: ["TIMESTAMP '", "'"] },
  { name: 'TIMESTAMP WITH TIME ZONE', type: 93, general: XDBC_DATETIME, subcode: 5, size: 32, quote: ["TIMESTAMPTZ '", "'"] },
  { name: 'TIMESTAMP_NS', type: 93, general: XDBC_DATETIME, subcode: 3, size: 29, quote: ["TIMESTAMP_NS '", "'"] },
]

/** @param type number of the only type wanted; all when absent. */
export function typeInfo(type: number | undefined): FlightTable {
  return tableOfRows(FIELDS, TYPES.filter((one) => type === undefined || one.type === type).map(rowOf))
}

function rowOf(info: TypeInfo): unknown[] {
  const text = info.name === 'VARCHAR'
  return [
    info.name,
    info.type,
    info.size,
    info.quote?.[0] ?? null,
    info.quote?.[1] ?? null,
    info.params ?? null,
    NULLABLE,
    text,
    text ? SEARCHABLE_FULL : SEARCHABLE_BASIC,
    info.unsigned ?? null,
    false,
    info.unsigned === undefined ? null : false,
    info.name,
    info.scale?.[0] ?? null,
    info.scale?.[1] ?? null,
    info.general ?? info.type,
    info.subcode ?? null,
    info.radix ?? null,
    null,
  ]
}
