/** What each step of opening a data directory is given. */
import type { StorageContext } from 'svcdb'
import type { Limits } from '../../common/limits.ts'
import type { FsyncPolicy } from '../../common/log/log.ts'
import type { Catalog } from '../catalog/catalog.ts'
import { type DatabaseConfig, workerConfig } from '../config.ts'
import type { Encryption } from '../encryption/open.ts'
import type { Environment } from '../environment.ts'
import type { paths } from '../paths.ts'
import type { Signal } from '../signal.ts'
import type { ThreadRole, WorkerConfig } from '../threads/messages.ts'

export interface Opening {
  config: DatabaseConfig
  context: StorageContext
  environment: Environment
  dataDir: string
  dirs: ReturnType<typeof paths>
  limits: Limits
  policy: FsyncPolicy
  encryption: Encryption
  catalog: Catalog
  counters: ReturnType<Catalog['counters']>
  /** The first log file that is read back. */
  floor: number
  /** When opening began, on the monotonic clock. */
  began: number
  flushWanted: Signal
  tidyWanted: Signal
}

export function threadConfig(role: ThreadRole, { config, limits, dirs, encryption }: Opening): WorkerConfig {
  return { ...workerConfig(config, role), tempDir: dirs.temp, regexTimeoutMs: limits.regexTimeoutMs, ...encryption.worker }
}
