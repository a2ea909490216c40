/**
 * NaN and infinities of a float64 column lie in another column of the segment, as their bits: so the values beside them are scaled or in dictionaries
 * as they would be without. Format: docs/formats/segments.md.
 */

import { sqlName } from '../duckdb/duckdb.ts'
import type { Gathered } from '../memtable/row-gather.ts'
import type { SegmentColumn } from '../threads/segment-entry.ts'

/** All of an exponent's bits: a NaN or infinity. */
const EXPONENT = 0x7ff00000
/** Integers of scaled columns are nearer to 0. */
const EXACT_LIMIT = 2n ** 53n
/** Below -EXACT_LIMIT by this, the bits of negative ones are no integers of scaled columns either. */
const NEGATIVE_OFFSET = 2n ** 62n

/** The column with a column's NaN and infinities. */
export function bitsColumn({ encoding }: Pick<SegmentColumn, 'encoding'>): string | undefined {
  return encoding.kind === 'encrypted' ? undefined : encoding.nonFiniteIn
}

/** Names a column of bits for those that may hold some. @param holds by field. */
export function withBitsColumns(columns: SegmentColumn[], holds: (field: number) => boolean): SegmentColumn[] {
  const taken = new Set(columns.map(({ name }) => name.toLowerCase()))
  return columns.map((column) => {
    if (column.encoding.kind === 'encrypted' || !holds(column.field)) return column
    let name = `${column.name}_bits`
    while (taken.has(name.toLowerCase())) name += '_'
    taken.add(name.toLowerCase())
    return { ...column, encoding: { ...column.encoding, nonFiniteIn: name } }
  })
}

/** Leaves of gathered floats the finite ones, or the others. */
export function keepOnly(out: Gathered, n: number, finite: boolean): void {
  const { i32, bits } = out
  if (!out.hasNulls) {
    bits.fill(0xff, 0, (n + 7) >> 3)
    out.hasNulls = true
  }
  for (let i = 0; i < n; i++) if (((i32[i * 2 + 1] & EXPONENT) !== EXPONENT) !== finite) bits[i >> 3] &= ~(1 << (i & 7))
}

/** The doubles of a column of bits. A cast by way of BIT keeps them all. */
export function bitsSql(column: string): string {
  return `${sqlName(column)}::BIT::DOUBLE`
}

/** Whether a row has a value, NaN and infinities included. */
export function isSetSql(column: SegmentColumn): string {
  const bits = bitsColumn(column)
  return bits === undefined ? `${sqlName(column.name)} IS NOT NULL` : `(${sqlName(column.name)} IS NOT NULL OR ${sqlName(bits)} IS NOT NULL)`
}

/**
 * Scaled integers and bits as one BIGINT, for a merge to choose from: the integers as they are, bits beyond them.
 * @param integer BIGINT.
 */
export function joinedSql(integer: string, bits: string | undefined): string {
  if (bits === undefined) return integer
  const name = sqlName(bits)
  return `coalesce(${integer}, CASE WHEN ${name} > 0 THEN ${name} ELSE ${name} - ${NEGATIVE_OFFSET} END)`
}

/** A merged column as it is written, from `value`: what joinedSql made when it is scaled, and doubles otherwise. */
export function valuesSql({ encoding, name }: SegmentColumn, value: string): string {
  if (encoding.kind === 'encrypted' || encoding.nonFiniteIn === undefined) return value
  if (encoding.kind === 'plain') return `CASE WHEN isfinite(${value}) THEN ${value} END AS ${sqlName(name)}`
  return `CASE WHEN ${isInteger(value)} THEN ${value} END::${encoding.wide ? 'BIGINT' : 'INTEGER'} AS ${sqlName(name)}`
}

/** What is written to the column of bits beside it; nothing when it has none. */
export function apartSql(column: SegmentColumn, value: string): string[] {
  const bits = bitsColumn(column)
  if (bits === undefined) return []
  if (column.encoding.kind === 'plain') return [`CASE WHEN NOT isfinite(${value}) THEN ${value}::BIT::BIGINT END AS ${sqlName(bits)}`]
  return [`CASE WHEN NOT (${isInteger(value)}) THEN CASE WHEN ${value} > 0 THEN ${value} ELSE ${value} + ${NEGATIVE_OFFSET} END END AS ${sqlName(bits)}`]
}

function isInteger(value: string): string {
  return `${value} BETWEEN ${-EXACT_LIMIT} AND ${EXACT_LIMIT}`
}
