/** Names that a certificate is for. */
import { isIP } from 'node:net'

export interface SubjectName {
  type: 'dns' | 'ip'
  value: string
}

/** What makes a certificate usable on the machine that it was made on. */
const LOCAL = ['localhost', '127.0.0.1', '::1']
/** X.520: the upper bound of a common name. */
const LONGEST_COMMON_NAME = 64
const MAX_NAMES = 100
const LABEL = '[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9])?'
const HOST = new RegExp(`^(?:\\*\\.)?${LABEL}(?:\\.${LABEL})*$`, 'i')

/** @throws Error when it can be no common name. */
export function checkCommonName(name: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused
  if (name.trim() === '' || [...name].length > LONGEST_COMMON_NAME || /[\u0000-\u001f\u007f]/.test(name))
    throw new Error(
      `cannot use common name ${JSON.stringify(name.slice(0, 80))}: it has 1 to ${LONGEST_COMMON_NAME} characters, none of them a control character`,
    )
  return name
}

/**
 * The names of a certificate: the common name where it is a host or an address, this machine's own, and those in a list with commas.
 * @throws Error naming the one that is neither a host nor an address.
 */
export function subjectNames(commonName: string, list: string | undefined): SubjectName[] {
  const more = (list ?? '').split(',').map((name) => name.trim())
  const wanted = [...(nameOf(commonName) === undefined ? [] : [commonName]), ...LOCAL, ...more.filter((name) => name !== '')]
  const names = new Map<string, SubjectName>()
  for (const text of wanted) {
    const name = nameOf(text)
    if (name === undefined) throw new Error(`cannot use name ${JSON.stringify(text.slice(0, 80))} in --san: it is neither a host name nor an IP address`)
    names.set(name.value, name)
  }
  if (names.size > MAX_NAMES) throw new Error(`cannot make a certificate for ${names.size} names: ${MAX_NAMES} are the most`)
  return [...names.values()]
}

function nameOf(text: string): SubjectName | undefined {
  if (isIP(text) !== 0) return { type: 'ip', value: text.toLowerCase() }
  // A name of digits and dots only would be an address, and is none.
  return text.length <= 253 && HOST.test(text) && !/^[\d.]+$/.test(text) ? { type: 'dns', value: text.toLowerCase() } : undefined
}
