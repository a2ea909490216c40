/** Values of the config in messages. */
import { withoutPasswords } from '../lib/text/index.ts'

const MOST = 256

/** As JSON, without passwords of URLs, and cut: a certificate or a whole list in the wrong place would hide what is wrong. */
export function shown(value: unknown): string {
  const text = withoutPasswords(JSON.stringify(value) ?? '')
  return text.length <= MOST ? text : `${text.slice(0, MOST)}… (${text.length} characters)`
}
