/** An encrypted column within a record of the log: as a plain one, but for what follows its type. Layout: docs/formats/wal.md. */

import { type ByteReader, ByteWriter } from '../../common/log/bytes.ts'
import { seal, unseal } from '../encryption/block.ts'
import type { KeyRing } from '../encryption/keys.ts'

/** In a column's type byte. */
export const SEALED = 0x80

/** What the bytes are bound to. */
interface ColumnOfRecord {
  sequence: number
  table: number
  field: number
}

const associatedData = ({ sequence, table, field }: ColumnOfRecord, type: number): Uint8Array =>
  Buffer.from(JSON.stringify(['svc log', sequence, table, field, type]))

/** @param type the type byte, without the flag. */
export function writeSealed(out: ByteWriter, keys: KeyRing, key: string, place: ColumnOfRecord, type: number, encode: (out: ByteWriter) => void): void {
  const plain = new ByteWriter(1024)
  encode(plain)
  const sealed = seal(keys.logKey(key, place.sequence), plain.bytes.subarray(0, plain.length), associatedData(place, type))
  out.text(key)
  out.varint(sealed.length)
  out.put(sealed)
}

/** @throws ENCRYPTION_KEY_UNAVAILABLE, RangeError when the bytes do not open. */
export function readSealed(reader: ByteReader, keys: KeyRing, place: ColumnOfRecord, type: number): Uint8Array {
  const key = reader.text()
  const length = reader.varint()
  const at = reader.take(length)
  const derived = keys.logKey(key, place.sequence)
  try {
    return unseal(derived, reader.bytes.subarray(at, at + length), associatedData(place, type))
  } catch (error) {
    throw new RangeError(`a column does not open with key "${key}": it is corrupt, or the key is another one than it was written with`, { cause: error })
  }
}
