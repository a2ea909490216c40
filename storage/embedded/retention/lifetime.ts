/**
 * Deletes, drops and their undoing, moves of retention, and series without rows. The rules are those of `../../common/lifetime.ts`.
 *
 * Invariants
 * - Everything goes through the log first and takes effect in its order: a write acknowledged before a delete is deleted, one that begins after it
 *   is not. A replayed change finds the same rows before it and the same after it, though sequences are given anew.
 * - A dropped measurement leaves the schema at the call: writes that begin later start a new one, and their records lie behind the drop's.
 * - Which series a delete means is found beside the main thread (`select`); all that was acknowledged at the call is part of it. Nothing here is
 *   proportional to series but in slices, see releases.ts.
 */
import type { DeleteRequest, DeleteResult, Matcher, StorageContext } from 'svcdb'
import {
  deadlinePassed,
  dropDeadline,
  KEPT_ENDED_DROPS,
  type Lifetimes,
  lifetimeClock,
  nothingToRestore,
  restoreConflict,
  unknownMeasurement,
} from '../../common/lifetime.ts'
import { INT64_MAX, INT64_MIN, later } from '../../common/time.ts'
import type { Measurement, Schema } from '../catalog/schema.ts'
import type { Unstored } from '../catalog/unstored.ts'
import type { Selection } from '../series/select-job.ts'
import type { SeriesIndex } from '../series/series-index.ts'
import type { SegmentMeta, Tombstone } from '../threads/layout.ts'
import type { Publisher } from '../threads/publisher.ts'
import type { Slices } from '../threads/slices.ts'
import type { LifetimeChange } from '../wal/change-record.ts'
import type { Changes } from '../write/changes.ts'
import type { WritePath } from '../write/write-path.ts'
import { type RetentionMove, withMove } from './cutoffs.ts'
import { Releases } from './releases.ts'
import type { EndedDrops, StoredDrop } from './stored.ts'
import { EVERY_SEQUENCE, Tombstones } from './tombstones.ts'

type Delete = Extract<LifetimeChange, { kind: 'delete' }>
type Drop = Extract<LifetimeChange, { kind: 'drop' }>
type Retention = Extract<LifetimeChange, { kind: 'retention' }>

/** The measurement of a table that several share. */
const SHARED = -1

export interface LifetimeParts {
  lifetimes: Lifetimes
  schema: Schema
  index: SeriesIndex
  writes: WritePath
  publisher: Publisher
  changes: Changes
  log: StorageContext['log']
  /** The series of a measurement that satisfy all matchers, by an engine thread. @throws BAD_REQUEST for a regular expression that does not parse or takes too long. */
  select(namespace: string, measurement: number, matchers: readonly Matcher[]): Promise<Selection>
  slices: Slices
  now(): number
  /** Segments of a table. */
  segments(table: number): readonly SegmentMeta[]
  /** Segments of the tables that are out of service and may hold rows of the range. */
  outOfService(tables: readonly number[], start: bigint, end: bigint): number
  /** Files may have become free. */
  reclaim(): void
  released(count: number): void
  /** A delete could not reach so many segments. */
  skipped(count: number): void
}

export class Lifetime {
  readonly tombstones: Tombstones
  readonly releases: Releases
  /** Pending drops by measurement. */
  readonly drops = new Map<number, StoredDrop>()
  ended: EndedDrops = []
  private order = 0
  private readonly unstored: Unstored
  private readonly parts: LifetimeParts

  constructor(parts: LifetimeParts) {
    this.parts = parts
    this.unstored = parts.writes.unstored
    this.tombstones = new Tombstones(this.unstored, (event) => parts.publisher.tell(event))
    this.releases = new Releases(parts)
  }

  /** From the catalog. */
  load(drops: readonly StoredDrop[], ended: EndedDrops): void {
    this.ended = ended
    for (const drop of drops) {
      const measurement = this.parts.schema.byId[drop.measurement]
      if (measurement === undefined) continue
      this.parts.schema.hide(measurement)
      this.drops.set(drop.measurement, drop)
      this.order = Math.max(this.order, drop.order)
    }
    this.parts.schema.reindex()
    // Series that the last process did not come to give back.
    for (const tombstone of this.tombstones.byId.values()) this.emptied(tombstone, true)
  }

  /** Nanoseconds; see common/lifetime.ts. */
  get clock(): bigint {
    return lifetimeClock(this.parts.now(), this.newest())
  }

  async delete({ namespace, measurement: name, matchers = [], start, end }: DeleteRequest): Promise<DeleteResult> {
    const { schema, index, writes } = this.parts
    const measurement = schema.find(namespace, name)
    if (measurement === undefined || !measurement.kept) throw unknownMeasurement('delete', name)
    const from = start ?? INT64_MIN
    const to = end === undefined ? INT64_MAX : end - 1n
    const selection = matchers.length === 0 ? null : await this.parts.select(namespace, measurement.id, matchers)
    const count = selection === null ? index.members.count(measurement.id) : await this.countLive(selection.series)
    if (schema.byId[measurement.id] !== measurement) throw unknownMeasurement('delete', name) // dropped meanwhile
    if (count === 0 || from > to) return { series: 0, segmentsSkipped: 0 }
    // Numbered in the turn in which it goes to the log: merges take the order of numbers for the order of deletes.
    const change: Delete = {
      kind: 'delete',
      tombstone: this.tombstones.nextId++,
      measurement: measurement.id,
      start: from,
      end: to,
      series: selection?.series ?? null,
      ...(selection === null ? {} : { encoded: selection.encoded }),
    }
    await writes.change(change, () => {
      this.applyDelete(change, writes.wal.file)
      this.parts.changes.deleted(namespace, name, () => this.deleted(change), start, end)
    })
    await this.releases.run()
    const tables = measurement.tables.map(({ id }) => id)
    const segmentsSkipped = this.parts.outOfService(tables, from, to)
    this.parts.skipped(segmentsSkipped)
    return { series: count, segmentsSkipped }
  }

  async drop(namespace: string, name: string, final: boolean): Promise<void> {
    const { schema, index, writes, lifetimes } = this.parts
    const measurement = schema.find(namespace, name)
    if (measurement === undefined || !measurement.kept) throw unknownMeasurement('drop', name)
    const ttl = final ? undefined : lifetimes.softDeleteTtlSecs
    const deadline = ttl === undefined ? null : dropDeadline(this.parts.now(), this.newest(), ttl)
    const change: Drop = { kind: 'drop', tombstone: this.tombstones.nextId++, measurement: measurement.id, deadline }
    schema.hide(measurement)
    index.epoch++
    try {
      await writes.change(change, () => {
        this.applyDrop(change, writes.wal.file)
        this.parts.changes.dropped(namespace, name)
      })
    } catch (error) {
      if (schema.pending.has(measurement.id)) schema.reveal(measurement)
      index.epoch++
      throw error
    }
    await this.releases.run()
  }

  async restore(namespace: string, name: string): Promise<void> {
    const { schema, index, writes, lifetimes } = this.parts
    const clock = this.clock
    const drop = [...this.drops.values()]
      .filter(({ measurement, deadline }) => {
        const dropped = schema.pending.get(measurement)
        return dropped?.namespace === namespace && dropped.name === name && !deadlinePassed(BigInt(deadline), clock)
      })
      .sort((a, b) => b.order - a.order)[0]
    if (drop === undefined) {
      const expired = [...this.drops.keys()].some((id) => schema.pending.get(id)?.namespace === namespace && schema.pending.get(id)?.name === name)
      throw nothingToRestore(name, lifetimes, expired || this.ended.some(([ns, n]) => ns === namespace && n === name))
    }
    if (schema.find(namespace, name)?.kept === true) throw restoreConflict(name)
    const measurement = schema.pending.get(drop.measurement) as Measurement
    schema.reveal(measurement)
    index.epoch++
    try {
      await writes.change({ kind: 'restore', measurement: measurement.id }, () => this.applyRestore(measurement.id))
    } catch (error) {
      if (schema.byId[measurement.id] === measurement) schema.hide(measurement)
      index.epoch++
      throw error
    }
  }

  /** Ends drops whose time has passed. */
  async expire(): Promise<void> {
    const { writes, clock } = { writes: this.parts.writes, clock: this.clock }
    for (const { measurement, deadline } of [...this.drops.values()]) {
      if (!deadlinePassed(BigInt(deadline), clock) || this.parts.schema.pending.get(measurement) === undefined) continue
      const change: Drop = { kind: 'drop', tombstone: this.tombstones.nextId++, measurement, deadline: null }
      await writes.change(change, () => this.applyDrop(change, writes.wal.file))
      await this.releases.run()
    }
  }

  /** Masks what retention no longer keeps of the rows written so far. @returns the sequence below which sources have them. */
  async retain(move: Omit<RetentionMove, 'id'>): Promise<number> {
    const { writes } = this.parts
    const change: Retention = { kind: 'retention', id: this.tombstones.nextId++, ...move }
    let sequence = 0
    await writes.change(change, () => {
      sequence = this.applyRetention(change, writes.wal.file)
    })
    return sequence
  }

  /** Puts a change of the log back. @param file the log file that holds it. */
  replayed(change: LifetimeChange, file: number): void {
    const { schema } = this.parts
    switch (change.kind) {
      case 'delete':
        return this.applyDelete(change, file)
      case 'drop': {
        const measurement = schema.byId[change.measurement]
        if (measurement !== undefined) schema.hide(measurement)
        this.tombstones.nextId = Math.max(this.tombstones.nextId, change.tombstone + 1)
        return this.applyDrop(change, file)
      }
      case 'restore': {
        const measurement = schema.pending.get(change.measurement)
        if (measurement !== undefined) schema.reveal(measurement)
        return this.applyRestore(change.measurement)
      }
      case 'retention':
        return void this.applyRetention(change, file)
      case 'release':
        return this.releases.given(this.parts.index.release(change.series))
    }
  }

  /** Call when the log has been read back. */
  replayEnded(): void {
    const { schema, index } = this.parts
    schema.reindex()
    // A crash between the slices of a drop: what its measurement has left counts as given back.
    for (const id of index.members.measurements()) if (schema.any(id) === undefined) this.releases.gone(id)
    this.releases.runAtStart()
  }

  /** How many of them are live. */
  private async countLive(series: Int32Array): Promise<number> {
    const { index, slices } = this.parts
    let live = 0
    for (let i = 0; i < series.length; i++) {
      if (i > 0 && i % slices.size === 0) await slices.next()
      if (index.isLive(series[i])) live++
    }
    return live
  }

  /** The series of a delete that takes effect now: none of them is given back yet. */
  private deleted({ measurement, series }: Delete): Int32Array {
    const { index } = this.parts
    if (series !== null) return series.filter((number) => index.isLive(number))
    return index.members.take(index.members.walk(measurement), index.members.count(measurement))
  }

  /** Without rows of any time, series are to be given back. */
  private emptied(tombstone: Tombstone, fromCatalog: boolean): void {
    if (tombstone.start === INT64_MIN && tombstone.end === INT64_MAX) this.releases.emptied(tombstone, fromCatalog)
  }

  private applyDelete({ tombstone, measurement, start, end, series }: Delete, file: number): void {
    const sequence = this.parts.writes.sequenceAbove(measurement, series, file)
    const added: Tombstone = { id: tombstone, measurement, sequence, series, start, end }
    this.tombstones.add(added)
    this.emptied(added, false)
    this.parts.reclaim()
  }

  private applyRetention(move: Retention, file: number): number {
    const { schema, writes } = this.parts
    const general = move.general ?? INT64_MIN
    const except = new Set(move.except)
    const own = new Map(move.own)
    const latest = [...own.values()].reduce(later, general)
    const sequence = writes.sequenceAboveOlder((table) => {
      const owner = schema.tables[table]?.measurement ?? SHARED
      if (owner < 0) return latest
      return later(except.has(owner) ? INT64_MIN : general, own.get(owner) ?? INT64_MIN)
    }, file)
    this.tombstones.setCutoffs(withMove(this.tombstones.cutoffs, move, sequence))
    return sequence
  }

  /** The measurement is hidden already. */
  private applyDrop({ tombstone, measurement: id, deadline }: Drop, file: number): void {
    const { schema, publisher } = this.parts
    const measurement = schema.pending.get(id)
    if (measurement === undefined) return // gone already
    if (deadline === null) return this.end(measurement, tombstone, file)
    const drop: StoredDrop = { measurement: id, order: ++this.order, deadline: String(deadline) }
    this.drops.set(id, drop)
    this.unstored.mark('drop', id)
    this.unstored.mark('measurement', id)
    publisher.tell({ kind: 'measurement-gone', id })
  }

  private applyRestore(id: number): void {
    const measurement = this.parts.schema.byId[id]
    if (measurement === undefined) return
    this.drops.delete(id)
    this.unstored.mark('drop', id)
    this.parts.publisher.tell({ kind: 'measurement', def: measurement.def() })
  }

  /** The measurement goes for good. */
  private end(measurement: Measurement, tombstone: number, file: number): void {
    const { schema, publisher } = this.parts
    const { id, namespace, name, tables } = measurement
    this.tombstones.remove(this.tombstones.of(id).map((other) => other.id))
    if (tables.some((table) => table.measurement < 0))
      this.tombstones.add({ id: tombstone, measurement: id, sequence: EVERY_SEQUENCE, series: null, start: INT64_MIN, end: INT64_MAX })
    schema.remove(measurement, file)
    if (schema.owned(namespace).next().done) this.parts.writes.forget(namespace)
    publisher.tell({ kind: 'measurement-gone', id })
    for (const table of tables) if (table.measurement === id) publisher.tell({ kind: 'table-gone', id: table.id })
    this.drops.delete(id)
    this.ended = [...this.ended.filter(([ns, n]) => ns !== namespace || n !== name), [namespace, name] as [string, string]].slice(-KEPT_ENDED_DROPS)
    this.unstored.mark('drop', id)
    this.unstored.mark('measurement', id)
    for (const table of tables) if (table.measurement === id) this.unstored.mark('table', table.id)
    this.unstored.mark('ended-drops')
    this.releases.gone(id)
    this.parts.reclaim()
  }

  private newest(): (bigint | undefined)[] {
    return this.parts.writes.windows.newest()
  }
}
