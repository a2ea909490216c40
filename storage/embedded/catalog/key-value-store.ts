/**
 * The key-value store under the catalog: ordered text keys, bytes as values, batches that are one atomic and durable commit. LMDB is the real one.
 */
import { join } from 'node:path'
import { open, type RootDatabase } from 'lmdb'
import { realFileSystem } from '../../common/log/file-system.ts'
import { keyEncoder } from './key.ts'
import { checkPages } from './pages.ts'
import { corruptCatalog, inaccessibleCatalog } from './value.ts'

export interface KeyValueStore {
  get(key: string): unknown
  getKeys(range: { start?: string; end?: string; limit?: number }): Iterable<string>
  getRange(range: { start?: string; end?: string; limit?: number }): Iterable<{ key: string; value: unknown }>
  /** At least `pageSize` and `lastPageNumber`. */
  getStats(): object
  /** Applies the `put`s and `remove`s that the body calls as one commit, durable when `flushed` has resolved too. */
  batch(body: () => void): Promise<unknown>
  put(key: string, value: Uint8Array): Promise<boolean>
  /** @param key bytes: as they lie there, of keys from before. */
  remove(key: string | Uint8Array): Promise<boolean>
  readonly flushed: Promise<unknown>
  /** Writes a copy as of now as `data.mdb` into a directory. */
  backup(dir: string, compact: boolean): Promise<void>
  close(): Promise<void>
}

/** LMDB trusts its pages: they are checked before it sees them. The data directory's lock keeps other processes out meanwhile. */
export function openLmdb(dir: string): RootDatabase<unknown, string> {
  const file = join(dir, 'data.mdb')
  realFileSystem.ownerOnlySync(dir)
  try {
    if (realFileSystem.existsSync(file)) checkPages(file)
    requireWritable(dir, file)
  } catch (error) {
    throw isOfSystem(error) ? inaccessibleCatalog(error) : corruptCatalog((error as Error).message, error)
  }
  try {
    const options = { encoding: 'binary', overlappingSync: false, eventTurnBatching: false, noMemInit: true, maxDbs: 1, keyEncoder } as const
    return open<unknown, string>({ path: dir, ...options }) as RootDatabase<unknown, string>
  } catch (error) {
    throw isOfSystem(error) ? inaccessibleCatalog(error) : corruptCatalog('LMDB cannot open it', error)
  }
}

/** Pages of its table of readers, which takes 8,272 bytes. */
const LOCK_BYTES = 3 * 4096

/** LMDB ends the process where it may not write to its lock file, or finds no room for it when it does so through a mapping. @throws what the system says. */
function requireWritable(dir: string, file: string): void {
  if (realFileSystem.existsSync(file)) realFileSystem.closeSync(realFileSystem.openSync(file, 'r+'))
  const lock = join(dir, 'lock.mdb')
  const fd = realFileSystem.openSync(lock, 'a')
  try {
    let missing = LOCK_BYTES - (realFileSystem.sizeSync(lock) ?? 0)
    while (missing > 0) missing -= realFileSystem.writeSync(fd, new Uint8Array(missing))
  } finally {
    realFileSystem.closeSync(fd)
  }
}

/** The system refused it: that says nothing of what is in it. Codes of LMDB's own are negative. */
function isOfSystem(error: unknown): error is Error {
  return error instanceof Error && ('syscall' in error || ('code' in error && typeof error.code === 'number' && error.code > 0))
}
