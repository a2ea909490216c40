import { isUtf8 } from 'node:buffer'

/** The text in bytes[start, end), undefined when it is no UTF-8. One request may have a million of these, and an error of TextDecoder takes 10 us each. */
export function utf8Of(bytes: Uint8Array, start: number, end: number): string | undefined {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start)
  return isUtf8(text) ? text.toString('utf8') : undefined
}
