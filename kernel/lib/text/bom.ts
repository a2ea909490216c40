/** Editors and scripts on Windows begin text in UTF-8 with a byte order mark; it is no part of the text. */
export function withoutBom<T extends Uint8Array>(bytes: T): T {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? (bytes.subarray(3) as T) : bytes
}
