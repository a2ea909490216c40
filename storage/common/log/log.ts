/**
 * A log, such as the write-ahead log of the embedded engine and the queue of the forwarding one: framed records in numbered files, one fdatasync for all
 * writes that wait (group commit).
 *
 * Frame: u32 payload length, u32 CRC-32C of the payload, u32 length of the file that was durable when the frame was written, u32 CRC-32C of
 * the twelve bytes before; payload. All little endian. Layouts: docs/formats/wal.md, docs/formats/forward-queue.md. Why so: docs/decisions/018-written-and-durable.md.
 *
 * Invariants
 * - `append` resolves when its record is durable (periodic: written), in the order of the calls; when one fails, all that were appended after it fail too.
 * - `durable` and `written` are two figures under every policy; `durable` moves only when a sync that began behind those bytes has ended well.
 * - After a failed write the file is cut back to what was accepted, and the truncation synced before anybody hears of the failure: a record
 *   reported failed is never found by recovery, not after a power cut either.
 * - What the disk took a part of is cut off again, the truncation synced, and all of it written anew: a power cut leaves sectors of a commit as they were or as
 *   they are to be, and none with a part of what belongs there, which recovery would have to take for corruption.
 * - After a failed sync, of whatever, nothing more is accepted (POISONED): the kernel may have dropped the pages, only a restart knows what is on
 *   disk. What was not acknowledged is cut off, so that the restart has exactly the acknowledged records.
 * - A file is durable as a whole before the next one is made, and no record goes to a file while the next one lies there unfinished: only the
 *   newest file may end in a torn frame.
 * - `file` is the newest file there is; numbers have no gaps.
 * - `barrier` runs between two commits, with everything durable: every committed record is applied, every waiting one goes to the log after it.
 */
import { join } from 'node:path'
import { SvcError } from 'svcdb/lib/errors'
import { crc32c } from 'svcdb/lib/files'
import { realTimers, type Timer, type Timers } from '../timers.ts'
import { ByteWriter } from './bytes.ts'
import { type LogFileSystem, syncDirectory } from './file-system.ts'
import { noRoom, writeAll, writeOnce } from './write-all.ts'

export const FRAME_HEADER = 16
/** Of a commit of which the disk takes a part each time; then it is written in parts. */
const WHOLE_TRIES = 5

/** What tells one log from others on disk. */
export interface LogForm {
  /** The first bytes of a file. */
  magic: Uint8Array
  fileName(file: number): string
}

/** Bytes that a file, a commit and a payload never exceed. */
export interface WalBounds {
  /** What Node.js reads at once. */
  file: number
  /** A frame that says more is corrupt: batches are bounded far below. */
  record: number
}
export const BOUNDS: WalBounds = { file: 2 ** 31 - 1, record: 1 << 30 }

export type FsyncPolicy = { kind: 'per_write' } | { kind: 'per_batch' } | { kind: 'periodic'; ms: number }

interface Waiter {
  /** Where its frame begins in the staged bytes. */
  start: number
  applied: () => void
  failed: (error: Error) => void
}

interface WalMetrics {
  fsyncs(): void
  written(bytes: number): void
  /** A new file is there and durable, and so is all of the one before it. */
  opened?(file: number): void
  /** A sync of all that has been written so far begins, and has ended well. */
  syncBegins?(): void
  synced?(): void
  /** A write or a new file has found no space. */
  full?(): void
}

const FIRST_BUFFER = 1 << 16
/** A buffer that a burst has made larger than this is let go. */
const KEPT_BUFFER = 16 << 20

/** Records that wait for the next commit. */
class Staging {
  out = new ByteWriter(FIRST_BUFFER)
  waiters: Waiter[] = []

  clear(): void {
    this.waiters = []
    this.out.length = 0
    if (this.out.bytes.length > KEPT_BUFFER) this.out = new ByteWriter(FIRST_BUFFER)
  }
}

export class Wal {
  /** Number of the file being written. */
  file = 0
  private fd = -1
  /** Bytes of the current file that hold accepted records, or those being synced now. */
  private written = 0
  /** Bytes of the current file that a power cut leaves. */
  private durable = 0
  /** The next file may lie in the directory half made. */
  private unfinished = false
  private syncing = false
  private afterSync: (() => void)[] = []
  private staging = new Staging()
  private spare = new Staging()
  private committing = false
  private timer: Timer | undefined
  private barriers: (() => void)[] = []
  private fault: SvcError | undefined
  private closed = false
  private idle: (() => void)[] = []
  private readonly dir: string
  private readonly fs: LogFileSystem
  private readonly policy: FsyncPolicy
  private readonly metrics: WalMetrics
  private readonly timers: Timers
  private readonly bounds: WalBounds
  private readonly form: LogForm

  constructor(
    dir: string,
    form: LogForm,
    policy: FsyncPolicy,
    fs: LogFileSystem,
    metrics: WalMetrics,
    timers: Timers = realTimers,
    bounds: WalBounds = BOUNDS,
  ) {
    this.timers = timers
    this.dir = dir
    this.form = form
    this.policy = policy
    this.fs = fs
    this.metrics = metrics
    this.bounds = bounds
  }

  /** Why writes are refused, if they are. */
  get poisoned(): SvcError | undefined {
    return this.fault
  }

  /** Bytes in the current file. */
  get length(): number {
    return this.written
  }

  /** Bytes of records that are not durable yet. */
  get waiting(): number {
    return this.staging.out.length + this.spare.out.length
  }

  /** Bytes of memory held for records that wait. */
  get memory(): number {
    return this.staging.out.bytes.length + this.spare.out.bytes.length
  }

  /**
   * Starts the first file of this run. A full disk must not keep the reads from starting: the first commit then tries again.
   * @throws OVERLOADED when the new file cannot be synced, DATABASE_ERROR when there is one with records.
   */
  begin(sequence: number): void {
    this.file = sequence - 1
    try {
      this.openFile(sequence)
    } catch (error) {
      if (!isFull(error)) throw error
    }
    if (this.policy.kind === 'periodic') this.timer = this.timers.setInterval(() => this.syncPeriodically(), this.policy.ms).unref()
  }

  /** Starts file `sequence`, inside a barrier. @throws as `begin`, and what the disk says; the file before goes on being written then. */
  openFile(sequence: number): void {
    if (this.fault !== undefined) throw this.fault
    if (this.closed && this.fd < 0) throw closedError()
    if (this.written !== this.durable || this.syncing) throw new Error('a log file may be left only when it is durable')
    try {
      this.makeFile(sequence)
    } catch (error) {
      if (isFull(error)) this.metrics.full?.()
      throw error
    }
  }

  private makeFile(sequence: number): void {
    const path = join(this.dir, this.form.fileName(sequence))
    const fd = this.create(path)
    try {
      if (this.fs.writeSync(fd, this.form.magic) !== this.form.magic.length) throw noRoom()
      this.synced(() => this.fs.fsyncSync(fd))
      const directory = this.fs.openSync(this.dir, 'r') // for want of descriptors nothing is poisoned: nothing was synced
      try {
        this.synced(() => this.fs.fsyncSync(directory))
      } finally {
        this.fs.closeSync(directory)
      }
    } catch (error) {
      this.unfinished = true
      try {
        this.fs.closeSync(fd)
        this.fs.unlinkSync(path)
        syncDirectory(this.dir, this.fs)
        this.unfinished = false
      } catch {
        // The next commit finishes it before it writes anything: behind a torn frame it would look like a later file.
      }
      throw error
    }
    const left = this.fd
    this.unfinished = false
    this.fd = fd
    this.file = sequence
    this.written = this.form.magic.length
    this.durable = this.form.magic.length
    if (left >= 0) this.closeQuietly(left)
    this.metrics.opened?.(sequence)
  }

  /**
   * Appends a record.
   * @param encode writes the payload.
   * @param applied called when it is durable, before any later record's; must not throw.
   * @throws PAYLOAD_TOO_LARGE, and what `encode` throws: the log has nothing of the record then.
   */
  append(encode: (out: ByteWriter) => void, applied: () => void, failed: (error: Error) => void): void {
    if (this.fault !== undefined) return failed(this.fault)
    if (this.closed) return failed(closedError())
    const { out, waiters } = this.staging
    const start = out.reserve(FRAME_HEADER)
    try {
      encode(out)
      const length = out.length - start - FRAME_HEADER
      if (length > this.bounds.record) throw tooLarge(length, this.bounds.record)
    } catch (error) {
      out.length = start
      throw error
    }
    out.setU32(start, out.length - start - FRAME_HEADER)
    out.setU32(start + 4, crc32c(out.bytes, start + FRAME_HEADER, out.length))
    waiters.push({ start, applied, failed })
    if (!this.committing) this.commitSoon()
  }

  /** Runs `body` when no record is in flight and everything written is durable, unless the log is poisoned. */
  barrier(body: () => void): void {
    this.barriers.push(body)
    if (!this.committing) this.commitSoon()
  }

  /** Leaves everything accepted durable, under every policy. @throws OVERLOADED when the log is poisoned, also by this last sync. */
  async close(): Promise<void> {
    this.closed = true
    this.timers.clearInterval(this.timer)
    this.timer = undefined
    if (this.committing) await new Promise<void>((resolve) => this.idle.push(resolve))
    await new Promise<void>((resolve) => this.whenDurable(resolve))
    if (this.fd >= 0) this.closeQuietly(this.fd)
    this.fd = -1
    if (this.fault !== undefined) throw this.fault
  }

  /** Resolves when everything that has been applied so far is durable. @throws OVERLOADED when that is unknown: the log is poisoned. */
  async settled(): Promise<void> {
    if (this.policy.kind !== 'periodic') return
    await new Promise<void>((resolve) => this.whenDurable(resolve))
    if (this.fault !== undefined) throw this.fault
  }

  /** A new file, or the one that an attempt to begin it has left: it never had a record. */
  private create(path: string): number {
    try {
      return this.fs.openSync(path, 'wx')
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
    const found = this.fs.readFileSync(path).length
    if (found > this.form.magic.length) {
      throw new SvcError(
        'DATABASE_ERROR',
        `cannot start write-ahead log file "${path}": it has ${found} bytes that this server has not written; see that no other server uses the directory, then restart`,
      )
    }
    return this.fs.openSync(path, 'r+')
  }

  private commitSoon(): void {
    this.committing = true
    // The end of this turn of the loop: requests that arrived together share the commit.
    this.timers.setImmediate(() => this.commit())
  }

  private commit(): void {
    if (this.barriers.length > 0 || this.needsFile()) this.whenDurable(() => this.commitNext())
    else this.commitNext()
  }

  private commitNext(): void {
    this.runBarriers()
    const staged = this.staging
    if (staged.waiters.length === 0) return this.afterCommit()
    if (this.fault !== undefined) return this.refuse(staged, this.fault)
    if (this.needsFile()) {
      try {
        this.openFile(this.file + 1)
      } catch (error) {
        return this.refuse(staged, error as Error)
      }
    }
    const count = this.fitting(staged)
    const batch = count === staged.waiters.length ? staged : this.takeFirst(staged, count)
    if (batch === staged) {
      this.staging = this.spare
      this.spare = batch
    }
    this.writeOut(batch, () => {
      const { waiters } = batch
      batch.clear()
      for (const waiter of waiters) waiter.applied()
      this.afterCommit()
    })
  }

  /** Whether the next commit cannot go to the current file. */
  private needsFile(): boolean {
    if (this.staging.waiters.length === 0) return false
    return this.fd < 0 || this.unfinished || this.written + this.lengthOf(this.staging, 1) > this.bounds.file
  }

  /** How many of the waiting records the next commit takes, at least one. */
  private fitting(staged: Staging): number {
    if (this.policy.kind === 'per_write') return 1
    const room = this.bounds.file - this.written
    if (staged.out.length <= room) return staged.waiters.length
    let count = 1
    while (this.lengthOf(staged, count + 1) <= room) count++
    return count
  }

  /** Bytes of the first `count` records. */
  private lengthOf({ out, waiters }: Staging, count: number): number {
    return waiters[count]?.start ?? out.length
  }

  /** Moves the first records to the spare buffer. */
  private takeFirst(staged: Staging, count: number): Staging {
    const length = this.lengthOf(staged, count)
    const first = this.spare
    first.out.length = 0
    first.out.put(staged.out.bytes.subarray(0, length))
    first.waiters = staged.waiters.splice(0, count)
    staged.out.bytes.copyWithin(0, length, staged.out.length)
    staged.out.length -= length
    for (const waiter of staged.waiters) waiter.start -= length
    return first
  }

  private runBarriers(): void {
    const { barriers } = this
    this.barriers = []
    for (const body of barriers) body()
  }

  private writeOut(batch: Staging, done: () => void, tries = 1): void {
    const start = this.written
    const { out } = batch
    for (const waiter of batch.waiters) {
      out.setU32(waiter.start + 8, this.durable)
      out.setU32(waiter.start + 12, crc32c(out.bytes, waiter.start, waiter.start + 12))
    }
    const whole = out.bytes.subarray(0, out.length)
    const accepted = (error: Error | null): void => {
      if (error !== null) return this.rewind(batch, error)
      this.metrics.written(out.length)
      this.written += out.length
      // A periodic sync may have failed meanwhile.
      if (this.fault !== undefined) return this.giveUp(batch, start, this.fault)
      if (this.policy.kind === 'periodic') return done()
      this.sync(() => (this.fault === undefined ? done() : this.giveUp(batch, start, this.fault)))
    }
    writeOnce(this.fs, this.fd, whole, start, (error, written) => {
      if (error !== null || written === whole.length) accepted(error)
      else if (tries < WHOLE_TRIES) this.cutBack(batch, () => this.writeOut(batch, done, tries + 1))
      else writeAll(this.fs, this.fd, whole.subarray(written), start + written, accepted)
    })
  }

  /**
   * The write failed: cut the file back and refuse everything that waits, because later records may build on the failed ones. The kernel may have
   * stored some of them already, so the truncation is synced before the refusal is known.
   */
  private rewind(batch: Staging, cause: Error): void {
    if (isFull(cause)) this.metrics.full?.()
    this.cutBack(batch, () => this.refuse(batch, cause))
  }

  /** Has the file end with what was accepted, durably, and goes on. */
  private cutBack(batch: Staging, next: () => void): void {
    const accepted = this.written
    this.fs.ftruncate(this.fd, accepted, (error) => {
      if (error !== null) return this.giveUp(batch, accepted, this.poison(error))
      this.quiet(() => this.sync(() => (this.fault === undefined ? next() : this.giveUp(batch, accepted, this.fault))))
    })
  }

  /** The log is poisoned: what was not acknowledged must not come back with the restart. Should this fail as well, the write's outcome is unknown, as its answer says. */
  private giveUp(batch: Staging, accepted: number, fault: SvcError): void {
    this.written = accepted
    this.fs.ftruncate(this.fd, accepted, () => this.fs.fdatasync(this.fd, () => this.refuse(batch, fault)))
  }

  private refuse(batch: Staging, error: Error): void {
    const failed = [...batch.waiters, ...(batch === this.staging ? [] : this.staging.waiters)]
    this.staging.clear()
    this.spare.clear()
    // Newest first: what a failed record defined is taken back before what it was built on.
    for (const waiter of failed.reverse()) waiter.failed(error)
    this.afterCommit()
  }

  private afterCommit(): void {
    if (this.staging.waiters.length > 0 || this.barriers.length > 0) return this.commitSoon()
    this.committing = false
    for (const resolve of this.idle.splice(0)) resolve()
  }

  private syncPeriodically(): void {
    if (this.fd >= 0 && !this.syncing && this.written > this.durable && this.fault === undefined) this.sync(() => {})
  }

  /** Makes what is written now durable, or poisons the log. One at a time: of two on one descriptor only one hears of an error. */
  private sync(done: () => void): void {
    const upTo = this.written
    this.syncing = true
    this.metrics.syncBegins?.()
    this.fs.fdatasync(this.fd, (error) => {
      this.syncing = false
      if (error !== null) this.poison(error)
      else {
        this.metrics.fsyncs()
        this.durable = upTo
        this.metrics.synced?.()
      }
      done()
      for (const next of this.afterSync.splice(0)) next()
    })
  }

  /** Runs `body` when no sync is under way. */
  private quiet(body: () => void): void {
    if (this.syncing) this.afterSync.push(() => this.quiet(body))
    else body()
  }

  /** Runs `body` when no sync is under way and everything written is durable, or the log poisoned. */
  private whenDurable(body: () => void): void {
    this.quiet(() => (this.fd < 0 || this.written === this.durable || this.fault !== undefined ? body() : this.sync(body)))
  }

  private poison(cause: Error): SvcError {
    this.fault ??= new SvcError(
      'OVERLOADED',
      `writes are refused since the write-ahead log failed (${cause.message}); restart the server, it recovers everything that was acknowledged`,
      // A full disk as the cause would make it a STORAGE_FULL, which promises that writes resume by themselves.
      { cause: isFull(cause) ? new Error(cause.message) : cause },
    )
    return this.fault
  }

  /** A sync of what has no records yet: without space it has only failed to be made, anything else poisons. */
  private synced(sync: () => void): void {
    try {
      sync()
    } catch (error) {
      if (!isFull(error)) throw this.poison(error as Error)
      throw error
    }
  }

  /** Everything in the file is durable, or the log is poisoned: an error of close changes nothing. */
  private closeQuietly(fd: number): void {
    try {
      this.fs.closeSync(fd)
    } catch {}
  }
}

const closedError = (): SvcError => new SvcError('DATABASE_CLOSED', 'the database is shutting down; write to another node or retry after the restart')
const tooLarge = (length: number, max: number): SvcError =>
  new SvcError('PAYLOAD_TOO_LARGE', `cannot write a batch of ${length} bytes: a record of the log has at most ${max}; send smaller batches`)

function isFull(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException
  return code === 'ENOSPC' || code === 'EDQUOT'
}
