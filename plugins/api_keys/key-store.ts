/**
 * Keys as one object each, `auth/keys/<id>.json` below a root, which others may write to as well: generate-key, another node, an operator who removes
 * one. What is in the folder counts; what cannot be read lets nobody in.
 */
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { type FileCalls, makeFolder, readBounded, realFileCalls, replaceFile, syncFolder } from 'svcdb/lib/files'
import { MAX_KEYS } from './config.ts'
import type { Envelope } from './envelope.ts'
import { decodeObject, encodeObject, idsOf, MAX_OBJECT_BYTES, parseObject } from './key-object.ts'
import type { KeyRecord } from './key-record.ts'
import { Serial } from './serial.ts'

/** Every object is looked at again after this long, even where the folder shows no change. */
const FULL_SCAN_MS = 60_000
/** A folder's time is coarse: a second change soon after the first may not show. */
const COARSE_MS = 2000
const COARSE_SCAN_MS = 250

interface StoreOptions {
  root: string
  envelope: Envelope | undefined
  monotonic(): number
  calls?: FileCalls
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
  private readonly calls: FileCalls
  private readonly serial = new Serial()
  private watcher: StoreWatcher = { put() {}, drop() {} }
  /** What each object looked like when it was read last, by id. */
  private readonly seen = new Map<string, string>()
  /** Of those the ones that could not be used, which the removal of another may change: a name is free again. */
  private readonly unusable = new Set<string>()
  private folderTime = -1n
  private scannedAt = Number.NEGATIVE_INFINITY

  constructor({ root, envelope, monotonic, calls = realFileCalls }: StoreOptions) {
    this.calls = calls
    this.folder = join(root, 'auth', 'keys')
    this.envelope = envelope
    this.monotonic = monotonic
  }

  /** Reads all objects. @throws Error naming the one that cannot be read. */
  async open(watcher: StoreWatcher): Promise<void> {
    await makeFolder(this.folder, this.calls).catch((cause: Error) => {
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
      const text = JSON.stringify(encodeObject(record, this.envelope), null, 2)
      await replaceFile(this.pathOf(record.id), `${text}\n`, this.calls)
      await this.look(record.id, this.watcher, true)
    })
  }

  /** @throws NodeJS.ErrnoException */
  remove(id: string): Promise<void> {
    return this.serial.run(async () => {
      await this.calls.rm(this.pathOf(id), { force: true })
      this.forget(id)
      this.watcher.drop(id)
      // Without it a power cut brings the key back.
      await syncFolder(this.folder, this.calls)
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
    const ids = idsOf(await readdir(this.folder), '.json')
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
      const text = (await readBounded(this.pathOf(id), MAX_OBJECT_BYTES)).toString()
      watcher.put(decodeObject(parseObject(text), id, this.envelope))
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
}
