/**
 * From an admitted batch to visible rows: log, then memtable, then the answer. Owns the memtables and decides when one is frozen.
 *
 * Invariants
 * - Rows become visible only after their record is durable, in the order of the log.
 * - A memtable and the log files with its rows begin together (`firstWal`): files below the oldest memtable's are not needed.
 */
import type { SeriesResolver, StorageContext, WriteOptions, WriteResult } from 'svcdb'
import { WriteBatch } from 'svcdb/lib/columns'
import { classify, type SvcError } from 'svcdb/lib/errors'
import type { AdmissionCutoffs } from '../../common/lifetime.ts'
import type { Limits } from '../../common/limits.ts'
import type { Schema, Table } from '../catalog/schema.ts'
import { Unstored } from '../catalog/unstored.ts'
import type { DatabaseConfig } from '../config.ts'
import type { KeyRing } from '../encryption/keys.ts'
import { Memtable, SeriesTimes } from '../memtable/memtable.ts'
import type { SeriesIndex } from '../series/series-index.ts'
import { type FieldDef, Shared, Summary } from '../threads/layout.ts'
import type { Publisher } from '../threads/publisher.ts'
import { encodeChange, type LifetimeChange } from '../wal/change-record.ts'
import type { LateSeries } from '../wal/late-series.ts'
import { type Definitions, encodeWrite, type TableRows, type WriteRecord } from '../wal/record.ts'
import type { Wal } from '../wal/wal.ts'
import { Admission, type Admitted } from './admission.ts'
import type { Changes } from './changes.ts'
import type { Pressure } from './pressure.ts'
import { Windows } from './windows.ts'

/** Batches kept for reuse. */
const POOLED = 16

export interface WritePathParts {
  config: DatabaseConfig
  limits: Limits
  log: StorageContext['log']
  now(): number
  shared: Int32Array
  schema: Schema
  index: SeriesIndex
  publisher: Publisher
  changes: Changes
  resolver: SeriesResolver
  pressure: Pressure
  /** A memtable has been frozen. */
  frozen(): void
  /** First times that retention lets a write carry. */
  cutoffs(): AdmissionCutoffs
  /** A change of what lives was read from the log. */
  replayed(change: LifetimeChange, file: number): void
}

export class WritePath {
  readonly times = new SeriesTimes()
  readonly windows: Windows
  /** What the catalog does not have yet. */
  readonly unstored = new Unstored()
  active!: Memtable
  frozen: Memtable[] = []
  nextSequence = 1
  wal!: Wal
  /** Of encrypted fields; absent when there are none. */
  keys: KeyRing | undefined
  /** Set when writes are refused: shutting down. */
  refusal: SvcError | undefined
  /** Sequence of the newest record of the log that has taken effect. */
  applied = 0
  private walSequence = 0
  private rotating = false
  private pool: WriteBatch[] = []
  /** Batches in the hands of decoders. */
  private outstanding = 0
  /** Writes on their way through the log, and their namespaces, in its order. */
  private readonly inFlight = new Map<Admitted, string>()
  /** A byte a series, for `idle`; all 0 between two calls. */
  private busy = new Uint8Array(0)
  private readonly parts: WritePathParts
  private readonly admission: Admission

  constructor(parts: WritePathParts) {
    this.parts = parts
    this.windows = new Windows(parts.limits)
    const { max_new_definitions_per_write: definitions, max_new_series_per_write: series } = parts.config
    this.admission = new Admission(parts.schema, parts.index, parts.limits, { definitions, series })
  }

  batch(namespace: string): WriteBatch {
    this.outstanding++
    const batch = this.pool.pop() ?? new WriteBatch(this.parts.resolver)
    batch.namespace = namespace
    return batch
  }

  recycle(batch: WriteBatch): void {
    this.outstanding--
    this.release(batch)
    this.giveBack()
  }

  write(batch: WriteBatch, options: WriteOptions): Promise<WriteResult> {
    this.outstanding--
    const refusal = this.refused()
    if (refusal !== undefined) {
      this.release(batch)
      this.giveBack()
      return Promise.reject(refusal)
    }
    const { namespace } = batch
    const window = this.windows.of(namespace)
    let admitted: Admitted
    try {
      admitted = this.admission.admit(batch, window, options, this.parts.now(), this.parts.cutoffs())
    } catch (error) {
      this.release(batch)
      this.giveBack()
      return Promise.reject(classify(error))
    }
    const result: WriteResult = { written: admitted.rows, rejected: admitted.rejected, rejections: admitted.rejections }
    this.giveBack()
    if (admitted.rows === 0) {
      this.windows.forgetEmpty(namespace)
      this.release(batch)
      return Promise.resolve(result)
    }
    return new Promise((resolve, reject) => {
      this.append(
        namespace,
        admitted,
        batch.heap.bytes,
        () => {
          const kept = this.parts.changes.written(namespace, admitted.tables, batch.heap.bytes, options.backfill === true)
          if (!kept) this.release(batch)
          resolve(result)
        },
        (error) => {
          this.release(batch)
          reject(classify(error))
        },
      )
    })
  }

  /** Makes definitions durable that come with no rows. */
  define(definitions: Definitions, undo: (() => void)[]): Promise<void> {
    const refusal = this.refused()
    if (refusal !== undefined) {
      for (const step of undo.reverse()) step()
      return Promise.reject(refusal)
    }
    const admitted: Admitted = { rows: 0, rejected: 0, rejections: [], tables: [], definitions, series: [], lastSeries: -1, newestBefore: undefined, undo }
    return new Promise((resolve, reject) => this.append('', admitted, NO_HEAP, resolve, (error) => reject(classify(error))))
  }

  /** Makes a change of what lives durable; `apply` takes effect in the order of the log, after every write before it. */
  change(change: LifetimeChange, apply: () => void): Promise<void> {
    const refusal = this.fault
    if (refusal !== undefined) return Promise.reject(refusal)
    const sequence = ++this.walSequence
    return new Promise((resolve, reject) =>
      this.wal.append(
        (out) => encodeChange(out, sequence, change),
        () => {
          apply()
          this.applied = sequence
          this.afterApply()
          resolve()
        },
        (error) => reject(classify(error)),
      ),
    )
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

  private holds(memtable: Memtable, measurement: number, series: Int32Array | null): boolean {
    const { rows, tables } = memtable
    if (rows === 0) return false
    const { schema, index } = this.parts
    if (series !== null) return memtable.hasAny(series)
    for (const { id, measurement: owner } of schema.any(measurement)?.tables ?? []) {
      if ((tables.get(id)?.rows ?? 0) === 0) continue
      if (owner === measurement || memtable.ownerless) return true
      const { members } = index
      if (memtable.hasAny(members.take(members.walk(measurement), members.count(measurement)))) return true
    }
    return false
  }

  /** No batch is in a decoder's hands. */
  get settled(): boolean {
    return this.outstanding === 0
  }

  /**
   * Those of the series that nobody can write to any more under their numbers, and that have no rows in memtables from `sequence` on; none while
   * batches are in decoders' hands.
   */
  idle(series: Int32Array, sequence: number): Int32Array {
    if (this.outstanding > 0) return NO_SERIES
    const memtables = [...this.frozen, this.active].filter((memtable) => memtable.sequence >= sequence)
    let without = series
    for (const memtable of memtables) without = without.filter((number) => !memtable.has(number))
    if (this.inFlight.size === 0 || without.length === 0) return without
    if (this.busy.length < this.parts.index.count) this.busy = new Uint8Array(this.parts.index.measurement.length)
    this.markInFlight(1)
    const idle = without.filter((number) => this.busy[number] === 0)
    this.markInFlight(0)
    return idle
  }

  private markInFlight(mark: 0 | 1): void {
    const { busy } = this
    for (const { tables } of this.inFlight.keys()) for (const { rows, series } of tables) for (let row = 0; row < rows; row++) busy[series[row]] = mark
  }

  /** Numbers go on behind this one: what the catalog says was applied. */
  continueAfter(sequence: number): void {
    this.walSequence = sequence
    this.applied = sequence
  }

  /** Puts a record of the log back. @param late as in `SeriesIndex.restore`. */
  restore(record: WriteRecord, file: number, late: () => LateSeries): void {
    const { schema, index } = this.parts
    this.walSequence = Math.max(this.walSequence, record.sequence)
    this.applied = this.walSequence
    if (record.change !== undefined) return this.parts.replayed(record.change, file)
    if (this.active.full) this.freeze(file)
    if (record.definitions !== undefined) {
      if (moves(record.definitions, schema)) this.freeze(file)
      schema.apply(record.definitions)
      this.defined(record.definitions)
    }
    for (const { series, measurement, tags } of record.series) {
      if (schema.any(measurement) === undefined) index.restoreGone(series, late)
      else index.restore(series, measurement, tags, late)
    }
    // A table that a later drop takes away, of which the catalog knows already.
    const tables = record.tables.filter(({ table }) => schema.tables[table] !== undefined || !schema.goneTables.has(table))
    let lastSeries = -1
    for (const table of tables) for (let row = 0; row < table.rows; row++) if (table.series[row] > lastSeries) lastSeries = table.series[row]
    for (const table of tables) {
      const { fields } = this.table(table.table)
      table.fields = table.fields.map(({ id }) => (fields[id]?.id === id ? fields[id] : (fields.find((field) => field.id === id) as FieldDef)))
      const owned = this.windows.see(
        table,
        (number) => index.measurementOf(number),
        (id) => schema.any(id)?.namespace,
      )
      // Deleted later in the log: a delete that comes before must reach these rows too.
      if (!owned) this.active.ownerless = true
    }
    this.apply(this.namespaceOf(tables), tables, record.heap, lastSeries)
    if (this.active.bytes >= this.parts.config.memtable_flush_threshold) this.freeze(file)
  }

  /** Ends the active memtable; the next one's first rows may be in log file `file`. */
  freeze(file: number): void {
    if (this.active.rows === 0) return
    this.frozen.push(this.active)
    this.start(file)
    this.parts.frozen()
  }

  start(file: number): void {
    const sequence = this.nextSequence++
    this.times.rebase()
    this.active = new Memtable(sequence, sequence, file, this.parts.index.measurement.length, (event) => this.parts.publisher.tell(event))
  }

  /** Freezes what is there and resolves when no write is in flight any more before it. @throws STORAGE_FULL when there is no space for a new log file. */
  rotate(): Promise<void> {
    return new Promise((resolve, reject) =>
      this.wal.barrier(() => {
        const error = this.rotateNow(true)
        if (error === undefined) resolve()
        else reject(classify(error))
      }),
    )
  }

  /** Bytes of all memtables. */
  get memory(): number {
    return this.frozen.reduce((sum, memtable) => sum + memtable.allocated, this.active.allocated)
  }

  /** Time of the newest row of each namespace that has taken effect. */
  newestTimes(): Map<string, bigint> {
    return this.windows.applied(this.inFlight)
  }

  /** Why nothing is written any more, until a restart. */
  get fault(): SvcError | undefined {
    return this.refusal ?? this.wal.poisoned ?? this.parts.pressure.fault
  }

  private refused(): SvcError | undefined {
    return this.fault ?? this.parts.pressure.refusal(this.memory + this.wal.waiting)
  }

  private append(namespace: string, admitted: Admitted, heap: Uint8Array, done: () => void, failed: (error: Error) => void): void {
    const { tables, definitions, series } = admitted
    const { index } = this.parts
    const moving = definitions !== undefined && moves(definitions, this.parts.schema)
    const sequence = ++this.walSequence
    this.inFlight.set(admitted, namespace)
    const revoke = (error: Error): void => {
      this.inFlight.delete(admitted)
      for (let i = admitted.undo.length - 1; i >= 0; i--) admitted.undo[i]()
      this.windows.forgetEmpty(namespace)
      this.giveBack()
      failed(error)
    }
    try {
      this.wal.append(
        (out) => encodeWrite(out, { sequence, definitions, series, tables, heap }, index, this.keys),
        () => {
          this.inFlight.delete(admitted)
          // Here and not before the commit: records of the same commit may have rows in the table that is being left.
          if (moving || this.active.full) this.freeze(this.wal.file)
          if (definitions !== undefined) {
            this.parts.schema.confirm(definitions)
            this.defined(definitions)
          }
          this.apply(namespace, tables, heap, admitted.lastSeries)
          this.applied = sequence
          index.releaseProvisional(this.settled)
          this.afterApply()
          done()
        },
        revoke,
      )
    } catch (error) {
      revoke(error as Error) // it could not be encoded, for want of memory say: the log has nothing of it
    }
  }

  private apply(namespace: string | undefined, tables: TableRows[], heap: Uint8Array, lastSeries: number): void {
    if (tables.length === 0) return
    const { shared, index } = this.parts
    index.publish(lastSeries)
    this.active.ensureSeries(lastSeries)
    this.times.ensure(lastSeries)
    const { active } = this
    const before = active.bytes
    Atomics.add(shared, Shared.SEQ, 1)
    for (const rows of tables) {
      const table = this.parts.schema.tables[rows.table]
      // Its measurement was dropped while the write was on its way.
      if (table === undefined && this.parts.schema.goneTables.has(rows.table)) continue
      if (table === undefined) throw undefinedTable(rows.table)
      active.append(table.id, rows, heap, table.fields, rows.fields, this.times)
    }
    Atomics.add(shared, Shared.SEQ, 1)
    if (namespace !== undefined) active.bytesOf.set(namespace, (active.bytesOf.get(namespace) ?? 0) + active.bytes - before)
  }

  private afterApply(): void {
    const { config } = this.parts
    if (this.rotating) return
    const full = this.active.bytes >= config.memtable_flush_threshold
    if (full) this.requestRotation(true)
    else if (this.wal.length >= config.wal_max_file_size) this.requestRotation(this.wal.file - this.active.firstWal + 1 >= config.wal_max_unflushed)
  }

  private requestRotation(freeze: boolean): void {
    if (this.rotating && !freeze) return
    this.rotating = true
    this.wal.barrier(() => {
      this.rotating = false
      this.rotateNow(freeze)
    })
  }

  private rotateNow(freeze: boolean): unknown {
    if (this.active.rows === 0 && freeze && this.wal.length < this.parts.config.wal_max_file_size) return undefined
    try {
      this.wal.openFile(this.wal.file + 1)
    } catch (error) {
      // The disk is full or failing: go on with the file there is, the next write says why.
      this.parts.log.warn({ err: error }, 'cannot start a new log file')
      return error
    }
    if (freeze) this.freeze(this.wal.file)
    return undefined
  }

  private defined(definitions: Definitions): void {
    const { schema, publisher } = this.parts
    const measurements = new Set([
      ...(definitions.measurements ?? []).map((d) => d.id),
      ...(definitions.fields ?? []).map((d) => d.measurement),
      ...(definitions.homes ?? []).map((d) => d.measurement),
    ])
    const tables = new Set([...(definitions.tables ?? []).map((d) => d.id), ...(definitions.sharedFields ?? []).map((d) => d.table)])
    for (const id of measurements) {
      const home = schema.any(id)?.durableTables.at(-1)
      if (home !== undefined && home.measurement >= 0) tables.add(home.id)
    }
    for (const id of tables) {
      const table = schema.tables[id]
      if (table === undefined) continue // its measurement was dropped while the write was on its way
      this.unstored.mark('table', id)
      publisher.tell({ kind: 'table', def: table.def() })
    }
    for (const id of measurements) {
      this.unstored.mark('measurement', id)
      // Also one whose drop is on its way: should that fail, it goes on.
      const measurement = schema.any(id)
      if (measurement !== undefined) publisher.tell({ kind: 'measurement', def: measurement.def() })
    }
  }

  /** Whose rows a record of the log has: that of its first measurement that is still there. */
  private namespaceOf(tables: readonly TableRows[]): string | undefined {
    const { schema, index } = this.parts
    for (const { rows, series } of tables)
      for (let row = 0; row < rows; row++) {
        const owner = schema.any(index.measurementOf(series[row]))
        if (owner !== undefined) return owner.namespace
      }
    return undefined
  }

  /** Bytes that rows of a namespace take in memtables. */
  bytesOf(namespace: string): number {
    return [...this.frozen, this.active].reduce((sum, memtable) => sum + (memtable.bytesOf.get(namespace) ?? 0), 0)
  }

  /** Nothing of the namespace is left. */
  forget(namespace: string): void {
    for (const memtable of [...this.frozen, this.active]) memtable.bytesOf.delete(namespace)
  }

  private table(id: number): Table {
    const table = this.parts.schema.tables[id]
    if (table === undefined) throw undefinedTable(id)
    return table
  }

  private release(batch: WriteBatch): void {
    batch.reset()
    if (this.pool.length < POOLED) this.pool.push(batch)
  }

  /** Gives back series and measurements that no admitted row names, once no decoder can hold them. */
  private giveBack(): void {
    const { index, schema } = this.parts
    index.releaseProvisional(this.settled)
    if (this.settled && schema.releaseProvisional()) index.epoch++
  }
}

const NO_HEAP = new Uint8Array(0)
const NO_SERIES = new Int32Array(0)
const undefinedTable = (id: number): Error => new Error(`table ${id} is not defined`)

/** Whether a measurement leaves the shared table: its series must then begin anew in a fresh memtable. */
function moves(definitions: Definitions, schema: Schema): boolean {
  return (definitions.homes ?? []).some(({ measurement, table }) => {
    const known = schema.any(measurement)
    return known?.tables.some(({ id }) => id !== table) === true
  })
}
