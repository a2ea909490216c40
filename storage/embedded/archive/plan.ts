/**
 * Which segments to archive next. Pure.
 *
 * A table's segments that lie wholly behind the threshold are due. What is moved are whole UTC days, oldest first, and only days that no other local
 * segment reaches into: then all local rows of a day go together, and objects stay few. A segment that goes on beyond the days taken is cut.
 */
import { earlier, floorDiv, later } from '../../common/time.ts'
import type { SegmentMeta } from '../threads/segment-entry.ts'
import { DAY_NS } from './object-key.ts'

export interface TableView {
  table: number
  /** Ascending by sequence, archived ones included. */
  segments: readonly SegmentMeta[]
  /** Oldest time that somebody still needs here. */
  neededFrom: bigint | undefined
}

export interface ArchiveGroup {
  table: number
  /** Ascending by sequence. */
  segments: SegmentMeta[]
  /** Days that begin before this may go; no other local segment has rows there. */
  before: bigint
}

interface ArchivePlan {
  /** Oldest first. */
  groups: ArchiveGroup[]
  /** Tables with days that are due and that a hold needs, or that newer segments reach into. */
  awaiting: number
  incomplete: number
}

interface ArchiveLimits {
  /** Days that a group spans at most, unless one segment spans more. */
  days: number
  /** As `days`. */
  rows: number
}

/**
 * @param threshold nanoseconds: days that end here or before are due.
 * @param stays segments that cannot be read: they keep the days that they reach into.
 */
export function planArchive(
  tables: readonly TableView[],
  threshold: bigint,
  limits: ArchiveLimits,
  stays: (segment: SegmentMeta) => boolean = () => false,
): ArchivePlan {
  const plan: ArchivePlan = { groups: [], awaiting: 0, incomplete: 0 }
  const cutoff = dayOf(threshold)
  const found: { group: ArchiveGroup; first: bigint }[] = []
  for (const { table, segments, neededFrom } of tables) {
    const local = segments.filter(({ archived }) => !archived)
    const old = local.filter(({ minTime }) => BigInt(minTime) < cutoff)
    const goes = (segment: SegmentMeta): boolean => BigInt(segment.maxTime) < cutoff && !stays(segment)
    const due = old.filter(goes).sort((a, b) => compare(BigInt(a.minTime), BigInt(b.minTime)))
    const staying = old.filter((segment) => !goes(segment))
    const clear = staying.reduce((first, { minTime }) => earlier(first, dayOf(BigInt(minTime))), cutoff)
    const free = neededFrom === undefined ? cutoff : earlier(cutoff, dayOf(neededFrom))
    if (staying.length > 0) plan.incomplete++
    if (free < cutoff && old.some(({ maxTime }) => BigInt(maxTime) >= free)) plan.awaiting++
    if (due.length === 0) continue
    const group = firstGroup(table, due, earlier(clear, free), limits)
    if (group !== undefined) found.push({ group, first: dayOf(BigInt(due[0].minTime)) })
  }
  plan.groups = found.sort((a, b) => compare(a.first, b.first)).map(({ group }) => group)
  return plan
}

/** @param due ascending by their first row. */
function firstGroup(table: number, due: readonly SegmentMeta[], before: bigint, limits: ArchiveLimits): ArchiveGroup | undefined {
  const firstDay = dayOf(BigInt(due[0].minTime))
  const chosen: SegmentMeta[] = []
  let rows = 0
  let end = before
  for (const segment of due) {
    const day = dayOf(BigInt(segment.minTime))
    if (day >= before) break
    const full = day >= firstDay + BigInt(limits.days) * DAY_NS || rows + segment.rows > limits.rows
    if (chosen.length > 0 && day > firstDay && full) {
      end = day
      break
    }
    chosen.push(segment)
    rows += segment.rows
  }
  return chosen.length === 0 ? undefined : { table, segments: chosen.sort((a, b) => a.sequence - b.sequence), before: end }
}

interface ArchivedDay {
  segments: SegmentMeta[]
  sequence: number
  deduplicate: boolean
  /** Times that may repeat rows of segments outside the group. */
  dirty: [string, string] | null
  /** Inclusive. */
  time: [bigint, bigint]
}

/**
 * How a day of a group becomes one source.
 * @param others the table's segments that are not of the group.
 * @param alone no other table holds rows of the same series; else a range that was dirty stays so.
 */
export function archivedDay(group: readonly SegmentMeta[], start: bigint, others: readonly SegmentMeta[], alone: boolean): ArchivedDay {
  const time: [bigint, bigint] = [start, start + DAY_NS - 1n]
  const segments = group.filter((segment) => touches(segment, time))
  let dirty: [bigint, bigint] | null = null
  for (const segment of segments) {
    if (segment.dirty === null) continue
    const [min, max] = [later(BigInt(segment.dirty[0]), time[0]), earlier(BigInt(segment.dirty[1]), time[1])]
    if (min > max || (alone && !others.some((other) => touches(other, [min, max])))) continue
    dirty = dirty === null ? [min, max] : [earlier(min, dirty[0]), later(max, dirty[1])]
  }
  return {
    segments,
    sequence: segments.reduce((max, { sequence }) => Math.max(max, sequence), 0),
    deduplicate: segments.some((segment, i) => i > 0 && segment.dirty !== null),
    dirty: dirty === null ? null : [String(dirty[0]), String(dirty[1])],
    time,
  }
}

function touches({ minTime, maxTime }: SegmentMeta, [lo, hi]: readonly [bigint, bigint]): boolean {
  return BigInt(minTime) <= hi && BigInt(maxTime) >= lo
}

function dayOf(time: bigint): bigint {
  return floorDiv(time, DAY_NS) * DAY_NS
}

const compare = (a: bigint, b: bigint): number => (a < b ? -1 : a > b ? 1 : 0)
