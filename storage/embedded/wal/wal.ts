/**
 * The write-ahead log: framed records in numbered files, one fdatasync for all writes that wait (group commit).
 *
 * Frame: u32 payload length, u32 CRC-32C of the payload, u32 length of the file that was durable when the commit began, u32 CRC-32C of
 * the twelve bytes before; payload. All little endian. Layout: docs/formats/wal.md.
 *
 * Invariants
 * - `append` resolves when its record is durable, in the order of the calls; when one fails, all that were appended after it fail too.
 * - After a failed write the file is cut back to its last durable byte: a record reported failed is never found by recovery.
 * - After a failed fsync nothing more is accepted (POISONED): the kernel may have dropped the pages, only a restart knows what is on disk. What
 *   was not acknowledged is cut off, so that the restart has exactly the acknowledged records.
 * - `file` is the newest file there is; numbers have no gaps.
 * - `barrier` runs between two commits: every committed record is applied, every waiting one goes to the log after it.
 */
import { join } from 'node:path'
import { SvcError } from '../../../kernel/errors.ts'
import { walFileName } from '../paths.ts'
import { ByteWriter } from './bytes.ts'
import { crc32c } from './crc32c.ts'
import type { FileSystem } from './file-system.ts'

export const FRAME_HEADER = 16
export const FILE_MAGIC = new TextEncoder().encode('SVCWAL01')
/** A frame longer than this is damage: batches are bounded far below. */
export const MAX_RECORD = 1 << 30

export type FsyncPolicy = { kind: 'per_write' } | { kind: 'per_batch' } | { kind: 'periodic'; ms: number }

interface Waiter {
  /** Where its frame begins in the staged bytes. */
  start: number
  applied: () => void
  failed: (error: Error) => void
}

export interface WalMetrics {
  fsyncs(): void
  written(bytes: number): void
  /** A new file is there and durable. */
  opened?(file: number): void
}

const FIRST_BUFFER = 1 << 20
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
  private fileLength = 0
  private staging = new Staging()
  private spare = new Staging()
  private committing = false
  private dirty = false
  private timer: NodeJS.Timeout | undefined
  private barriers: (() => void)[] = []
  private fault: SvcError | undefined
  private closed = false
  private idle: (() => void)[] = []
  private readonly dir: string
  private readonly fs: FileSystem
  private readonly policy: FsyncPolicy
  private readonly metrics: WalMetrics

  constructor(dir: string, policy: FsyncPolicy, fs: FileSystem, metrics: WalMetrics) {
    this.dir = dir
    this.policy = policy
    this.fs = fs
    this.metrics = metrics
    if (policy.kind === 'periodic') this.timer = setInterval(() => this.syncPeriodically(), policy.ms).unref()
  }

  /** Why writes are refused, if they are. */
  get poisoned(): SvcError | undefined {
    return this.fault
  }

  /** Bytes in the current file. */
  get length(): number {
    return this.fileLength
  }

  /** Bytes of records that are not durable yet. */
  get waiting(): number {
    return this.staging.out.length + this.spare.out.length
  }

  /** Bytes of memory held for records that wait. */
  get memory(): number {
    return this.staging.out.bytes.length + this.spare.out.bytes.length
  }

  /** Starts the first file of this run. A full disk must not keep the reads from starting: the first commit then tries again. */
  begin(sequence: number): void {
    this.file = sequence - 1
    try {
      this.openFile(sequence)
    } catch (error) {
      if (!isFull(error)) throw error
    }
  }

  /** Starts file `sequence`. On an error the file before goes on being written. */
  openFile(sequence: number): void {
    const fd = this.fs.openSync(join(this.dir, walFileName(sequence)), 'wx')
    try {
      this.fs.writeSync(fd, FILE_MAGIC)
      this.fs.fsyncSync(fd)
      this.syncDirectory()
      if (this.dirty) this.fs.fsyncSync(this.fd)
    } catch (error) {
      this.fs.closeSync(fd)
      this.fs.unlinkSync(join(this.dir, walFileName(sequence)))
      throw error
    }
    this.dirty = false
    if (this.fd >= 0) this.fs.closeSync(this.fd)
    this.fd = fd
    this.file = sequence
    this.fileLength = FILE_MAGIC.length
    this.metrics.opened?.(sequence)
  }

  /**
   * Appends a record.
   * @param encode writes the payload.
   * @param applied called when it is durable, before any later record's; must not throw.
   * @throws PAYLOAD_TOO_LARGE for a record that no replay would take, and what `encode` throws.
   */
  append(encode: (out: ByteWriter) => void, applied: () => void, failed: (error: Error) => void): void {
    if (this.fault !== undefined) return failed(this.fault)
    if (this.closed) return failed(new SvcError('DATABASE_CLOSED', 'the database is shutting down; write to another node or retry after the restart'))
    const { out, waiters } = this.staging
    const start = out.reserve(FRAME_HEADER)
    try {
      encode(out)
      if (out.length - start - FRAME_HEADER > MAX_RECORD)
        throw new SvcError('PAYLOAD_TOO_LARGE', `cannot write a record of more than ${MAX_RECORD} bytes to the log; send fewer points at once`)
    } catch (error) {
      out.length = start
      throw error
    }
    out.setU32(start, out.length - start - FRAME_HEADER)
    out.setU32(start + 4, crc32c(out.bytes, start + FRAME_HEADER, out.length))
    waiters.push({ start, applied, failed })
    if (!this.committing) this.commitSoon()
  }

  /** Runs `body` when no record is in flight. */
  barrier(body: () => void): void {
    this.barriers.push(body)
    if (!this.committing) this.commitSoon()
  }

  async close(): Promise<void> {
    this.closed = true
    clearInterval(this.timer)
    this.timer = undefined
    if (this.committing) await new Promise<void>((resolve) => this.idle.push(resolve))
    if (this.fd >= 0) {
      if (this.dirty && this.fault === undefined) this.fs.fsyncSync(this.fd)
      this.fs.closeSync(this.fd)
      this.fd = -1
    }
  }

  private syncDirectory(): void {
    const fd = this.fs.openSync(this.dir, 'r')
    this.fs.fsyncSync(fd)
    this.fs.closeSync(fd)
  }

  private commitSoon(): void {
    this.committing = true
    // The end of this turn of the loop: requests that arrived together share the commit.
    setImmediate(() => this.commit())
  }

  private commit(): void {
    this.runBarriers()
    const batch = this.staging
    if (batch.waiters.length === 0) return this.afterCommit()
    if (this.fd < 0) {
      try {
        this.openFile(this.file + 1)
      } catch (error) {
        this.failAll(batch, error as Error)
        return this.afterCommit()
      }
    }
    if (this.policy.kind === 'per_write' && batch.waiters.length > 1) return this.commitFirst(batch)
    this.staging = this.spare
    this.spare = batch
    this.writeOut(batch, batch.out.length, () => {
      const { waiters } = batch
      batch.clear()
      for (const waiter of waiters) waiter.applied()
      this.afterCommit()
    })
  }

  /** per_write: takes only the first waiting record. */
  private commitFirst(staged: Staging): void {
    const view = new DataView(staged.out.bytes.buffer)
    const length = FRAME_HEADER + view.getUint32(0, true)
    const first = this.spare
    first.out.length = 0
    first.out.put(staged.out.bytes.subarray(0, length))
    first.waiters = [staged.waiters.shift() as Waiter]
    staged.out.bytes.copyWithin(0, length, staged.out.length)
    staged.out.length -= length
    for (const waiter of staged.waiters) waiter.start -= length
    this.writeOut(first, length, () => {
      const [waiter] = first.waiters
      first.clear()
      waiter.applied()
      this.afterCommit()
    })
  }

  private runBarriers(): void {
    const { barriers } = this
    this.barriers = []
    for (const body of barriers) body()
  }

  private writeOut(batch: Staging, length: number, done: () => void): void {
    for (const { start } of batch.waiters) {
      batch.out.setU32(start + 8, this.fileLength)
      batch.out.setU32(start + 12, crc32c(batch.out.bytes, start, start + 12))
    }
    this.writeAll(batch, 0, length, (error) => {
      if (error !== null) return this.rewind(batch, error)
      this.metrics.written(length)
      if (this.policy.kind === 'periodic') {
        this.fileLength += length
        this.dirty = true
        return done()
      }
      this.fs.fdatasync(this.fd, (syncError) => {
        if (syncError !== null) return this.poison(batch, syncError)
        this.metrics.fsyncs()
        this.fileLength += length
        done()
      })
    })
  }

  private writeAll(batch: Staging, from: number, length: number, done: (error: Error | null) => void): void {
    this.fs.write(this.fd, batch.out.bytes, from, length - from, this.fileLength + from, (error, written) => {
      if (error !== null) {
        const { code } = error as NodeJS.ErrnoException
        if (code === 'EINTR' || code === 'EAGAIN') return this.writeAll(batch, from, length, done)
        return done(error)
      }
      // A short write goes on where it stopped; a disk that takes nothing is full.
      if (written === 0) return done(Object.assign(new Error('the disk took no bytes'), { code: 'ENOSPC' }))
      if (from + written < length) return this.writeAll(batch, from + written, length, done)
      done(null)
    })
  }

  /** The write failed: cut the file back and refuse everything that waits, because later records may build on the failed ones. */
  private rewind(batch: Staging, cause: Error): void {
    this.fs.ftruncate(this.fd, this.fileLength, (error) => {
      if (error !== null) return this.poison(batch, error)
      this.failAll(batch, cause)
      this.afterCommit()
    })
  }

  private poison(batch: Staging, cause: Error): void {
    this.fault = new SvcError(
      'OVERLOADED',
      `writes are refused since the write-ahead log failed (${cause.message}); restart the server, it recovers everything that was acknowledged`,
      // A full disk as the cause would make it a STORAGE_FULL, which promises that writes resume by themselves.
      { cause: isFull(cause) ? new Error(cause.message) : cause },
    )
    const { fault } = this
    // What was not acknowledged must not come back with the restart. Should this fail as well, the write's outcome is unknown, as its answer says.
    this.fs.ftruncate(this.fd, this.fileLength, () => {
      this.failAll(batch, fault)
      this.afterCommit()
    })
  }

  private failAll(batch: Staging, error: Error): void {
    const failed = [...batch.waiters, ...(batch === this.staging ? [] : this.staging.waiters)]
    this.staging.clear()
    this.spare.clear()
    // Newest first: what a failed record defined is taken back before what it was built on.
    for (const waiter of failed.reverse()) waiter.failed(error)
  }

  private afterCommit(): void {
    if (this.staging.waiters.length > 0 || this.barriers.length > 0) return this.commitSoon()
    this.committing = false
    for (const resolve of this.idle.splice(0)) resolve()
  }

  private syncPeriodically(): void {
    if (!this.dirty || this.fd < 0 || this.fault !== undefined) return
    this.dirty = false
    this.fs.fdatasync(this.fd, (error) => {
      if (error === null) this.metrics.fsyncs()
      else
        this.fault ??= new SvcError('OVERLOADED', `writes are refused since the write-ahead log failed (${error.message}); restart the server`, {
          cause: error,
        })
    })
  }
}

function isFull(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException
  return code === 'ENOSPC' || code === 'EDQUOT'
}
