/**
 * Everything outside the engine that its main thread meets: files, the key-value store under the catalog, engine threads, timers and clocks, the lock
 * of the data directory, and randomness. The real one is the default; the simulator (simulation/) puts a deterministic one in its place.
 *
 * The wall clock comes with the StorageContext.
 */
import { randomBytes } from 'node:crypto'
import { setFlagsFromString } from 'node:v8'
import { Worker } from 'node:worker_threads'
import { type LockTexts, ProcessLock } from 'svcdb/lib/files'
import { moduleUrl } from 'svcdb/lib/modules'
import { type FileSystem, realFileSystem } from '../common/log/file-system.ts'
import { realTimers, type Timers } from '../common/timers.ts'
import { type OpenStore, openLmdb } from './catalog/key-value-store.ts'
import type { FromWorker, ToWorker, WorkerData } from './threads/messages.ts'

export interface Environment {
  fs: FileSystem
  timers: Timers
  /** Opens or makes the store in a directory, which is there. @throws DATABASE_ERROR when it is corrupt. */
  openStore: OpenStore
  startThread(data: WorkerData): EngineWorker
  /** @param path its folder must be there. */
  lock(path: string, texts: LockTexts): DirectoryLock
  random(bytes: number): Buffer
}

/** An engine thread as its owner sees it; a Worker is one. */
export interface EngineWorker {
  postMessage(message: ToWorker): void
  on(event: 'message', listener: (message: FromWorker) => void): unknown
  on(event: 'error', listener: (error: Error) => void): unknown
  once(event: 'exit', listener: (code: number) => void): unknown
  terminate(): Promise<unknown>
}

export interface DirectoryLock {
  acquire(): void
  release(): void
}

/** Why a data directory cannot be opened, by its lock. */
export const lockTexts = (path: string): LockTexts => ({
  held: (holder) => `cannot open data directory: ${holder} has it open ("${path}"); stop it or choose another data_dir`,
  unclear: `cannot open data directory: its lock "${path}" changes hands, or is no lock; start one server only, or remove it`,
  unlockable: (cause) =>
    `cannot open data directory: its lock file "${path}.os" cannot be locked (${cause}); put it on a file system that has locks, or remove the file while no server runs`,
})

const WORKER = moduleUrl('./threads/worker/entry.ts', import.meta.url)

/** An engine thread's own heap is small; V8 would let its young generation grow to several times what it needs. */
const YOUNG_MIB = 16
/**
 * V8 begins with a semi-space of 1 MiB, and lets it grow by what survives, which is next to nothing of a query: every second or third small one would be held up by a
 * collection, and by more while its code is interpreted, which makes an object of each double. V8 takes it for threads that start from here on.
 */
const SEMI_SPACE_MIB = 4

/** @param module what the threads run; tests put a failing one in its place. */
export const threadsRunning =
  (module: URL): Environment['startThread'] =>
  (workerData) => {
    setFlagsFromString(`--min-semi-space-size=${SEMI_SPACE_MIB}`)
    return new Worker(module, { workerData, name: `svc-${workerData.role}`, resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MIB } })
  }

export const realEnvironment: Environment = {
  fs: realFileSystem,
  timers: realTimers,
  openStore: openLmdb,
  startThread: threadsRunning(WORKER),
  lock: (path, texts) => new ProcessLock(path, texts),
  random: randomBytes,
}
