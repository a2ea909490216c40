/** What was read, in 32 bytes, as the functions in PostgreSQL compute it (tables.ts). */
import { createHash, hash } from 'node:crypto'

export interface Row {
  key: string
  /** JSON. */
  text: string
}

export const digestOf = (text: string): Buffer => hash('sha256', text, 'buffer')

/** null = there is none. */
export function listDigest(rows: readonly Row[]): Buffer | null {
  if (rows.length === 0) return null
  const whole = createHash('sha256')
  const length = Buffer.alloc(4)
  for (const { key, text } of rows) {
    const bytes = Buffer.from(key)
    length.writeInt32BE(bytes.length)
    whole.update(length).update(bytes).update(digestOf(text))
  }
  return whole.digest()
}
