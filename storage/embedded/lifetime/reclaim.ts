/**
 * Which files deletes, drops and retention have freed, which are worth writing again without their hidden rows, and which tombstones have done
 * their work. Pure: it looks at the manifest, the tombstones and the cuts.
 */
import type { Merge } from '../compaction-plan.ts'
import type { Cut, SegmentMeta } from '../layout.ts'
import { tableCut } from './cuts.ts'
import { EVERY_SEQUENCE, type Tombstones, touches } from './tombstones.ts'

/** So many tombstones on one file are not left to wait: each costs every query that reads it. */
const TOMBSTONES_BORNE = 64

export interface TableView {
  id: number
  /** The measurement that owns it; undefined when it is shared. */
  measurement: number | undefined
  /** Its measurement was dropped for good. */
  gone: boolean
  segments: readonly SegmentMeta[]
}

/** Segments of which no row is left to see. */
export function freed({ measurement, gone, segments }: TableView, tombstones: Tombstones): SegmentMeta[] {
  if (gone) return [...segments]
  const cut = tableCut(tombstones.cuts, measurement)
  const whole = measurement === undefined ? [] : tombstones.of(measurement).filter(({ series }) => series === null)
  return segments.filter((segment) => {
    if (cut !== null && segment.sequence < cut.sequence && BigInt(segment.maxTime) < cut.cutoff) return true
    return whole.some((tombstone) => touches(tombstone, segment) && tombstone.start <= BigInt(segment.minTime) && tombstone.end >= BigInt(segment.maxTime))
  })
}

/**
 * A segment to write again without what is hidden.
 * @param ripe whether a tombstone has waited long enough for other reasons to rewrite the file.
 * @param leaves segments that stay as they are: they cannot be read, or somebody else has them. Others of the table go on without them.
 */
export function planRewrite(
  { measurement, segments }: TableView,
  tombstones: Tombstones,
  ripe: (tombstone: number) => boolean,
  leaves: (segment: SegmentMeta) => boolean = () => false,
): Merge | undefined {
  const cut = tableCut(tombstones.cuts, measurement)
  const own = measurement === undefined ? [...tombstones.byId.values()] : tombstones.of(measurement)
  for (const segment of segments) {
    if (segment.archived || leaves(segment)) continue
    const touching = own.filter((tombstone) => touches(tombstone, segment))
    if (touching.length > TOMBSTONES_BORNE || touching.some(({ id }) => ripe(id)) || halfExpired(segment, cut))
      return { segments: [segment], level: segment.level, deduplicate: false, dirty: segment.dirty }
  }
  return undefined
}

/** Most of the file's time is behind the cut. */
function halfExpired(segment: SegmentMeta, cut: Cut | null): boolean {
  if (cut === null || segment.sequence >= cut.sequence) return false
  const [min, max] = [BigInt(segment.minTime), BigInt(segment.maxTime)]
  return cut.cutoff > min && (cut.cutoff - min) * 2n > max - min
}

/**
 * Tombstones that hide nothing any more.
 * @param tablesOf tables that may hold rows of a measurement; for one that is gone, the shared ones.
 * @param oldest sequence of the oldest memtable.
 * @param since sequence of the active memtable when the tombstone came.
 */
export function spent(
  tombstones: Tombstones,
  tablesOf: (measurement: number) => readonly number[],
  segments: (table: number) => readonly SegmentMeta[],
  oldest: number,
  since: (tombstone: number) => number,
): number[] {
  const out: number[] = []
  for (const tombstone of tombstones.byId.values()) {
    const above = tombstone.sequence === EVERY_SEQUENCE ? since(tombstone.id) + 1 : tombstone.sequence
    if (oldest < above) continue
    const needed = tablesOf(tombstone.measurement).some((table) => segments(table).some((segment) => touches(tombstone, segment)))
    if (!needed) out.push(tombstone.id)
  }
  return out
}
