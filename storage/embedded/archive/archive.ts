/**
 * Moves old segments into an object store and keeps them readable there.
 *
 * Invariants
 * - The order is: note the key, store the object, read it back and compare, commit the entry in place of the local segments', delete these. A crash
 *   anywhere leaves the local or the archived rows in the manifest, never both and never neither.
 * - An object without an entry is noted in the ledger and goes with the next run; one with an entry is never written again.
 * - Nothing is written to a store, nor removed, that is another database's (owner.ts).
 * - An archived segment is a piece like others: tombstones and cuts apply when it is read, newer pieces are merged with it. It is never rewritten.
 */
import { join } from 'node:path'
import type { ArchiveOptions, ArchiveResult, ArchiveService, ObjectStore, RetentionHold, StateStore, StorageContext } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { earlier } from '../../common/time.ts'
import { within } from '../backup/disk.ts'
import type { Schema } from '../catalog/schema.ts'
import type { DatabaseConfig } from '../config.ts'
import { encryptedField } from '../encryption/open.ts'
import { removeSegmentFiles } from '../segment/segment-file.ts'
import type { ArchivedObject, SegmentMeta } from '../threads/layout.ts'
import type { WorkerPool } from '../threads/pool.ts'
import type { FileSystem } from '../wal/file-system.ts'
import { Ledger } from './ledger.ts'
import { Shelf } from './object-cache.ts'
import type { Partition } from './object-key.ts'
import { type Identity, requireOwner } from './owner.ts'
import { type ArchiveGroup, archivedDay, planArchive, type TableView } from './plan.ts'
import { storeObject } from './store-object.ts'

const NS_PER_SEC = 1_000_000_000n
/** One group that cannot be moved does not hold up the others; after so many it is the store, and the next run tries again. */
const MOST_FAILURES = 3

export interface ArchiveParts {
  dataDir: string
  fs: FileSystem
  paths: { temp: string; archiveCache: string }
  config: Pick<DatabaseConfig, 'segment_cache_size' | 'compaction_max_segment_rows' | 'segment_verification'>
  log: StorageContext['log']
  schema: Schema
  /** Names of fields that are to be encrypted. */
  encrypted: readonly string[]
  holds: ReadonlySet<RetentionHold>
  state: StateStore
  /** Of the database; durable when it resolves. */
  identity(): Promise<Identity>
  pool: Pick<WorkerPool, 'archive' | 'archiveDays' | 'compact' | 'readArchive'>
  lifetime: { readonly clock: bigint; readonly tombstones: { readonly newest: number } }
  /** The manifest and its owner. */
  manifest: {
    readonly segments: ReadonlyMap<number, readonly SegmentMeta[]>
    nextSegment: number
    claim(segments: readonly SegmentMeta[]): (() => void) | undefined
    replace(table: number, removed: readonly SegmentMeta[], added: readonly SegmentMeta[]): Promise<void>
  }
  /** Segments that cannot be read: damaged, or for want of a key. */
  stays(segment: SegmentMeta): boolean
  /** Why nothing can be committed any more. */
  fault(): Error | undefined
}

export class Archive implements ArchiveService {
  private readonly parts: () => ArchiveParts
  private shelf: Shelf | undefined
  private store: ObjectStore | undefined
  private takeOverFrom = ''
  private running: Promise<ArchiveResult> | undefined
  private discarding: Promise<void> = Promise.resolve()
  private closed = false
  /** Objects taken out of the manifest that a query may still read. */
  private readonly inUse = new Set<string>()
  private readonly refused = new Set<number>()
  private nextScratch = 0

  /** @param parts of the engine, once it is open. */
  constructor(parts: () => ArchiveParts) {
    this.parts = parts
  }

  attach(store: ObjectStore, takeOverFrom = ''): void {
    if (this.store !== undefined) throw new Error(`cannot attach ${store.name}: ${this.store.name} is attached already`)
    const { dataDir, fs, paths, config, pool } = this.parts()
    if (store.directory !== undefined && within(fs.realpathSync(dataDir), store.directory))
      throw new SvcError('CONFIG_ERROR', `cannot archive to ${store.name}: it lies in the data directory "${dataDir}"; choose a place outside of it`)
    this.store = store
    this.takeOverFrom = takeOverFrom
    this.shelf = new Shelf(store, paths.archiveCache, config.segment_cache_size, config.segment_verification !== 'off', fs)
    pool.readArchive(this.shelf.directory)
  }

  run(options: ArchiveOptions): Promise<ArchiveResult> {
    if (this.running !== undefined) throw new SvcError('CONFLICT', 'cannot start a run of the archive: one is under way; retry when it has ended')
    this.running = this.runOnce(options).finally(() => {
      this.running = undefined
    })
    return this.running
  }

  /** For a job: see `Shelf.fetch`. */
  async fetch(job: number, objects: readonly ArchivedObject[]): Promise<void> {
    if (this.shelf === undefined)
      throw new SvcError(
        'OVERLOADED',
        `cannot read archived segment "${objects[0].file}": no object store is attached; add the plugin cold_archive with the remote_url that was in use`,
      )
    return this.shelf.fetch(job, objects)
  }

  jobEnded(job: number): void {
    this.shelf?.release(job)
  }

  /** To be called before a commit that takes archived segments out of the manifest. */
  async unsettle(keys: readonly string[]): Promise<void> {
    if (keys.length === 0) return
    for (const key of keys) this.inUse.add(key)
    await new Ledger(this.parts().state).note(keys)
  }

  /** The commit has failed: the segments stay. */
  settle(keys: readonly string[]): void {
    for (const key of keys) this.inUse.delete(key)
  }

  /** Deletes objects that nobody reads any more. What fails, the next run does again. */
  discard(keys: readonly string[]): void {
    if (keys.length === 0) return
    for (const key of keys) this.inUse.delete(key)
    this.discarding = this.discarding.then(() => this.removeObjects(keys))
  }

  /** No new work; resolves when nothing runs any more. Call when the engine threads have ended. */
  async settled(): Promise<void> {
    this.closed = true
    await this.running?.catch(() => {})
    await this.discarding
  }

  private async runOnce({ coldAfterSecs, maxObjects }: ArchiveOptions): Promise<ArchiveResult> {
    const { store } = this
    const { fault, state, config, lifetime, stays } = this.parts()
    const result: ArchiveResult = { objects: 0, rows: 0, awaitingRollup: 0, incomplete: 0 }
    let failures = 0
    try {
      if (store === undefined) throw new SvcError('INVALID_REQUEST', 'cannot archive: no object store is attached')
      const cause = fault()
      if (cause !== undefined) throw cause
      await this.discarding
      await this.own(store)
      await this.settleLedger(store, new Ledger(state))
      const threshold = lifetime.clock - BigInt(coldAfterSecs) * NS_PER_SEC
      const plan = planArchive(this.views(), threshold, { days: maxObjects, rows: config.compaction_max_segment_rows }, stays)
      result.awaitingRollup = plan.awaiting
      result.incomplete = plan.incomplete
      for (const group of plan.groups) {
        if (result.objects >= maxObjects) break
        this.assertOpen()
        const moved = await this.move(store, group, maxObjects - result.objects).catch((error: Error) => {
          result.failure ??= error
          failures++
          return []
        })
        if (failures === MOST_FAILURES) break
        result.objects += moved.length
        result.rows += moved.reduce((sum, { rows }) => sum + rows, 0)
      }
    } catch (error) {
      result.failure ??= error as Error
    }
    return result
  }

  /** @returns the archived segments. */
  private async move(store: ObjectStore, group: ArchiveGroup, most: number): Promise<SegmentMeta[]> {
    const { manifest, pool, schema, dataDir, fs, lifetime, state, fault } = this.parts()
    const { table } = group
    const release = manifest.claim(group.segments)
    if (release === undefined) return [] // it is being merged: the next run finds what comes of it
    const ledger = new Ledger(state)
    const objects: SegmentMeta[] = []
    const rests: SegmentMeta[] = []
    let committed = false
    try {
      const request = { table, segments: group.segments.map(({ id }) => id) }
      const days = await pool.archiveDays({ ...request, before: String(group.before) })
      const end = days[most] ?? group.before
      for (const day of days.slice(0, most)) {
        this.assertOpen()
        const object = await this.writeDay(store, ledger, group, day)
        if (object !== null) objects.push(object)
      }
      const removed = group.segments.filter(({ minTime }) => BigInt(minTime) < end)
      for (const { id, sequence, level, dirty } of removed.filter(({ maxTime }) => BigInt(maxTime) >= end)) {
        this.assertOpen()
        const segment = manifest.nextSegment++
        const cleared = lifetime.tombstones.newest
        const rest = await pool.compact({ table, segments: [id], segment, sequence, level, deduplicate: false, dirty, cleared, from: String(end) })
        if (rest !== null) rests.push(rest)
      }
      this.assertOpen()
      if (removed.length === 0 || schema.tables[table] === undefined) return [] // dropped meanwhile
      await manifest.replace(table, removed, [...objects, ...rests])
      committed = true
      await ledger.forget(objects.map(({ file }) => file))
      return objects
    } finally {
      release()
      // After a commit of unknown outcome they stay: the catalog may name them.
      if (!committed && fault() === undefined)
        await removeSegmentFiles(
          rests.map(({ file }) => join(dataDir, file)),
          fs,
        )
    }
  }

  private async writeDay(store: ObjectStore, ledger: Ledger, group: ArchiveGroup, day: bigint): Promise<SegmentMeta | null> {
    const { manifest, pool, schema, fs, paths, lifetime } = this.parts()
    const { table } = group
    const others = (manifest.segments.get(table) ?? []).filter((segment) => !group.segments.includes(segment))
    const owner = schema.tables[table]?.measurement
    const alone = owner === undefined || owner < 0 || (schema.any(owner)?.tables.length ?? 1) === 1
    const { segments, time, ...piece } = archivedDay(group.segments, day, others, alone)
    const path = join(paths.temp, `archive-${this.nextScratch++}.parquet`)
    try {
      const written = await pool.archive({
        table,
        segments: segments.map(({ id }) => id),
        segment: manifest.nextSegment++,
        ...piece,
        time: [String(time[0]), String(time[1])],
        cleared: lifetime.tombstones.newest,
        path,
      })
      return written === null ? null : await storeObject(store, ledger, written, { path, day, partition: this.partition(table) }, fs)
    } finally {
      await removeSegmentFiles([path], fs)
    }
  }

  private partition(table: number): Partition {
    const { schema } = this.parts()
    const { measurement, fields } = schema.tables[table] ?? { measurement: -1, fields: [] }
    const owner = schema.any(measurement)
    return owner === undefined ? { shared: fields[0]?.name ?? '' } : { namespace: owner.namespace, measurement: owner.name }
  }

  /** Tables that may be archived. */
  private views(): TableView[] {
    const { schema, manifest, encrypted, log } = this.parts()
    const views: TableView[] = []
    for (const [table, segments] of manifest.segments) {
      const def = schema.tables[table]
      // A drop that can be undone waits: it may come back, or go for good.
      if (def === undefined || schema.pending.has(def.measurement)) continue
      const field = encryptedField(encrypted, def.fields, segments)
      if (field !== undefined) {
        if (!this.refused.has(table))
          log.warn({ measurement: schema.any(def.measurement)?.name, field: field.name }, 'data with an encrypted field is not archived')
        this.refused.add(table)
        continue
      }
      views.push({ table, segments, neededFrom: this.neededFrom(table) })
    }
    return views
  }

  private neededFrom(table: number): bigint | undefined {
    const { schema, holds } = this.parts()
    let needed: bigint | undefined
    if (holds.size === 0) return needed
    for (const measurement of schema.byId) {
      if (measurement?.tables.some(({ id }) => id === table) !== true) continue
      for (const hold of holds) {
        const time = hold(measurement.namespace, measurement.name)
        if (time !== undefined) needed = needed === undefined ? time : earlier(needed, time)
      }
    }
    return needed
  }

  /** @throws CONFLICT when the store is another database's. */
  private async own(store: ObjectStore): Promise<void> {
    const { fs, paths, identity } = this.parts()
    await requireOwner({ store, fs, tempDir: paths.temp, identity: await identity(), named: this.named().size > 0, takeOverFrom: this.takeOverFrom })
  }

  /** Keys of archived segments. */
  private named(): Set<string> {
    return new Set([...this.parts().manifest.segments.values()].flat().flatMap(({ file, archived }) => (archived ? [file] : [])))
  }

  /** Removes objects that no segment names. */
  private async settleLedger(store: ObjectStore, ledger: Ledger): Promise<void> {
    const keys = await ledger.keys()
    if (keys.length === 0) return
    const named = this.named()
    for (const key of keys) {
      if (this.inUse.has(key)) continue
      if (!named.has(key)) await store.remove(key)
      await ledger.forget([key])
    }
  }

  private async removeObjects(keys: readonly string[]): Promise<void> {
    for (const key of keys) this.shelf?.forget(key)
    try {
      if (this.store !== undefined && !this.closed) await this.own(this.store)
      for (const key of keys) {
        if (this.store === undefined || this.closed) continue
        await this.store.remove(key)
        await new Ledger(this.parts().state).forget([key])
      }
    } catch (error) {
      this.parts().log.warn({ err: error as Error }, 'cannot delete archived objects that are not needed any more; the next run of the archive does')
    }
  }

  private assertOpen(): void {
    if (this.closed) throw new SvcError('DATABASE_CLOSED', 'the database is shutting down; what is left is archived after the restart')
  }
}
