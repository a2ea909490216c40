/** Points as they are read: the rows of a series as columns, and the conditions that choose the series. */
import type { FieldType } from './schema.ts'

/** `=~` and `!~` are regular expressions. */
export type MatcherOp = '=' | '!=' | '=~' | '!~'
/** A tag condition. Regular expressions are RE2-like, fully anchored, `.` matches newline; an absent tag reads as the empty string. */
export interface Matcher {
  tag: string
  op: MatcherOp
  value: string
}

/** Values of one field, one for each row of the chunk. */
export interface ColumnChunk {
  name: string
  type: FieldType
  scale?: number
  /**
   * float64: Float64Array; int64 BigInt64Array; uint64 BigUint64Array; bool Uint8Array; string (string | null)[];
   * decimal: bigint[] (unscaled); histogram: Uint8Array[] (encoded).
   */
  values: Float64Array | BigInt64Array | BigUint64Array | Uint8Array | (string | null)[] | bigint[] | Uint8Array[]
  /** One byte a row, 1 = present; absent when every row has a value. */
  validity?: Uint8Array
}

/** Rows of one series in ascending time, each time once. A series may come in several chunks, one after the other. */
export interface SeriesChunk {
  series: number
  tags: Record<string, string>
  times: BigInt64Array
  columns: ColumnChunk[]
}
