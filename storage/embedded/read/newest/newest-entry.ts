/**
 * The newest rows of a measurement's series, kept up to date: what came to memtables since is taken in, what deletes and retention may have touched is
 * looked for again.
 *
 * Invariants
 * - A series that is KNOWN or NONE is right for the rows of all segments and of memtables up to `covered`, deletes and retention as of `removals`.
 * - Rows are taken in by the order of their memtables, so that of equal times the later write wins.
 * - Segments are made of rows that were taken in, or the entry goes (newest-cache.ts).
 */
import type { FieldDef, MeasurementDef } from '../../threads/definitions.ts'
import { ROW_BITS } from '../../threads/memtable-layout.ts'
import type { RetentionCutoffs, Tombstone } from '../../threads/removals.ts'
import type { MemtablePart, Snapshot, WorkerState } from '../../threads/state.ts'
import { contains, masksOf, type Removals } from '../masks.ts'
import { type RelationContext, sourcesOf } from '../relation.ts'
import { lowerBound } from '../samples/search.ts'
import type { Source } from '../sources.ts'
import { halves, KNOWN, keepOf, NewestRows, NONE, UNKNOWN } from './newest-rows.ts'
import { lookedAt, newestInSegment } from './segment-newest.ts'
import { SeriesSlots } from './series-slots.ts'

/** Beside its arrays. */
const ENTRY_BYTES = 512
/** State, time, value, and the place in the table of slots. */
const SLOT_BYTES = 1 + 8 + 8 + 8
const MAX_TIME = 2n ** 63n - 1n
const OFFSET = (1 << ROW_BITS) - 1
/** Of equal times those of memtables are the later writes. */
const MEMTABLE_ORDER = 0x7fffffff

export const entryBytes = (series: number): number => ENTRY_BYTES + series * SLOT_BYTES

export class NewestEntry {
  readonly measurement: number
  /** Undefined: of rows, whatever fields they have. */
  readonly field: FieldDef | undefined
  /** Ascending. */
  series: Int32Array
  rows: NewestRows
  /** Rows before it are not looked at. */
  floor: bigint
  /** As of which snapshot (`Snapshot.writes`, `Snapshot.events`). */
  writes: number
  events: number
  /** Something is looked for: it must not change meanwhile. */
  busy: Promise<void> | undefined
  gone = false
  /** Bytes that the cache has counted it with. */
  counted = 0
  private losses: number
  private slots: SeriesSlots | undefined
  /** By memtable and table, the address of the first row that was not taken in. */
  private readonly covered = new Map<number, Map<number, number>>()
  /** Of the memtables that rows were taken in from: those before it had taken their last row then. */
  private newestSequence = -1
  private tombstones: readonly Tombstone[] | undefined
  private cutoffs: RetentionCutoffs

  constructor(state: WorkerState, snapshot: Snapshot, { id, tables }: MeasurementDef, field: FieldDef | undefined, floor: bigint) {
    this.measurement = id
    this.field = field
    this.series = state.series.of(id)
    this.losses = state.series.lossesOf(id)
    this.rows = new NewestRows(this.series.length, UNKNOWN)
    this.floor = floor
    this.writes = snapshot.writes
    this.events = snapshot.events
    this.tombstones = snapshot.tombstones.get(id)
    this.cutoffs = snapshot.cutoffs
    for (const table of tables) for (const part of snapshot.table(table).memtables) this.cover(part.memtable, table, endOf(part))
  }

  get bytes(): number {
    return entryBytes(this.rows.states.length)
  }

  /** Whether it knows of more than the snapshot has. */
  isAhead(snapshot: Snapshot): boolean {
    return ((snapshot.writes - this.writes) | 0) < 0 || ((snapshot.events - this.events) | 0) < 0
  }

  /** Takes in what came up to a snapshot that it is not ahead of. */
  advance(state: WorkerState, snapshot: Snapshot, def: MeasurementDef): void {
    this.follow(state)
    this.removed(snapshot)
    const parts = def.tables.flatMap((table) => snapshot.table(table).memtables.map((part) => ({ table, part })))
    this.take(snapshot, def, parts)
    this.writes = snapshot.writes
    this.events = snapshot.events
  }

  /** Whether all rows that a memtable will ever have were taken in. */
  hasWhole(sequence: number): boolean {
    return sequence < this.newestSequence
  }

  /** Snapshots from before this event still have it. */
  forgetMemtable(id: number, events: number): void {
    if (this.covered.delete(id)) this.events = events
  }

  /** Whether there are deletes or cutoffs that it was not brought up to. */
  lacks({ tombstones, cutoffs }: Removals): boolean {
    if (cutoffs !== this.cutoffs) return true
    const own = tombstones.get(this.measurement) ?? []
    if (own === this.tombstones || own.length === 0) return false
    const known = new Set(this.tombstones)
    return own.some((one) => !known.has(one))
  }

  /** Is brought up to them alone. Snapshots from before this event may be of a time before them. */
  lose(removals: Removals, events: number): void {
    this.removed(removals)
    this.events = events
  }

  /** Series whose newest row is among these times are to be looked for again. Inclusive; all when `series` is undefined. */
  mark(start: bigint, end: bigint, series?: Int32Array): void {
    const { rows } = this
    const [startLow, startHigh] = halves(start)
    const [endLow, endHigh] = halves(end)
    for (let slot = 0; slot < this.series.length; slot++) {
      if (rows.states[slot] !== KNOWN || rows.compare(slot, startLow, startHigh) < 0 || rows.compare(slot, endLow, endHigh) > 0) continue
      if (series === undefined || contains(series, this.series[slot])) rows.states[slot] = UNKNOWN
    }
  }

  /** Rows from `floor` on are looked at from now on. */
  lower(floor: bigint): void {
    if (floor >= this.floor) return
    this.floor = floor
    const { states } = this.rows
    for (let slot = 0; slot < states.length; slot++) if (states[slot] === NONE) states[slot] = UNKNOWN
  }

  /** Those of the series wanted (ascending) that are not known; undefined when one was given back since it was chosen. */
  unknown(wanted: Int32Array): Int32Array | undefined {
    const { states } = this.rows
    const out = new Int32Array(wanted.length)
    let n = 0
    let met = 0
    this.each(wanted, (slot, i) => {
      met++
      if (states[slot] === UNKNOWN) out[n++] = wanted[i]
    })
    return met === wanted.length ? out.subarray(0, n) : undefined
  }

  /** Calls back with the slot of each series wanted, in order. */
  each(wanted: Int32Array, visit: (slot: number, position: number) => void): void {
    const { series } = this
    if (wanted.length === series.length && wanted[0] === series[0] && wanted[wanted.length - 1] === series[series.length - 1]) {
      for (let i = 0; i < wanted.length; i++) visit(i, i)
      return
    }
    let slot = 0
    for (let i = 0; i < wanted.length; i++) {
      slot = lowerBound(series, wanted[i], slot)
      if (slot < series.length && series[slot] === wanted[i]) visit(slot, i)
    }
  }

  /** Looks for the newest rows of these series (ascending) in the snapshot that it was last brought up to. */
  async look(context: RelationContext, snapshot: Snapshot, def: MeasurementDef, wanted: Int32Array, signal: AbortSignal | undefined): Promise<void> {
    const { field, floor } = this
    const rows = new NewestRows(wanted.length, NONE)
    const orders = new Int32Array(wanted.length).fill(-1)
    const sources = sourcesOf(context.state, snapshot, def, [floor, MAX_TIME], wanted)
    let slots: SeriesSlots | undefined
    const slotsOf = (): SeriesSlots => (slots ??= new SeriesSlots(wanted))
    for (const { memtable, masks } of sources) {
      if (memtable === undefined) continue
      const { part, linked } = memtable
      rows.take({ part, from: 0, linked, floor, keep: keepOf(masks) }, wanted, slotsOf, field?.id)
    }
    for (let i = 0; i < wanted.length; i++) if (rows.states[i] === KNOWN) orders[i] = MEMTABLE_ORDER
    const segments = sources.map((source, order) => ({ source, order })).filter(({ source }) => isWorthReading(source, field))
    segments.sort((a, b) => (a.source.maxTime > b.source.maxTime ? -1 : a.source.maxTime < b.source.maxTime ? 1 : b.order - a.order))
    for (const { source, order } of segments) {
      for (const [lo, hi] of lookedAt(source, floor)) {
        const left = unsettled(rows, wanted, hi)
        if (left.series.length === 0) break
        const from = left.from > lo ? left.from : lo
        await newestInSegment({ context, field, signal }, source, [from, hi], left.series, (number, low, high, valueLow, valueHigh) => {
          const slot = slotsOf().of(number)
          if (slot < 0) return
          const compared = rows.compare(slot, low, high)
          if (compared > 0 || (compared === 0 && order < orders[slot])) return
          rows.set(slot, low, high, valueLow, valueHigh)
          orders[slot] = order
        })
      }
    }
    this.each(wanted, (slot, i) => this.rows.copy(slot, rows, i))
  }

  private take(removals: Removals, { id, tables }: MeasurementDef, parts: readonly { table: number; part: MemtablePart }[]): void {
    const ordered = [...parts].sort((a, b) => a.part.memtable.sequence - b.part.memtable.sequence)
    for (const { table, part } of ordered) {
      const { memtable, minTime, maxTime } = part
      const from = this.covered.get(memtable.id)?.get(table) ?? 0
      const end = endOf(part)
      if (end <= from) continue
      const masks = masksOf(removals, id, { sequence: memtable.sequence, cleared: 0, minTime, maxTime }, undefined)
      const linked = tables.filter((other) => memtable.tables.has(other)).length === 1
      const keep = keepOf(masks)
      this.rows.take({ part, from, linked, floor: this.floor, keep }, this.series, () => (this.slots ??= new SeriesSlots(this.series)), this.field?.id)
      this.cover(memtable, table, end)
    }
  }

  private cover({ id, sequence }: MemtablePart['memtable'], table: number, end: number): void {
    if (sequence > this.newestSequence) this.newestSequence = sequence
    const tables = this.covered.get(id)
    if (tables === undefined) this.covered.set(id, new Map([[table, end]]))
    else tables.set(table, end)
  }

  /** New series have no rows among those that were taken in. */
  private follow({ series: view }: WorkerState): void {
    const list = view.of(this.measurement)
    const losses = view.lossesOf(this.measurement)
    if (losses === this.losses && list.length === this.series.length) return
    const room = Math.max(list.length, losses === this.losses ? Math.min(this.series.length * 2, list.length + (list.length >> 2)) : 0)
    const before = this.rows
    if (losses !== this.losses) {
      const rows = new NewestRows(room, NONE)
      for (let i = 0, j = 0; i < list.length && j < this.series.length; ) {
        if (list[i] === this.series[j]) rows.copy(i++, before, j++)
        else if (list[i] < this.series[j]) i++
        else j++
      }
      this.rows = rows
    } else if (list.length > before.states.length) {
      const rows = new NewestRows(room, NONE)
      rows.states.set(before.states)
      rows.times.set(before.times)
      rows.bits.set(before.bits)
      this.rows = rows
    }
    this.series = list
    this.losses = losses
    this.slots = undefined
  }

  private removed(removals: Removals): void {
    const tombstones = removals.tombstones.get(this.measurement)
    if (tombstones !== this.tombstones) {
      const known = new Set(this.tombstones)
      for (const one of tombstones ?? []) if (!known.has(one)) this.mark(one.start, one.end, one.series ?? undefined)
      this.tombstones = tombstones
    }
    const { cutoffs } = removals
    if (cutoffs !== this.cutoffs) {
      for (const { cutoff } of [...cutoffs.general.filter(({ except }) => !except.has(this.measurement)), ...(cutoffs.own.get(this.measurement) ?? [])])
        this.mark(-(2n ** 63n), cutoff - 1n)
      this.cutoffs = cutoffs
    }
  }
}

/** The address behind the last row of a part. */
function endOf({ chunks, counts }: MemtablePart): number {
  for (let c = chunks.length - 1; c >= 0; c--) {
    if (counts[c] > OFFSET) return (c + 1) << ROW_BITS
    if (counts[c] > 0) return (c << ROW_BITS) | counts[c]
  }
  return 0
}

function isWorthReading({ segment }: Source, field: FieldDef | undefined): boolean {
  return segment !== undefined && (field === undefined || segment.columns.some((column) => column.field === field.id))
}

/** Series that may have a newer row up to `time` than the one found, and the time from which on one would be. */
function unsettled(rows: NewestRows, wanted: Int32Array, time: bigint): { series: Int32Array; from: bigint } {
  const [low, high] = halves(time)
  const out = new Int32Array(wanted.length)
  let n = 0
  let from: number | undefined
  for (let i = 0; i < wanted.length; i++) {
    if (rows.compare(i, low, high) > 0) continue
    out[n++] = wanted[i]
    if (rows.states[i] !== KNOWN) from = -1
    else if (from === undefined || (from >= 0 && rows.compare(from, rows.times[i * 2], rows.times[i * 2 + 1]) > 0)) from = i
  }
  return { series: out.subarray(0, n), from: from === undefined || from < 0 ? -(2n ** 63n) : rows.timeAt(from) }
}
