/**
 * The keys of encrypted columns. They come from the environment once, at open, and are handed to the engine threads as bytes; nothing
 * here prints them. Format: docs/formats/encrypted-columns.md.
 *
 * Invariant: no configured key encrypts data itself. Each segment, and each 2^20 records of the log, has a key of its own derived from
 * it, so that random nonces never come near the number after which they may repeat.
 */
import { hkdfSync } from 'node:crypto'
import { inspect } from 'node:util'
import { RecentMap } from 'svcdb/lib/cache'
import { SvcError } from 'svcdb/lib/errors'

/** [database.field_encryption] as configured. */
interface EncryptionSettings {
  /** Field name → key id. */
  columns: Record<string, string>
  /** Key id → environment variable. */
  keys: Record<string, string>
}

/** What passes between threads. */
export interface KeyMaterial {
  columns: Record<string, string>
  keys: Record<string, Uint8Array>
}

const KEY_BYTES = 32
/** Records of the log that share a derived key. */
const LOG_KEY_RECORDS = 2 ** 20
const BASE64 = /^[A-Za-z0-9+/]{43}=?$/
/** Derived keys kept. */
const KEPT = 256

/** @throws CONFIG_ERROR, ENCRYPTION_KEY_UNAVAILABLE naming the variable and the column. */
export function readKeys({ columns, keys }: EncryptionSettings, env: Record<string, string | undefined>): KeyMaterial {
  for (const [column, id] of Object.entries(columns)) {
    if (Object.hasOwn(keys, id)) continue
    throw new SvcError(
      'CONFIG_ERROR',
      `cannot encrypt column "${column}": [database.field_encryption] keys has no key "${id}"; it has ${Object.keys(keys).join(', ') || 'none'}`,
    )
  }
  const material: KeyMaterial = { columns: { ...columns }, keys: {} }
  for (const [id, variable] of Object.entries(keys)) {
    const users = Object.keys(columns).filter((column) => columns[column] === id)
    const of = users.length === 0 ? '' : ` of column ${users.map((column) => `"${column}"`).join(', ')}`
    const text = env[variable]?.trim()
    if (text === undefined || text === '')
      throw new SvcError(
        'ENCRYPTION_KEY_UNAVAILABLE',
        `cannot read key "${id}"${of}: the environment variable ${variable} is not set; set it to base64 of ${KEY_BYTES} bytes`,
      )
    if (!BASE64.test(text))
      throw new SvcError(
        'ENCRYPTION_KEY_UNAVAILABLE',
        `cannot read key "${id}"${of}: the environment variable ${variable} is not base64 of ${KEY_BYTES} bytes; make one with: openssl rand -base64 ${KEY_BYTES}`,
      )
    material.keys[id] = new Uint8Array(Buffer.from(text, 'base64'))
  }
  return material
}

export class KeyRing {
  readonly #columns: Map<string, string>
  readonly #keys: Map<string, Uint8Array>
  readonly #derived = new RecentMap<string, Uint8Array>(KEPT)

  constructor({ columns, keys }: KeyMaterial = { columns: {}, keys: {} }) {
    this.#columns = new Map(Object.entries(columns))
    this.#keys = new Map(Object.entries(keys))
  }

  /** The key id by which the field is to be encrypted; undefined when it is not. */
  keyOf(field: string): string | undefined {
    return this.#columns.get(field)
  }

  /** Names of the fields to encrypt. */
  get columns(): string[] {
    return [...this.#columns.keys()]
  }

  has(id: string): boolean {
    return this.#keys.has(id)
  }

  segmentKey(id: string, segment: number, created: number): Uint8Array {
    return this.#derive(id, `svc segment ${segment} ${created}`)
  }

  logKey(id: string, sequence: number): Uint8Array {
    return this.#derive(id, `svc log ${Math.floor(sequence / LOG_KEY_RECORDS)}`)
  }

  toJSON(): string {
    return '[redacted]'
  }

  [inspect.custom](): string {
    return '[redacted]'
  }

  #derive(id: string, info: string): Uint8Array {
    const name = `${id}\n${info}`
    const known = this.#derived.get(name)
    if (known !== undefined) return known
    const key = this.#keys.get(id)
    if (key === undefined) throw keyUnavailable(id)
    const made = new Uint8Array(hkdfSync('sha256', key, new Uint8Array(0), info, KEY_BYTES))
    this.#derived.set(name, made)
    return made
  }
}

function keyUnavailable(id: string): SvcError {
  return new SvcError(
    'ENCRYPTION_KEY_UNAVAILABLE',
    `cannot decrypt with key "${id}": it is not configured; add it to [database.field_encryption] keys, with the variable that holds it, and restart`,
  )
}
