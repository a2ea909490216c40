/**
 * A lock that the operating system keeps for this process: it holds across containers that share a volume, and across machines where the file system
 * locks for all of them (NFS 4, NFS 3 with lockd). It ends with the process, however that ends, and children do not inherit it.
 *
 * It is SQLite's: an exclusive transaction on an empty file (fcntl on POSIX, LockFileEx on Windows), to which nothing is ever written. The file stays
 * when the lock is released: whoever removed it could take a lock that another process waits for. POSIX drops the locks of a process on a file when
 * the process closes any descriptor of it: nothing else may open the file.
 */
import { accessSync, closeSync, constants, openSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'

/** SQLITE_BUSY, the low byte of SQLite's error code. */
const BUSY = 5

export class OsLock {
  private readonly path: string
  private database: DatabaseSync | undefined

  /** @param path absolute; its folder must be there. */
  constructor(path: string) {
    this.path = path
  }

  /** @returns whether this process has it now; false = another one has, or this one by another OsLock. @throws Error for a file that cannot be locked; NodeJS.ErrnoException where the account may not. */
  acquire(): boolean {
    makeOnce(this.path)
    let database: DatabaseSync | undefined
    try {
      database = new DatabaseSync(this.path)
      database.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE')
      this.database = database
      return true
    } catch (error) {
      database?.close()
      if ((Number((error as { errcode?: number }).errcode) & 0xff) === BUSY) return false
      // SQLite says only that it cannot be opened.
      accessSync(this.path, constants.R_OK | constants.W_OK)
      throw error
    }
  }

  /** Safe twice, and without `acquire`. */
  release(): void {
    this.database?.close()
    this.database = undefined
  }
}

/** For the owner only. One that is there is not opened: closing it would end a lock that this process has on it. */
function makeOnce(path: string): void {
  try {
    closeSync(openSync(path, 'wx', 0o600))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}
