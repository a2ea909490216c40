/** The text of a key: the configured prefix, then 32 random bytes in base64url. */
import { randomBytes } from 'node:crypto'

const RANDOM_BYTES = 32
const RANDOM_CHARS = 43
const LOOKUP_CHARS = 8
/** Characters of a token beyond which it is not looked at: keys that people chose are shorter. */
export const MAX_TOKEN_LENGTH = 1024

export function generateKeyText(prefix: string): string {
  return prefix + randomBytes(RANDOM_BYTES).toString('base64url')
}

/**
 * What a key is looked up by: the first 8 of its random characters. Counted from the end, so that keys that were made under another prefix are found as
 * well. Of a shorter token, which nobody generated, its first 8.
 */
export function lookupOf(token: string): string {
  return token.length < RANDOM_CHARS ? token.slice(0, LOOKUP_CHARS) : token.slice(-RANDOM_CHARS, LOOKUP_CHARS - RANDOM_CHARS)
}
