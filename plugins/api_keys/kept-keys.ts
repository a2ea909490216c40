/** What the state store has of keys: those made over HTTP, those that commands and others put, and who was revoked. See docs/formats/api-keys.md. */
import { importState, type StateStore } from 'svcdb'
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

  /** Keys made over HTTP. @throws Error naming the entry that cannot be read. */
  async runtime(): Promise<KeyRecord[]> {
    return (await this.list(RUNTIME)).map(({ id, value }) => {
      try {
        return checkRecord(value)
      } catch (error) {
        throw new Error(unreadableText(id, error), {
          cause: error,
        })
      }
    })
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

  putRuntime(record: KeyRecord): Promise<void> {
    return this.state.transaction((tx) => tx.put(RUNTIME + record.id, record))
  }

  /** Leaves out those that were revoked meanwhile. */
  putStored(records: readonly KeptRecord[]): Promise<void> {
    return this.state.transaction(async (tx) => {
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

/** Of an entry of the state store. */
export function unreadableText(id: string, error: unknown): string {
  const hint = `put that right, or revoke it with an empty file "auth/keys/${id}.revoked" in the data directory`
  return `cannot read API key "${id}" of the state store: ${(error as Error).message}; ${hint}`
}
