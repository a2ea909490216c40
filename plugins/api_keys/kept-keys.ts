/** What the state store has of keys: those made over HTTP, those that commands and others put, and who was revoked. See docs/formats/api-keys.md. */
import { type Following, followState, importState, type StateStore, type StateTransaction } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { checkRecord, type KeyRecord } from './key-record.ts'
import { decodeKeyFile, MAX_FILE_BYTES } from './runtime-file.ts'

/** What keys of entries begin with. */
export const RUNTIME = 'runtime/'
export const STORED = 'stored/'
/** Names of keys of the config. */
const REVOKED = 'revoked/'
/** Ids of keys that were revoked and may have been in a file: none of them comes back, whatever file turns up. These stay for good, and come by files alone. */
const GONE = 'gone/'
/** Ids of objects that were made over HTTP and never in a file: nothing is left of them when they go. */
const MADE = 'made/'
/** Who has a name, by a digest of it: a new key looks there, and not through all others, which would hold the event loop. */
const NAME = 'name/'

export interface KeptRecord {
  id: string
  value: unknown
}

/** An object with the name in it, which it may hold sealed. */
interface NamedRecord extends KeptRecord {
  name: string
}

/** An object that was in a file. */
interface FiledRecord extends NamedRecord {
  /** It takes the place of one: where that is revoked meanwhile, it is not put. */
  replaces: boolean
}

interface Claim {
  /** Of the key. */
  id: string
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
  private readonly digestOf: (name: string) => string

  /** @param now Unix seconds. @param digestOf a name, as it stands in the state store. */
  constructor(state: StateStore, now: () => number, digestOf: (name: string) => string) {
    this.state = state
    this.now = now
    this.digestOf = digestOf
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
      if (!(await this.claim(tx, record))) throw taken(record.name)
      tx.put(RUNTIME + record.id, record)
    })
  }

  /** Another record in the place of a key's, unless it was revoked meanwhile. */
  replaceRuntime(record: KeyRecord): Promise<void> {
    return this.state.transaction(async (tx) => {
      if ((await tx.get(RUNTIME + record.id)) !== undefined) tx.put(RUNTIME + record.id, record)
    })
  }

  /** A new key as an object. @throws CONFLICT when another node has just used the name. */
  putNew(record: NamedRecord): Promise<void> {
    return this.state.transaction(async (tx) => {
      if (!(await this.claim(tx, record))) throw taken(record.name)
      tx.put(STORED + record.id, record.value)
      tx.put(MADE + record.id, {})
    })
  }

  /** Another object in the place of a key's, unless it was revoked meanwhile. */
  replaceStored({ id, value }: KeptRecord): Promise<void> {
    return this.state.transaction(async (tx) => {
      if ((await tx.get(STORED + id)) !== undefined) tx.put(STORED + id, value)
    })
  }

  /** Leaves out those that were revoked meanwhile. */
  putFiled(records: readonly FiledRecord[]): Promise<void> {
    return this.state.transaction(async (tx) => {
      for (const record of records) {
        const { id, value, replaces } = record
        if ((await tx.get(GONE + id)) !== undefined || (replaces && (await tx.get(STORED + id)) === undefined)) continue
        await this.claim(tx, record)
        tx.put(STORED + id, value)
        tx.delete(MADE + id)
      }
    })
  }

  /** For ever. @param name of a single one, which was known; without it a file may be all that there is of one. */
  remove(ids: readonly string[], name?: string): Promise<void> {
    return this.state.transaction(async (tx) => {
      const claim = name === undefined ? undefined : NAME + this.digestOf(name)
      if (claim !== undefined && ids.includes((await tx.get<Claim>(claim))?.id ?? '')) tx.delete(claim)
      for (const id of ids) {
        const [runtime, stored, made] = await Promise.all([RUNTIME, STORED, MADE].map((prefix) => tx.get(prefix + id)))
        const isFiled = stored === undefined ? runtime === undefined && name === undefined : made === undefined
        for (const prefix of [RUNTIME, STORED, MADE]) tx.delete(prefix + id)
        if (isFiled) tx.put(GONE + id, { revoked_at: this.now() })
      }
    })
  }

  /** @returns false where a key that stands has the name. */
  private async claim(tx: StateTransaction, { id, name }: { id: string; name: string }): Promise<boolean> {
    const key = NAME + this.digestOf(name)
    const holder = (await tx.get<Claim>(key))?.id
    if (holder !== undefined && holder !== id && ((await tx.get(RUNTIME + holder)) ?? (await tx.get(STORED + holder))) !== undefined) return false
    tx.put(key, { id } satisfies Claim)
    return true
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
