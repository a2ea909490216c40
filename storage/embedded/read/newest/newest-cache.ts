/**
 * The newest rows of measurements' series that an engine thread knows, up to a number of bytes; what was used longest ago goes first. Nothing of it is
 * durable: it is found in the sources, once, and kept up to date from there (newest-entry.ts).
 */
import type { FieldDef, MeasurementDef } from '../../threads/definitions.ts'
import type { FollowedEvent, Snapshot, WorkerState } from '../../threads/state.ts'
import type { RelationContext } from '../relation.ts'
import { entryBytes, NewestEntry } from './newest-entry.ts'

/** With fewer series wanted by this factor, nothing is begun to be kept for all of the measurement. */
const FEW_SHARE = 64
const ROWS = -1
/** Bytes of the entries for one answer, some five million values. */
const MOST_AT_ONCE = 128 << 20

type SegmentsEvent = Extract<FollowedEvent, { kind: 'segments' }>

interface NewestRequest {
  context: RelationContext
  snapshot: Snapshot
  measurement: MeasurementDef
  /** Of a type that `keeps` accepts; undefined: the newest rows, whatever fields they have. */
  field: FieldDef | undefined
  /** Ascending. */
  series: Int32Array
  /** Rows before it need not be known. */
  floor: bigint
  signal: AbortSignal | undefined
}

export class NewestCache {
  /** By measurement and field, in order of use. */
  private readonly entries = new Map<string, NewestEntry>()
  private readonly budget: number
  private held = 0
  private followed: WorkerState | undefined
  /** As of which event (`Snapshot.events`) segments are as they are now, as far as the cache has heard. */
  private segmentsSince = 0

  /** @param budget bytes. */
  constructor(budget: number) {
    this.budget = budget
  }

  /** Whether a field's values are kept: those of 64 bits or less. */
  static keeps({ type }: FieldDef): boolean {
    return type === 'float64' || type === 'int64' || type === 'uint64' || type === 'bool'
  }

  get bytes(): number {
    return this.held
  }

  /** Whether so many entries for a measurement of so many series can be kept together, and put into an answer in one turn of the thread. */
  hasRoomFor(entries: number, series: number): boolean {
    return entries * entryBytes(series) <= Math.min(this.budget, MOST_AT_ONCE)
  }

  /**
   * What is known as of the snapshot, without looking for anything; undefined when nothing is kept, when it is being looked for, when it is known as
   * of a later snapshot only, or when the snapshot is too old to begin with. Series may be UNKNOWN, and rows before the entry's `floor` are not in it.
   */
  now({ context, snapshot, measurement, field, series }: Omit<NewestRequest, 'signal' | 'floor'>): NewestEntry | undefined {
    const { state } = context
    this.follow(state)
    const key = keyOf(measurement.id, field)
    let entry = this.entries.get(key)
    if (entry === undefined) {
      const all = state.series.of(measurement.id).length
      if (series.length * FEW_SHARE < all || entryBytes(all) > this.budget) return undefined
      // Rows of memtables that went since would never be taken in, nor deletes that were done with.
      if (((snapshot.events - this.segmentsSince) | 0) < 0) return undefined
      entry = new NewestEntry(state, snapshot, measurement, field, NO_FLOOR)
    } else {
      if (entry.busy !== undefined || entry.isAhead(snapshot)) return undefined
      entry.advance(state, snapshot, measurement)
    }
    this.keep(key, entry)
    return entry
  }

  /**
   * As `now`, with all of the series wanted known from the floor on. @returns undefined when that is not to be had: the sources have to be read then. When the
   * caller goes on, another one may have brought it up to a later snapshot (`isAhead`); from there on it stays as it is for the rest of the turn.
   */
  async known(request: NewestRequest): Promise<NewestEntry | undefined> {
    const { context, snapshot, measurement, series, floor, signal } = request
    const busy = this.entries.get(keyOf(measurement.id, request.field))?.busy
    if (busy !== undefined) await busy
    const entry = this.now(request)
    if (entry === undefined) return undefined
    entry.lower(floor)
    const unknown = entry.unknown(series)
    if (unknown === undefined || unknown.length === 0) return unknown && entry
    const looking = entry.look(context, snapshot, measurement, unknown, signal)
    entry.busy = looking.then(settled, settled)
    try {
      await looking
    } catch (error) {
      // What cannot be read may have no part in the question.
      if (signal?.aborted) throw error
      return undefined
    } finally {
      entry.busy = undefined
    }
    return entry.gone ? undefined : entry
  }

  /** Forgets what is known of a measurement. */
  forget(measurement: number): void {
    for (const [key, entry] of this.entries) if (entry.measurement === measurement) this.drop(key, entry)
  }

  private follow(state: WorkerState): void {
    if (this.followed === state) return
    this.followed = state
    this.segmentsSince = state.applied
    state.follow((event) => {
      if (event.kind === 'segments') this.segmentsChange(state, event)
      else if (event.kind === 'cutoffs' || event.removed.length > 0) this.removalsGo(state)
    })
  }

  /**
   * Before the state has the change. What they masked is in no source any more, so that nobody hears of them again: an entry that no question has brought up to them
   * takes them in now, or it would keep what they have taken.
   */
  private removalsGo(state: WorkerState): void {
    for (const [key, entry] of this.entries) {
      if (!entry.lacks(state)) continue
      if (entry.busy !== undefined) this.drop(key, entry)
      else entry.lose(state, state.applied)
    }
  }

  /** Before the state has the change. */
  private segmentsChange(state: WorkerState, { added, removed, droppedMemtable }: SegmentsEvent): void {
    this.segmentsSince = state.applied
    if (this.entries.size === 0) return
    const gone = removed.length === 0 || added.length > 0 ? [] : removedOf(state, removed)
    const fromNowhere = removed.length === 0 && droppedMemtable < 0 ? new Set(added.map(({ table }) => table)) : undefined
    for (const [key, entry] of this.entries) {
      const def = state.measurements.get(entry.measurement)
      if (def === undefined || def.tables.some((table) => fromNowhere?.has(table))) {
        this.drop(key, entry)
        continue
      }
      if (droppedMemtable >= 0) this.memtableGoes(state, key, entry, droppedMemtable)
      // Their rows were masked; where they were not, the newest one has to be looked for.
      for (const segment of gone) {
        if (!def.tables.includes(segment.table)) continue
        if (entry.busy !== undefined) this.drop(key, entry)
        else entry.mark(BigInt(segment.minTime), BigInt(segment.maxTime))
      }
    }
  }

  /**
   * Its rows are in segments from now on. None of its memory may be looked at: it may be another memtable's already. So what was not taken in by a question is not
   * known any more.
   */
  private memtableGoes(state: WorkerState, key: string, entry: NewestEntry, id: number): void {
    const last = state.memtables.find((memtable) => memtable.id === id)
    if (last === undefined) return
    if (entry.hasWhole(last.sequence)) entry.forgetMemtable(id, state.applied)
    else this.drop(key, entry)
  }

  private keep(key: string, entry: NewestEntry): void {
    this.entries.delete(key)
    this.entries.set(key, entry)
    const { bytes } = entry
    this.held += bytes - entry.counted
    entry.counted = bytes
    // Not begun for nothing: a question may come through here for each of many thousand measurements, and the first entry lies behind all that were moved.
    if (this.held <= this.budget) return
    for (const [oldest, other] of this.entries) {
      if (this.held <= this.budget) break
      this.drop(oldest, other)
    }
  }

  private drop(key: string, entry: NewestEntry): void {
    entry.gone = true
    if (this.entries.delete(key)) this.held -= entry.counted
  }
}

/** Nothing is known yet. */
const NO_FLOOR = 2n ** 63n - 1n

function settled(): void {}

function keyOf(measurement: number, field: FieldDef | undefined): string {
  return `${measurement} ${field?.id ?? ROWS}`
}

function removedOf({ segments }: WorkerState, ids: readonly number[]): { table: number; minTime: string; maxTime: string }[] {
  const wanted = new Set(ids)
  return [...segments.values()].flatMap((list) => list.filter(({ id }) => wanted.has(id)))
}
