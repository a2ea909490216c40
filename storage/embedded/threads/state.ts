/**
 * An engine thread's picture of the database: the sum of the StateEvents it was sent (messages.ts), and consistent snapshots of it.
 *
 * Invariants: lists (chunks, segments, memtables) are replaced, never changed in place, so that a snapshot can keep them; the row
 * counts of a snapshot were taken while no batch was being applied. A table's summary changes with rows only, and rows come to its last chunk only, so
 * that what a snapshot has of a table holds for the next one while the chunks and the rows of the last one are the same.
 */
import type { MeasurementFields } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { ChunkView } from '../memtable/chunk-view.ts'
import { NO_CUTOFFS } from '../retention/cutoffs.ts'
import { SeriesView } from '../series/series-view.ts'
import { type FieldDef, fieldInfo, type MeasurementDef, type TableDef } from './definitions.ts'
import { Summary } from './memtable-layout.ts'
import type { StateEvent } from './messages.ts'
import type { RetentionCutoffs, Tombstone } from './removals.ts'
import type { SegmentMeta } from './segment-entry.ts'
import { Shared } from './shared-header.ts'
import type { SnapshotPin } from './snapshot-pins.ts'

export interface MemtableState {
  id: number
  sequence: number
  heads: Int32Array
  heap: Uint8Array[]
  tables: Map<number, MemtableTableState>
}

interface MemtableTableState {
  summary: BigInt64Array
  chunks: ChunkView[]
  /** What the last snapshot has of it; none once chunks have come, which it would keep the old ones of. */
  part?: MemtablePart
}

/** The rows of one table in one memtable, as of a snapshot. */
export interface MemtablePart {
  memtable: MemtableState
  chunks: ChunkView[]
  /** Visible rows of each chunk. */
  counts: number[]
  rows: number
  minTime: bigint
  maxTime: bigint
  /** Times of rows that may repeat a row of an older memtable or of a segment. */
  dirty: [bigint, bigint] | null
  /** Times of rows that may repeat a row of this memtable. */
  duplicates: [bigint, bigint] | null
  /** Nanoseconds a row may lie below the newest of its series before it. */
  lateness: bigint
}

/** What can make derived data wrong that no rows have come to. */
export type FollowedEvent = Extract<StateEvent, { kind: 'segments' | 'tombstones' | 'cutoffs' }>

interface TableSnapshot {
  segments: SegmentMeta[]
  memtables: MemtablePart[]
}

const NO_SEGMENTS: SegmentMeta[] = []
/** A batch is applied, and a message arrives, in milliseconds; longer than this means that the main thread is gone. */
const PATIENCE_MS = 10_000

export class WorkerState {
  readonly shared: Int32Array
  /** State events applied, counted as in Shared.EVENTS. */
  applied = 0
  readonly series: SeriesView
  readonly measurements = new Map<number, MeasurementDef>()
  readonly tables = new Map<number, TableDef>()
  memtables: MemtableState[] = []
  segments = new Map<number, SegmentMeta[]>()
  /** Of each measurement, ascending by id. */
  tombstones: ReadonlyMap<number, readonly Tombstone[]> = new Map()
  cutoffs: RetentionCutoffs = NO_CUTOFFS
  /** Tables of dropped measurements: their rows in memtables are not flushed. */
  readonly goneTables = new Set<number>()
  private readonly followers: ((event: FollowedEvent) => void)[] = []
  private readonly byName = new Map<string, Map<string, MeasurementDef>>()
  private readonly schemas = new Map<string, readonly MeasurementFields[]>()
  private readonly shown = new WeakMap<MeasurementDef, MeasurementFields>()
  /** What the last snapshot was made of, until a state event comes, and `Shared.SEQ` then. */
  private taken: { parts: Map<number, MemtablePart[]>; writes: number } | undefined

  /** @param regexTimeoutMs as in WorkerConfig. */
  constructor(shared: Int32Array, regexTimeoutMs?: number) {
    this.shared = shared
    this.series = new SeriesView(shared, regexTimeoutMs)
  }

  measurement(namespace: string, name: string): MeasurementDef | undefined {
    return this.byName.get(namespace)?.get(name)
  }

  /** By name; the same array until a measurement of the namespace changes. */
  schema(namespace: string): readonly MeasurementFields[] {
    let known = this.schemas.get(namespace)
    if (known === undefined) {
      known = this.measurementsOf(namespace).map((def) => this.fieldsOf(def))
      this.schemas.set(namespace, known)
    }
    return known
  }

  /** Made once for each definition: with a field of one measurement those of all others are as they were. */
  private fieldsOf(def: MeasurementDef): MeasurementFields {
    let shown = this.shown.get(def)
    if (shown === undefined) this.shown.set(def, (shown = { name: def.name, fields: def.fields.map(fieldInfo) }))
    return shown
  }

  measurementsOf(namespace: string): MeasurementDef[] {
    return [...(this.byName.get(namespace)?.values() ?? [])].sort((a, b) => (a.name < b.name ? -1 : 1))
  }

  apply(event: StateEvent): void {
    this.applied = (this.applied + 1) | 0
    this.taken = undefined
    switch (event.kind) {
      case 'series':
        this.series.setArrays(event.arrays)
        break
      case 'measurement':
        this.setMeasurement(event.def)
        break
      case 'fields':
        this.addFields(event.measurement, event.fields)
        break
      case 'measurement-gone':
        this.removeMeasurement(event.id)
        break
      case 'table':
        this.tables.set(event.def.id, event.def)
        break
      case 'table-gone':
        this.tables.delete(event.id)
        this.goneTables.add(event.id)
        break
      case 'series-released':
        this.series.release(event.series)
        break
      case 'tombstones':
        this.tell(event)
        this.changeTombstones(event.added, event.removed)
        break
      case 'cutoffs':
        this.tell(event)
        this.cutoffs = event.cutoffs
        break
      case 'memtable':
        this.memtables = [...this.memtables, { id: event.id, sequence: event.sequence, heads: event.heads, heap: [], tables: new Map() }].sort(
          (a, b) => a.sequence - b.sequence,
        )
        break
      case 'heads':
        this.memtable(event.memtable).heads = event.heads
        break
      case 'memtable-table':
        this.memtable(event.memtable).tables.set(event.table, { summary: event.summary, chunks: [] })
        break
      case 'chunk': {
        const table = this.memtableTable(event.memtable, event.table)
        table.chunks = [...table.chunks, new ChunkView(event.chunk)]
        table.part = undefined
        break
      }
      case 'chunk-grown': {
        const table = this.memtableTable(event.memtable, event.table)
        table.chunks = [...table.chunks.slice(0, -1), new ChunkView(event.chunk)]
        table.part = undefined
        break
      }
      case 'heap':
        // Appended in place: a snapshot only ever follows addresses of rows it sees, whose buffers came before them.
        this.memtable(event.memtable).heap.push(event.bytes)
        break
      case 'buffers-left':
        break
      case 'segments':
        this.tell(event)
        this.changeSegments(event.added, event.removed)
        if (event.droppedMemtable >= 0) this.dropMemtable(event.droppedMemtable)
        break
    }
  }

  /** Calls back with each change of segments, deletes and retention, before it is there. */
  follow(follower: (event: FollowedEvent) => void): void {
    this.followers.push(follower)
  }

  memtable(id: number): MemtableState {
    const memtable = this.memtables.find((m) => m.id === id)
    if (memtable === undefined) throw new Error(`cannot find memtable ${id}: it was not announced to this thread`)
    return memtable
  }

  /** One consistent view over all tables: whole batches only. Waits for state events under way. @param pin holds what is in it. */
  async snapshot(pin?: SnapshotPin): Promise<Snapshot> {
    const deadline = performance.now() + PATIENCE_MS
    for (;;) {
      const snapshot = this.snapshotNow(pin)
      if (snapshot !== undefined) return snapshot
      if (performance.now() > deadline) throw new SvcError('INTERNAL_ERROR', 'cannot take a snapshot: state events that were published have not arrived')
      await new Promise((resolve) => setImmediate(resolve))
    }
  }

  /** The same, or undefined while state events are under way. */
  snapshotNow(pin?: SnapshotPin): Snapshot | undefined {
    const deadline = performance.now() + PATIENCE_MS
    // Before the look at what is published, and before anything is read (snapshot-pins.ts).
    const tooLate = pin?.take(this.applied)
    for (;;) {
      const before = Atomics.load(this.shared, Shared.SEQ)
      if ((before & 1) === 0) {
        if (Atomics.load(this.shared, Shared.EVENTS) !== this.applied) {
          tooLate?.()
          return undefined
        }
        const parts = this.taken?.writes === before ? this.taken.parts : this.takeParts(before)
        if (parts !== undefined) return new Snapshot(parts, this.segments, this.tombstones, this.cutoffs, before, this.applied)
      } else Atomics.wait(this.shared, Shared.SEQ, before, 1)
      if (performance.now() > deadline) throw new SvcError('INTERNAL_ERROR', 'cannot take a snapshot: a write has held the sequence lock for too long')
    }
  }

  /** Undefined when a batch was applied meanwhile: what was read then is not kept either. */
  private takeParts(writes: number): Map<number, MemtablePart[]> | undefined {
    const parts = new Map<number, MemtablePart[]>()
    const changed: { table: MemtableTableState; part: MemtablePart }[] = []
    for (const memtable of this.memtables) {
      for (const [id, table] of memtable.tables) {
        let { part } = table
        if (part === undefined || part.counts[part.counts.length - 1] !== table.chunks[table.chunks.length - 1]?.published()) {
          part = takePart(memtable, table)
          changed.push({ table, part })
        }
        if (part.rows === 0) continue
        const list = parts.get(id)
        if (list === undefined) parts.set(id, [part])
        else list.push(part)
      }
    }
    if (Atomics.load(this.shared, Shared.SEQ) !== writes) return undefined
    for (const { table, part } of changed) table.part = part
    this.taken = { parts, writes }
    return parts
  }

  private tell(event: FollowedEvent): void {
    for (const follower of this.followers) follower(event)
  }

  private memtableTable(memtable: number, table: number): MemtableTableState {
    const found = this.memtable(memtable).tables.get(table)
    if (found === undefined) throw new Error(`cannot find table ${table} of memtable ${memtable}: it was not announced to this thread`)
    return found
  }

  private setMeasurement(def: MeasurementDef): void {
    oneName(def.fields)
    this.measurements.set(def.id, def)
    // There may be very many: what came with the table is let go.
    for (const id of def.tables) {
      const table = this.tables.get(id)
      if (table?.measurement === def.id) this.tables.set(id, { ...table, fields: def.fields })
    }
    this.schemas.delete(def.namespace)
    let names = this.byName.get(def.namespace)
    if (names === undefined) this.byName.set(def.namespace, (names = new Map()))
    names.set(def.name, def)
  }

  /** Jobs keep the definitions that they began with. */
  private addFields(id: number, fields: readonly FieldDef[]): void {
    const def = this.measurements.get(id)
    if (def !== undefined) this.setMeasurement({ ...def, fields: [...def.fields, ...fields] })
  }

  private dropMemtable(id: number): void {
    this.memtables = this.memtables.filter((memtable) => memtable.id !== id)
  }

  private removeMeasurement(id: number): void {
    const def = this.measurements.get(id)
    if (def === undefined) return
    this.measurements.delete(id)
    this.schemas.delete(def.namespace)
    const names = this.byName.get(def.namespace)
    if (names?.get(def.name)?.id === id) names.delete(def.name)
  }

  private changeTombstones(added: readonly Tombstone[], removed: readonly number[]): void {
    const gone = new Set([...removed, ...added.map(({ id }) => id)])
    const next = new Map<number, Tombstone[]>()
    for (const tombstone of [...[...this.tombstones.values()].flat().filter(({ id }) => !gone.has(id)), ...added]) {
      const list = next.get(tombstone.measurement)
      if (list === undefined) next.set(tombstone.measurement, [tombstone])
      else list.push(tombstone)
    }
    this.tombstones = next
  }

  private changeSegments(added: SegmentMeta[], removed: number[]): void {
    const gone = new Set(removed)
    const next = new Map(this.segments)
    // A list that stays the same stays the array it is: what was made of it is kept by it.
    const without = (table: number, list: readonly SegmentMeta[]): void => {
      const kept = list.filter(({ id }) => !gone.delete(id))
      if (kept.length === 0) next.delete(table)
      else if (kept.length < list.length) next.set(table, kept)
    }
    // What a merge takes out is of the table that it adds to. There may be thousands of others.
    for (const { table } of gone.size > 0 ? added : []) without(table, next.get(table) ?? [])
    for (const [table, list] of this.segments) {
      if (gone.size === 0) break
      without(table, list)
    }
    for (const segment of added)
      next.set(
        segment.table,
        [...(next.get(segment.table) ?? []), segment].sort((a, b) => a.sequence - b.sequence || a.id - b.id),
      )
    this.segments = next
  }
}

/** Most columns have the name of their field: two texts of it came. */
function oneName(fields: readonly FieldDef[]): void {
  for (const field of fields) if (field.column === field.name) field.column = field.name
}

let snapshots = 0

export class Snapshot {
  /** Tells snapshots of a thread apart. */
  readonly number = snapshots++
  readonly tombstones: ReadonlyMap<number, readonly Tombstone[]>
  readonly cutoffs: RetentionCutoffs
  /** `Shared.SEQ` and the state events applied: of two snapshots the later one has the higher numbers, modulo 2^32. */
  readonly writes: number
  readonly events: number
  private readonly parts: Map<number, MemtablePart[]>
  private readonly segments: Map<number, SegmentMeta[]>

  constructor(
    parts: Map<number, MemtablePart[]>,
    segments: Map<number, SegmentMeta[]>,
    tombstones: ReadonlyMap<number, readonly Tombstone[]> = new Map(),
    cutoffs: RetentionCutoffs = NO_CUTOFFS,
    writes = 0,
    events = 0,
  ) {
    this.parts = parts
    this.segments = segments
    this.tombstones = tombstones
    this.cutoffs = cutoffs
    this.writes = writes
    this.events = events
  }

  /** The same without memtables. */
  get inSegments(): Snapshot {
    return new Snapshot(new Map(), this.segments, this.tombstones, this.cutoffs, this.writes, this.events)
  }

  table(id: number): TableSnapshot {
    return { segments: this.segments.get(id) ?? NO_SEGMENTS, memtables: this.parts.get(id) ?? [] }
  }
}

/** Call between two loads of the same even `Shared.SEQ`: all that is read here is atomic, so that a batch in between is noticed. */
export function takePart(memtable: MemtableState, table: MemtableTableState): MemtablePart {
  const { chunks, summary } = table
  const counts: number[] = []
  let rows = 0
  for (const chunk of chunks) {
    const n = chunk.published()
    counts.push(n)
    rows += n
  }
  const dirty = rangeAt(summary, Summary.DIRTY_MIN)
  const duplicates = rangeAt(summary, Summary.DUPLICATE_MIN)
  return {
    memtable,
    chunks,
    counts,
    rows,
    minTime: Atomics.load(summary, Summary.MIN_TIME),
    maxTime: Atomics.load(summary, Summary.MAX_TIME),
    dirty,
    duplicates,
    lateness: BigInt.asUintN(64, Atomics.load(summary, Summary.LATENESS)),
  }
}

function rangeAt(summary: BigInt64Array, slot: number): [bigint, bigint] | null {
  const [min, max] = [Atomics.load(summary, slot), Atomics.load(summary, slot + 1)]
  return min > max ? null : [min, max]
}
