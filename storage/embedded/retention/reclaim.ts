/**
 * Which files deletes, drops and retention have freed, which are worth writing again without their masked rows, and which tombstones have done
 * their work. Pure: it looks at the manifest, the tombstones and the retention cutoffs.
 */
import type { Merge } from '../compaction/plan.ts'
import type { Cutoff } from '../threads/removals.ts'
import type { SegmentMeta } from '../threads/segment-entry.ts'
import { cutoffFor, type Source, sharedCutoffFor } from './cutoffs.ts'
import { EVERY_SEQUENCE, type Tombstones, touches } from './tombstones.ts'

/** So many tombstones on one file are not left to wait: each costs every query that reads it. */
const TOMBSTONES_BORNE = 64

export interface TableView {
  id: number
  /** The measurement that owns it; undefined when it is shared. */
  measurement: number | undefined
  /** Whether a measurement has rows in it. */
  has(measurement: number): boolean
  /** Its measurement was dropped for good. */
  gone: boolean
  segments: readonly SegmentMeta[]
}

/** Segments of which no row is left to see. */
export function freed(table: TableView, tombstones: Tombstones): SegmentMeta[] {
  const { measurement, gone, segments } = table
  if (gone) return [...segments]
  const whole = measurement === undefined ? [] : tombstones.of(measurement).filter(({ series }) => series === null)
  return segments.filter((segment) => {
    if (BigInt(segment.maxTime) < firstKept(table, { sequence: segment.sequence, cleared: 0 }, tombstones)) return true
    return whole.some((tombstone) => touches(tombstone, segment) && tombstone.start <= BigInt(segment.minTime) && tombstone.end >= BigInt(segment.maxTime))
  })
}

/**
 * A segment to write again without what is masked.
 * @param ripe whether a tombstone has waited long enough for other reasons to rewrite the file.
 * @param former the same for a retention cutoff (of a measurement, or, when undefined, the general one) that nothing will ever move on.
 * @param leaves segments that stay as they are: they cannot be read, or somebody else has them. Others of the table go on without them.
 */
export function planRewrite(
  table: TableView,
  tombstones: Tombstones,
  ripe: (tombstone: number) => boolean,
  former: (one: Cutoff, measurement: number | undefined) => boolean = () => false,
  leaves: (segment: SegmentMeta) => boolean = () => false,
): Merge | undefined {
  const { measurement, segments } = table
  const old = formerCutoffs(table, tombstones, former)
  const own = measurement === undefined ? [...tombstones.byId.values()] : tombstones.of(measurement)
  for (const segment of segments) {
    if (segment.archived || leaves(segment)) continue
    const touching = own.filter((tombstone) => touches(tombstone, segment))
    const waits = touching.length > TOMBSTONES_BORNE || touching.some(({ id }) => ripe(id)) || old.some((one) => masks(one, segment))
    if (waits || halfExpired(segment, firstKept(table, { sequence: segment.sequence, cleared: segment.cleared ?? 0 }, tombstones)))
      return { segments: [segment], level: segment.level, deduplicate: false, dirty: segment.dirty }
  }
  return undefined
}

/** Whether a segment may hold rows that the cutoff masks. */
export function masks({ id, cutoff, sequence }: Cutoff, segment: SegmentMeta): boolean {
  return segment.sequence < sequence && (segment.cleared ?? 0) < id && BigInt(segment.minTime) < cutoff
}

function formerCutoffs({ measurement, has }: TableView, { cutoffs }: Tombstones, former: (one: Cutoff, measurement: number | undefined) => boolean): Cutoff[] {
  const general = cutoffs.general.filter((one) => (measurement === undefined || !one.except.has(measurement)) && former(one, undefined))
  const formerOf = (id: number): Cutoff[] => (cutoffs.own.get(id) ?? []).filter((one) => former(one, id))
  // Each of thousands of tables is asked about: all measurements are looked at for the few that are shared.
  return [...general, ...(measurement === undefined ? [...cutoffs.own.keys()].filter(has).flatMap(formerOf) : formerOf(measurement))]
}

/** First time of a segment's rows that retention does not mask, whosever they are. */
function firstKept({ measurement, has }: TableView, source: Source, { cutoffs }: Tombstones): bigint {
  return measurement === undefined ? sharedCutoffFor(cutoffs, source, has) : cutoffFor(cutoffs, measurement, source)
}

/** Most of the file's time is behind retention. */
function halfExpired(segment: SegmentMeta, cutoff: bigint): boolean {
  const [min, max] = [BigInt(segment.minTime), BigInt(segment.maxTime)]
  return cutoff > min && (cutoff - min) * 2n > max - min
}

/**
 * Tombstones that mask nothing any more.
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
