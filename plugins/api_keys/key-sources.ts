/** Where keys come from and are kept: the config, the state store, objects of their own. Fills the keyring, and keeps it as they are. */
import { isDeepStrictEqual } from 'node:util'
import type { Clock, Following, Logger } from 'svcdb'
import { type ApiKeysConfig, MAX_KEYS } from './config.ts'
import { type GivenKey, readConfigKeys } from './config-keys.ts'
import { type KeptChanges, type KeptRecord, runtimeRecord, unreadableText } from './kept-keys.ts'
import { type ApiKey, isHomeless } from './key.ts'
import type { InboxWatcher } from './key-inbox.ts'
import { decodeObject, encodeObject } from './key-object.ts'
import { type KeyRecord, keyOf, withoutNamespace } from './key-record.ts'
import type { StoreWatcher } from './key-store.ts'
import { homelessText, Keyring } from './keyring.ts'
import { Serial } from './serial.ts'
import type { Places } from './start.ts'
import type { VerifiedCache } from './verified-cache.ts'

/** Keys that are changed at one time. */
const AT_ONCE = 100

interface SourceDependencies {
  config: ApiKeysConfig
  env: Record<string, string | undefined>
  multiTenancy: boolean
  cache: VerifiedCache
  clock: Clock
  log: Logger
}

export class KeySources {
  readonly keyring = new Keyring()
  private readonly dependencies: SourceDependencies
  private readonly given: readonly GivenKey[]
  private readonly configNames: ReadonlySet<string>
  /** Set by `start`. */
  private places!: Places
  private following: Following | undefined
  /** All was read once. */
  private isRead = false
  /** What changes keys: what the state store says of one holds until the turn that has asked it is over. */
  private readonly turns = new Serial()
  /** Kept as objects, by id: the text of the record and the key that it became. */
  private readonly stored = new Map<string, { text: string; key: ApiKey }>()

  /** @throws Error for a config that cannot be used. */
  constructor(dependencies: SourceDependencies) {
    this.dependencies = dependencies
    const { keys, warnings } = readConfigKeys(dependencies.config.auth.api_keys, dependencies.env)
    for (const warning of warnings) dependencies.log.warn(warning)
    this.given = keys
    this.configNames = new Set(keys.map(({ key }) => key.name))
    const homeless = keys.filter(({ key }) => isHomeless(key)).map(({ key }) => JSON.stringify(key.name))
    if (dependencies.multiTenancy && homeless.length > 0) throw new Error(homelessText(homeless))
    const texts = new Map<string, string>()
    for (const { key, text } of keys) {
      const same = text === undefined ? undefined : texts.get(text)
      if (same !== undefined)
        throw new Error(`cannot use keys ${JSON.stringify(same)} and ${JSON.stringify(key.name)} of auth.api_keys: they are the same key; give each its own`)
      if (text !== undefined) texts.set(text, key.name)
    }
  }

  /** Reads everything. @throws Error naming what cannot be used. */
  async start(places: Places): Promise<void> {
    const { multiTenancy, log } = this.dependencies
    const { kept, inbox, store } = places
    this.places = places
    await kept.open(places.legacy)
    await inbox?.revoke({ drop: () => {} })
    const revoked = await kept.revoked()
    for (const { key, text } of this.given) {
      if (revoked.has(key.name))
        log.warn({ key_name: key.name }, 'a key of auth.api_keys is revoked and lets nobody in: remove it from the config, or give a new key under a new name')
      else this.keyring.add(key, text === undefined ? undefined : this.keyring.digestOf(text))
    }
    this.following = await kept.follow(
      (changes) => this.turns.run(() => (changes === undefined ? this.takeUpAll() : this.takeUp(changes))),
      (error) => log.error({ err: error }, 'cannot read what other nodes have changed of API keys; it is tried again'),
    )
    await store?.open(this.watcher)
    await inbox?.take({
      ...this.inboxWatcher,
      refused: (file, reason) => {
        throw new Error(`cannot take API key "${file}": ${reason.message}; repair or remove the file`, { cause: reason })
      },
    })
    if (multiTenancy) this.keyring.refuseHomeless()
    if (this.keyring.unindexed > 4)
      log.warn(
        { keys: this.keyring.unindexed },
        'keys of auth.api_keys that are hashes without key_prefix are each tried for every unknown key: add key_prefix',
      )
  }

  async stop(): Promise<void> {
    await this.following?.stop()
  }

  isNameTaken(name: string): boolean {
    return this.keyring.get(name) !== undefined || this.configNames.has(name)
  }

  /** Whether there is no room for another key where new ones are kept. */
  isFull(): boolean {
    return (this.places.persistent ? this.stored.size : this.keyring.values().filter(({ source }) => source === 'runtime').length) >= MAX_KEYS
  }

  /** Takes up what others have put, changed and removed as files. @throws when that cannot be read; the next call goes on. */
  async takeUpFiles(): Promise<void> {
    const { store, inbox } = this.places
    await store?.refresh()
    await this.turns.run(async () => inbox?.take(this.inboxWatcher))
  }

  /** As `takeUpFiles`, for those who go on with the keys that are known. */
  async refresh(): Promise<void> {
    try {
      await this.takeUpFiles()
    } catch (error) {
      this.dependencies.log.error({ err: error }, 'the store of API keys cannot be read')
    }
  }

  /** The key as it stands by now. */
  async confirm(key: ApiKey): Promise<ApiKey | undefined> {
    if (key.source !== 'store') return key
    await this.places.store?.sync(key.id)
    const now = this.stored.get(key.id)?.key
    return now?.enabled && now.phc?.text === key.phc?.text ? now : undefined
  }

  /** Keeps a new key. @throws when it cannot; nothing has changed then. */
  add(record: KeyRecord): Promise<ApiKey> {
    return this.turns.run(() => this.keep(record))
  }

  /** Ends a key for ever, and what has taken its place meanwhile. @throws when that cannot be kept; the key stands then. */
  remove(key: ApiKey): Promise<void> {
    return this.turns.run(() => this.end(key))
  }

  /**
   * A namespace is gone, and the name may have another owner: what was made for it alone ends for ever, what was made for others too is for those from now
   * on. Keys of the config stay. @param record resolves when the change to a key is recorded. @throws when it cannot be kept: call it again then.
   */
  forgetNamespace(namespace: string, record: (key: ApiKey, left: readonly string[]) => Promise<void>): Promise<void> {
    return this.turns.run(async () => {
      await this.places.store?.refresh()
      await this.takeUpAll()
      const naming = this.keyring.values().filter(({ namespaces }) => namespaces.includes(namespace))
      const made = naming.filter(({ source }) => source !== 'config')
      for (let i = 0; i < made.length; i += AT_ONCE)
        await Promise.all(
          made.slice(i, i + AT_ONCE).map(async (key) => {
            const left = key.namespaces.filter((name) => name !== namespace)
            await record(key, left)
            if (left.length === 0) await this.end(key)
            else await this.narrow(key, namespace)
          }),
        )
      const configured = naming.filter(({ source }) => source === 'config').map(({ name }) => name)
      if (configured.length > 0)
        this.dependencies.log.warn(
          { namespace, key_names: configured.slice(0, 10) },
          'keys of auth.api_keys name a namespace that is deleted, and reach the next one of its name: take it out of them',
        )
    })
  }

  /** @throws Error naming what cannot be used, at the start. */
  private async takeUpAll(): Promise<void> {
    const { kept } = this.places
    for (const name of await kept.revoked()) this.dropConfigured(name)
    const runtime = new Map((await kept.runtime()).map((one) => [one.id, one]))
    for (const key of this.keyring.values()) if (key.source === 'runtime' && !runtime.has(key.id)) this.forget(key)
    for (const one of runtime.values()) this.takeUpRuntime(one)
    if (this.keepsStored) {
      const stored = await kept.stored()
      const ids = new Set(stored.map(({ id }) => id))
      for (const id of [...this.stored.keys()]) if (!ids.has(id)) this.watcher.drop(id)
      for (const one of stored) this.takeUpStored(one)
    } else if (!this.isRead) await this.tellOfUntaken()
    this.isRead = true
  }

  private async tellOfUntaken(): Promise<void> {
    const keys = (await this.places.kept.stored()).length
    if (keys > 0)
      this.dependencies.log.warn(
        { keys },
        'API keys that were made with auth.persistent_api_keys and without storage.object_store_url let nobody in as this is set now: set it as it was, or make new ones',
      )
  }

  private async takeUp({ runtime, stored, revoked }: KeptChanges): Promise<void> {
    const { kept } = this.places
    // What no longer lets in comes first: its name may be that of a new one, whichever of them is told first.
    for (const name of revoked) this.dropConfigured(name)
    const left: (() => void)[] = []
    for (const id of runtime) {
      const value = await kept.runtimeOf(id)
      if (value === undefined) this.dropRuntime(id)
      else left.push(() => this.takeUpRuntime({ id, value }))
    }
    for (const id of this.keepsStored ? stored : []) {
      const value = await kept.storedOf(id)
      if (value === undefined) this.watcher.drop(id)
      else left.push(() => this.takeUpStored({ id, value }))
    }
    for (const take of left) take()
  }

  private takeUpRuntime(one: KeptRecord): void {
    this.takeUpOne(
      () => this.putRuntime(one),
      () => this.dropRuntime(one.id),
    )
  }

  private takeUpStored(one: KeptRecord): void {
    this.takeUpOne(
      () => this.putKept(one),
      () => this.watcher.drop(one.id),
    )
  }

  /** What cannot be used ends a start; later it lets nobody in, nor does what it was before. */
  private takeUpOne(take: () => void, drop: () => void): void {
    try {
      take()
    } catch (error) {
      if (!this.isRead) throw error
      drop()
      this.dependencies.log.error({ err: error }, 'an API key that another node has made or changed lets nobody in')
    }
  }

  private dropRuntime(id: string): void {
    for (const key of this.keyring.values()) if (key.source === 'runtime' && key.id === id) this.forget(key)
  }

  private putRuntime(kept: KeptRecord): void {
    const record = runtimeRecord(kept)
    const known = this.keyring.get(record.name)
    const key = keyOf(record, 'runtime')
    if (known?.source === 'runtime' && known.id === kept.id) {
      if (isDeepStrictEqual(known.namespaces, key.namespaces)) return
      this.forget(known)
      key.usage = known.usage
    }
    this.keyring.add(key)
  }

  private dropConfigured(name: string): void {
    const key = this.keyring.get(name)
    if (key?.source === 'config') this.forget(key)
  }

  /** Whether objects lie in the state store. */
  private get keepsStored(): boolean {
    return this.places.persistent && this.places.store === undefined
  }

  private async keep(record: KeyRecord): Promise<ApiKey> {
    const { store, persistent, kept, envelope } = this.places
    if (!persistent) {
      await kept.putRuntime(record)
      const key = keyOf(record, 'runtime')
      this.keyring.add(key)
      return key
    }
    if (store === undefined) await kept.putNew({ id: record.id, name: record.name, value: encodeObject(record, envelope) })
    else await store.write(record)
    try {
      if (store === undefined) this.watcher.put(record)
      const written = this.stored.get(record.id)?.key
      if (written !== undefined) return written
      throw new Error('the object that was written cannot be used')
    } catch (error) {
      // Another took the name in this moment, or the disk does not give back what it took.
      await (store?.remove(record.id) ?? kept.remove([record.id], record.name))
      throw error
    }
  }

  private async end(key: ApiKey): Promise<void> {
    const { kept, store } = this.places
    if (key.source === 'config') await kept.revoke(key.name)
    else if (key.source === 'store' && store !== undefined) await store.remove(key.id)
    else await kept.remove([key.id], key.name)
    const replaced = this.stored.get(key.id)?.key
    this.stored.delete(key.id)
    this.forget(key)
    if (replaced !== undefined) this.forget(replaced)
  }

  /** Takes a namespace away from a key that has others. */
  private async narrow(key: ApiKey, namespace: string): Promise<void> {
    const { kept, store, envelope } = this.places
    if (key.source === 'runtime') {
      const value = await kept.runtimeOf(key.id)
      if (value === undefined) return
      const record = withoutNamespace(runtimeRecord({ id: key.id, value }), namespace)
      await kept.replaceRuntime(record)
      this.putRuntime({ id: key.id, value: record })
      return
    }
    const text = this.stored.get(key.id)?.text
    if (text === undefined) return
    const record = withoutNamespace(JSON.parse(text) as KeyRecord, namespace)
    if (store !== undefined) return store.write(record)
    await kept.replaceStored({ id: record.id, value: encodeObject(record, envelope) })
    this.watcher.put(record)
  }

  /** @throws Error naming the key. */
  private putKept({ id, value }: KeptRecord): void {
    try {
      this.watcher.put(decodeObject(value, id, this.places.envelope))
    } catch (error) {
      throw new Error(unreadableText(id, error), { cause: error })
    }
  }

  private forget(key: ApiKey): void {
    this.keyring.remove(key)
    this.dependencies.cache.evict(key)
  }

  /** @throws Error in a few words for a record that cannot be used beside the others. */
  private check(record: KeyRecord): ApiKey {
    const key = keyOf(record, 'store')
    if (this.dependencies.multiTenancy && isHomeless(key)) throw new Error(homelessText([JSON.stringify(key.name)]))
    const holder = this.keyring.get(key.name)
    if ((holder !== undefined && holder !== this.stored.get(record.id)?.key) || this.configNames.has(key.name))
      throw new Error(`another key has the name ${JSON.stringify(key.name)}; rename or remove one of them`)
    return key
  }

  private readonly watcher: StoreWatcher = {
    put: (record) => {
      const text = JSON.stringify(record)
      const before = this.stored.get(record.id)
      if (before?.text === text) return
      const key = this.check(record)
      if (before !== undefined) {
        this.forget(before.key)
        key.usage = before.key.usage
      }
      this.keyring.add(key)
      this.stored.set(record.id, { text, key })
    },
    drop: (id, reason) => {
      const before = this.stored.get(id)
      this.stored.delete(id)
      if (before !== undefined) this.forget(before.key)
      if (reason !== undefined) this.dependencies.log.error({ err: this.places.store?.unreadable(id, reason) ?? reason }, 'a stored API key lets nobody in')
    },
  }

  private readonly inboxWatcher: InboxWatcher = {
    check: (record) => void this.check(record),
    put: this.watcher.put,
    drop: (id) => {
      for (const key of this.keyring.values()) if (key.id === id && key.source !== 'config') this.forget(key)
      this.stored.delete(id)
      this.dependencies.log.info({ key_id: id }, 'API key revoked by a file')
    },
    refused: (file, reason) => this.dependencies.log.error({ err: reason, file }, 'an API key that was put lets nobody in; repair or remove the file'),
  }
}
