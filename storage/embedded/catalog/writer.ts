/**
 * The catalog's commits of the running engine: a change of segments, everything defined since the last one, and the position of the log, in one
 * transaction.
 *
 * Invariants
 * - What a commit stores is computed when its turn has come, in one turn of the loop: no earlier commit is under way then. What follows from it in
 *   memory follows before the next one is computed; one that fails changes nothing in memory.
 * - The log's floor passes a memtable in the commit that stores its segments, or in one after it.
 */

import type { Wal } from '../../common/log/log.ts'
import type { Memtable } from '../memtable/memtable.ts'
import type { Memtables } from '../memtable/memtables.ts'
import type { EngineMetrics } from '../metrics.ts'
import type { Drops } from '../retention/drops.ts'
import type { Releases } from '../retention/releases.ts'
import type { Tombstones } from '../retention/tombstones.ts'
import type { SegmentTable } from '../segment/segment-table.ts'
import type { SeriesIndex } from '../series/series-index.ts'
import type { SegmentMeta } from '../threads/segment-entry.ts'
import type { WritePath } from '../write/write-path.ts'
import { CatalogAhead } from './ahead.ts'
import type { Catalog, Counters } from './catalog.ts'
import { entriesOf } from './change.ts'
import type { Schema } from './schema.ts'
import type { Marks, Unstored } from './unstored.ts'

interface CatalogWriterDependencies {
  catalog: Catalog
  schema: Schema
  index: SeriesIndex
  segments: SegmentTable
  memtables: Memtables
  unstored: Unstored
  tombstones: Tombstones
  drops: Drops
  releases: Releases
  wal: Wal
  writes: Pick<WritePath, 'applied' | 'newestTimes'>
  metrics: Pick<EngineMetrics, 'catalogFsyncs'>
  /** The log's, as the catalog has it. */
  floor: number
}

export interface SegmentChange {
  segmentsAdded?: readonly SegmentMeta[]
  segmentsRemoved?: readonly number[]
  /** The memtable whose rows are in the added segments: this commit's alone, the log is not needed for it any more. */
  leaving?: Memtable
}

export class CatalogWriter {
  private readonly dependencies: CatalogWriterDependencies
  private readonly ahead: CatalogAhead
  private storedFloor: number

  constructor(dependencies: CatalogWriterDependencies) {
    this.dependencies = dependencies
    this.storedFloor = dependencies.floor
    this.ahead = new CatalogAhead(dependencies)
  }

  /** First log file that the catalog says is needed. */
  get floor(): number {
    return this.storedFloor
  }

  /** @param stored called when it is durable, before any other commit begins; must not throw. */
  async commit(change: SegmentChange = {}, stored: () => void = () => {}): Promise<void> {
    const { catalog, schema, index, unstored, drops, tombstones, releases, wal, metrics } = this.dependencies
    let marks: Marks = new Map()
    let floor = 0
    let forgotten: number[] = []
    await this.ahead.store()
    await catalog.commit(
      () => {
        const counters = this.counters(change.leaving)
        marks = unstored.copy()
        const found = entriesOf(marks, { schema, tombstones, drops }, counters.walFloor)
        floor = counters.walFloor
        forgotten = found.forgotten
        return { ...change, counters, ...found }
      },
      index,
      releases,
      () => {
        this.storedFloor = floor
        unstored.settle(marks)
        for (const table of forgotten) schema.goneTables.delete(table)
        stored()
        metrics.catalogFsyncs.inc()
      },
      // Under a periodic policy changes take effect before the log has them: a catalog ahead of the log would keep half of what a power cut takes.
      () => wal.settled(),
    )
  }

  /** What makes the catalog know what is defined now, the log's position included. @param leaving its segments are part of the same commit. */
  private counters(leaving: Memtable | undefined): Counters {
    const { memtables, schema, segments, tombstones, writes } = this.dependencies
    return {
      nextSegment: segments.next,
      nextSequence: memtables.nextSequence,
      nextTable: schema.nextTable,
      nextMeasurement: schema.nextMeasurement,
      nextTombstone: tombstones.nextId,
      walSequence: writes.applied,
      walFloor: memtables.oldest(leaving).firstWal,
      newest: Object.fromEntries([...writes.newestTimes()].map(([namespace, time]) => [namespace, String(time)])),
    }
  }
}
