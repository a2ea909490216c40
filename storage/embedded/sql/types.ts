/** Types: printing those of a CAST, and the Arrow names of a result's columns. */
import { type DuckDBType, DuckDBTypeId } from '@duckdb/node-api'
import { memberName } from '../duckdb/nested-values.ts'
import { ident, members, type Node, refuse } from './ast.ts'
import { foldName } from './names.ts'

const PLAIN = new Set(
  'BOOLEAN TINYINT SMALLINT INTEGER BIGINT HUGEINT UTINYINT USMALLINT UINTEGER UBIGINT UHUGEINT FLOAT DOUBLE VARCHAR BLOB BIT DATE TIME TIMESTAMP TIMESTAMP_S TIMESTAMP_MS TIMESTAMP_NS INTERVAL UUID'.split(
    ' ',
  ),
)

/** The text of a cast's target type. */
export function printType(type: Node): string {
  members(type, ['id', 'type_info'])
  const info = type.type_info as Node | undefined
  const id = String(type.id)
  if (PLAIN.has(id)) return id
  switch (id) {
    case 'TIMESTAMP WITH TIME ZONE':
    case 'TIME WITH TIME ZONE':
      return id
    case 'DECIMAL':
      return `DECIMAL(${Number(info?.width)}, ${Number(info?.scale ?? 0)})`
    case 'LIST':
      return `${printType(info?.child_type)}[]`
    case 'ARRAY':
      return `${printType(info?.child_type)}[${Number(info?.size)}]`
    case 'STRUCT':
      return `STRUCT(${printMembers(info)})`
    case 'MAP': {
      const [key, value] = (info?.child_type?.type_info?.child_types ?? []) as Node[]
      return `MAP(${printType(key?.second)}, ${printType(value?.second)})`
    }
    case 'UNBOUND':
      if (foldName(String(info?.name)) === 'json') return 'JSON'
      throw refuse(`cannot cast to type "${info?.name}": there is no such type`)
    default:
      throw refuse(`cannot cast to type "${id}": it is not supported here`)
  }
}

function printMembers(info: Node | undefined): string {
  return ((info?.child_types ?? []) as Node[]).map((member) => `${ident(String(member.first))} ${printType(member.second)}`).join(', ')
}

/** Arrow's name for a DuckDB type, `decimal(p, s)` for decimals and signed integers of 128 bits. */
export function arrowName(type: DuckDBType): string {
  switch (type.typeId) {
    case DuckDBTypeId.BOOLEAN:
      return 'Boolean'
    case DuckDBTypeId.TINYINT:
      return 'Int8'
    case DuckDBTypeId.SMALLINT:
      return 'Int16'
    case DuckDBTypeId.INTEGER:
      return 'Int32'
    case DuckDBTypeId.BIGINT:
      return 'Int64'
    case DuckDBTypeId.UTINYINT:
      return 'UInt8'
    case DuckDBTypeId.USMALLINT:
      return 'UInt16'
    case DuckDBTypeId.UINTEGER:
      return 'UInt32'
    case DuckDBTypeId.UBIGINT:
      return 'UInt64'
    case DuckDBTypeId.HUGEINT:
      return 'decimal(38, 0)'
    case DuckDBTypeId.FLOAT:
      return 'Float32'
    case DuckDBTypeId.DOUBLE:
      return 'Float64'
    case DuckDBTypeId.DECIMAL: {
      const { width, scale } = type as unknown as { width: number; scale: number }
      return `decimal(${width}, ${scale})`
    }
    case DuckDBTypeId.TIMESTAMP_NS:
      return 'Timestamp(ns)'
    case DuckDBTypeId.TIMESTAMP:
      return 'Timestamp(us)'
    case DuckDBTypeId.TIMESTAMP_MS:
      return 'Timestamp(ms)'
    case DuckDBTypeId.TIMESTAMP_S:
      return 'Timestamp(s)'
    case DuckDBTypeId.TIMESTAMP_TZ:
      return 'Timestamp(us, UTC)'
    case DuckDBTypeId.DATE:
      return 'Date32'
    case DuckDBTypeId.TIME:
      return 'Time64(us)'
    case DuckDBTypeId.TIME_NS:
      return 'Time64(ns)'
    case DuckDBTypeId.INTERVAL:
      return 'Interval'
    case DuckDBTypeId.BLOB:
      return 'Binary'
    case DuckDBTypeId.SQLNULL:
      return 'Null'
    case DuckDBTypeId.LIST:
    case DuckDBTypeId.ARRAY:
      return `List(${arrowName((type as unknown as { valueType: DuckDBType }).valueType)})`
    case DuckDBTypeId.STRUCT: {
      const { entryNames, entryTypes } = type as unknown as { entryNames: string[]; entryTypes: DuckDBType[] }
      return `Struct(${entryNames.map((name, i) => `${JSON.stringify(memberName(name, i))}: ${arrowName(entryTypes[i])}`).join(', ')})`
    }
    case DuckDBTypeId.MAP: {
      const { keyType, valueType } = type as unknown as { keyType: DuckDBType; valueType: DuckDBType }
      return `Map(${arrowName(keyType)}, ${arrowName(valueType)})`
    }
    default:
      return 'Utf8' // VARCHAR, ENUM, UUID, BIT, JSON, UHUGEINT, times with a zone, unions: their text
  }
}
