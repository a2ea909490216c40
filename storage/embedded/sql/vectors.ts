/** DuckDB's vectors to those of the storage interface: typed arrays stay what they are, the rest becomes JavaScript values. */
import {
  type DuckDBArrayValue,
  DuckDBBlobValue,
  type DuckDBDataChunk,
  DuckDBDecimalValue,
  DuckDBIntervalValue,
  DuckDBListValue,
  DuckDBMapValue,
  DuckDBStructValue,
  type DuckDBType,
  DuckDBTypeId,
  type DuckDBVector,
} from '@duckdb/node-api'
import type { SqlChunk, SqlVector } from '../../../kernel/storage.ts'

/** Types whose values lie in a typed array, one number a row, in the unit that the Arrow name states. */
const TYPED = new Set<DuckDBTypeId>([
  ...[DuckDBTypeId.TINYINT, DuckDBTypeId.SMALLINT, DuckDBTypeId.INTEGER, DuckDBTypeId.BIGINT],
  ...[DuckDBTypeId.UTINYINT, DuckDBTypeId.USMALLINT, DuckDBTypeId.UINTEGER, DuckDBTypeId.UBIGINT],
  ...[DuckDBTypeId.FLOAT, DuckDBTypeId.DOUBLE, DuckDBTypeId.DATE, DuckDBTypeId.TIME, DuckDBTypeId.TIME_NS],
  ...[DuckDBTypeId.TIMESTAMP, DuckDBTypeId.TIMESTAMP_NS, DuckDBTypeId.TIMESTAMP_MS, DuckDBTypeId.TIMESTAMP_S, DuckDBTypeId.TIMESTAMP_TZ],
])

interface Raw {
  items: ArrayLike<unknown>
  validity: { itemValid(i: number): boolean; data: BigUint64Array | null }
}

export function toSqlChunk(chunk: DuckDBDataChunk, types: readonly DuckDBType[]): SqlChunk {
  const rows = chunk.rowCount
  return { rows, columns: types.map((type, i) => toSqlVector(chunk.getColumnVector(i), type, rows)) }
}

function toSqlVector(vector: DuckDBVector, type: DuckDBType, rows: number): SqlVector {
  if (!TYPED.has(type.typeId)) return { values: Array.from({ length: rows }, (_, i) => plainValue(vector.getItem(i))) }
  const raw = vector as unknown as Raw
  return { values: raw.items, validity: validityOf(raw, rows) }
}

function validityOf(raw: Raw, rows: number): Uint8Array | undefined {
  if (raw.validity.data === null) return undefined
  const present = new Uint8Array(rows)
  let missing = 0
  for (let i = 0; i < rows; i++) {
    if (raw.validity.itemValid(i)) present[i] = 1
    else missing++
  }
  return missing === 0 ? undefined : present
}

export interface IntervalValue {
  months: number
  days: number
  nanoseconds: bigint
}

/** An entry of a map. */
export interface MapEntry {
  key: unknown
  value: unknown
}

/**
 * bool, string: themselves; binary: Uint8Array; decimals: the text of their digits; interval: IntervalValue; list: array; struct: plain object;
 * map: array of MapEntry; nested times and dates: their integer as bigint or number.
 */
function plainValue(value: unknown): unknown {
  if (value === null || typeof value !== 'object') return typeof value === 'bigint' ? value : (value ?? null)
  if (value instanceof DuckDBDecimalValue) return value.toString()
  if (value instanceof DuckDBBlobValue) return value.bytes
  if (value instanceof DuckDBIntervalValue) return { months: value.months, days: value.days, nanoseconds: value.micros * 1000n } satisfies IntervalValue
  if (value instanceof DuckDBListValue) return value.items.map(plainValue)
  if (value instanceof DuckDBMapValue) return value.entries.map(({ key, value: inner }) => ({ key: plainValue(key), value: plainValue(inner) }))
  if (value instanceof DuckDBStructValue) return Object.fromEntries(Object.entries(value.entries).map(([name, inner]) => [name, plainValue(inner)]))
  if (Array.isArray((value as DuckDBArrayValue).items)) return (value as DuckDBArrayValue).items.map(plainValue)
  for (const unit of ['nanos', 'micros', 'millis', 'milliseconds', 'seconds', 'days'] as const) {
    const number = (value as Record<string, unknown>)[unit]
    if (typeof number === 'bigint' || typeof number === 'number') return number
  }
  return String(value)
}
