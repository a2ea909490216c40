/** What deletes and retention take away from sources (segments and memtables), as threads and catalog name it. */

/**
 * What a delete masks: rows of a measurement in sources of a lower sequence, of these series (ascending) or, when null, of all, from `start` to `end`
 * inclusive. Rows written later lie in sources of the same or a higher sequence, so that a time can be written again.
 */
export interface Tombstone {
  id: number
  measurement: number
  sequence: number
  series: Int32Array | null
  start: bigint
  end: bigint
}

/**
 * Retention: rows before `cutoff`, nanoseconds, in segments and memtables of a lower sequence are masked, unless the segment has it applied. `id` is
 * of the same numbers as a tombstone's, for `SegmentMeta.cleared`.
 */
export interface Cutoff {
  id: number
  cutoff: bigint
  sequence: number
}

/** Of all measurements but these. */
export interface GeneralCutoff extends Cutoff {
  except: ReadonlySet<number>
}

/** Retention cutoffs on disk; each masks by itself. Ascending by sequence: a later one lies before those that are left of earlier configurations. */
export interface RetentionCutoffs {
  general: readonly GeneralCutoff[]
  own: ReadonlyMap<number, readonly Cutoff[]>
}
