/** `auth/api_keys.json`: keys made over HTTP, and the names of config keys that were revoked. See docs/formats/api-keys.md. */
import { crc32 } from 'node:zlib'
import { replaceFile } from '../../kernel/atomic-file.ts'
import { readBounded } from '../../kernel/bounded-file.ts'
import { MAX_KEYS } from './config.ts'
import { checkRecord, type KeyRecord } from './key-record.ts'

const VERSION = 1
/** Room for the most keys, each with the most namespaces. */
const MAX_BYTES = 256 * 1024 * 1024
const END = /,\n {2}"checksum": "([0-9a-f]{8})"\n\}\n$/

export interface Revocation {
  name: string
  /** Unix seconds. */
  revoked_at: number
}

export interface RuntimeKeys {
  keys: readonly KeyRecord[]
  revoked: readonly Revocation[]
}

export function encodeRuntimeKeys({ keys, revoked }: RuntimeKeys): string {
  const body = JSON.stringify({ version: VERSION, keys, revoked }, null, 2).slice(0, -2)
  return `${body},\n  "checksum": "${checksum(body)}"\n}\n`
}

/** @throws Error in a few words. */
export function decodeRuntimeKeys(text: string): RuntimeKeys {
  const end = END.exec(text)
  const version = /^\{\s*"version": (\d+)/.exec(text)?.[1]
  if (version !== undefined && version !== String(VERSION)) throw new Error(`it has version ${version}, and this program reads ${VERSION}`)
  if (end === null) throw new Error('it does not end in a checksum')
  const body = text.slice(0, end.index)
  if (checksum(body) !== end[1]) throw new Error('its checksum does not fit')
  const { version: read, keys, revoked } = JSON.parse(`${body}\n}`) as Record<string, unknown>
  if (read !== VERSION || !Array.isArray(keys) || !Array.isArray(revoked)) throw new Error('it lacks version, keys or revoked')
  return { keys: keys.map(checkRecord), revoked: revoked.map(checkRevocation) }
}

/** Reads and replaces the file; nothing is kept without a path. One caller at a time. */
export class RuntimeFile {
  private readonly path: string | undefined

  constructor(path: string | undefined) {
    this.path = path
  }

  /** @throws Error naming the file. */
  async read(): Promise<RuntimeKeys> {
    if (this.path === undefined) return { keys: [], revoked: [] }
    try {
      return decodeRuntimeKeys((await readBounded(this.path, MAX_BYTES)).toString())
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { keys: [], revoked: [] }
      throw new Error(
        `cannot read API keys "${this.path}": ${(error as Error).message}; put a copy of a backup in its place, or remove it and make the keys again`,
        {
          cause: error,
        },
      )
    }
  }

  async write(keys: RuntimeKeys): Promise<void> {
    if (keys.keys.length > MAX_KEYS || keys.revoked.length > MAX_KEYS) throw new Error(`${MAX_KEYS} keys are the limit`)
    if (this.path === undefined) return
    const bytes = Buffer.from(encodeRuntimeKeys(keys))
    if (bytes.length > MAX_BYTES) throw new Error(`the file would have ${bytes.length} bytes, and ${MAX_BYTES} are read`)
    await replaceFile(this.path, bytes)
  }
}

function checksum(body: string): string {
  return crc32(body).toString(16).padStart(8, '0')
}

function checkRevocation(value: unknown): Revocation {
  const { name, revoked_at } = (value ?? {}) as Record<string, unknown>
  if (typeof name !== 'string' || !Number.isSafeInteger(revoked_at)) throw new Error('a revocation lacks name or revoked_at')
  return { name, revoked_at: revoked_at as number }
}
