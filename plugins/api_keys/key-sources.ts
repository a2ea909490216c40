/** Where keys come from and are kept: the config, the file of runtime keys, the store. Fills the keyring, and keeps it as they are. */
import type { Logger } from '../../kernel/log.ts'
import type { Clock } from '../../kernel/plugin.ts'
import { type ApiKeysConfig, MAX_KEYS } from './config.ts'
import { type GivenKey, readConfigKeys } from './config-keys.ts'
import { type ApiKey, isHomeless } from './key.ts'
import { type KeyRecord, keyOf } from './key-record.ts'
import type { KeyStore, StoreWatcher } from './key-store.ts'
import { homelessText, Keyring } from './keyring.ts'
import type { RuntimeFile, RuntimeKeys } from './runtime-file.ts'
import type { VerifiedCache } from './verified-cache.ts'

export interface SourceParts {
  config: ApiKeysConfig
  env: Record<string, string | undefined>
  multiTenancy: boolean
  cache: VerifiedCache
  clock: Clock
  log: Logger
}

export class KeySources {
  readonly keyring = new Keyring()
  private readonly parts: SourceParts
  private readonly given: readonly GivenKey[]
  private readonly configNames: ReadonlySet<string>
  private runtime: RuntimeKeys = { keys: [], revoked: [] }
  private file: RuntimeFile | undefined
  private store: KeyStore | undefined
  /** Of the store, by id: the text of the record and the key that it became. */
  private readonly stored = new Map<string, { text: string; key: ApiKey }>()

  /** @throws Error for a config that cannot be used. */
  constructor(parts: SourceParts) {
    this.parts = parts
    const { keys, warnings } = readConfigKeys(parts.config.auth.api_keys, parts.env)
    for (const warning of warnings) parts.log.warn(warning)
    this.given = keys
    this.configNames = new Set(keys.map(({ key }) => key.name))
    const homeless = keys.filter(({ key }) => isHomeless(key)).map(({ key }) => JSON.stringify(key.name))
    if (parts.multiTenancy && homeless.length > 0) throw new Error(homelessText(homeless))
    const texts = new Map<string, string>()
    for (const { key, text } of keys) {
      const same = text === undefined ? undefined : texts.get(text)
      if (same !== undefined)
        throw new Error(`cannot use keys ${JSON.stringify(same)} and ${JSON.stringify(key.name)} of auth.api_keys: they are the same key; give each its own`)
      if (text !== undefined) texts.set(text, key.name)
    }
  }

  /** Reads everything. @throws Error naming what cannot be used. */
  async start(file: RuntimeFile, store: KeyStore | undefined): Promise<void> {
    const { multiTenancy, log } = this.parts
    this.file = file
    this.runtime = await file.read()
    const revoked = new Set(this.runtime.revoked.map(({ name }) => name))
    for (const { key, text } of this.given) {
      if (revoked.has(key.name))
        log.warn({ key_name: key.name }, 'a key of auth.api_keys is revoked and lets nobody in: remove it from the config, or give a new key under a new name')
      else this.keyring.add(key, text === undefined ? undefined : this.keyring.digestOf(text))
    }
    for (const record of this.runtime.keys) this.keyring.add(keyOf(record, 'runtime'))
    await store?.open(this.watcher)
    this.store = store
    if (multiTenancy) this.keyring.refuseHomeless()
    if (this.keyring.unindexed > 4)
      log.warn(
        { keys: this.keyring.unindexed },
        'keys of auth.api_keys that are hashes without key_prefix are each tried for every unknown key: add key_prefix',
      )
  }

  isNameTaken(name: string): boolean {
    return this.keyring.get(name) !== undefined || this.configNames.has(name)
  }

  /** Whether there is no room for another key where new ones are kept. */
  isFull(): boolean {
    return (this.store === undefined ? this.runtime.keys.length : this.stored.size) >= MAX_KEYS
  }

  /** Takes up what others have changed in the store. */
  async refresh(): Promise<void> {
    try {
      await this.store?.refresh()
    } catch (error) {
      this.parts.log.error({ err: error }, 'the store of API keys cannot be read')
    }
  }

  /** The key as it stands by now. */
  async confirm(key: ApiKey): Promise<ApiKey | undefined> {
    if (key.source !== 'store') return key
    await this.store?.sync(key.id)
    const now = this.stored.get(key.id)?.key
    return now?.enabled && now.phc?.text === key.phc?.text ? now : undefined
  }

  /** Keeps a new key. @throws when it cannot; nothing has changed then. */
  async add(record: KeyRecord): Promise<ApiKey> {
    if (this.store !== undefined) {
      await this.store.write(record)
      const written = this.stored.get(record.id)?.key
      if (written !== undefined) return written
      // Another took the name in this moment, or the disk does not give back what it took.
      await this.store.remove(record.id)
      throw new Error('the object that was written cannot be used')
    }
    await this.replaceRuntime({ ...this.runtime, keys: [...this.runtime.keys, record] })
    const key = keyOf(record, 'runtime')
    this.keyring.add(key)
    return key
  }

  /** Ends a key for ever. @throws when that cannot be kept; the key stands then. */
  async remove(key: ApiKey): Promise<void> {
    const { keys, revoked } = this.runtime
    if (key.source === 'store') await this.store?.remove(key.id)
    else if (key.source === 'runtime') await this.replaceRuntime({ keys: keys.filter(({ id }) => id !== key.id), revoked })
    else await this.replaceRuntime({ keys, revoked: [...revoked, { name: key.name, revoked_at: Math.floor(this.parts.clock.now() / 1000) }] })
    this.forget(key)
  }

  private async replaceRuntime(next: RuntimeKeys): Promise<void> {
    await this.file?.write(next)
    this.runtime = next
  }

  private forget(key: ApiKey): void {
    this.keyring.remove(key)
    this.parts.cache.evict(key)
  }

  private readonly watcher: StoreWatcher = {
    put: (record) => {
      const text = JSON.stringify(record)
      const before = this.stored.get(record.id)
      if (before?.text === text) return
      const key = keyOf(record, 'store')
      if (this.parts.multiTenancy && isHomeless(key)) throw new Error(homelessText([JSON.stringify(key.name)]))
      const holder = this.keyring.get(key.name)
      if ((holder !== undefined && holder !== before?.key) || this.configNames.has(key.name))
        throw new Error(`another key has the name ${JSON.stringify(key.name)}; rename or remove one of them`)
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
      if (reason !== undefined) this.parts.log.error({ err: this.store?.unreadable(id, reason) ?? reason }, 'a stored API key lets nobody in')
    },
  }
}
