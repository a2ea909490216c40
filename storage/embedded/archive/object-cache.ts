/**
 * Makes archived objects readable for jobs: in place where the store is a folder, else as local copies, of which those least recently used go when
 * others need their space. An object is checked as a whole before its first use.
 *
 * Invariants: the copies' bytes, those under way included, stay within the limit; a copy that a running job may read stays.
 */
import { dirname, join } from 'node:path'
import type { ObjectStore } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import type { FileSystem } from '../../common/log/file-system.ts'
import { segmentFault } from '../integrity/trust.ts'
import type { ArchivedObject } from '../threads/messages.ts'

/** Objects fetched at a time for one job. */
const LANES = 4

interface Copy {
  bytes: number
  readers: Set<number>
  /** Set by whoever needs it first. */
  ready?: Promise<void>
  /** It is under way: its job may have ended. */
  loading?: boolean
}

export class ObjectCache {
  /** Where the objects are read, by key. */
  readonly directory: string
  private readonly store: ObjectStore
  private readonly fs: FileSystem
  private readonly maxBytes: number
  private readonly compares: boolean
  /** In the order of their last use. */
  private readonly copies = new Map<string, Copy>()
  private readonly checked = new Map<string, Promise<void>>()
  private used = 0
  private next = 0

  /**
   * @param cacheDir for copies; emptied.
   * @param compares whether objects that are read in place are compared with their checksums.
   */
  constructor(store: ObjectStore, cacheDir: string, maxBytes: number, compares: boolean, fs: FileSystem) {
    this.fs = fs
    this.compares = compares
    this.store = store
    this.maxBytes = maxBytes
    this.directory = store.directory ?? cacheDir
    fs.rmSync(cacheDir)
    if (store.directory === undefined) fs.mkdirSync(cacheDir)
  }

  /** @throws OVERLOADED when the store cannot be reached or the copies do not fit, DATABASE_ERROR for an object that is not what was written. */
  async fetch(job: number, objects: readonly ArchivedObject[]): Promise<void> {
    const inPlace = this.store.directory !== undefined
    const waiting = inPlace ? objects.map((object) => () => this.check(object)) : this.hold(job, objects)
    let at = 0
    const lane = async (): Promise<void> => {
      try {
        while (at < waiting.length) await waiting[at++]()
      } finally {
        at = waiting.length // one that fails ends the others
      }
    }
    await Promise.all(Array.from({ length: Math.min(LANES, waiting.length) }, lane))
  }

  /** The job has ended. */
  release(job: number): void {
    for (const copy of this.copies.values()) copy.readers.delete(job)
  }

  /** An object is gone for good, and nobody reads it. */
  forget(key: string): void {
    this.checked.delete(key)
    const copy = this.copies.get(key)
    if (copy !== undefined) this.drop(key, copy)
  }

  private async check(object: ArchivedObject): Promise<void> {
    const { file, bytes } = object
    let check = this.checked.get(file)
    if (check === undefined) this.checked.set(file, (check = this.compares ? this.compare(object) : Promise.resolve()))
    try {
      await check
      const found = await this.fs.promises.stat(join(this.directory, file)).catch((error: unknown) => this.unreadable(file, error))
      if (found.size !== bytes) throw corrupt(file, `it has ${found.size} bytes, the catalog says ${bytes}`)
    } catch (error) {
      this.checked.delete(file)
      throw error
    }
  }

  private async compare(object: ArchivedObject): Promise<void> {
    const fault = await segmentFault(this.directory, object, undefined, this.fs).catch((error: unknown) => this.unreadable(object.file, error))
    if (fault === undefined) return
    // A folder that is not mounted looks empty.
    if (fault === 'it is missing') this.unreadable(object.file, new Error(fault))
    throw corrupt(object.file, fault)
  }

  /** Finds room for all at once and keeps it for the job. @returns what is left to wait for. */
  private hold(job: number, objects: readonly ArchivedObject[]): (() => Promise<void>)[] {
    const missing = objects.filter(({ file }) => !this.copies.has(file))
    for (const { file } of objects) {
      const copy = this.copies.get(file)
      if (copy === undefined) continue
      copy.readers.add(job)
      this.copies.delete(file)
      this.copies.set(file, copy)
    }
    const needed = missing.reduce((sum, { bytes }) => sum + bytes, 0)
    for (const [key, copy] of this.copies) {
      if (this.used + needed <= this.maxBytes) break
      if (copy.readers.size === 0 && copy.loading !== true) this.drop(key, copy)
    }
    if (this.used + needed > this.maxBytes) {
      const all = objects.reduce((sum, { bytes }) => sum + bytes, 0)
      throw new SvcError(
        'OVERLOADED',
        `cannot read ${objects.length} archived segments of ${all} bytes: [database] segment_cache_size = ${this.maxBytes} is all there is for copies; read a shorter time range, retry when other queries have ended, or raise it`,
      )
    }
    for (const { file, bytes } of missing) {
      this.used += bytes
      this.copies.set(file, { bytes, readers: new Set([job]) })
    }
    return objects.map((object) => async () => {
      const copy = this.copies.get(object.file)
      if (copy === undefined) throw new SvcError('OVERLOADED', `cannot read archived segment "${object.file}": another query failed to fetch it; retry`)
      copy.ready ??= this.load(object, copy)
      try {
        await copy.ready
      } catch (error) {
        this.drop(object.file, copy)
        throw error
      }
    })
  }

  private async load(object: ArchivedObject, copy: Copy): Promise<void> {
    copy.loading = true
    try {
      await this.download(object)
    } finally {
      copy.loading = false
      // It may be gone for good meanwhile.
      if (!this.copies.has(object.file)) this.fs.rmSync(join(this.directory, object.file))
    }
  }

  private async download(object: ArchivedObject): Promise<void> {
    const { file } = object
    const target = join(this.directory, file)
    const unfinished = `${target}.${this.next++}.unfinished`
    const { mkdir, rename, rm } = this.fs.promises
    await mkdir(dirname(target), { recursive: true })
    try {
      await this.store.get(file, unfinished, object.bytes).catch((error: unknown) => {
        if (error instanceof SvcError && error.code === 'DATABASE_ERROR') throw corrupt(file, error.message)
        this.unreadable(file, error)
      })
      const fault = await segmentFault(this.directory, { ...object, file: unfinished.slice(this.directory.length + 1) }, undefined, this.fs)
      if (fault !== undefined) throw corrupt(file, fault)
      await rename(unfinished, target)
    } finally {
      await rm(unfinished, { force: true })
    }
  }

  /** At once: a new copy may be under way with the next call. */
  private drop(key: string, copy: Copy): void {
    if (this.copies.get(key) !== copy) return
    this.copies.delete(key)
    this.used -= copy.bytes
    this.fs.rmSync(join(this.directory, key))
  }

  private unreadable(key: string, cause: unknown): never {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw new SvcError(
      'OVERLOADED',
      `cannot read archived segment "${key}" from ${this.store.name}: ${why}; what is not archived is served, retry when it answers`,
      {
        cause,
      },
    )
  }
}

function corrupt(key: string, cause: string): SvcError {
  return new SvcError('DATABASE_ERROR', `cannot read archived segment "${key}": ${cause}; restore the object from a copy of the store`)
}
