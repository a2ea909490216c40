/**
 * What change cursors read: the newest records in memory, those before them out of the log.
 *
 * Invariants
 * - A record is shown when it is durable and has taken effect, in the order of the log; what is shown comes back after any restart, so that a place of a cursor
 *   always means the same records.
 * - `entries` has every record behind `from` that tells of something that a cursor wants. Rows stay in the buffers of their write, which are used again when the record has left;
 *   those of small writes are copied. More than `capacity` rows, or KIB_PER_ROW for each of them, are never held beside what cursors are looking at.
 * - Without a cursor nothing is done and nothing is kept.
 */
import type { Change, ChangeCursor, ChangePosition, ChangeRequest } from 'svcdb'
import type { WriteBatch } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import { type Place, placeOf, positionOf, reaches, WHOLE } from '../../common/change-places.ts'
import type { ChangeRecord } from '../wal/change-record.ts'
import type { TableRows } from '../wal/record.ts'
import { Cursor } from './cursor.ts'
import { LogReader, type LogReaderOptions, learnNames, startOf } from './log-reader.ts'
import type { ChangeNames, MeasurementName } from './names.ts'
import { copied, sizesOf } from './rows.ts'

const BYTES_PER_ROW = 1024
/** Buffers that a write leaves unused up to this much are not worth a copy. */
const SLACK = 1 << 16

/** A record that tells of something. */
export type Entry = RowsEntry | OtherEntry

export interface RowsEntry {
  sequence: number
  tables: TableRows[]
  heap: Uint8Array
  backfill: boolean
  rows: number
  bytes: number
  /** Cursors that look at it. */
  users: number
  /** Not in memory for others any more. */
  left: boolean
  /** Gives the buffers back. */
  release(): void
}

/** A delete, drop or restore, told once. */
export interface OtherEntry {
  sequence: number
  tables: undefined
  owner: MeasurementName
  change: Told
  rows: 1
  bytes: number
}

type Told = Extract<ChangeRecord, { kind: 'delete' | 'drop' | 'restore' }>

interface ChangeLogOptions extends LogReaderOptions {
  history: string
  /** Rows, and other changes, in memory. */
  capacity: number
  /** Sequence of the newest record that has taken effect. */
  applied(): number
  /** Whether what has taken effect may not be durable yet: `synced` says when it is. */
  late: boolean
  /** The first file that the start has read back. */
  floor: number
}

export class ChangeLog {
  readonly history: string
  private readonly reads = new Set<Promise<unknown>>()
  readonly names: ChangeNames
  private readonly options: ChangeLogOptions
  private entries: Entry[] = []
  /** All records behind this sequence are in `entries`, but for those that no cursor wanted when they came. */
  private from = 0
  /** Sequence of the newest of these: to a cursor that comes later memory is complete behind it only. */
  skipped = 0
  private rows = 0
  private bytes = 0
  /** What a sync that is under way, and the last that has ended, cover. */
  private syncing = 0
  private durable = 0
  private readonly cursors = new Set<Cursor>()
  private closed = false
  private learned: Promise<void> | undefined

  constructor(options: ChangeLogOptions) {
    this.options = options
    this.history = options.history
    this.names = options.names
    const { logs, names } = options
    names.following = logs.followed
    logs.unfollowed = () => {
      names.following = false
      names.forget()
    }
  }

  open(request: ChangeRequest): ChangeCursor {
    if (this.closed) throw new SvcError('DATABASE_CLOSED', 'the database is closed; retry after the restart')
    const asked = request.after === undefined ? undefined : placeOf(request.after)
    if (this.cursors.size === 0) this.from = this.options.applied()
    const cursor = new Cursor(this, request, asked)
    if (request.signal?.aborted === true) return cursor
    this.cursors.add(cursor)
    this.options.logs.follow()
    this.names.following = true
    return cursor
  }

  ended(cursor: Cursor): void {
    if (this.cursors.delete(cursor)) this.options.logs.unfollow()
    this.trim()
  }

  /** @returns whether the batch is kept: it is given back later. @param release gives it back. */
  written(sequence: number, tables: TableRows[], { heap }: WriteBatch, backfill: boolean, release: () => void): boolean {
    if (!this.isWanted(sequence, tables)) {
      this.skipped = sequence
      return false
    }
    const { held, needed } = sizesOf(tables, heap.bytes)
    const small = held > 4 * (needed + heap.length) + SLACK
    const kept = small ? copied(tables, heap.bytes, heap.length) : { tables, heap: heap.bytes }
    const rows = tables.reduce((sum, table) => sum + table.rows, 0)
    const bytes = small ? needed + heap.length : held
    this.add({ sequence, ...kept, backfill, rows, bytes, users: 0, left: false, release: small ? () => {} : release })
    return !small
  }

  /** A delete, drop or restore has taken effect. */
  changed(sequence: number, owner: MeasurementName, change: Told): void {
    if (this.cursors.size === 0) {
      this.skipped = sequence
      return
    }
    const bytes = change.kind === 'delete' ? (change.series?.byteLength ?? 0) : 0
    this.add({ sequence, tables: undefined, owner, change, rows: 1, bytes })
  }

  /** The log was read back: all of it is durable. */
  begin(): void {
    this.durable = this.options.applied()
    this.names.begun = true
  }

  /** A sync of the log begins, and has ended well. */
  syncBegins(): void {
    this.syncing = this.options.applied()
  }

  synced(): void {
    this.durable = Math.max(this.durable, this.syncing)
    if (this.options.late) this.wake(this.ready)
  }

  /** Sequence up to which records may be shown. */
  get ready(): number {
    return this.options.late ? this.durable : this.options.applied()
  }

  get applied(): number {
    return this.options.applied()
  }

  /**
   * The least sequence that a cursor can go on behind: in a file of the log, or in memory, which may have what the files no longer do.
   * @param complete behind which memory is complete to the cursor.
   */
  async oldest(complete: number): Promise<number> {
    const { logs, floor } = this.options
    // What series were that an earlier process gave back: no start has read those files.
    this.learned ??= learnNames(floor, this.options).catch((error) => {
      this.learned = undefined // the next one tries again
      throw error
    })
    await this.learned
    for (const file of logs.files()) {
      const start = await startOf(file, this.options).catch(() => undefined)
      if (start !== undefined) return Math.min(start, Math.max(this.from, complete))
    }
    return Math.min(this.ready, Math.max(this.from, complete))
  }

  /** Where to go on behind a file that cannot be read further. */
  async behindFile(number: number): Promise<number> {
    const start = this.options.logs.files().includes(number + 1) ? await startOf(number + 1, this.options).catch(() => undefined) : undefined
    return start ?? this.ready
  }

  reader(): LogReader {
    return new LogReader({ ...this.options, closing: (closed) => void this.underWay(closed) })
  }

  turn(): Promise<void> {
    return this.options.turn()
  }

  /** A read of the log's files that `settled` waits for. */
  underWay<T>(read: Promise<T>): Promise<T> {
    this.reads.add(read)
    return read.finally(() => this.reads.delete(read))
  }

  /** After `close`: resolves when nothing is read any more, and a restart knows whether there are readers. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.reads)
    await this.kept()
  }

  /** Resolves when a restart would keep what a reader needs. */
  kept(): Promise<void> {
    return this.options.logs.noting
  }

  position(place: Place): ChangePosition {
    return positionOf(this.history, place)
  }

  /** Whether all that comes after the place is in memory. @param complete as of `oldest`. */
  has({ sequence, part }: Place, complete: number): boolean {
    const from = Math.max(this.from, complete)
    return part === WHOLE ? sequence >= from : sequence > from
  }

  /** The first record after the place that may be shown. */
  next(place: Place): Entry | undefined {
    const { entries } = this
    let [low, high] = [0, entries.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (reaches(place, { sequence: entries[middle].sequence, part: WHOLE })) low = middle + 1
      else high = middle
    }
    const entry = entries[low]
    return entry !== undefined && entry.sequence <= this.ready ? entry : undefined
  }

  /** Lets go of what no cursor needs any more, and of what is too much. */
  trim(): void {
    const { entries } = this
    if (entries.length === 0) return
    let needed = Number.POSITIVE_INFINITY
    for (const cursor of this.cursors) needed = Math.min(needed, cursor.needs)
    let n = 0
    while (n < entries.length && (entries[n].sequence <= needed || (this.isFull && n < entries.length - 1))) this.leave(entries[n++])
    if (n > 0) entries.splice(0, n)
  }

  /** Ends all cursors. */
  close(): void {
    this.closed = true
    for (const cursor of [...this.cursors]) cursor.close()
  }

  gap(from: ChangePosition, to: Place, cause: Extract<Change, { kind: 'gap' }>['cause']): Change {
    const position = this.position(to)
    return { kind: 'gap', from, to: position, position, sequence: to.sequence, cause }
  }

  /** Whether a cursor wants some of the rows; those that do not, and have seen all before them, move on. */
  private isWanted(sequence: number, tables: readonly TableRows[]): boolean {
    const before = this.entries.at(-1)?.sequence ?? 0
    let wanted = false
    for (const cursor of this.cursors) {
      if (cursor.wantsSome(tables)) wanted = true
      else cursor.moveOn(sequence, before)
    }
    return wanted
  }

  private get isFull(): boolean {
    const { capacity } = this.options
    return this.rows > capacity || this.bytes > capacity * BYTES_PER_ROW
  }

  private add(entry: Entry): void {
    this.entries.push(entry)
    this.rows += entry.rows
    this.bytes += entry.bytes
    if (this.isFull) this.trim()
    if (!this.options.late) this.wake(entry.sequence)
  }

  private leave(entry: Entry): void {
    this.from = entry.sequence
    this.rows -= entry.rows
    this.bytes -= entry.bytes
    if (entry.tables === undefined) return
    entry.left = true
    if (entry.users === 0) entry.release()
  }

  /** @param sequence of the newest record that may be shown. */
  private wake(sequence: number): void {
    for (const cursor of this.cursors) if (cursor.at <= sequence) cursor.wake()
  }
}
