/** What is decided when the node starts. */
import { join } from 'node:path'
import { AUDIT_LOG, type AuditLog, type AuditRecord, type Svc } from 'svcdb'
import type { ApiKeysConfig } from './config.ts'
import { Envelope, masterKeyOf, plainDigestOf } from './envelope.ts'
import { KeptKeys } from './kept-keys.ts'
import { type InboxChange, KeyInbox } from './key-inbox.ts'
import { KeyStore } from './key-store.ts'
import type { Keyring } from './keyring.ts'
import { storeLocation } from './store-location.ts'

/** Where keys lie that outlast the process. */
export interface Places {
  kept: KeptKeys
  /** The file in which older versions kept runtime keys. */
  legacy: string | undefined
  inbox: KeyInbox | undefined
  /** Whether new keys are kept as objects, in `store`, or without one in the state store. */
  persistent: boolean
  store: KeyStore | undefined
  envelope: Envelope | undefined
}

/** What the config asks for. @throws Error for a config that cannot be used. */
export function placesOf(config: ApiKeysConfig, svc: Pick<Svc, 'id' | 'dataDir' | 'log' | 'clock' | 'storage' | 'find'>): Places {
  const { dataDir, log, clock } = svc
  const { persistent_api_keys: wanted, encryption_key_env: variable } = config.auth
  const location = storeLocation(config, dataDir)
  const persistent = location !== undefined && !('memory' in location)
  if (wanted && !persistent) log.warn('auth.persistent_api_keys has no effect: storage.object_store_url is memory://')
  else if (variable !== undefined && !persistent) log.warn('auth.encryption_key_env has no effect without auth.persistent_api_keys')
  if (dataDir === undefined && !persistent)
    log.warn('the storage engine has no data directory: API keys that are made, and revocations, are forgotten when the server stops')
  const envelope = variable === undefined || !persistent ? undefined : new Envelope(masterKeyOf(variable, process.env))
  const digestOf = envelope === undefined ? plainDigestOf : (name: string) => envelope.digestOf(name)
  const kept = new KeptKeys(svc.storage.state(svc.id), () => Math.floor(clock.now() / 1000), digestOf)
  const store = persistent && 'root' in location ? new KeyStore({ root: location.root, envelope, monotonic: () => clock.monotonic() }) : undefined
  const inbox =
    dataDir === undefined
      ? undefined
      : new KeyInbox({
          folder: join(dataDir, 'auth', 'keys'),
          kept,
          envelope,
          keys: persistent && store === undefined,
          record: async (change) => svc.find<AuditLog>(AUDIT_LOG)?.record(recordOf(change)),
        })
  return { kept, legacy: dataDir === undefined ? undefined : join(dataDir, 'auth', 'api_keys.json'), inbox, persistent, store, envelope }
}

const ACTIONS = { put: 'api_key_create', replaced: 'permission_change', revoked: 'api_key_revoke' } as const

/** Nobody has asked for it over a listener: it is by the server itself. */
function recordOf({ what, id, key }: InboxChange): AuditRecord {
  const of: Record<string, string> = key === undefined ? {} : { namespaces: key.namespaces.join(','), admin: String(key.admin), enabled: String(key.enabled) }
  return { action: ACTIONS[what], resource: key?.name ?? id, decision: 'allow', metadata: { event: 'file', key_id: id, ...of } }
}

/** @throws Error where nobody could be let in. */
export function requireWayIn({ auth }: Pick<ApiKeysConfig, 'auth'>, keyring: Keyring, hasOther: boolean): void {
  if (hasOther) return
  requireEnabled({ auth })
  if (keyring.values().some(({ enabled }) => enabled)) return
  throw noKey({ auth })
}

/** Where nothing else authenticates. */
export function requireEnabled({ auth }: Pick<ApiKeysConfig, 'auth'>): void {
  if (!auth.api_key.enabled)
    throw new Error('cannot let anybody in: auth.api_key.enabled is false and no other plugin authenticates; set it to true, or select jwt or mtls')
}

export function noKey({ auth }: Pick<ApiKeysConfig, 'auth'>): Error {
  return new Error(
    auth.persistent_api_keys
      ? 'cannot let anybody in: there is no API key; run `svc generate-key --name admin --admin` with this config, add an [[auth.api_keys]], or select jwt or mtls'
      : 'cannot let anybody in: there is no API key; run `svc generate-key --name admin --admin` and put what it prints into the config, or select jwt or mtls',
  )
}
