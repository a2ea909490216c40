/** A key as an object of its own, in the clear or sealed. See docs/formats/api-keys.md. */
import type { Envelope } from './envelope.ts'
import { checkRecord, ID, type KeyRecord } from './key-record.ts'

const VERSION = 1
/** Of one object. */
export const MAX_OBJECT_BYTES = 1024 * 1024

export function encodeObject(record: KeyRecord, envelope: Envelope | undefined): object {
  return envelope === undefined ? { version: VERSION, ...record } : envelope.seal(record)
}

/** @param id it is to be of. @throws Error in a few words. */
export function decodeObject(value: unknown, id: string, envelope: Envelope | undefined): KeyRecord {
  const record = envelope === undefined ? inTheClear(value) : envelope.open(value)
  if (record.id !== id) throw new Error(`it is of the key ${record.id}`)
  return record
}

/** @throws Error in a few words, which show nothing of the text. */
export function parseObject(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new Error('it is no JSON') // the parser's own text would show a part of it
  }
}

/** The ids in the names of files, `<id><ending>`. */
export function idsOf(names: readonly string[], ending: string): string[] {
  return names.filter((name) => name.endsWith(ending) && ID.test(name.slice(0, -ending.length))).map((name) => name.slice(0, -ending.length))
}

function inTheClear(value: unknown): KeyRecord {
  const { version, ...record } = (value ?? {}) as Record<string, unknown>
  if ('sealed' in record) throw new Error('it is encrypted, and auth.encryption_key_env is not set')
  if (version !== VERSION) throw new Error(`it has version ${JSON.stringify(version)}, and this program reads ${VERSION}`)
  return checkRecord(record)
}
