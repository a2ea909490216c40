/**
 * Which segments to merge next. Segments of a table are ordered by sequence; only adjacent ones are merged, so that "the last write wins" keeps its
 * meaning, and a run of `fanIn` adjacent ones of about one size becomes one. The number of files then grows with the logarithm of the rows, whatever
 * the pattern of writes; each row is rewritten about log(rows) / log(fanIn) times.
 */
import type { SegmentMeta } from '../threads/segment-entry.ts'

export interface CompactionLimits {
  fanIn: number
  maxRows: number
  /** Segments that stay as they are: they cannot be read, for want of a key. */
  leaves?: (segment: SegmentMeta) => boolean
}

export interface Merge {
  segments: SegmentMeta[]
  level: number
  deduplicate: boolean
  /** Times that may still repeat rows of segments older than the merged ones. */
  dirty: [string, string] | null
}

/**
 * @param segments of one table, ascending by sequence.
 * @param alone no other table holds rows of the same series; else a range that was dirty stays so.
 */
export function planMerge(all: readonly SegmentMeta[], given: CompactionLimits, alone: boolean): Merge | undefined {
  const { segments, limits } = mergeable(all, given)
  for (let level = 0; ; level++) {
    let highest = false
    for (let from = 0; from < segments.length; ) {
      if (segments[from].level > level) highest = true
      if (segments[from].level !== level || limits.leaves?.(segments[from])) {
        from++
        continue
      }
      let to = from
      let rows = 0
      // A higher level between two of this level is not skipped: adjacent segments only.
      while (to < segments.length && segments[to].level === level && to - from < limits.fanIn && rows + segments[to].rows <= limits.maxRows) {
        if (limits.leaves?.(segments[to])) break
        rows += segments[to++].rows
      }
      if (to - from === limits.fanIn) return merge(segments, from, to, level + 1, alone)
      // Smaller ones stranded between larger ones (after a crash in between, or a change of the settings) join their elder.
      from = Math.max(to, from + 1)
    }
    if (!highest) return stranded(segments, limits, alone)
  }
}

/** Segments that a merge is due for: how far merging is behind. */
export function backlog(all: readonly SegmentMeta[], limits: CompactionLimits): number {
  const {
    segments,
    limits: { fanIn, maxRows, leaves },
  } = mergeable(all, limits)
  let waiting = 0
  for (let from = 0; from < segments.length; ) {
    const { level } = segments[from]
    let to = from
    let rows = 0
    while (to < segments.length && segments[to].level === level && to - from < fanIn && rows + segments[to].rows <= maxRows) {
      if (leaves?.(segments[to])) break
      rows += segments[to++].rows
    }
    if (to - from === fanIn) waiting += fanIn
    from = Math.max(to, from + 1)
  }
  return waiting
}

/**
 * Archived segments stay as they are, and adjacent segments are those on either side of one: unless its time touches theirs, its rows cannot be the same. One
 * that touches a segment stays in between.
 */
function mergeable(all: readonly SegmentMeta[], limits: CompactionLimits): { segments: readonly SegmentMeta[]; limits: CompactionLimits } {
  const local = all.filter(({ archived }) => !archived)
  if (local.length === all.length) return { segments: all, limits }
  const ranges = local.map(({ minTime, maxTime }) => [BigInt(minTime), BigInt(maxTime)])
  const first = ranges.reduce((first, [min]) => (min < first ? min : first), ranges[0]?.[0] ?? 0n)
  const touches = ({ minTime, maxTime }: SegmentMeta): boolean =>
    BigInt(maxTime) >= first && ranges.some(([min, max]) => BigInt(minTime) <= max && BigInt(maxTime) >= min)
  const leaves = (segment: SegmentMeta): boolean => segment.archived === true || limits.leaves?.(segment) === true
  return { segments: all.filter((segment) => !segment.archived || touches(segment)), limits: { ...limits, leaves } }
}

/** A run of more than `2 * fanIn` adjacent segments whose levels only fall short of merging because they alternate. */
function stranded(segments: readonly SegmentMeta[], limits: CompactionLimits, alone: boolean): Merge | undefined {
  const count = limits.fanIn * 2
  for (let from = 0; from + count <= segments.length; from++) {
    const run = segments.slice(from, from + count)
    const levels = run.map((segment) => segment.level)
    const falls = levels.every((level, i) => i === 0 || level <= levels[i - 1])
    const rows = run.reduce((sum, segment) => sum + segment.rows, 0)
    if (!falls && rows <= limits.maxRows && !(limits.leaves !== undefined && run.some(limits.leaves)))
      return merge(segments, from, from + count, Math.max(...levels), alone)
  }
  return undefined
}

function merge(all: readonly SegmentMeta[], from: number, to: number, level: number, alone: boolean): Merge {
  const segments = all.slice(from, to)
  const older = all.slice(0, from)
  let dirty: [bigint, bigint] | null = null
  for (const segment of segments) {
    if (segment.dirty === null) continue
    const [min, max] = [BigInt(segment.dirty[0]), BigInt(segment.dirty[1])]
    if (alone && !older.some((other) => BigInt(other.minTime) <= max && BigInt(other.maxTime) >= min)) continue
    dirty = dirty === null ? [min, max] : [min < dirty[0] ? min : dirty[0], max > dirty[1] ? max : dirty[1]]
  }
  return {
    segments,
    level,
    deduplicate: segments.some((segment, i) => i > 0 && segment.dirty !== null),
    dirty: dirty === null ? null : [String(dirty[0]), String(dirty[1])],
  }
}
