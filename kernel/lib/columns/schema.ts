/** What measurements are made of, and how names become the numbers that columns hold. */

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
 * What the embedded engine calls a measurement, handed to decoders so that they can check types while they parse.
 * Identity is stable until the measurement is dropped; compare by `===`.
 */
export interface MeasurementRef {
  readonly namespace: string
  readonly name: string
  /** The engine's number for it, dense from 0. */
  readonly id: number
  /** Fields known so far, provisional ones of writes under way included. */
  readonly fields: ReadonlyMap<string, FieldInfo>
}

/** Turns names into the engine's numbers. Every failure is a SvcError and leaves nothing behind. */
export interface SeriesResolver {
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
