/** Values of DuckDB that are no number and no text: lists, structs, maps, intervals, and what they hold. */
import {
  DuckDBArrayType,
  DuckDBArrayValue,
  DuckDBBlobValue,
  DuckDBDecimalValue,
  DuckDBIntervalValue,
  DuckDBListType,
  DuckDBListValue,
  DuckDBMapType,
  DuckDBMapValue,
  DuckDBStructType,
  DuckDBStructValue,
  DuckDBTimeTZValue,
  type DuckDBType,
  DuckDBTypeId,
  type DuckDBValue,
  DuckDBVector,
} from '@duckdb/node-api'
import type duckdb from '@duckdb/node-bindings'

/** What a struct's member is called: one without a name, as `row(1, 2)` has them, by its place from 1 on, as SQL finds it. */
export function memberName(name: string, index: number): string {
  return name === '' ? String(index + 1) : name
}

/** The type with members of structs called by their places: the library gathers members by name, and so only one of those without any. */
export function byPlace(type: DuckDBType): DuckDBType {
  if (type instanceof DuckDBListType) return new DuckDBListType(byPlace(type.valueType))
  if (type instanceof DuckDBArrayType) return new DuckDBArrayType(byPlace(type.valueType), type.length)
  if (type instanceof DuckDBMapType) return new DuckDBMapType(byPlace(type.keyType), byPlace(type.valueType))
  if (type instanceof DuckDBStructType) return new DuckDBStructType([...type.entryTypes.keys()].map(String), type.entryTypes.map(byPlace))
  return type
}

/** @param placed `byPlace(type)`. */
export function plainValues(vector: duckdb.Vector, rows: number, type: DuckDBType, placed: DuckDBType): unknown[] {
  return DuckDBVector.create(vector, rows, placed)
    .toArray()
    .map((value) => plainValue(value, type))
}

function plainValue(value: DuckDBValue, type: DuckDBType): unknown {
  // More than a decimal of 128 bits holds.
  if (typeof value === 'bigint' && type.typeId === DuckDBTypeId.UHUGEINT) return String(value)
  if (value === null || typeof value !== 'object') return value
  if (value instanceof DuckDBListValue || value instanceof DuckDBArrayValue) {
    const { valueType } = type as DuckDBListType | DuckDBArrayType
    return value.items.map((item) => plainValue(item, valueType))
  }
  if (value instanceof DuckDBStructValue) {
    const { entryNames, entryTypes } = type as DuckDBStructType
    return Object.fromEntries(entryNames.map((name, i) => [memberName(name, i), plainValue(value.entries[i], entryTypes[i])]))
  }
  if (value instanceof DuckDBMapValue) {
    const { keyType, valueType } = type as DuckDBMapType
    return value.entries.map((entry) => ({ key: plainValue(entry.key, keyType), value: plainValue(entry.value, valueType) }))
  }
  if (value instanceof DuckDBIntervalValue) return { months: value.months, days: value.days, nanoseconds: value.micros * 1000n }
  if (value instanceof DuckDBDecimalValue) return value.value
  if (value instanceof DuckDBBlobValue) return value.bytes
  // Its text alone has the offset.
  if (value instanceof DuckDBTimeTZValue) return String(value)
  // Dates, times and timestamps inside nested values: their one number.
  for (const unit of ['nanos', 'micros', 'millis', 'seconds', 'days'] as const) if (unit in value) return (value as unknown as Record<string, unknown>)[unit]
  return String(value)
}
