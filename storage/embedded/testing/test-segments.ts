/** Segments of a database for tests: flushes and merges one by one, as the engine does them. */
import { compactSegments } from '../compaction/compactor.ts'
import type { SegmentMeta } from '../threads/segment-entry.ts'
import type { TestDatabase } from './engine-state.ts'

export class TestSegments {
  private readonly db: TestDatabase
  private readonly forget: (removed: number[], droppedMemtable: number) => void
  private readonly frozen: number[] = []
  all: readonly SegmentMeta[] = []

  /** @param forget is told what segments and which memtable (-1: none) are gone. */
  constructor(db: TestDatabase, forget: (removed: number[], droppedMemtable: number) => void = () => {}) {
    this.db = db
    this.forget = forget
  }

  /** The memtable takes no more rows, and another one begins. */
  freeze(): void {
    this.frozen.push(this.db.freeze())
  }

  /** Writes the oldest memtable that takes no more rows. */
  async flush(): Promise<void> {
    const id = this.frozen.shift()
    if (id === undefined) return
    this.all = this.all.concat(await this.db.flush(id))
    this.forget([], id)
  }

  /**
   * Merges the last two of a table, if there are two.
   *
   * @param owner the measurement; undefined = the table is shared. @param cleared the last removal that was made.
   */
  async compact(table: number | undefined, owner: number | undefined, cleared: number): Promise<void> {
    const inputs = this.all.filter((segment) => segment.table === table).slice(-2)
    if (table !== undefined && inputs.length === 2) await this.merge(inputs, table, owner, cleared)
  }

  /** Writes each segment of a table again without what is masked. */
  async rewrite(table: number, owner: number | undefined, cleared: number): Promise<void> {
    for (const segment of this.all.filter((one) => one.table === table)) await this.merge([segment], table, owner, cleared)
  }

  private async merge(inputs: readonly SegmentMeta[], table: number, owner: number | undefined, cleared: number): Promise<void> {
    const { db } = this
    const request = {
      segments: inputs.map(({ id }) => id),
      table,
      segment: db.nextSegment++,
      sequence: Math.max(...inputs.map(({ sequence }) => sequence)),
      level: 1,
      deduplicate: inputs.length > 1,
      dirty: hull(inputs),
      cleared,
    }
    const merged = await compactSegments(inputs, request, await db.target(), { measurement: owner, removals: db.state })
    const added = merged === null ? [] : [merged]
    this.all = this.all.filter((segment) => !inputs.includes(segment)).concat(added)
    db.publish({ kind: 'segments', added, removed: request.segments, droppedMemtable: -1 })
    this.forget(request.segments, -1)
  }
}

/** Times that may still repeat those of a segment that is not merged. */
function hull(segments: readonly SegmentMeta[]): [string, string] | null {
  const ends = segments.flatMap(({ dirty }) => dirty ?? []).sort((a, b) => Number(BigInt(a) - BigInt(b)))
  return ends.length === 0 ? null : [ends[0], ends[ends.length - 1]]
}
