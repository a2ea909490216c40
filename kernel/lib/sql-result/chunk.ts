/** A SQL result as columns: what an engine hands on, and encoders take. */

/** A result column. `type` is an Arrow type name (`Int64`, `Float64`, `Utf8`, `Timestamp(ns)` ...), `decimal(p, s)` for decimals. */
export interface SqlColumn {
  name: string
  type: string
  /** Texts that show native histograms as JSON. */
  histogram?: true
}

/** Some rows of a result; `values` as the engine's vectors hold them, see docs/guides/write-a-plugin.md. */
export interface SqlChunk {
  rows: number
  /** One entry a column: a typed array where the type has one, else an array of JavaScript values; null is a missing value. */
  columns: SqlVector[]
}

/** The values of one column of a chunk. */
export interface SqlVector {
  values: ArrayLike<unknown>
  /** One byte a row, 1 = present; absent when every row has a value. */
  validity?: Uint8Array
  /** With `textBytes`, of columns that have one: `values` are numbers in it. Most often the same array in each chunk. */
  dictionary?: readonly string[]
  /** With `textBytes`, of other text: UTF-8 of all values; `values` are rows + 1 offsets in it. */
  bytes?: Uint8Array
}
