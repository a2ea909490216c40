/**
 * Files of the log that stay for readers of changes when all their rows are in segments, and where each begins.
 *
 * Invariants
 * - Only while changes are followed, or were within `maxAgeMs`; never more than `maxBytes`, never longer than `maxAgeMs`: a reader cannot fill the disk. A full disk
 *   takes them all.
 * - What the database needs stays whatever is said here: this adds to the files that stay, it takes none away.
 */
import { join } from 'node:path'
import type { StorageContext } from 'svcdb'
import type { FileSystem } from '../../common/log/file-system.ts'
import type { Catalog } from '../catalog/catalog.ts'
import { walFileName } from '../paths.ts'
import { walFiles } from '../wal/replay.ts'

interface KeptLogsOptions {
  dir: string
  fs: FileSystem
  log: StorageContext['log']
  maxBytes: number
  maxAgeMs: number
  /** Whether there are readers, for the next start. */
  note: Pick<Catalog, 'followed' | 'noteFollowed'>
  /** The first file that the database needs itself. */
  floor(): number
  /** Sequence of the newest record that has taken effect. */
  applied(): number
  /** Milliseconds of a clock that never goes back. */
  monotonic(): number
}

export class KeptLogs {
  /** Called when nobody follows any more, and nothing is kept. */
  unfollowed: (() => void) | undefined
  private readonly options: KeptLogsOptions
  /** Behind which sequence each file's records are, as far as is known. */
  private readonly starts = new Map<number, number>()
  /** When a file was written last. */
  private readonly ends = new Map<number, number>()
  private followers = 0
  private isNoted: boolean
  /** Resolves when a restart knows whether there are readers. */
  noting: Promise<void> = Promise.resolve()
  /** There may be files below the floor. */
  private kept = false
  private followedAt = Number.NEGATIVE_INFINITY

  constructor(options: KeptLogsOptions) {
    this.options = options
    this.isNoted = options.note.followed
  }

  /** Call before the log is read back: readers of an earlier process may come back. */
  begin(): void {
    const { note, monotonic } = this.options
    if (!note.followed) return
    this.followedAt = monotonic()
    this.kept = true
  }

  /** A record was read back. */
  replayed(file: number, sequence: number): void {
    if (!this.starts.has(file)) this.starts.set(file, sequence - 1)
  }

  opened(file: number): void {
    this.starts.set(file, this.options.applied())
    this.ends.set(file - 1, this.options.monotonic())
  }

  follow(): void {
    this.followers++
    this.noted(true)
  }

  unfollow(): void {
    this.followers--
    this.followedAt = this.options.monotonic()
  }

  /** Whether readers are there or may come back. */
  get followed(): boolean {
    return this.followers > 0 || this.options.monotonic() - this.followedAt <= this.options.maxAgeMs
  }

  /** Removes files that neither the database nor readers need. What cannot be removed is tried again. */
  tidy(full = false): void {
    const { dir, fs, log, floor } = this.options
    this.kept = false
    try {
      const first = this.firstKept(floor(), full)
      for (const file of walFiles(dir, fs)) {
        if (file >= first) break
        fs.unlinkSync(join(dir, walFileName(file)))
        this.starts.delete(file)
        this.ends.delete(file)
      }
    } catch (error) {
      log.warn({ err: error }, 'cannot remove log files that are not needed any more')
    }
    if (this.followed) return
    this.unfollowed?.()
    this.noted(false)
  }

  /** Removes what is kept for readers and has become too old, or too much. */
  expire(): void {
    if (this.kept || (this.isNoted && !this.followed)) this.tidy()
  }

  /** The disk is full: what is kept for readers goes. */
  giveUp(): void {
    if (this.kept) this.tidy(true)
  }

  /** The files that there are, without a hole, oldest first. */
  files(): number[] {
    const files = walFiles(this.options.dir, this.options.fs)
    let first = files.length - 1
    while (first > 0 && files[first - 1] === files[first] - 1) first--
    return files.slice(Math.max(0, first))
  }

  startOf(file: number): number | undefined {
    return this.starts.get(file)
  }

  learn(file: number, start: number): void {
    this.starts.set(file, start)
  }

  /** Without the note a restart would keep nothing for readers that come back: it is not worth refusing them. */
  private noted(followed: boolean): void {
    const { note, log } = this.options
    if (this.isNoted === followed) return
    this.isNoted = followed
    this.noting = note.noteFollowed(followed).catch((error: unknown) => log.warn({ err: error }, 'cannot note in the catalog whether changes are followed'))
  }

  private firstKept(floor: number, full: boolean): number {
    if (full || !this.followed) return floor
    const { dir, fs, maxBytes, maxAgeMs, monotonic } = this.options
    const now = monotonic()
    let first = floor
    let bytes = 0
    for (let file = floor - 1; ; file--) {
      const size = fs.sizeSync(join(dir, walFileName(file)))
      if (size === undefined) return first
      let end = this.ends.get(file)
      this.kept = true
      if (end === undefined) {
        end = now
        this.ends.set(file, end)
      }
      bytes += size
      if (bytes > maxBytes || now - end > maxAgeMs) return first
      first = file
    }
  }
}
