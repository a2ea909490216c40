/**
 * The objects of archived segments, in the store that is attached: read for jobs, deleted when no segment names them and nobody reads them.
 *
 * Invariants
 * - An object that a commit takes out of the manifest is noted in the ledger before: after a crash the next run finds it.
 * - Nothing is written to a store, nor removed, that is another database's (owner.ts).
 */
import { join } from 'node:path'
import type { ObjectStore, StateStore, StorageContext } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import type { FileSystem } from '../../common/log/file-system.ts'
import { within } from '../backup/disk.ts'
import type { DatabaseConfig } from '../config.ts'
import type { SegmentTable } from '../segment/segment-table.ts'
import type { ArchivedObject } from '../threads/messages.ts'
import type { Ledger } from './ledger.ts'
import { ObjectCache } from './object-cache.ts'
import { type Claim, type Identity, requireOwner } from './owner.ts'

interface ArchivedObjectsOptions {
  dataDir: string
  paths: { temp: string; archiveCache: string }
  fs: FileSystem
  config: Pick<DatabaseConfig, 'segment_cache_size' | 'segment_verification'>
  log: StorageContext['log']
  segments: SegmentTable
  ledger: Ledger
  /** Of the database; durable when it resolves. */
  identity(): Promise<Identity>
  /** For the claim on the store. */
  claims: StateStore
  random(bytes: number): Buffer
}

/** @property database the claim is of: what a backup has of it is none of what was restored from it. */
type KeptClaim = Claim & { database: string }
const CLAIM = 'claim'
const TOKEN_BYTES = 16

export class ArchivedObjects {
  private readonly options: ArchivedObjectsOptions
  private attached: { store: ObjectStore; takeOverFrom: string; cache: ObjectCache } | undefined
  private discarding: Promise<void> = Promise.resolve()
  private closed = false
  /** Of passes and removals, one at a time; never rejects. */
  private asking: Promise<unknown> = Promise.resolve()
  /** What this process has put into the store's mark. */
  private held: string | undefined
  /** Objects taken out of the manifest that a query may still read. */
  private readonly inUse = new Set<string>()

  constructor(options: ArchivedObjectsOptions) {
    this.options = options
  }

  get store(): ObjectStore | undefined {
    return this.attached?.store
  }

  get ledger(): Ledger {
    return this.options.ledger
  }

  /** @returns the directory where objects are read. @throws CONFIG_ERROR for a store within the data directory. */
  attach(store: ObjectStore, takeOverFrom: string): string {
    if (this.attached !== undefined) throw new Error(`cannot attach ${store.name}: ${this.attached.store.name} is attached already`)
    const { dataDir, fs, paths, config } = this.options
    if (store.directory !== undefined && within(fs.realpathSync(dataDir), store.directory))
      throw new SvcError('CONFIG_ERROR', `cannot archive to ${store.name}: it lies in the data directory "${dataDir}"; choose a place outside of it`)
    const cache = new ObjectCache(store, paths.archiveCache, config.segment_cache_size, config.segment_verification !== 'off', fs)
    this.attached = { store, takeOverFrom, cache }
    return cache.directory
  }

  /** For a job, until `jobEnded`: see `ObjectCache.fetch`. */
  async fetch(job: number, objects: readonly ArchivedObject[]): Promise<void> {
    if (this.attached === undefined)
      throw new SvcError(
        'OVERLOADED',
        `cannot read archived segment "${objects[0].file}": no object store is attached; add the plugin cold_archive with the remote_url that was in use`,
      )
    return this.attached.cache.fetch(job, objects)
  }

  jobEnded(job: number): void {
    this.attached?.cache.release(job)
  }

  /** To be called before a commit that takes archived segments out of the manifest. */
  async leaving(keys: readonly string[]): Promise<void> {
    if (keys.length === 0) return
    for (const key of keys) this.inUse.add(key)
    await this.ledger.note(keys)
  }

  /** The commit has failed: the segments stay. */
  stay(keys: readonly string[]): void {
    for (const key of keys) this.inUse.delete(key)
  }

  /** Deletes objects that nobody reads any more. What fails, the next run does again. */
  discard(keys: readonly string[]): void {
    if (keys.length === 0) return
    for (const key of keys) this.inUse.delete(key)
    this.discarding = this.discarding.then(() => this.remove(keys))
  }

  /** @throws CONFLICT when the store is another database's, or another copy's, or has nothing of what was put into it. */
  requireOwner(store: ObjectStore): Promise<void> {
    const asked = this.asking.then(() => this.askOwner(store))
    this.asking = asked.catch(() => {})
    return asked
  }

  private async askOwner(store: ObjectStore): Promise<void> {
    const { fs, paths, identity: identityOf, ledger, claims, random } = this.options
    const named = this.named()
    const identity = await identityOf()
    this.held = await requireOwner({
      ...{ store, fs, scratch: join(paths.temp, 'archive-owner'), identity, named: named.size > 0, held: this.held },
      known: async () => [...named, ...(await ledger.keys())],
      takeOverFrom: this.attached?.takeOverFrom ?? '',
      newToken: () => random(TOKEN_BYTES).toString('hex'),
      claims: {
        async read() {
          const kept = await claims.get<KeptClaim>(CLAIM)
          return kept?.database === identity.id ? kept : {}
        },
        write: (claim) => claims.transaction((tx) => tx.put(CLAIM, { ...claim, database: identity.id } satisfies KeptClaim)),
      },
    })
  }

  /** Removes objects that no segment names. */
  async removeUnnamed(store: ObjectStore): Promise<void> {
    const keys = await this.ledger.keys()
    if (keys.length === 0) return
    const named = this.named()
    for (const key of keys) {
      if (this.inUse.has(key)) continue
      if (!named.has(key)) await store.remove(key)
      await this.ledger.forget([key])
    }
  }

  /** Deletes nothing any more. */
  close(): void {
    this.closed = true
  }

  /** Resolves when nothing is being deleted. */
  async settled(): Promise<void> {
    await this.discarding
  }

  /** Keys of archived segments. */
  private named(): Set<string> {
    return new Set(this.options.segments.all().flatMap(({ file, archived }) => (archived ? [file] : [])))
  }

  private async remove(keys: readonly string[]): Promise<void> {
    try {
      for (const key of keys) this.attached?.cache.forget(key)
      const { store } = this
      if (store === undefined || this.closed) return
      await this.requireOwner(store)
      for (const key of keys) {
        if (this.closed) return
        await store.remove(key)
        await this.ledger.forget([key])
      }
    } catch (error) {
      this.options.log.warn({ err: error as Error }, 'cannot delete archived objects that are not needed any more; the next run of the archive does')
    }
  }
}
