/** What the state store has of keys: those made over HTTP, those that commands and others put, and who was revoked. See docs/formats/api-keys.md. */
import { type Following, followState, importState, type StateStore } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { checkRecord, type KeyRecord } from './key-record.ts'
import { decodeKeyFile, MAX_FILE_BYTES } from './runtime-file.ts'

/** What keys of entries begin with. */
export const RUNTIME = 'runtime/'
export const STORED = 'stored/'
/** Names of keys of the config. */
const REVOKED = 'revoked/'
/** Ids of keys that were made: none of them comes back, whatever file turns up. */
const GONE = 'gone/'

export interface KeptRecord {
  id: string
  value: unknown
}

/** Which entries another node may have changed: ids of keys, and names of revoked ones. */
export interface KeptChanges {
  runtime: readonly string[]
  stored: readonly string[]
  revoked: readonly string[]
}

export class KeptKeys {
  private readonly state: StateStore
  private readonly now: () => number

  /** @param now Unix seconds. */
  constructor(state: StateStore, now: () => number) {
    this.state = state
    this.now = now
  }

  /** Imports the file of older versions. @throws SvcError naming it when it cannot be used. */
  async open(legacy: string | undefined): Promise<void> {
    const read = (text: string) => {
      const { keys, revoked } = decodeKeyFile(text)
      return (tx: { put(key: string, value: unknown): void }) => {
        for (const record of keys) tx.put(RUNTIME + record.id, record)
        for (const { name, revoked_at } of revoked) tx.put(REVOKED + name, { revoked_at })
      }
    }
    await importState(this.state, { path: legacy, maxBytes: MAX_FILE_BYTES, what: 'API keys', read })
  }

  /** Has all read, and then what other nodes change. @param apply undefined = all is to be read. */
  follow(apply: (changes: KeptChanges | undefined) => Promise<void>, failed: (error: Error) => void): Promise<Following> {
    const prefixes = [RUNTIME, STORED, REVOKED]
    return followState(this.state, {
      prefixes,
      failed,
      apply(keys) {
        if (keys === undefined) return apply(undefined)
        const [runtime, stored, revoked] = prefixes.map((prefix) => [...keys].filter((key) => key.startsWith(prefix)).map((key) => key.slice(prefix.length)))
        return apply({ runtime, stored, revoked })
      },
    })
  }

  /** Keys made over HTTP, unread. */
  runtime(): Promise<KeptRecord[]> {
    return this.list(RUNTIME)
  }

  /** One of them; undefined when it is gone. */
  runtimeOf(id: string): Promise<unknown> {
    return this.state.get(RUNTIME + id)
  }

  storedOf(id: string): Promise<unknown> {
    return this.state.get(STORED + id)
  }

  /** Objects as they were put, which may be sealed. */
  stored(): Promise<KeptRecord[]> {
    return this.list(STORED)
  }

  async revoked(): Promise<Set<string>> {
    return new Set((await this.list(REVOKED)).map(({ id }) => id))
  }

  async isGone(id: string): Promise<boolean> {
    return (await this.state.get(GONE + id)) !== undefined
  }

  /** @throws CONFLICT when another node has just used the name. */
  putRuntime(record: KeyRecord): Promise<void> {
    return this.state.transaction(async (tx) => {
      for (const { value } of await tx.list<Partial<KeyRecord>>({ prefix: RUNTIME })) if (value.name === record.name) throw taken(record.name)
      tx.put(RUNTIME + record.id, record)
    })
  }

  /** Leaves out those that were revoked meanwhile. @param unique for a new one, whose name no other may have. @throws CONFLICT when they do. */
  putStored(records: readonly KeptRecord[], unique?: { name: string; nameOf(kept: KeptRecord): string | undefined }): Promise<void> {
    return this.state.transaction(async (tx) => {
      if (unique !== undefined)
        for (const { key, value } of await tx.list({ prefix: STORED }))
          if (unique.nameOf({ id: key.slice(STORED.length), value }) === unique.name) throw taken(unique.name)
      for (const { id, value } of records) if ((await tx.get(GONE + id)) === undefined) tx.put(STORED + id, value)
    })
  }

  /** For ever. */
  remove(ids: readonly string[]): Promise<void> {
    return this.state.transaction((tx) => {
      for (const id of ids) {
        tx.delete(RUNTIME + id)
        tx.delete(STORED + id)
        tx.put(GONE + id, { revoked_at: this.now() })
      }
    })
  }

  /** A key of the config, for ever. */
  revoke(name: string): Promise<void> {
    return this.state.transaction((tx) => tx.put(REVOKED + name, { revoked_at: this.now() }))
  }

  private async list(prefix: string): Promise<KeptRecord[]> {
    return (await this.state.list({ prefix })).map(({ key, value }) => ({ id: key.slice(prefix.length), value }))
  }
}

/** What the state store has of a key made over HTTP. @throws Error naming the entry that cannot be read. */
export function runtimeRecord({ id, value }: KeptRecord): KeyRecord {
  try {
    return checkRecord(value)
  } catch (error) {
    throw new Error(unreadableText(id, error), { cause: error })
  }
}

const taken = (name: string): SvcError =>
  new SvcError('CONFLICT', `cannot make API key ${JSON.stringify(name)}: another node has just made one of the name; choose another`)

/** Of an entry of the state store. */
export function unreadableText(id: string, error: unknown): string {
  const hint = `put that right, or revoke it with an empty file "auth/keys/${id}.revoked" in the data directory`
  return `cannot read API key "${id}" of the state store: ${(error as Error).message}; ${hint}`
}
