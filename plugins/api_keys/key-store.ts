/**
 * Keys as one object each, `auth/keys/<id>.json` below a root, which others may write to as well: generate-key, another node, an operator who removes
 * one. What is in the folder counts; what cannot be read lets nobody in.
 */
import { open, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { makeFolder, replaceFile } from '../../kernel/atomic-file.ts'
import { readBounded } from '../../kernel/bounded-file.ts'
import { MAX_KEYS } from './config.ts'
import type { Envelope } from './envelope.ts'
import { checkRecord, ID, type KeyRecord } from './key-record.ts'
import { Serial } from './serial.ts'

const VERSION = 1
/** Of one object. */
const MAX_BYTES = 1024 * 1024
/** Every object is looked at again after this long, even where the folder shows no change. */
const FULL_SCAN_MS = 60_000
/** A folder's time is coarse: a second change soon after the first may not show. */
const COARSE_MS = 2000
const COARSE_SCAN_MS = 250

export interface StoreOptions {
  root: string
  envelope: Envelope | undefined
  monotonic(): number
}

/** Told of what changed in the folder. */
export interface StoreWatcher {
  /** The object is new or another than before; a record of the same id goes with it. */
  put(record: KeyRecord): void
  /** It is gone, or can no longer be read, for which the reason is given. */
  drop(id: string, reason?: Error): void
}

export class KeyStore {
  readonly folder: string
  private readonly envelope: Envelope | undefined
  private readonly monotonic: () => number
  private readonly serial = new Serial()
  private watcher: StoreWatcher = { put() {}, drop() {} }
  /** What each object looked like when it was read last, by id. */
  private readonly seen = new Map<string, string>()
  /** Of those the ones that could not be used, which the removal of another may change: a name is free again. */
  private readonly unusable = new Set<string>()
  private folderTime = -1n
  private scannedAt = Number.NEGATIVE_INFINITY

  constructor({ root, envelope, monotonic }: StoreOptions) {
    this.folder = join(root, 'auth', 'keys')
    this.envelope = envelope
    this.monotonic = monotonic
  }

  /** Reads all objects. @throws Error naming the one that cannot be read. */
  async open(watcher: StoreWatcher): Promise<void> {
    await makeFolder(this.folder).catch((cause: Error) => {
      const hint = 'have storage.object_store_url, or without it database.data_dir, name a folder that can be written'
      throw new Error(`cannot use "${this.folder}" for API keys: ${cause.message}; ${hint}`, { cause })
    })
    this.watcher = watcher
    const strict = (id: string, reason?: Error): void => {
      if (reason !== undefined) throw this.unreadable(id, reason)
    }
    await this.serial.run(() => this.scan({ put: (record) => watcher.put(record), drop: strict }))
  }

  /** Takes up what has changed in the folder, as far as it shows. */
  refresh(): Promise<void> {
    return this.serial.run(async () => {
      const { mtimeNs } = await stat(this.folder, { bigint: true })
      const since = this.monotonic() - this.scannedAt
      const coarse = Math.abs(Date.now() - Number(mtimeNs / 1_000_000n)) < COARSE_MS && since > COARSE_SCAN_MS
      if (mtimeNs !== this.folderTime || coarse || since > FULL_SCAN_MS) await this.scan(this.watcher)
    })
  }

  /** Takes up one object as it is now. */
  sync(id: string): Promise<void> {
    return this.serial.run(() => this.look(id, this.watcher, true))
  }

  /** @throws NodeJS.ErrnoException; nothing has changed then. */
  write(record: KeyRecord): Promise<void> {
    return this.serial.run(async () => {
      const content = this.envelope === undefined ? { version: VERSION, ...record } : this.envelope.seal(record)
      await replaceFile(this.pathOf(record.id), `${JSON.stringify(content, null, 2)}\n`)
      await this.look(record.id, this.watcher, true)
    })
  }

  /** @throws NodeJS.ErrnoException */
  remove(id: string): Promise<void> {
    return this.serial.run(async () => {
      await rm(this.pathOf(id), { force: true })
      this.forget(id)
      this.watcher.drop(id)
      const folder = await open(this.folder, 'r')
      try {
        await folder.sync()
      } finally {
        await folder.close()
      }
    })
  }

  /** Every record there is, for a caller that does not watch. @throws Error naming the object that cannot be read. */
  async records(): Promise<KeyRecord[]> {
    const found: KeyRecord[] = []
    await this.open({ put: (record) => found.push(record), drop() {} })
    return found
  }

  unreadable(id: string, reason: Error): Error {
    return new Error(`cannot read API key "${this.pathOf(id)}": ${reason.message}; repair or remove the file`, { cause: reason })
  }

  private pathOf(id: string): string {
    return join(this.folder, `${id}.json`)
  }

  private async scan(watcher: StoreWatcher): Promise<void> {
    // The time is taken first: what comes in while the folder is read is found the next time.
    const { mtimeNs } = await stat(this.folder, { bigint: true })
    const ids = (await readdir(this.folder)).filter((name) => name.endsWith('.json') && ID.test(name.slice(0, -5))).map((name) => name.slice(0, -5))
    if (ids.length > MAX_KEYS) throw new Error(`cannot use "${this.folder}": it has ${ids.length} keys, and ${MAX_KEYS} are the limit; remove some`)
    const there = new Set(ids)
    const gone = [...this.seen.keys()].filter((id) => !there.has(id))
    for (const id of gone) {
      this.forget(id)
      watcher.drop(id)
    }
    for (const id of ids) await this.look(id, watcher, gone.length > 0 && this.unusable.has(id))
    this.folderTime = mtimeNs
    this.scannedAt = this.monotonic()
  }

  /** @param always reads it even where it looks as it did. */
  private async look(id: string, watcher: StoreWatcher, always: boolean): Promise<void> {
    try {
      const { ctimeNs, size, ino } = await stat(this.pathOf(id), { bigint: true })
      const looks = `${ctimeNs} ${size} ${ino}`
      if (!always && this.seen.get(id) === looks) return
      this.seen.set(id, looks)
      this.unusable.delete(id)
      const record = this.decode((await readBounded(this.pathOf(id), MAX_BYTES)).toString())
      if (record.id !== id) throw new Error(`it is of the key ${record.id}`)
      watcher.put(record)
    } catch (error) {
      const gone = (error as NodeJS.ErrnoException).code === 'ENOENT'
      if (gone) this.forget(id)
      else this.unusable.add(id)
      watcher.drop(id, gone ? undefined : (error as Error))
    }
  }

  private forget(id: string): void {
    this.seen.delete(id)
    this.unusable.delete(id)
  }

  private decode(text: string): KeyRecord {
    let value: unknown
    try {
      value = JSON.parse(text)
    } catch {
      throw new Error('it is no JSON') // the parser's own text would show a part of it
    }
    if (this.envelope !== undefined) return this.envelope.open(value)
    const { version, ...record } = (value ?? {}) as Record<string, unknown>
    if ('sealed' in record) throw new Error('it is encrypted, and auth.encryption_key_env is not set')
    if (version !== VERSION) throw new Error(`it has version ${JSON.stringify(version)}, and this program reads ${VERSION}`)
    return checkRecord(record)
  }
}
