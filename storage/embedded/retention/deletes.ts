/**
 * Deletes of points. The rules are those of `../../common/retention.ts` and of the storage interface.
 *
 * Invariants
 * - A delete goes through the log first and takes effect in its order: a write acknowledged before it is deleted, one that begins after it is not.
 *   A replayed delete finds the same rows before it and the same after it, though sequences are given anew.
 * - Which series a delete means is found beside the main thread (`select`); all that was acknowledged at the call is part of it. Nothing here is
 *   proportional to series but in slices, see releases.ts.
 */
import type { DeleteRequest, DeleteResult } from 'svcdb'
import type { Wal } from '../../common/log/log.ts'
import { unknownMeasurement } from '../../common/retention.ts'
import { INT64_MAX, INT64_MIN } from '../../common/time.ts'
import type { Schema } from '../catalog/schema.ts'
import type { ChangeLog } from '../changes/change-log.ts'
import type { Scrubber } from '../integrity/scrubber.ts'
import type { Memtables } from '../memtable/memtables.ts'
import type { EngineMetrics } from '../metrics.ts'
import type { SelectSeries } from '../series/select-series.ts'
import type { SeriesIndex } from '../series/series-index.ts'
import type { Signal } from '../signal.ts'
import type { Slices } from '../slices.ts'
import type { Tombstone } from '../threads/removals.ts'
import type { ChangeRecord } from '../wal/change-record.ts'
import type { WritePath } from '../write/write-path.ts'
import { isOfAllTime, type Releases } from './releases.ts'
import type { Tombstones } from './tombstones.ts'

type Delete = Extract<ChangeRecord, { kind: 'delete' }>

interface DeletesDependencies {
  schema: Schema
  index: SeriesIndex
  memtables: Memtables
  wal: Wal
  writes: Pick<WritePath, 'change'>
  tombstones: Tombstones
  releases: Releases
  changes: Pick<ChangeLog, 'changed'>
  scrubber: Pick<Scrubber, 'outOfService'>
  slices: Slices
  select: SelectSeries
  /** Raised when files may have become free. */
  tidyWanted: Signal
  metrics: Pick<EngineMetrics, 'deleteSegmentsSkipped'>
}

export class Deletes {
  private readonly dependencies: DeletesDependencies

  constructor(dependencies: DeletesDependencies) {
    this.dependencies = dependencies
  }

  async delete({ namespace, measurement: name, matchers = [], start, end }: DeleteRequest): Promise<DeleteResult> {
    const { schema, index, writes, wal, tombstones, releases, changes, scrubber, select, metrics } = this.dependencies
    const measurement = schema.find(namespace, name)
    if (measurement === undefined || !measurement.kept) throw unknownMeasurement('delete', name)
    const from = start ?? INT64_MIN
    const to = end === undefined ? INT64_MAX : end - 1n
    const selection = matchers.length === 0 ? null : await select(namespace, measurement.id, matchers)
    const count = selection === null ? index.members.count(measurement.id) : await this.countLive(selection.series)
    if (schema.byId[measurement.id] !== measurement) throw unknownMeasurement('delete', name) // dropped meanwhile
    if (count === 0 || from > to) return { series: 0, segmentsSkipped: 0 }
    // Numbered in the turn in which it goes to the log: merges take the order of numbers for the order of deletes.
    const change: Delete = {
      kind: 'delete',
      tombstone: tombstones.nextId++,
      measurement: measurement.id,
      start: from,
      end: to,
      series: selection?.series ?? null,
      owner: [namespace, name],
      ...(selection === null ? {} : { encoded: selection.encoded }),
    }
    await writes.change(change, (sequence) => {
      this.apply(change, wal.file)
      changes.changed(sequence, measurement, change)
    })
    await releases.run()
    const tables = measurement.tables.map(({ id }) => id)
    const segmentsSkipped = scrubber.outOfService(tables, from, to)
    metrics.deleteSegmentsSkipped.inc(segmentsSkipped)
    return { series: count, segmentsSkipped }
  }

  /** @param file the log file that holds its record. */
  apply({ tombstone, measurement, start, end, series }: Delete, file: number): void {
    const { memtables, tombstones, releases, tidyWanted } = this.dependencies
    const sequence = memtables.sequenceAbove(measurement, series, file)
    const added: Tombstone = { id: tombstone, measurement, sequence, series, start, end }
    tombstones.add(added)
    if (isOfAllTime(added)) releases.emptied(added)
    tidyWanted.raise()
  }

  /** How many of them are live. */
  private async countLive(series: Int32Array): Promise<number> {
    const { index, slices } = this.dependencies
    let live = 0
    for (let i = 0; i < series.length; i++) {
      if (i > 0 && i % slices.size === 0) await slices.next()
      if (index.isLive(series[i])) live++
    }
    return live
  }
}
