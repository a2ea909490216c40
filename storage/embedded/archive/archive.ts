/**
 * Moves old segments into an object store.
 *
 * Invariants
 * - The order is: note the key, store the object, read it back and compare, commit the entry in place of the local segments', delete these. A crash
 *   anywhere leaves the local or the archived rows in the manifest, never both and never neither.
 * - An object without an entry is noted in the ledger and goes with the next run; one with an entry is never written again.
 * - An archived segment is a source like others: tombstones and cutoffs apply when it is read, newer sources are merged with it. It is never rewritten.
 */
import { join } from 'node:path'
import type { ArchiveOptions, ArchiveResult, ArchiveService, ObjectStore, RetentionHold, StorageContext } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import type { FileSystem } from '../../common/log/file-system.ts'
import { earlier } from '../../common/time.ts'
import type { Schema } from '../catalog/schema.ts'
import type { DatabaseConfig } from '../config.ts'
import { encryptedField } from '../encryption/open.ts'
import type { RetentionClock } from '../retention/clock.ts'
import type { Tombstones } from '../retention/tombstones.ts'
import type { Manifest } from '../segment/manifest.ts'
import { removeSegmentFiles } from '../segment/segment-file.ts'
import type { SegmentTable } from '../segment/segment-table.ts'
import type { WorkerPool } from '../threads/pool/pool.ts'
import type { SegmentMeta } from '../threads/segment-entry.ts'
import type { ArchivedObjects } from './archived-objects.ts'
import type { Partition } from './object-key.ts'
import { type ArchiveGroup, archivedDay, planArchive, type TableView } from './plan.ts'
import { storeObject } from './store-object.ts'

const NS_PER_SEC = 1_000_000_000n
/** One group that cannot be moved does not hold up the others; after so many it is the store, and the next run tries again. */
const MAX_FAILURES = 3

interface ArchiveDependencies {
  dataDir: string
  tempDir: string
  fs: FileSystem
  config: Pick<DatabaseConfig, 'compaction_max_segment_rows' | 'field_encryption'>
  log: StorageContext['log']
  schema: Schema
  segments: SegmentTable
  manifest: Manifest
  objects: ArchivedObjects
  pool: WorkerPool
  clock: RetentionClock
  tombstones: Tombstones
  holds: ReadonlySet<RetentionHold>
  /** Segments that cannot be read: corrupt, or for want of a key. */
  unreadable(segment: SegmentMeta): boolean
  /** Why nothing can be committed any more. */
  fault(): Error | undefined
}

export class Archive implements ArchiveService {
  private readonly dependencies: ArchiveDependencies
  private running: Promise<ArchiveResult> | undefined
  private closed = false
  private readonly refused = new Set<number>()
  private nextScratch = 0

  constructor(dependencies: ArchiveDependencies) {
    this.dependencies = dependencies
  }

  attach(store: ObjectStore, takeOverFrom = ''): void {
    const { objects, pool } = this.dependencies
    pool.readArchive(objects.attach(store, takeOverFrom))
  }

  run(options: ArchiveOptions): Promise<ArchiveResult> {
    if (this.running !== undefined) throw new SvcError('CONFLICT', 'cannot start a run of the archive: one is under way; retry when it has ended')
    this.running = this.runOnce(options).finally(() => {
      this.running = undefined
    })
    return this.running
  }

  /** No new work; resolves when nothing runs any more. Call when the engine threads have ended. */
  async settled(): Promise<void> {
    const { objects } = this.dependencies
    this.closed = true
    objects.close()
    await this.running?.catch(() => {})
    await objects.settled()
  }

  private async runOnce({ coldAfterSecs, maxObjects }: ArchiveOptions): Promise<ArchiveResult> {
    const { fault, objects, config, clock, unreadable } = this.dependencies
    const { store } = objects
    const result: ArchiveResult = { objects: 0, rows: 0, awaitingRollup: 0, incomplete: 0 }
    let failures = 0
    try {
      if (store === undefined) throw new SvcError('INVALID_REQUEST', 'cannot archive: no object store is attached')
      const cause = fault()
      if (cause !== undefined) throw cause
      await objects.settled()
      await objects.requireOwner(store)
      await objects.removeUnnamed(store)
      const threshold = clock.now - BigInt(coldAfterSecs) * NS_PER_SEC
      const plan = planArchive(this.views(), threshold, { days: maxObjects, rows: config.compaction_max_segment_rows }, unreadable)
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
        if (failures === MAX_FAILURES) break
        result.objects += moved.length
        result.rows += moved.reduce((sum, { rows }) => sum + rows, 0)
      }
    } catch (error) {
      result.failure ??= error as Error
    }
    return result
  }

  /** @returns the archived segments. */
  private async move(store: ObjectStore, group: ArchiveGroup, maxObjects: number): Promise<SegmentMeta[]> {
    const { segments, manifest, objects: archived, pool, schema, dataDir, fs, tombstones, fault } = this.dependencies
    const { table } = group
    const release = segments.claim(group.segments)
    if (release === undefined) return [] // it is being merged: the next run finds what comes of it
    const objects: SegmentMeta[] = []
    const rests: SegmentMeta[] = []
    let committed = false
    try {
      const request = { table, segments: group.segments.map(({ id }) => id) }
      const days = await pool.archiveDays({ ...request, before: String(group.before) })
      const end = days[maxObjects] ?? group.before
      for (const day of days.slice(0, maxObjects)) {
        this.assertOpen()
        const object = await this.writeDay(store, group, day)
        if (object !== null) objects.push(object)
      }
      const removed = group.segments.filter(({ minTime }) => BigInt(minTime) < end)
      for (const { id, sequence, level, dirty } of removed.filter(({ maxTime }) => BigInt(maxTime) >= end)) {
        this.assertOpen()
        const segment = segments.reserve()
        const cleared = tombstones.newest
        const rest = await pool.compact({ table, segments: [id], segment, sequence, level, deduplicate: false, dirty, cleared, from: String(end) })
        if (rest !== null) rests.push(rest)
      }
      this.assertOpen()
      if (removed.length === 0 || schema.tables[table] === undefined) return [] // dropped meanwhile
      await manifest.replace(removed, [...objects, ...rests])
      committed = true
      await archived.ledger.forget(objects.map(({ file }) => file))
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

  private async writeDay(store: ObjectStore, group: ArchiveGroup, day: bigint): Promise<SegmentMeta | null> {
    const { objects, pool, schema, fs, tempDir, tombstones } = this.dependencies
    const { table } = group
    const others = this.dependencies.segments.of(table).filter((segment) => !group.segments.includes(segment))
    const owner = schema.tables[table]?.measurement
    const alone = owner === undefined || owner < 0 || (schema.any(owner)?.tables.length ?? 1) === 1
    const { segments, time, ...source } = archivedDay(group.segments, day, others, alone)
    const path = join(tempDir, `archive-${this.nextScratch++}.parquet`)
    try {
      const written = await pool.archive({
        table,
        segments: segments.map(({ id }) => id),
        segment: this.dependencies.segments.reserve(),
        ...source,
        time: [String(time[0]), String(time[1])],
        cleared: tombstones.newest,
        path,
      })
      return written === null ? null : await storeObject(store, objects.ledger, written, { path, day, partition: this.partition(table) }, fs)
    } finally {
      await removeSegmentFiles([path], fs)
    }
  }

  private partition(table: number): Partition {
    const { schema } = this.dependencies
    const { measurement, fields } = schema.tables[table] ?? { measurement: -1, fields: [] }
    const owner = schema.any(measurement)
    return owner === undefined ? { shared: fields[0]?.name ?? '' } : { namespace: owner.namespace, measurement: owner.name }
  }

  /** Tables that may be archived. */
  private views(): TableView[] {
    const { schema, segments: all, config, log } = this.dependencies
    const encrypted = Object.keys(config.field_encryption?.columns ?? {})
    const views: TableView[] = []
    for (const [table, segments] of all.tables) {
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
    const { schema, holds } = this.dependencies
    let needed: bigint | undefined
    if (holds.size === 0) return needed
    const owner = schema.tables[table]?.measurement ?? -1
    // Only a table that measurements share has one look at all of them.
    for (const measurement of owner < 0 ? schema.byId : [schema.byId[owner]]) {
      if (measurement?.tables.some(({ id }) => id === table) !== true) continue
      for (const hold of holds) {
        const time = hold(measurement.namespace, measurement.name)
        if (time !== undefined) needed = needed === undefined ? time : earlier(needed, time)
      }
    }
    return needed
  }

  private assertOpen(): void {
    if (this.closed) throw new SvcError('DATABASE_CLOSED', 'the database is shutting down; what is left is archived after the restart')
  }
}
