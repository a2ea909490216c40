/** How a field's samples come out of a segment's pages. */
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
