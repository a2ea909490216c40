/** When the log goes on in a new file, and when the active memtable is frozen with it. */
import type { StorageContext } from 'svcdb'
import { classify } from 'svcdb/lib/errors'
import type { Wal } from '../../common/log/log.ts'
import type { DatabaseConfig } from '../config.ts'
import type { Memtables } from '../memtable/memtables.ts'

/** Of the memory of all memtables: the rest is for those that are written to while the first is flushed. */
const SHARE = 3 / 4

export class Rotation {
  private readonly wal: Wal
  private readonly memtables: Memtables
  private readonly config: Pick<DatabaseConfig, 'memtable_flush_threshold' | 'max_memtable_memory' | 'wal_max_file_size' | 'wal_max_unflushed'>
  private readonly log: StorageContext['log']
  private requested = false

  constructor(wal: Wal, memtables: Memtables, config: Rotation['config'], log: StorageContext['log']) {
    this.wal = wal
    this.memtables = memtables
    this.config = config
    this.log = log
  }

  /** Call when a record has taken effect, or a write has found no room. */
  look(): void {
    if (this.requested) return
    const { wal, memtables, config } = this
    if (memtables.active.bytes >= config.memtable_flush_threshold || this.isCrowded()) this.request(true)
    else if (wal.length >= config.wal_max_file_size) this.request(wal.file - memtables.active.firstWal + 1 >= config.wal_max_unflushed)
  }

  /** Freezes what is there and resolves when no write is in flight any more before it. @throws STORAGE_FULL when there is no space for a new log file. */
  rotate(): Promise<void> {
    return new Promise((resolve, reject) =>
      this.wal.barrier(() => {
        const error = this.now(true)
        if (error === undefined) resolve()
        else reject(classify(error))
      }),
    )
  }

  /** Few rows each of many tables take far more memory than they have bytes: it must not be full while nothing is flushed that gives some back. */
  private isCrowded(): boolean {
    const { memtables, config } = this
    return memtables.frozen.length === 0 && memtables.memory >= config.max_memtable_memory * SHARE
  }

  private request(freeze: boolean): void {
    this.requested = true
    this.wal.barrier(() => {
      this.requested = false
      this.now(freeze)
    })
  }

  private now(freeze: boolean): unknown {
    const { wal, memtables, config, log } = this
    if (memtables.active.rows === 0 && freeze && wal.length < config.wal_max_file_size) return undefined
    try {
      wal.openFile(wal.file + 1)
    } catch (error) {
      // The disk is full or failing: go on with the file there is, the next write says why.
      log.warn({ err: error }, 'cannot start a new log file')
      return error
    }
    if (freeze) memtables.freeze(wal.file)
    return undefined
  }
}
