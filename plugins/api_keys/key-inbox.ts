/**
 * `auth/keys/` in the data directory: how keys come and go without HTTP. A file `<id>.json` is a key to be taken, or to be put in place of the one of its
 * id; `<id>.revoked`, whatever is in it, revokes one. What was taken is removed.
 *
 * Order: recorded in the audit log, committed to the state store, removed from the folder, the folder synced, and only then in use. So a file that a crash or a power cut leaves is
 * of a key that nobody has revoked since; and one of a key that was revoked is refused.
 */
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { type FileCalls, readBounded, realFileCalls, syncFolder } from 'svcdb/lib/files'
import type { Envelope } from './envelope.ts'
import type { KeptKeys } from './kept-keys.ts'
import { decodeObject, idsOf, MAX_OBJECT_BYTES, parseObject } from './key-object.ts'
import type { KeyRecord } from './key-record.ts'

const RECORDED_AT_ONCE = 100

interface InboxOptions {
  folder: string
  kept: KeptKeys
  envelope: Envelope | undefined
  /** Whether keys are taken; false = revocations only. */
  keys: boolean
  /** Resolves when the change is in the audit log, where one is kept. @throws when it cannot be: nothing is taken then. */
  record(change: InboxChange): Promise<void>
  calls?: FileCalls
}

export interface InboxChange {
  /** Put: a new key, or another record in the place of one. */
  what: 'put' | 'replaced' | 'revoked'
  id: string
  /** Of what was put. */
  key?: KeyRecord
}

export interface InboxWatcher {
  /** @throws Error in a few words for a key that cannot be used beside the others: it stays in the folder. */
  check(record: KeyRecord): void
  put(record: KeyRecord): void
  drop(id: string): void
  /** A file that is of no use. */
  refused(file: string, reason: Error): void
}

export class KeyInbox {
  private readonly options: InboxOptions
  private readonly calls: FileCalls
  /** Taken, and not in use yet, because the folder could not be synced. */
  private readonly unsettled = new Map<string, KeyRecord>()
  /** Files that were refused, each of which is reported once. */
  private readonly refused = new Set<string>()

  constructor(options: InboxOptions) {
    this.options = options
    this.calls = options.calls ?? realFileCalls
  }

  /** Takes revocations. One call at a time, of `take` as well. @throws NodeJS.ErrnoException, or what the state store throws: the next call goes on. */
  async revoke(watcher: Pick<InboxWatcher, 'drop'>): Promise<void> {
    const { folder, kept } = this.options
    const ids = idsOf(await this.names(), '.revoked')
    if (ids.length === 0) return
    await this.record(ids.map((id) => ({ what: 'revoked', id })))
    await kept.remove(ids)
    for (const id of ids) watcher.drop(id)
    for (const id of ids) await this.calls.rm(join(folder, `${id}.revoked`), { force: true })
    await syncFolder(folder, this.calls)
  }

  /** Takes revocations, then keys. @throws as `revoke`. */
  async take(watcher: InboxWatcher): Promise<void> {
    const { folder, kept, keys } = this.options
    await this.revoke(watcher)
    if (!keys) return
    const records = await this.records(idsOf(await this.names(), '.json'), watcher)
    const found = await Promise.all(records.map(async (one) => ({ ...one, name: one.record.name, replaces: (await kept.storedOf(one.id)) !== undefined })))
    await this.record(found.map(({ id, record, replaces }) => ({ what: replaces ? 'replaced' : 'put', id, key: record })))
    if (found.length > 0) await kept.putFiled(found)
    for (const { id, record } of records) this.unsettled.set(id, record)
    if (this.unsettled.size === 0) return
    for (const { id } of records) await this.calls.rm(join(folder, `${id}.json`), { force: true })
    await syncFolder(folder, this.calls)
    const settled = [...this.unsettled.values()]
    this.unsettled.clear()
    for (const record of settled) {
      if ((await kept.storedOf(record.id)) === undefined) continue
      try {
        watcher.put(record)
      } catch (error) {
        // Another took the name in this moment.
        await kept.remove([record.id], record.name)
        watcher.refused(join(folder, `${record.id}.json`), error as Error)
      }
    }
  }

  /** In parts, for which the audit log has room. */
  private async record(changes: readonly InboxChange[]): Promise<void> {
    for (let i = 0; i < changes.length; i += RECORDED_AT_ONCE)
      await Promise.all(changes.slice(i, i + RECORDED_AT_ONCE).map((change) => this.options.record(change)))
  }

  private async names(): Promise<string[]> {
    return readdir(this.options.folder).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return []
      throw error
    })
  }

  private async records(ids: readonly string[], watcher: InboxWatcher): Promise<{ id: string; value: unknown; record: KeyRecord }[]> {
    const { folder, kept, envelope } = this.options
    for (const name of this.refused) if (!ids.includes(name.slice(0, -'.json'.length))) this.refused.delete(name)
    const found: { id: string; value: unknown; record: KeyRecord }[] = []
    for (const id of ids) {
      const name = `${id}.json`
      try {
        const value = parseObject((await readBounded(join(folder, name), MAX_OBJECT_BYTES)).toString())
        const record = decodeObject(value, id, envelope)
        if (await kept.isGone(id)) throw new Error('the key was revoked, and does not come back')
        if (found.some((other) => other.record.name === record.name)) throw new Error(`another file has a key of the name ${JSON.stringify(record.name)}`)
        watcher.check(record)
        found.push({ id, value, record })
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ENOENT' || this.refused.has(name)) continue
        this.refused.add(name)
        watcher.refused(join(folder, name), error as Error)
      }
    }
    return found
  }
}
