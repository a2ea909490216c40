/** How a field's samples come out of a segment's pages. */
import { bytesOfIntegers } from 'svcdb/lib/columns'
import type { Footer } from '../../parquet/footer.ts'
import { bitsColumn } from '../../segment/bits-column.ts'
import { mayBeNonFinite } from '../../segment/encoding.ts'
import type { FieldDef } from '../../threads/definitions.ts'
import type { SegmentMeta } from '../../threads/segment-entry.ts'

export interface StoredColumn {
  name: string
  /** As they are stored: 32-bit and 64-bit integers of value * divisor, signed and unsigned integers, doubles, booleans. */
  kind: 'scaled' | 'wide' | 'int64' | 'uint64' | 'double' | 'bool'
  divisor: number
  /** The column with the bits of NaN and infinities. */
  bits: string | undefined
  /** Staleness markers may be among the values. */
  nonFinite: boolean
}

/** Undefined for a column that DuckDB has to read: encrypted ones, decimals, histograms. */
export function storedColumn(segment: SegmentMeta, field: FieldDef): StoredColumn | undefined {
  const column = segment.columns.find((one) => one.field === field.id)
  if (column === undefined || column.encoding.kind === 'encrypted') return undefined
  const { name, encoding, type } = column
  const stored = { name, divisor: 1, bits: bitsColumn(column), nonFinite: mayBeNonFinite(column) }
  if (encoding.kind === 'scaled') return { ...stored, kind: encoding.wide ? 'wide' : 'scaled', divisor: 10 ** encoding.scale }
  switch (type) {
    case 'float64':
      return { ...stored, kind: 'double' }
    case 'int64':
    case 'uint64':
    case 'bool':
      return { ...stored, kind: type }
    default:
      return undefined
  }
}

const LEAST_32 = -(2n ** 31n)
const MOST_32 = 2n ** 31n - 1n

/** Bytes of a value that is kept, at most: less than 8 where all are 32-bit integers. */
export function valueWidth(footer: Footer, group: number, { name, kind }: StoredColumn): number {
  const column = footer.column(name)
  if (kind === 'scaled') {
    const bounds = footer.numbers(group, column)
    return bounds === undefined ? 4 : bytesOfIntegers(Int32Array.of(bounds.min, bounds.max))
  }
  // Those of unsigned integers come as signed ones: the large as negative.
  const bounds = kind === 'int64' || kind === 'uint64' || kind === 'wide' ? footer.integers(group, column) : undefined
  if (bounds === undefined || bounds.min < (kind === 'uint64' ? 0n : LEAST_32) || bounds.max < bounds.min || bounds.max > MOST_32) return 8
  return bytesOfIntegers(Int32Array.of(Number(bounds.min), Number(bounds.max)))
}

/** No row of the group has a value. */
export function isEmpty(footer: Footer, group: number, { name, bits }: Pick<StoredColumn, 'name' | 'bits'>): boolean {
  return isNull(footer, group, footer.column(name)) && (bits === undefined || isNull(footer, group, footer.column(bits)))
}

export function isNull({ nulls, rows, columns }: Footer, group: number, column: number): boolean {
  return column >= 0 && nulls[group * columns.length + column] === rows[group]
}
