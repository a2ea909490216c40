/** The segments that are part of the database now, in memory, and who works on which. The manifest changes it, with the catalog. */
import type { SegmentMeta } from '../threads/segment-entry.ts'

const NONE: readonly SegmentMeta[] = []

export class SegmentTable {
  private readonly byTable = new Map<number, SegmentMeta[]>()
  /** Segments that are being merged or archived: nobody else takes them out. */
  private readonly claimed = new Set<number>()
  private nextId: number
  private changes = 0

  /** @param nextId number of the next segment. */
  constructor(segments: readonly SegmentMeta[], nextId: number) {
    this.nextId = nextId
    this.replace([], segments)
  }

  /** Of one table, ascending by sequence. */
  of(table: number): readonly SegmentMeta[] {
    return this.byTable.get(table) ?? NONE
  }

  /** Of each table that has any. */
  get tables(): ReadonlyMap<number, readonly SegmentMeta[]> {
    return this.byTable
  }

  all(): SegmentMeta[] {
    return [...this.byTable.values()].flat()
  }

  /** Those whose files are in the data directory. */
  local(): SegmentMeta[] {
    return this.all().filter(({ archived }) => !archived)
  }

  /** While it stays the same, so do the segments. */
  get version(): number {
    return this.changes
  }

  /** Number of the next segment to be written. */
  get next(): number {
    return this.nextId
  }

  /** Takes numbers for new segments. @returns the first. */
  reserve(count = 1): number {
    const first = this.nextId
    this.nextId += count
    return first
  }

  /** Takes segments out and puts others in. */
  replace(removed: readonly SegmentMeta[], added: readonly SegmentMeta[]): void {
    this.changes++
    const gone = new Set(removed)
    const changed = new Map<number, SegmentMeta[]>()
    const ofChanged = (table: number): SegmentMeta[] => {
      let list = changed.get(table)
      if (list === undefined) changed.set(table, (list = this.of(table).filter((segment) => !gone.has(segment))))
      return list
    }
    for (const { table } of removed) ofChanged(table)
    for (const segment of added) ofChanged(segment.table).push(segment)
    for (const [table, list] of changed) {
      list.sort((a, b) => a.sequence - b.sequence)
      if (list.length > 0) this.byTable.set(table, list)
      else this.byTable.delete(table)
    }
  }

  /** Keeps segments for one owner. @returns what ends that; undefined when somebody has them already or they are not there any more. */
  claim(segments: readonly SegmentMeta[]): (() => void) | undefined {
    if (segments.some((segment) => this.isClaimed(segment.id) || !this.of(segment.table).includes(segment))) return undefined
    for (const { id } of segments) this.claimed.add(id)
    return () => {
      for (const { id } of segments) this.claimed.delete(id)
    }
  }

  /** It is being merged or archived: it goes when that has ended. */
  isClaimed(segment: number): boolean {
    return this.claimed.has(segment)
  }
}
