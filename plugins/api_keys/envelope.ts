/** Records under a master key: each under a data key of its own, which the master key wraps. AES-256-GCM. See docs/formats/api-keys.md. */
import { createCipheriv, createDecipheriv, createHmac, hash, randomBytes } from 'node:crypto'
import { SchemaReader, type Static, Type } from 'svcdb/lib/schema'
import { checkRecord, type KeyRecord } from './key-record.ts'

const ALGORITHM = 'AES-256-GCM'
const KEY_BYTES = 32
const NONCE_BYTES = 12
const TAG_BYTES = 16

const sealedSchema = Type.Object(
  {
    version: Type.Literal(1),
    id: Type.String(),
    key_prefix: Type.String(),
    algorithm: Type.Literal(ALGORITHM),
    wrapped_key: Type.String(),
    sealed: Type.String(),
  },
  { additionalProperties: false },
)
const reader = new SchemaReader(sealedSchema)

/** @param variable names the environment variable. @throws Error that does not show its value. */
export function masterKeyOf(variable: string, env: Record<string, string | undefined>): Buffer {
  const hint = 'set it to base64 of 32 bytes, such as `openssl rand -base64 32` prints'
  const text = env[variable]?.trim()
  if (text === undefined || text === '')
    throw new Error(`cannot encrypt API keys: the environment variable ${variable} of auth.encryption_key_env is not set; ${hint}`)
  const key = Buffer.from(text, 'base64')
  if (key.length !== KEY_BYTES || !/^[A-Za-z0-9+/]{43}=?$/.test(text))
    throw new Error(`cannot encrypt API keys: the environment variable ${variable} of auth.encryption_key_env does not hold base64 of 32 bytes; ${hint}`)
  return key
}

/** Of a name, where names are kept in the clear. */
export const plainDigestOf = (name: string): string => hash('sha256', name)

export class Envelope {
  private readonly masterKey: Buffer

  constructor(masterKey: Buffer) {
    this.masterKey = masterKey
  }

  seal(record: KeyRecord): object {
    const { id, key_prefix } = record
    const dataKey = randomBytes(KEY_BYTES)
    const sealed = encrypt(dataKey, Buffer.from(JSON.stringify(record)), boundTo('record', id, key_prefix))
    const wrapped = encrypt(this.masterKey, dataKey, boundTo('data-key', id, key_prefix))
    return { version: 1, id, key_prefix, algorithm: ALGORITHM, wrapped_key: wrapped.toString('base64'), sealed: sealed.toString('base64') }
  }

  /** Of a name, which cannot be guessed without the master key. */
  digestOf(name: string): string {
    return createHmac('sha256', this.masterKey).update(`svc/api-key/1/name/${name}`).digest('hex')
  }

  /** @throws Error in a few words. */
  open(value: unknown): KeyRecord {
    if (reader.read(value).problems.length > 0) throw new Error('it is not an encrypted record, and auth.encryption_key_env is set')
    const { id, key_prefix, wrapped_key, sealed } = value as Static<typeof sealedSchema>
    const dataKey = decrypt(
      this.masterKey,
      wrapped_key,
      boundTo('data-key', id, key_prefix),
      'its data key does not open with the key of auth.encryption_key_env',
    )
    const text = decrypt(dataKey, sealed, boundTo('record', id, key_prefix), 'it is damaged')
    const record = checkRecord(JSON.parse(text.toString()))
    if (record.id !== id || record.key_prefix !== key_prefix) throw new Error('it is damaged')
    return record
  }
}

/** What a ciphertext is bound to, so that it opens nowhere else. */
function boundTo(what: string, id: string, prefix: string): Buffer {
  return Buffer.from(`svc/api-key/1/${what}/${id}/${prefix}`)
}

/** @returns nonce, ciphertext, tag. */
function encrypt(key: Buffer, plain: Buffer, bound: Buffer): Buffer {
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG_BYTES }).setAAD(bound)
  return Buffer.concat([nonce, cipher.update(plain), cipher.final(), cipher.getAuthTag()])
}

function decrypt(key: Buffer, text: string, bound: Buffer, otherwise: string): Buffer {
  const bytes = Buffer.from(text, 'base64')
  if (bytes.length < NONCE_BYTES + TAG_BYTES) throw new Error(otherwise)
  const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES }).setAAD(bound)
  decipher.setAuthTag(bytes.subarray(-TAG_BYTES))
  try {
    return Buffer.concat([decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()])
  } catch {
    throw new Error(otherwise)
  }
}
