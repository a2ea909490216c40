/**
 * From an admitted batch to visible rows: log, then memtable, then the answer.
 *
 * Invariant: rows become visible only after their record is durable, in the order of the log.
 */
import type { WriteOptions, WriteResult } from 'svcdb'
import type { WriteBatch } from 'svcdb/lib/columns'
import { classify, type SvcError } from 'svcdb/lib/errors'
import { startSpan, traced } from 'svcdb/lib/trace'
import type { Wal } from '../../common/log/log.ts'
import { INT64_MIN, later } from '../../common/time.ts'
import type { Timers } from '../../common/timers.ts'
import type { Schema } from '../catalog/schema.ts'
import type { SchemaPublisher } from '../catalog/schema-publisher.ts'
import type { ChangeLog } from '../changes/change-log.ts'
import type { KeyRing } from '../encryption/keys.ts'
import type { Memtables } from '../memtable/memtables.ts'
import type { EngineMetrics } from '../metrics.ts'
import type { Interval } from '../read/sources.ts'
import { FIRST_HANDLE, type SeriesIndex } from '../series/series-index.ts'
import { EVER, type ResultCache } from '../threads/pool/result-cache.ts'
import { type ChangeRecord, encodeChange } from '../wal/change-record.ts'
import { type Definitions, encodeWrite } from '../wal/record.ts'
import type { Admission, Admitted } from './admission.ts'
import type { BatchPool } from './batch-pool.ts'
import type { Pressure } from './pressure.ts'
import type { Rotation } from './rotation.ts'
import type { Windows } from './windows.ts'

interface WritePathDependencies {
  admission: Admission
  batches: BatchPool
  windows: Windows
  memtables: Memtables
  wal: Wal
  rotation: Rotation
  /** Of encrypted fields; undefined when there are none. */
  keys: KeyRing | undefined
  schema: Schema
  index: SeriesIndex
  schemaPublisher: SchemaPublisher
  changes: ChangeLog
  results: Pick<ResultCache, 'changed' | 'changedEverywhere'>
  pressure: Pressure
  metrics: Pick<EngineMetrics, 'writeSlowdown'>
  timers: Timers
}

export class WritePath {
  /** Set when writes are refused: shutting down. */
  refusal: SvcError | undefined
  private lastApplied = 0
  /** Sequence of the newest record. */
  private lastSequence = 0
  /** Writes on their way through the log, and their namespaces, in its order. */
  private readonly inFlight = new Map<Admitted, string>()
  /** Bytes that the rows of these will take in the memtable, by namespace. */
  private readonly coming = new Map<string, number>()
  /** A byte a series, for `idle` and `named`; all 0 between two calls. */
  private busy = new Uint8Array(0)
  /** When provisional series were given back last: batches taken and handles given until then. */
  private last = { batches: 0, handles: FIRST_HANDLE }
  private readonly dependencies: WritePathDependencies

  constructor(dependencies: WritePathDependencies) {
    this.dependencies = dependencies
  }

  recycle(batch: WriteBatch): void {
    const { batches } = this.dependencies
    batches.returned(batch)
    batches.release(batch)
    this.giveBack()
  }

  write(batch: WriteBatch, options: WriteOptions): Promise<WriteResult> {
    const { admission, batches, windows, changes, memtables, metrics, timers } = this.dependencies
    batches.returned(batch)
    const refusal = this.refused(batch.namespace)
    if (refusal !== undefined) {
      batches.release(batch)
      this.giveBack()
      return Promise.reject(refusal)
    }
    const { namespace } = batch
    const backfill = options.backfill === true
    let admitted: Admitted
    try {
      admitted = traced('admission', () => admission.admit(batch, windows.of(namespace), options))
    } catch (error) {
      batches.release(batch)
      this.giveBack()
      return Promise.reject(classify(error))
    }
    const result: WriteResult = { written: admitted.rows, rejected: admitted.rejected, rejections: admitted.rejections }
    this.giveBack()
    if (admitted.rows === 0) {
      windows.forgetEmpty(namespace)
      batches.release(batch)
      return Promise.resolve(result)
    }
    const logged = startSpan('wal')
    return new Promise((resolve, reject) => {
      this.append(
        { namespace, heap: batch.heap.bytes, texts: batch.heap.length, backfill },
        admitted,
        (sequence) => {
          logged?.end()
          const kept = changes.written(sequence, admitted.tables, batch, backfill, () => batches.release(batch))
          const wait = memtables.slowdown * Math.min(LONGEST_WAIT_MS, batches.age(batch))
          if (!kept) batches.release(batch)
          if (wait === 0) return resolve(result)
          metrics.writeSlowdown.inc(wait / 1000)
          timers.setTimeout(() => resolve(result), wait)
        },
        (error) => {
          logged?.fail(error)
          logged?.end()
          batches.release(batch)
          reject(classify(error))
        },
      )
    })
  }

  /** Makes definitions of the namespace durable that come with no rows. */
  define(namespace: string, definitions: Definitions, undo: (() => void)[]): Promise<void> {
    const refusal = this.refused(namespace)
    if (refusal !== undefined) {
      for (const step of undo.reverse()) step()
      return Promise.reject(refusal)
    }
    const admitted: Admitted = {
      rows: 0,
      rejected: 0,
      rejections: [],
      tables: [],
      definitions,
      series: [],
      lastSeries: -1,
      times: EVER,
      newestBefore: undefined,
      undo,
    }
    return new Promise((resolve, reject) =>
      this.append(
        { namespace: '', heap: NO_HEAP, texts: 0, backfill: false },
        admitted,
        () => {
          this.dependencies.results.changed(namespace, EVER)
          resolve()
        },
        (error) => reject(classify(error)),
      ),
    )
  }

  /**
   * Makes a delete, a drop or another change of stored rows durable; `apply` takes effect in the order of the log, after every write before it.
   * @param undo takes back what the caller has changed already, when the change is refused: before anybody hears of it, and newest first, as writes are.
   * @param owners namespaces of the series that are given back.
   */
  change(change: ChangeRecord, apply: (sequence: number) => void, undo: () => void = () => {}, owners?: ReadonlySet<string>): Promise<void> {
    const refusal = this.fault
    if (refusal !== undefined) {
      undo()
      return Promise.reject(refusal)
    }
    const sequence = ++this.lastSequence
    const { wal, rotation } = this.dependencies
    return new Promise((resolve, reject) => {
      const failed = (error: Error): void => {
        undo()
        reject(classify(error))
      }
      try {
        wal.append(
          (out) => encodeChange(out, sequence, change),
          () => {
            apply(sequence)
            this.lastApplied = sequence
            this.forgetResults(change, owners)
            rotation.look()
            resolve()
          },
          failed,
        )
      } catch (error) {
        failed(error as Error) // it could not be encoded: the log has nothing of it
      }
    })
  }

  /** Results of questions that a change of stored rows touches. */
  private forgetResults(change: ChangeRecord, owners: ReadonlySet<string> | undefined): void {
    const { results, schema } = this.dependencies
    if (change.kind === 'retention') {
      const latest = change.own.reduce((time, [, cutoff]) => later(time, cutoff), change.general ?? INT64_MIN)
      results.changedEverywhere([INT64_MIN, latest])
    } else if (change.kind === 'release') for (const namespace of owners ?? []) results.changed(namespace, EVER)
    else {
      const namespace = schema.any(change.measurement)?.namespace
      const times: Interval = change.kind === 'delete' ? [change.start, change.end] : EVER
      if (namespace === undefined) results.changedEverywhere(times)
      else results.changed(namespace, times)
    }
  }

  /** Those of the series that batches in decoders' hands have rows of. */
  named(series: Int32Array): Int32Array {
    if (this.dependencies.batches.settled || series.length === 0) return NO_SERIES
    this.reserveBusy()
    this.markNamed(1)
    const named = series.filter((number) => this.busy[number] === 1)
    this.markNamed(0)
    return named
  }

  /** Those of the series, none of them `named`, that no write on its way has rows of, nor a memtable from `sequence` on. */
  idle(series: Int32Array, sequence: number): Int32Array {
    const { memtables } = this.dependencies
    const newer = memtables.all().filter((memtable) => memtable.sequence >= sequence)
    let without = series
    for (const memtable of newer) without = without.filter((number) => !memtable.has(number))
    if (this.inFlight.size === 0 || without.length === 0) return without
    this.reserveBusy()
    this.markInFlight(1)
    const idle = without.filter((number) => this.busy[number] === 0)
    this.markInFlight(0)
    return idle
  }

  private reserveBusy(): void {
    const { index } = this.dependencies
    if (this.busy.length < index.count) this.busy = new Uint8Array(index.measurement.length)
  }

  private markNamed(mark: 0 | 1): void {
    const { busy, dependencies } = this
    const { batches, index } = dependencies
    for (const { tables } of batches.open)
      for (const { rows, series } of tables)
        for (let row = 0; row < rows; row++) {
          const number = index.numberOf(series[row])
          if (number >= 0) busy[number] = mark
        }
  }

  private markInFlight(mark: 0 | 1): void {
    const { busy } = this
    for (const { tables } of this.inFlight.keys()) for (const { rows, series } of tables) for (let row = 0; row < rows; row++) busy[series[row]] = mark
  }

  /** The catalog, or a record of the log that was read back, says that this much was applied: numbers go on behind it. */
  continueAfter(sequence: number): void {
    this.lastSequence = Math.max(this.lastSequence, sequence)
    this.lastApplied = this.lastSequence
  }

  /** Sequence of the newest record of the log that has taken effect. */
  get applied(): number {
    return this.lastApplied
  }

  /** Time of the newest row of each namespace that has taken effect. */
  newestTimes(): Map<string, bigint> {
    return this.dependencies.windows.applied(this.inFlight)
  }

  /** Why nothing is written any more, until a restart. */
  get fault(): SvcError | undefined {
    const { wal, pressure } = this.dependencies
    return this.refusal ?? wal.poisoned ?? pressure.fault
  }

  private refused(namespace: string): SvcError | undefined {
    const { wal, memtables, pressure, rotation } = this.dependencies
    let coming = 0
    for (const bytes of this.coming.values()) coming += bytes
    // An empty cell has no bytes in the record.
    const memory = memtables.memory + Math.max(wal.waiting, coming)
    const held = memtables.heldMemory
    if (held > 0) memtables.needMemory(memory)
    const own = memtables.takenBy(namespace).memory + (this.coming.get(namespace) ?? 0)
    const refusal = this.fault ?? pressure.refusal({ memory, held, own }, namespace)
    // After a start nothing else may say that what was read back is to be flushed.
    if (refusal !== undefined && this.fault === undefined) rotation.look()
    return refusal
  }

  private append(
    { namespace, heap, texts, backfill }: { namespace: string; heap: Uint8Array; texts: number; backfill: boolean },
    admitted: Admitted,
    done: (sequence: number) => void,
    failed: (error: Error) => void,
  ): void {
    const { tables, definitions, series } = admitted
    const { wal, keys, index, schema, schemaPublisher, memtables, windows, batches, results, rotation } = this.dependencies
    const moving = definitions !== undefined && moves(definitions, schema)
    const sequence = ++this.lastSequence
    const bytes = memtables.bytesFor(tables) + texts
    this.inFlight.set(admitted, namespace)
    this.comes(namespace, bytes)
    const landed = (): void => {
      this.inFlight.delete(admitted)
      this.comes(namespace, -bytes)
    }
    const revoke = (error: Error): void => {
      landed()
      for (let i = admitted.undo.length - 1; i >= 0; i--) admitted.undo[i]()
      windows.forgetEmpty(namespace)
      this.giveBack()
      failed(error)
    }
    try {
      wal.append(
        (out) => encodeWrite(out, { sequence, definitions, series, tables, heap, backfill }, index, keys),
        () => {
          landed()
          // Here and not before the commit: records of the same commit may have rows in the table that is being left.
          if (moving || memtables.active.full) memtables.freeze(wal.file)
          if (definitions !== undefined) {
            schema.confirm(definitions)
            schemaPublisher.publish(definitions)
          }
          memtables.apply(namespace, tables, heap, admitted.lastSeries)
          this.lastApplied = sequence
          // What has no time, such as a new label or column, is part of the answer to a question about any.
          results.changed(namespace, admitted.times, definitions === undefined && series.length === 0 ? admitted.times : EVER)
          index.releaseProvisional(batches.settled)
          rotation.look()
          done(sequence)
        },
        revoke,
      )
    } catch (error) {
      revoke(error as Error) // it could not be encoded, for want of memory say: the log has nothing of it
    }
  }

  private comes(namespace: string, bytes: number): void {
    const total = (this.coming.get(namespace) ?? 0) + bytes
    if (total === 0) this.coming.delete(namespace)
    else this.coming.set(namespace, total)
  }

  /**
   * Gives back series and measurements that no admitted row names, once no decoder can hold them. While batches overlap series go that were named before
   * the oldest of them was taken: at most one of these times falls into the life of a batch.
   */
  giveBack(): void {
    const { index, schema, batches } = this.dependencies
    const { last } = this
    index.releaseProvisional(batches.settled)
    if (!batches.hasReturned(last.batches)) return
    this.last = { batches: batches.taken, handles: index.nextHandle }
    if (!batches.settled) index.dropUnnamed(last.handles, batches.open)
    else if (schema.releaseProvisional()) index.epoch++
  }
}

/** A write is answered later by this at most, for readers at work. */
const LONGEST_WAIT_MS = 1000

const NO_HEAP = new Uint8Array(0)
const NO_SERIES = new Int32Array(0)

/** Whether a measurement leaves the shared table: its series must then begin anew in a fresh memtable. */
export function moves(definitions: Definitions, schema: Schema): boolean {
  return (definitions.homes ?? []).some(({ measurement, table }) => {
    const known = schema.any(measurement)
    return known?.tables.some(({ id }) => id !== table) === true
  })
}
