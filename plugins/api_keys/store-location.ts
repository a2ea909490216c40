/** Where keys that are made with auth.persistent_api_keys lie, from the config. */
import { fileURLToPath } from 'node:url'
import type { ApiKeysConfig } from './config.ts'

/** A folder that the config names, the state store with the inbox below a data directory, nowhere for long, or nowhere. */
type StoreLocation = { root: string } | { inbox: string } | { memory: true } | undefined

/**
 * @returns undefined without persistent_api_keys.
 * @throws Error for a URL that is of no use, and where there is no folder.
 */
export function storeLocation({ auth, storage }: ApiKeysConfig, dataDir: string | undefined): StoreLocation {
  const { object_store_url: url } = storage
  const location = url === undefined ? undefined : locationOf(url)
  if (!auth.persistent_api_keys) return undefined
  if (location !== undefined) return location
  if (dataDir === undefined)
    throw new Error(
      'cannot keep API keys with auth.persistent_api_keys: the storage engine has no data directory; set storage.object_store_url to file:///path, or leave persistent_api_keys out',
    )
  return { inbox: dataDir }
}

function locationOf(url: string): Exclude<StoreLocation, undefined> {
  const refused = (why: string) => new Error(`cannot use storage.object_store_url: ${why}; memory:// and file:///absolute/path are supported`)
  if (url === 'memory://' || url === 'memory:///') return { memory: true }
  // The URL is not shown: those of other schemes may have credentials in them.
  const scheme = /^([A-Za-z][A-Za-z0-9+.-]{0,31}):/.exec(url)?.[1]
  if (scheme !== 'file') throw refused(scheme === undefined ? 'it is no URL' : `its scheme "${scheme}" is not supported`)
  try {
    const { search, hash } = new URL(url)
    if (!/^file:\/\//.test(url) || search !== '' || hash !== '') throw new Error('it has a query or no path')
    return { root: fileURLToPath(url) }
  } catch (error) {
    throw refused((error as Error).message)
  }
}
