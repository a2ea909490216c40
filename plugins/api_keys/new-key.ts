/** Makes keys: the text, which is shown once, and the record, which has only its hash. */
import { randomUUID } from 'node:crypto'
import { checkRecord, type KeyRecord } from './key-record.ts'
import { generateKeyText, lookupOf } from './key-text.ts'
import { hashText } from './phc.ts'

interface NewKey {
  name: string
  namespaces: readonly string[]
  tenant?: string
  roles: readonly string[]
  admin: boolean
  /** Unix seconds. */
  expiresAt?: number
}

/** @param nowMs milliseconds since the Unix epoch. @throws Error for a key that could not be read back. */
export async function newKey(given: NewKey, prefix: string, nowMs: number): Promise<{ text: string; record: KeyRecord }> {
  const text = generateKeyText(prefix)
  const { text: key_hash } = await hashText(text)
  const record: KeyRecord = {
    id: randomUUID(),
    name: given.name,
    key_prefix: lookupOf(text),
    key_hash,
    tenant_id: given.tenant ?? null,
    namespaces: [...new Set(given.namespaces)],
    roles: [...new Set(given.roles)],
    admin: given.admin,
    enabled: true,
    created_at: Math.floor(nowMs / 1000),
    expires_at: given.expiresAt ?? null,
    last_used_at: null,
    usage_count: 0,
    description: null,
  }
  try {
    return { text, record: checkRecord(record) }
  } catch (error) {
    throw new Error(`cannot make key ${JSON.stringify(given.name)}: ${(error as Error).message}`, { cause: error })
  }
}
