/**
 * How a value lies in the catalog: its bytes, then four bytes of CRC-32C over the key's UTF-8 and the bytes. LMDB has no checksums; with the key
 * in the sum, a value under another key is noticed as a flipped bit is. Every value but `meta/format` passes through here.
 */
import { SvcError } from 'svcdb/lib/errors'
import { crc32c } from 'svcdb/lib/files'

const CRC_BYTES = 4
const encoder = new TextEncoder()
const decoder = new TextDecoder()

export function encodeValue(key: string, bytes: Uint8Array): Uint8Array {
  const stored = Buffer.allocUnsafe(bytes.length + CRC_BYTES)
  stored.set(bytes)
  stored.writeUInt32LE(valueCrc(key, bytes), bytes.length)
  return stored
}

/** @throws DATABASE_ERROR naming the key and the file when the value is not what was stored under the key. */
export function decodeValue(key: string, stored: Uint8Array): Uint8Array {
  const length = stored.length - CRC_BYTES
  if (length < 0 || storedCrc(stored) !== valueCrc(key, stored.subarray(0, length))) throw corruptCatalog(`entry "${key}" does not match its checksum`)
  return stored.subarray(0, length)
}

export const withoutCrc = (stored: Uint8Array): Uint8Array => stored.subarray(0, stored.length - CRC_BYTES)

export const encodeJson = (key: string, value: unknown): Uint8Array => encodeValue(key, encoder.encode(JSON.stringify(value)))
export const decodeJson = <T>(key: string, stored: Uint8Array): T => JSON.parse(decoder.decode(decodeValue(key, stored))) as T

/** The checksum at the end of a stored value. */
export function storedCrc(stored: Uint8Array): number {
  const at = stored.length - CRC_BYTES
  return (stored[at] | (stored[at + 1] << 8) | (stored[at + 2] << 16) | (stored[at + 3] << 24)) >>> 0
}

export function valueCrc(key: string, bytes: Uint8Array): number {
  const name = encoder.encode(key)
  return crc32c(bytes, 0, bytes.length, crc32c(name, 0, name.length))
}

export function corruptCatalog(cause: string, error?: unknown): SvcError {
  return new SvcError(
    'DATABASE_ERROR',
    `cannot read the catalog "catalog/data.mdb": ${cause}; restore the data directory from a backup`,
    error === undefined ? {} : { cause: error },
  )
}

export function inaccessibleCatalog(error: Error): SvcError {
  const { code } = error as NodeJS.ErrnoException
  if (code === 'ENOSPC' || code === 'EDQUOT')
    return new SvcError('STORAGE_FULL', `cannot open the catalog "catalog/data.mdb": ${error.message}; free space on its volume, then start again`, {
      cause: error,
    })
  const hint = /^E[MN]FILE$/.test(code ?? '')
    ? 'raise the limit of open files (ulimit -n, LimitNOFILE)'
    : 'see that the user that runs the server owns the data directory and all in it, and that the disk is there'
  return new SvcError('IO_ERROR', `cannot open the catalog "catalog/data.mdb": ${error.message}; ${hint}`, { cause: error })
}
