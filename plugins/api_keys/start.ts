/** What is decided when the node starts. */
import type { Svc } from '../../kernel/plugin.ts'
import type { ApiKeysConfig } from './config.ts'
import { Envelope, masterKeyOf } from './envelope.ts'
import { KeyStore } from './key-store.ts'
import type { Keyring } from './keyring.ts'
import { storeLocation } from './store-location.ts'

/** The store that the config asks for, if any. @throws Error for a config that cannot be used. */
export function openStore(config: ApiKeysConfig, { dataDir, log, clock }: Pick<Svc, 'dataDir' | 'log' | 'clock'>): KeyStore | undefined {
  const { persistent_api_keys: persistent, encryption_key_env: variable } = config.auth
  const location = storeLocation(config, dataDir)
  if (location !== undefined && 'root' in location) {
    const envelope = variable === undefined ? undefined : new Envelope(masterKeyOf(variable, process.env))
    return new KeyStore({ root: location.root, envelope, monotonic: () => clock.monotonic() })
  }
  if (persistent) log.warn('auth.persistent_api_keys has no effect: storage.object_store_url is memory://')
  else if (variable !== undefined) log.warn('auth.encryption_key_env has no effect without auth.persistent_api_keys')
  if (dataDir === undefined) log.warn('the storage engine has no data directory: API keys that are made, and revocations, are forgotten when the server stops')
  return undefined
}

/** @throws Error where nobody could be let in. */
export function requireWayIn({ auth }: ApiKeysConfig, keyring: Keyring, hasOther: boolean): void {
  if (hasOther) return
  if (!auth.api_key.enabled)
    throw new Error('cannot let anybody in: auth.api_key.enabled is false and no other plugin authenticates; set it to true, or select jwt or mtls')
  if (keyring.values().some(({ enabled }) => enabled)) return
  throw new Error(
    auth.persistent_api_keys
      ? 'cannot let anybody in: there is no API key; run `svc generate-key --name admin --admin` with this config, add an [[auth.api_keys]], or select jwt or mtls'
      : 'cannot let anybody in: there is no API key; run `svc generate-key --name admin --admin` and put what it prints into the config, or select jwt or mtls',
  )
}
