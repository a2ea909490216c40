/**
 * All memtables: the active one, which takes rows, and those that are frozen, oldest first, until a flush has made them segments.
 *
 * Invariants
 * - A memtable and the log files with its rows begin together (`firstWal`): files below the oldest memtable's are not needed.
 * - Rows of one write become visible together: `Shared.SEQ` is odd while they are applied.
 */
import type { Schema, Table } from '../catalog/schema.ts'
import type { SeriesIndex } from '../series/series-index.ts'
import type { Signal } from '../signal.ts'
import { Summary } from '../threads/memtable-layout.ts'
import type { Publisher } from '../threads/publishing/publisher.ts'
import { Shared } from '../threads/shared-header.ts'
import type { TableRows } from '../wal/record.ts'
import type { HeldMemory } from './held-memory.ts'
import { Memtable, type Taken } from './memtable.ts'
import { bytesOfParts, rowParts } from './row-parts.ts'
import type { SeriesTimes } from './series-times.ts'
import { MemtableMemory, type SlabPool } from './slabs.ts'

/** Part of the time that the main thread may be at work for the server to count as idle. */
const IDLE = 0.1
const NOTHING: Taken = { bytes: 0, memory: 0 }

interface MemtablesOptions {
  shared: Int32Array
  schema: Schema
  index: SeriesIndex
  publisher: Publisher
  held: HeldMemory
  slabs: SlabPool
  times: SeriesTimes
  /** Raised when one has been frozen. */
  flushWanted: Signal
  /** Sequence of the first. */
  nextSequence: number
  /** The log file with its first rows. */
  firstWal: number
}

export class Memtables {
  readonly times: SeriesTimes
  active: Memtable
  frozen: Memtable[] = []
  nextSequence: number
  private readonly shared: Int32Array
  private readonly schema: Schema
  private readonly index: SeriesIndex
  private readonly publisher: Publisher
  private readonly held: HeldMemory
  private readonly slabs: SlabPool
  private readonly flushWanted: Signal
  /** At the last look: another number says that rows have come. */
  private rowsBefore = 0

  constructor({ shared, schema, index, publisher, held, slabs, times, flushWanted, nextSequence, firstWal }: MemtablesOptions) {
    this.shared = shared
    this.schema = schema
    this.index = index
    this.publisher = publisher
    this.held = held
    this.slabs = slabs
    this.times = times
    this.flushWanted = flushWanted
    this.nextSequence = nextSequence
    this.active = this.next(firstWal)
  }

  /** Ends the active memtable; the next one's first rows may be in log file `file`. */
  freeze(file: number): void {
    if (this.active.rows === 0) {
      // Files with changes alone would stay for as long as no row comes.
      this.active.firstWal = file
      return
    }
    this.frozen.push(this.active)
    this.active = this.next(file)
    this.flushWanted.raise()
  }

  /** The memtable's rows are in segments. Call in the same turn of the loop as the event that says so, and after it. */
  drop(memtable: Memtable): void {
    this.frozen = this.frozen.filter((other) => other !== memtable)
    const { allocated, since } = memtable
    memtable.release((unread) => this.held.retire({ since, until: Atomics.load(this.shared, Shared.EVENTS) }, allocated, unread))
  }

  /** Frozen ones and the active one, oldest first. */
  all(): Memtable[] {
    return [...this.frozen, this.active]
  }

  /** The one whose rows the log is still needed for. @param leaving is left out: its rows are about to be in segments. */
  oldest(leaving?: Memtable): Memtable {
    return this.frozen.find((memtable) => memtable !== leaving) ?? this.active
  }

  /** Makes the rows of one write visible. @param namespace undefined when nothing of them is anybody's any more. @param lastSeries highest number with a row. */
  apply(namespace: string | undefined, tables: readonly TableRows[], heap: Uint8Array, lastSeries: number): void {
    if (tables.length === 0) return
    const { shared, index, active, times, schema } = this
    index.publish(lastSeries)
    active.ensureSeries(lastSeries)
    times.ensure(lastSeries)
    const { bytes, allocated } = active
    Atomics.add(shared, Shared.SEQ, 1)
    for (const rows of tables) {
      const table = schema.tables[rows.table]
      // Its measurement was dropped while the write was on its way.
      if (table === undefined && schema.goneTables.has(rows.table)) continue
      const { id, fields } = definedTable(table, rows.table)
      active.append(id, rows, heap, fields, rows.fields, times)
    }
    Atomics.add(shared, Shared.SEQ, 1)
    if (namespace === undefined) return
    const taken = active.taken.get(namespace) ?? NOTHING
    active.taken.set(namespace, { bytes: taken.bytes + active.bytes - bytes, memory: taken.memory + active.allocated - allocated })
  }

  /** What rows of a write will take, but for their texts. */
  bytesFor(tables: readonly TableRows[]): number {
    return tables.reduce((sum, rows) => sum + bytesOfParts(rows, (rows.parts ??= rowParts(rows))), 0)
  }

  /**
   * A sequence above those of all sources that hold rows of these series so far; ends the active memtable when it has some.
   * @param series undefined = all of the measurement.
   */
  sequenceAbove(measurement: number, series: Int32Array | null, file: number): number {
    if (this.holds(this.active, measurement, series)) this.freeze(file)
    return this.active.sequence
  }

  /** The same for rows that are older than the time that a table is asked for. */
  sequenceAboveOlder(before: (table: number) => bigint, file: number): number {
    for (const { id, rows, summary } of this.active.tables.values()) {
      if (rows === 0 || summary[Summary.MIN_TIME] >= before(id)) continue
      this.freeze(file)
      break
    }
    return this.active.sequence
  }

  /** Bytes of memtables that are gone, and that jobs may read yet. */
  get heldMemory(): number {
    return this.held.bytes
  }

  /** See `HeldMemory.slowdown`. */
  get slowdown(): number {
    return this.held.slowdown
  }

  /** Memtables, and writes on their way, have this much: jobs that hold more than the rest are ended. */
  needMemory(memory: number): void {
    this.held.need(memory)
  }

  /** Gives back memory that is kept for the next memtables once writes rest. Call every `LOOK_MS`. @param utilization of the main thread since the last call. */
  look(utilization: number): void {
    const rows = this.nextSequence + this.active.rows
    // Each time costs a collection: what is being flushed goes with what is free.
    this.slabs.look(this.frozen.length === 0 && rows === this.rowsBefore && utilization <= IDLE)
    this.rowsBefore = rows
  }

  /** Bytes of all memtables. */
  get memory(): number {
    return this.frozen.reduce((sum, memtable) => sum + memtable.allocated, this.active.allocated)
  }

  /** What rows of a namespace take. */
  takenBy(namespace: string): Taken {
    const all = this.all().map(({ taken }) => taken.get(namespace) ?? NOTHING)
    return { bytes: all.reduce((sum, { bytes }) => sum + bytes, 0), memory: all.reduce((sum, { memory }) => sum + memory, 0) }
  }

  /** Nothing of the namespace is left. */
  forget(namespace: string): void {
    for (const memtable of this.all()) memtable.taken.delete(namespace)
  }

  private next(file: number): Memtable {
    const sequence = this.nextSequence++
    this.times.rebase()
    const before = (this.active as Memtable | undefined)?.bytesOfTables
    return new Memtable({
      id: sequence,
      sequence,
      firstWal: file,
      seriesCapacity: this.index.measurement.length,
      memory: new MemtableMemory(this.slabs),
      ...(before === undefined ? {} : { before }),
      publish: (event) => this.publisher.publish(event),
      published: () => Atomics.load(this.shared, Shared.EVENTS),
    })
  }

  private holds(memtable: Memtable, measurement: number, series: Int32Array | null): boolean {
    const { rows, tables } = memtable
    if (rows === 0) return false
    const { schema, index } = this
    if (series !== null) return memtable.hasAny(series)
    for (const { id, measurement: owner } of schema.any(measurement)?.tables ?? []) {
      if ((tables.get(id)?.rows ?? 0) === 0) continue
      if (owner === measurement || memtable.ownerless) return true
      const { members } = index
      if (memtable.hasAny(members.take(members.walk(measurement), members.count(measurement)))) return true
    }
    return false
  }
}

/** @throws when there is no such table. */
export function definedTable(table: Table | undefined, id: number): Table {
  if (table === undefined) throw new Error(`table ${id} is not defined`)
  return table
}
