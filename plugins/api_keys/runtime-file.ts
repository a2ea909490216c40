/** `auth/api_keys.json`, where older versions kept keys made over HTTP, and the names of config keys that were revoked. See docs/formats/api-keys.md. */
import { crc32 } from 'node:zlib'
import { checkRecord, type KeyRecord } from './key-record.ts'

const VERSION = 1
/** Room for as many keys as there may be, each with as many namespaces as it may have. */
export const MAX_FILE_BYTES = 256 * 1024 * 1024
const END = /,\n {2}"checksum": "([0-9a-f]{8})"\n\}\n$/

interface Revocation {
  name: string
  /** Unix seconds. */
  revoked_at: number
}

/** @throws Error in a few words. */
export function decodeKeyFile(text: string): { keys: KeyRecord[]; revoked: Revocation[] } {
  const end = END.exec(text)
  const version = /^\{\s*"version": (\d+)/.exec(text)?.[1]
  if (version !== undefined && version !== String(VERSION)) throw new Error(`it has version ${version}, and this program reads ${VERSION}`)
  if (end === null) throw new Error('it does not end in a checksum')
  const body = text.slice(0, end.index)
  if (crc32(body).toString(16).padStart(8, '0') !== end[1]) throw new Error('its checksum does not fit')
  const { version: read, keys, revoked } = JSON.parse(`${body}\n}`) as Record<string, unknown>
  if (read !== VERSION || !Array.isArray(keys) || !Array.isArray(revoked)) throw new Error('it lacks version, keys or revoked')
  return { keys: keys.map(checkRecord), revoked: revoked.map(checkRevocation) }
}

function checkRevocation(value: unknown): Revocation {
  const { name, revoked_at } = (value ?? {}) as Record<string, unknown>
  if (typeof name !== 'string' || !Number.isSafeInteger(revoked_at)) throw new Error('a revocation lacks name or revoked_at')
  return { name, revoked_at: revoked_at as number }
}
