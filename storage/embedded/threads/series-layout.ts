/** How the series index lies in shared memory. */

/** The growable shared arrays of the series index. Entries below `Shared.SERIES` and `Shared.SYMBOLS` (shared-header.ts) are valid and never change. */
export interface SeriesArrays {
  /** Series number → measurement id. */
  measurement: Int32Array
  /** Series number → start of its tags in `tags`; the end is the next one's start. */
  offsets: Int32Array
  /** Pairs (key symbol, value symbol), ordered by key text. */
  tags: Int32Array
  /** Symbol → start of its UTF-8 bytes in `symbolBytes`; the end is the next one's start. */
  symbolOffsets: Int32Array
  symbolBytes: Uint8Array
  /** Open addressing with linear probing over the keyed hash of a text: symbol + 1; 0 = free. A power of two, at most half of it taken. */
  symbolSlots: Int32Array
}
