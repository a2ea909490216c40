/**
 * Keys of the catalog as bytes: UTF-8, in whose place a character up to 0x04 is that byte behind a 0x04, and before which a 0x1b stands if the first
 * character is below 0x1c. It is how LMDB-js writes keys of fewer than 64 characters. Longer ones it does not escape and reads as lists, so that none of its own
 * encoding is used; catalogs may have such keys from before (`unescapedKey`).
 */
const ESCAPE = '\u0004'
const FIRST = 0x1b
const FIRST_TEXT = 0x1c
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is escaped
const TO_ESCAPE = /[\0-\u0004]/
const ALL_TO_ESCAPE = new RegExp(TO_ESCAPE, 'g')
const ESCAPED = new RegExp(`${ESCAPE}(${TO_ESCAPE.source})`, 'g')
/** What LMDB-js wants left of the buffer behind a key. */
const ROOM = 4

/** What `lmdb` takes as `keyEncoder`. */
export const keyEncoder = {
  /** @param key bytes are taken as they are. @returns where the key ends. @throws RangeError where it has no room. */
  writeKey(key: string | Uint8Array, target: Buffer, start: number): number {
    let at = start
    if (typeof key !== 'string') {
      target.set(key, at)
      return at + key.length
    }
    if (!(key.charCodeAt(0) >= FIRST_TEXT)) target[at++] = FIRST
    const text = TO_ESCAPE.test(key) ? key.replace(ALL_TO_ESCAPE, (each) => ESCAPE + each) : key
    // What does not fit is left out without a word.
    if (at + text.length + ROOM > target.length || at + Buffer.byteLength(text) + ROOM > target.length) throw new RangeError('the key does not fit')
    return at + target.write(text, at, 'utf8')
  },

  readKey(source: Buffer, start: number, end: number): string {
    const text = source.toString('utf8', source[start] === FIRST ? start + 1 : start, end)
    return text.includes(ESCAPE) ? text.replace(ESCAPED, '$1') : text
  },
}

/** How many bytes a key takes. */
export function keyBytes(key: string): number {
  const bytes = Buffer.byteLength(key)
  return TO_ESCAPE.test(key) ? bytes + (key.match(ALL_TO_ESCAPE)?.length ?? 0) : bytes
}

/** The bytes under which a key of 64 characters or more may lie from before; undefined where they are those of now. */
export function unescapedKey(key: string): Uint8Array | undefined {
  return TO_ESCAPE.test(key) ? Buffer.from(key) : undefined
}
