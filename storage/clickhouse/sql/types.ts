/**
 * Types of a bound plan, and what stands for their values in ClickHouse: times are integers of their unit, dates days, decimals unscaled integers, booleans 0
 * and 1. So each operation on them is one whose result is known to the last digit, wherever it is computed.
 */
import { SvcError } from 'svcdb/lib/errors'

export interface SqlType {
  /** As DuckDB calls it: `BIGINT`, `DECIMAL`, `TIMESTAMP WITH TIME ZONE`. */
  id: string
  /** Of decimals. */
  width: number
  scale: number
  /** Of lists. */
  item?: SqlType
}

const CLICKHOUSE: Record<string, string> = {
  BOOLEAN: 'UInt8',
  TINYINT: 'Int8',
  SMALLINT: 'Int16',
  INTEGER: 'Int32',
  BIGINT: 'Int64',
  HUGEINT: 'Int128',
  UTINYINT: 'UInt8',
  USMALLINT: 'UInt16',
  UINTEGER: 'UInt32',
  UBIGINT: 'UInt64',
  UHUGEINT: 'UInt128',
  FLOAT: 'Float32',
  DOUBLE: 'Float64',
  DECIMAL: 'Int128',
  VARCHAR: 'String',
  BLOB: 'String',
  DATE: 'Int32',
  TIMESTAMP: 'Int64',
  TIMESTAMP_S: 'Int64',
  TIMESTAMP_MS: 'Int64',
  TIMESTAMP_NS: 'Int64',
  'TIMESTAMP WITH TIME ZONE': 'Int64',
  NULL: 'UInt8',
}

const INTEGERS: Record<string, [bits: number, signed: boolean]> = {
  TINYINT: [8, true],
  SMALLINT: [16, true],
  INTEGER: [32, true],
  BIGINT: [64, true],
  HUGEINT: [128, true],
  UTINYINT: [8, false],
  USMALLINT: [16, false],
  UINTEGER: [32, false],
  UBIGINT: [64, false],
  UHUGEINT: [128, false],
}

export type Range = readonly [low: bigint, high: bigint]

/** @param node `{ id, type_info }` of a plan. */
export function typeOf(node: { id?: string; type_info?: { width?: number; scale?: number; child_type?: object } } | undefined): SqlType {
  const id = node?.id ?? 'NULL'
  const { width = 18, scale = 0, child_type } = node?.type_info ?? {}
  return { id, width, scale, ...(child_type === undefined ? {} : { item: typeOf(child_type) }) }
}

export const plain = (id: string): SqlType => ({ id, width: 18, scale: 0 })
export const BOOLEAN = plain('BOOLEAN')

/** @throws SQL_ERROR for a type that ClickHouse has nothing for. */
export function clickHouseType(type: SqlType): string {
  if (type.id === 'LIST' && type.item !== undefined) return `Array(Nullable(${clickHouseType(type.item)}))`
  return CLICKHOUSE[type.id] ?? raise(`values of type ${nameOf(type)}`)
}

export const nullable = (type: SqlType): string => (type.id === 'LIST' ? clickHouseType(type) : `Nullable(${clickHouseType(type)})`)

export function nameOf({ id, width, scale, item }: SqlType): string {
  if (id === 'DECIMAL') return `DECIMAL(${width},${scale})`
  return item === undefined ? id : `${nameOf(item)}[]`
}

export const isInteger = ({ id }: SqlType): boolean => Object.hasOwn(INTEGERS, id)
export const isFloat = ({ id }: SqlType): boolean => id === 'DOUBLE' || id === 'FLOAT'
export const isTimestamp = ({ id }: SqlType): boolean => id.startsWith('TIMESTAMP')

/** What an integer type, or one that integers stand for, can hold. */
export function rangeOf({ id, width }: SqlType): Range | undefined {
  if (id === 'DECIMAL') return [-(10n ** BigInt(width)) + 1n, 10n ** BigInt(width) - 1n]
  if (id === 'DATE') return [-(2n ** 31n), 2n ** 31n - 1n]
  if (id.startsWith('TIMESTAMP')) return [-(2n ** 63n), 2n ** 63n - 1n]
  const [bits, signed] = INTEGERS[id] ?? [0, false]
  if (bits === 0) return undefined
  return signed ? [-(2n ** BigInt(bits - 1)), 2n ** BigInt(bits - 1) - 1n] : [0n, 2n ** BigInt(bits) - 1n]
}

/** @param what a statement needs and this engine has not. */
export function raise(what: string): never {
  throw new SvcError('SQL_ERROR', `cannot run this query on the storage engine "clickhouse": it has no ${what}; see docs/guides/scale-out.md`)
}
