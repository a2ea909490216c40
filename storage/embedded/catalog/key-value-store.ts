/**
 * The key-value store under the catalog: ordered text keys, bytes as values, batches that are one atomic and durable commit. LMDB is the real one.
 */
import { join } from 'node:path'
import { open, type RootDatabase } from 'lmdb'
import type { SvcError } from 'svcdb/lib/errors'
import { realFileSystem } from '../../common/log/file-system.ts'
import type { Slices } from '../slices.ts'
import { keyEncoder } from './key.ts'
import { checkMetaPages, checkPages } from './pages.ts'
import { corruptCatalog, inaccessibleCatalog } from './value.ts'

export interface KeyValueStore {
  get(key: string): unknown
  /** As `get`, in memory that the next one writes to: `length` counts, and may be less than the array's own. */
  getBinaryFast(key: string): Uint8Array | undefined
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

/** @param slices of pages that are checked, where others are served meanwhile. */
export interface OpenStore {
  (dir: string): KeyValueStore
  (dir: string, slices: Slices | undefined): KeyValueStore | Promise<KeyValueStore>
}

/** LMDB trusts its pages: they are checked before it sees them. The data directory's lock keeps other processes out meanwhile. */
export function openLmdb(dir: string): RootDatabase<unknown, string>
export function openLmdb(dir: string, slices: Slices | undefined): RootDatabase<unknown, string> | Promise<RootDatabase<unknown, string>>
export function openLmdb(dir: string, slices?: Slices): RootDatabase<unknown, string> | Promise<RootDatabase<unknown, string>> {
  realFileSystem.ownerOnlySync(dir)
  const file = join(dir, 'data.mdb')
  const pages = realFileSystem.existsSync(file) ? checkPages(file) : []
  const options = { encoding: 'binary', overlappingSync: false, eventTurnBatching: false, noMemInit: true, maxDbs: 1, keyEncoder } as const
  const opened = () =>
    checked(
      () => requireOpens(dir, 'r+'),
      () => open<unknown, string>({ path: dir, ...options }),
    )
  if (slices !== undefined) return inSlices(pages, slices).then(opened)
  try {
    for (const _ of pages);
  } catch (error) {
    throw fault(error)
  }
  return opened()
}

async function inSlices(pages: Iterable<void>, slices: Slices): Promise<void> {
  try {
    let checked = 0
    for (const _ of pages) if (++checked % slices.size === 0) await slices.next()
  } catch (error) {
    throw fault(error)
  }
}

/**
 * To read beside a server that may write: LMDB has readers in other processes see whole transactions. Of the pages only those are checked that LMDB opens it by: the
 * others change meanwhile.
 * @returns undefined when nothing was ever written there.
 */
export function readLmdb(dir: string): RootDatabase<Uint8Array, string> | undefined {
  const file = join(dir, 'data.mdb')
  if ((realFileSystem.sizeSync(file) ?? 0) === 0) return undefined
  const check = () => {
    checkMetaPages(file)
    requireOpens(dir, 'r')
  }
  return checked(check, () => open<Uint8Array, string>({ path: dir, encoding: 'binary', readOnly: true, maxDbs: 1, keyEncoder }))
}

function checked<T>(check: () => void, openIt: () => T): T {
  try {
    check()
  } catch (error) {
    throw fault(error)
  }
  try {
    return openIt()
  } catch (error) {
    throw isOfSystem(error) ? inaccessibleCatalog(error) : corruptCatalog('LMDB cannot open it', error)
  }
}

const fault = (error: unknown): SvcError => (isOfSystem(error) ? inaccessibleCatalog(error) : corruptCatalog((error as Error).message, error))

/** Pages of its table of readers, which takes 8,272 bytes. */
const LOCK_BYTES = 3 * 4096
/** It takes one for the lock file and one or two for the other; the rest is for what may be opened meanwhile. */
const HANDLES = 6

/**
 * LMDB ends the process where it cannot open one of its files, also for want of file handles, and where it finds no room for its lock file, to which it writes through
 * a mapping. So all that is tried before. @throws what the system says.
 */
function requireOpens(dir: string, flags: 'r' | 'r+'): void {
  const file = join(dir, 'data.mdb')
  const held: number[] = []
  const hold = (path: string, how: 'r' | 'r+' | 'a'): number => {
    const fd = realFileSystem.openSync(path, how)
    held.push(fd)
    return fd
  }
  try {
    const lock = join(dir, 'lock.mdb')
    try {
      const fd = hold(lock, 'a')
      let missing = LOCK_BYTES - (realFileSystem.sizeSync(lock) ?? 0)
      while (missing > 0) missing -= realFileSystem.writeSync(fd, new Uint8Array(missing))
    } catch (error) {
      // There a reader does without.
      if (flags !== 'r' || (error as NodeJS.ErrnoException).code !== 'EROFS') throw error
    }
    if (realFileSystem.existsSync(file)) hold(file, flags)
    while (held.length < HANDLES) hold(dir, 'r')
  } finally {
    for (const fd of held) realFileSystem.closeSync(fd)
  }
}

/** The system refused it: that says nothing of what is in it. Codes of LMDB's own are negative. */
function isOfSystem(error: unknown): error is Error {
  return error instanceof Error && ('syscall' in error || ('code' in error && typeof error.code === 'number' && error.code > 0))
}
