/** What measurements are made of, and how names become the numbers that columns hold. */

/** Types of fields. `decimal` has up to 38 digits, at the scale of its field; `histogram` is a native histogram (`svcdb/lib/histogram`). */
export type FieldType = 'float64' | 'int64' | 'uint64' | 'bool' | 'string' | 'decimal' | 'histogram'

/** A field of a measurement. `scale` is set for decimals only: digits behind the point, 0 to 38, fixed when the field is created. */
export interface FieldInfo {
  name: string
  type: FieldType
  scale?: number
  /** Its values are encrypted on disk: what would write them elsewhere in the clear (exports, archives, rollups) must refuse it. Ignored when declaring. */
  encrypted?: true
}

/**
 * A measurement, handed to decoders so that they can check types while they parse. Identity is stable until `epoch` rises or the measurement is dropped;
 * compare by `===`.
 */
export interface MeasurementRef {
  readonly namespace: string
  readonly name: string
  /** A number of this process, dense from 0. */
  readonly id: number
  /**
   * Types known so far: what stands here is held to be true, and rows of another type are refused before they are written. Where the schema is elsewhere the
   * engine decides when a batch is written, and its refusals come by row in `WriteResult`; the more it knows here, the fewer rows suffer from another's type.
   */
  readonly fields: ReadonlyMap<string, FieldInfo>
}

/** What one write may have, over all of its measurements: see `database.max_fields_per_write` and `database.max_cells_per_write`. */
export interface WriteLimits {
  /** Of different measurements, those of one name are different fields. */
  readonly fields: number
  /** Rows times fields, set or not, beyond the first 16 rows of each measurement. */
  readonly cells: number
}

/**
 * Turns names into numbers that mean something in this process only, at once and without asking anybody. An engine elsewhere keeps the names, sends those of a
 * batch with it and gives them an identity of its own there, a hash say, which needs no coordination; budgets that are counted there refuse rows in
 * `WriteResult`. Names are checked here in either case. Every failure is a SvcError and leaves nothing behind.
 */
export interface SeriesResolver {
  /** Of the batches that are filled with its numbers; absent: 131,072 fields and 2^24 cells. */
  readonly writeLimits?: WriteLimits
  /** Rises when a series number that was handed out has become invalid: a decoder must then forget the numbers it kept. */
  readonly epoch: number
  /** @throws INVALID_POINT when the name is empty, too long or holds a reserved character, RATE_LIMITED when it is new and its namespace may have no more. */
  measurement(namespace: string, name: string): MeasurementRef
  /**
   * The number of a series, created provisionally if it is new.
   * @param tags key, value, key, value ... in any order; a key with an empty value is left out, as in Prometheus and InfluxDB.
   * @throws INVALID_POINT for a refused key or value, CARDINALITY_EXCEEDED when the budget is spent, RATE_LIMITED when that of its namespace is.
   */
  series(measurement: MeasurementRef, tags: readonly string[]): number
  /**
   * As `series`, without making strings: for decoders that meet millions of new series. Keys and values are printable ASCII and not empty.
   * @param ranges start and end in `bytes` of key, value, key, value ... of `pairs` tags, in any order.
   * @returns the number, or -1 when the tags need `series` (which then says what is wrong with them).
   */
  seriesAscii?(measurement: MeasurementRef, bytes: Uint8Array, ranges: Int32Array, pairs: number): number
}
