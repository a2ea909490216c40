/**
 * Drops of measurements, their undoing and their end. The rules are those of `../../common/retention.ts`.
 *
 * Invariants
 * - A drop goes through the log first and takes effect in its order, as a delete does.
 * - A dropped measurement leaves the schema at the call: writes that begin later start a new one, and their records lie behind the drop's.
 */

import type { Wal } from '../../common/log/log.ts'
import { deadlinePassed, dropDeadline, KEPT_ENDED_DROPS, nothingToRestore, restoreConflict, unknownMeasurement } from '../../common/retention.ts'
import { INT64_MAX, INT64_MIN } from '../../common/time.ts'
import type { Measurement, Schema } from '../catalog/schema.ts'
import type { Unstored } from '../catalog/unstored.ts'
import type { ChangeLog } from '../changes/change-log.ts'
import type { Memtables } from '../memtable/memtables.ts'
import type { SeriesIndex } from '../series/series-index.ts'
import type { Signal } from '../signal.ts'
import type { Publisher } from '../threads/publishing/publisher.ts'
import type { ChangeRecord } from '../wal/change-record.ts'
import type { Windows } from '../write/windows.ts'
import type { WritePath } from '../write/write-path.ts'
import type { RetentionClock } from './clock.ts'
import type { Releases } from './releases.ts'
import type { EndedDrops, StoredDrop } from './stored.ts'
import { EVERY_SEQUENCE, type Tombstones } from './tombstones.ts'

type Drop = Extract<ChangeRecord, { kind: 'drop' }>

interface DropsDependencies {
  schema: Schema
  index: SeriesIndex
  memtables: Memtables
  windows: Windows
  wal: Wal
  writes: Pick<WritePath, 'change'>
  unstored: Unstored
  tombstones: Tombstones
  releases: Releases
  clock: RetentionClock
  publisher: Publisher
  changes: Pick<ChangeLog, 'changed'>
  /** Raised when files may have become free. */
  tidyWanted: Signal
}

export class Drops {
  /** By measurement: those that can be undone. */
  readonly pending = new Map<number, StoredDrop>()
  ended: EndedDrops
  private order = 0
  private readonly dependencies: DropsDependencies

  /** @param pending, ended from the catalog. */
  constructor(dependencies: DropsDependencies, pending: readonly StoredDrop[], ended: EndedDrops) {
    this.dependencies = dependencies
    this.ended = ended
    const { schema } = dependencies
    for (const drop of pending) {
      const measurement = schema.byId[drop.measurement]
      if (measurement === undefined) continue
      schema.hide(measurement)
      this.pending.set(drop.measurement, drop)
      this.order = Math.max(this.order, drop.order)
    }
    schema.reindex()
  }

  async drop(namespace: string, name: string, final: boolean): Promise<void> {
    const { schema, index, writes, wal, tombstones, releases, clock, changes } = this.dependencies
    const measurement = schema.find(namespace, name)
    if (measurement === undefined || !measurement.kept) throw unknownMeasurement('drop', name)
    const ttl = final ? undefined : clock.settings.softDeleteTtlSecs
    const deadline = ttl === undefined ? null : dropDeadline(clock.wallClock, [clock.newest], ttl)
    const change: Drop = { kind: 'drop', tombstone: tombstones.nextId++, measurement: measurement.id, deadline, owner: [namespace, name] }
    schema.hide(measurement)
    index.epoch++
    await writes.change(
      change,
      (sequence) => {
        this.apply(change, wal.file)
        changes.changed(sequence, measurement, change)
      },
      () => {
        if (schema.pending.has(measurement.id)) schema.reveal(measurement)
        index.epoch++
      },
    )
    await releases.run()
  }

  async restore(namespace: string, name: string): Promise<void> {
    const { schema, index, writes, clock, changes } = this.dependencies
    const now = clock.now
    const drop = [...this.pending.values()]
      .filter(({ measurement, deadline }) => {
        const dropped = schema.pending.get(measurement)
        return dropped?.namespace === namespace && dropped.name === name && !deadlinePassed(BigInt(deadline), now)
      })
      .sort((a, b) => b.order - a.order)[0]
    if (drop === undefined) {
      const expired = [...this.pending.keys()].some((id) => schema.pending.get(id)?.namespace === namespace && schema.pending.get(id)?.name === name)
      throw nothingToRestore(name, clock.settings, expired || this.ended.some(([ns, n]) => ns === namespace && n === name))
    }
    if (schema.find(namespace, name)?.kept === true) throw restoreConflict(name)
    const measurement = schema.pending.get(drop.measurement) as Measurement
    schema.reveal(measurement)
    index.epoch++
    const change: Extract<ChangeRecord, { kind: 'restore' }> = { kind: 'restore', measurement: measurement.id, owner: [namespace, name] }
    await writes.change(
      change,
      (sequence) => {
        this.applyRestore(measurement.id)
        changes.changed(sequence, measurement, change)
      },
      () => {
        if (schema.byId[measurement.id] === measurement) schema.hide(measurement)
        index.epoch++
      },
    )
  }

  /** Ends drops whose time has passed. */
  async expire(): Promise<void> {
    const { schema, writes, wal, tombstones, releases } = this.dependencies
    const { now } = this.dependencies.clock
    for (const { measurement, deadline } of [...this.pending.values()]) {
      if (!deadlinePassed(BigInt(deadline), now) || schema.pending.get(measurement) === undefined) continue
      const change: Drop = { kind: 'drop', tombstone: tombstones.nextId++, measurement, deadline: null }
      await writes.change(change, () => this.apply(change, wal.file))
      await releases.run()
    }
  }

  /** @param file the log file that holds the drop. */
  replayDrop(change: Drop, file: number): void {
    const { schema, tombstones } = this.dependencies
    const measurement = schema.byId[change.measurement]
    if (measurement !== undefined) schema.hide(measurement)
    tombstones.nextId = Math.max(tombstones.nextId, change.tombstone + 1)
    this.apply(change, file)
  }

  replayRestore(id: number): void {
    const { schema } = this.dependencies
    const measurement = schema.pending.get(id)
    if (measurement !== undefined) schema.reveal(measurement)
    this.applyRestore(id)
  }

  /** The measurement has left the schema's names already. */
  private apply({ tombstone, measurement: id, deadline }: Drop, file: number): void {
    const { schema, unstored, publisher } = this.dependencies
    const measurement = schema.pending.get(id)
    if (measurement === undefined) return // gone already
    if (deadline === null) return this.end(measurement, tombstone, file)
    this.pending.set(id, { measurement: id, order: ++this.order, deadline: String(deadline) })
    unstored.mark('drop', id)
    unstored.mark('measurement', id)
    publisher.publish({ kind: 'measurement-gone', id })
  }

  private applyRestore(id: number): void {
    const { schema, unstored, publisher } = this.dependencies
    // Hidden again by a drop that follows: it may still fail, and takes effect by itself.
    const measurement = schema.any(id)
    if (measurement === undefined) return
    this.pending.delete(id)
    unstored.mark('drop', id)
    publisher.publish({ kind: 'measurement', def: measurement.def() })
  }

  /** The measurement goes for good. */
  private end(measurement: Measurement, tombstone: number, file: number): void {
    const { schema, memtables, windows, unstored, tombstones, releases, publisher, tidyWanted } = this.dependencies
    const { id, namespace, name, tables } = measurement
    tombstones.remove(tombstones.of(id).map((other) => other.id))
    if (tables.some((table) => table.measurement < 0))
      tombstones.add({ id: tombstone, measurement: id, sequence: EVERY_SEQUENCE, series: null, start: INT64_MIN, end: INT64_MAX })
    schema.remove(measurement, file)
    if (!schema.owns(namespace)) {
      memtables.forget(namespace)
      windows.forget(namespace)
    }
    publisher.publish({ kind: 'measurement-gone', id })
    for (const table of tables) if (table.measurement === id) publisher.publish({ kind: 'table-gone', id: table.id })
    this.pending.delete(id)
    this.ended = [...this.ended.filter(([ns, n]) => ns !== namespace || n !== name), [namespace, name] as [string, string]].slice(-KEPT_ENDED_DROPS)
    unstored.mark('drop', id)
    unstored.mark('measurement', id)
    for (const table of tables) if (table.measurement === id) unstored.mark('table', table.id)
    unstored.mark('ended-drops')
    releases.gone(id)
    tidyWanted.raise()
  }
}
