/**
 * Durable transactions of the catalog, one after the other.
 *
 * Invariants
 * - A transaction is gathered first and handed to LMDB whole: a body that throws leaves nothing behind, and reads inside it see everything before it.
 * - LMDB's batches, not its transaction callbacks: when a commit fails, of a full disk say, a batch is rejected, while the promise of a callback
 *   (lmdb 3.5) never settles. Batches across turns of the loop are off for the same reason: their promise has no owner who could handle it.
 * - A body runs once, when all commits before it are durable or have failed, and when `stored` of those that are durable has returned: what it reads
 *   in memory and in the catalog is of one time. One that fails leaves nothing to take back.
 * - What a failure means depends on how far the commit had come:
 *   - In the body, or while room was made in the file: LMDB has not been touched, whatever the error (no descriptor, no memory, no permission, no
 *     space). The commit fails, and the next one is as good as before.
 *   - LMDB found no space: it has changed nothing, the commit may be tried again. So may one that failed with EIO, which LMDB also says when a write
 *     was cut short by a full disk: pages of a transaction that was abandoned are never referred to, the next one writes its own anew. But EIO may also
 *     be of the page that names the newest transaction, and then nobody knows whether it stands. LMDB refuses everything from then on, so it is asked
 *     before anything is said of the failure, full disk or not.
 *   - Any other failure of LMDB, or EIO again and again: what is on disk is unknown and nothing more is committed (`fault`). A restart reads what is
 *     there and replays the log over it.
 */
import { constants } from 'node:os'
import { join } from 'node:path'
import { SvcError } from 'svcdb/lib/errors'
import { type FileSystem, realFileSystem } from '../../common/log/file-system.ts'
import { keyBytes } from './key.ts'
import type { KeyValueStore } from './key-value-store.ts'
import { roomFor, takeRoom } from './room.ts'

/** LMDB takes 1,978 bytes of encoded key with its 4 KiB pages. */
const MAX_KEY_BYTES = 1900
/** A volume with less room counts as full: the rest goes to whole pages and to other files. */
const NO_SPACE = 1 << 20
const TRIES = 3
/** Nothing is ever stored under it. */
const ABSENT_KEY = 'none'
const FULL: readonly unknown[] = [constants.errno.ENOSPC, constants.errno.EDQUOT, 'ENOSPC', 'EDQUOT']

/** What a transaction's body writes, as it will lie in LMDB. */
export interface RawWrites {
  put(key: string, value: Uint8Array): void
  /** @param key bytes: as they lie there, of keys from before. */
  remove(key: string | Uint8Array): void
}

type Change = [key: string, value: Uint8Array] | [key: string | Uint8Array, value: undefined]

export class CatalogCommits {
  private readonly db: KeyValueStore
  private readonly dir: string
  private readonly fs: FileSystem
  private readonly free: (dir: string) => number
  private last: Promise<unknown> = Promise.resolve()
  private broken: SvcError | undefined
  /** Bytes that the file is known to have. */
  private room = 0

  /** @param dir where the database lies. */
  constructor(db: KeyValueStore, dir: string, free?: (dir: string) => number, fs: FileSystem = realFileSystem) {
    this.db = db
    this.dir = dir
    this.fs = fs
    this.free = free ?? ((path) => fs.freeSpace(path))
  }

  /** Why nothing is committed any more, if so. */
  get fault(): SvcError | undefined {
    return this.broken
  }

  /**
   * Resolves when everything the body wrote is durable.
   * @param stored called then, before the next body runs; must not throw.
   * @param ready resolves when what the body has read may be stored: when the log has it. One that rejects fails the commit.
   * @throws STORAGE_FULL and what the body or the file system threw: nothing of it is stored; OVERLOADED: only a restart can tell.
   */
  run<T>(body: (writes: RawWrites) => T, stored?: () => void, ready?: () => Promise<void>): Promise<T> {
    const done = this.last.then(async () => {
      const result = await this.commit(body, ready)
      stored?.()
      return result
    })
    this.last = done.catch(() => {})
    return done
  }

  private async commit<T>(body: (writes: RawWrites) => T, ready?: () => Promise<void>): Promise<T> {
    if (this.broken !== undefined) throw this.broken
    const changes: Change[] = []
    const result = body({
      put: (key, value) => void changes.push([requireStorableKey(key), value]),
      remove: (key) => void changes.push([typeof key === 'string' ? requireStorableKey(key) : key, undefined]),
    })
    if (changes.length === 0) return result
    await ready?.()
    for (let tries = 1; ; tries++) {
      await this.makeRoom(changes)
      try {
        await this.write(changes)
        return result
      } catch (error) {
        const reason = await reasonOf(error)
        const { code } = reason as { code?: unknown }
        if (FULL.includes(code)) throw noSpace(reason)
        if (code !== constants.errno.EIO) throw this.broke(reason)
        await this.requireAbandoned()
        if (this.free(this.dir) < NO_SPACE) throw noSpace(reason)
        if (tries === TRIES) throw this.broke(reason)
      }
    }
  }

  /** LMDB is only read. */
  private async makeRoom(changes: readonly Change[]): Promise<void> {
    const { pageSize, lastPageNumber } = this.db.getStats() as { pageSize: number; lastPageNumber: number }
    const lengths = changes.map(([, value]) => value?.length ?? 0)
    const end = roomFor(lengths, { pageSize, pages: lastPageNumber + 1 })
    if (end <= this.room) return
    try {
      this.room = await takeRoom(join(this.dir, 'data.mdb'), end, this.fs)
    } catch (error) {
      if (FULL.includes((error as NodeJS.ErrnoException).code)) throw noSpace(error as Error)
      throw new SvcError('IO_ERROR', `cannot write the catalog: ${(error as Error).message}; nothing has changed, try again`, { cause: error })
    }
  }

  private async write(changes: readonly Change[]): Promise<void> {
    await this.db.batch(() => {
      for (const [key, value] of changes) {
        const part: Promise<boolean> = value === undefined ? this.db.remove(key) : this.db.put(key as string, value)
        part.catch(() => {}) // fails with the batch, which says so
      }
    })
    await this.db.flushed
  }

  /** After EIO: a transaction without changes, which writes nothing, goes through unless LMDB has panicked. @throws OVERLOADED. */
  private async requireAbandoned(): Promise<void> {
    for (let tries = 1; ; tries++) {
      try {
        // After a panic lmdb never answers a transaction (measured): a read says so at once.
        this.db.get(ABSENT_KEY)
        await this.db.batch(() => void this.db.remove(ABSENT_KEY).catch(() => {}))
        return
      } catch (error) {
        const reason = await reasonOf(error)
        const { code } = reason as { code?: unknown }
        if (FULL.includes(code)) return
        if (code !== constants.errno.EIO || tries === TRIES) throw this.broke(reason)
      }
    }
  }

  private broke(error: Error): SvcError {
    this.broken = new SvcError(
      'OVERLOADED',
      `writes are refused since the catalog could not be written (${error.message}); restart the server, it recovers everything that was acknowledged`,
      { cause: error },
    )
    return this.broken
  }
}

function noSpace(cause: Error): SvcError {
  return new SvcError('STORAGE_FULL', 'cannot write the catalog: no space left on the data volume; free space, writes resume without a restart', { cause })
}

/** lmdb rejects a batch with an error whose `commitError` is rejected with the cause. */
async function reasonOf(error: unknown): Promise<Error> {
  const { commitError } = error as { commitError?: Promise<never> }
  const reason: unknown = commitError === undefined ? error : await commitError.catch((cause: unknown) => cause)
  return reason instanceof Error ? reason : new Error(String(reason))
}

/** @throws INVALID_REQUEST for one that is too long. */
export function requireStorableKey(key: string): string {
  if (keyBytes(key) > MAX_KEY_BYTES)
    throw new SvcError('INVALID_REQUEST', `cannot store key "${key.slice(0, 64)}...": it takes more than ${MAX_KEY_BYTES} bytes; shorten it`)
  return key
}
