/** URLs of endpoints: what may be one, and what of it is shown. */
import { addressProblem, isInternalName, literalAddress } from 'svcdb/lib/egress'
import { SvcError } from 'svcdb/lib/errors'

const MAX_URL = 2048

/** @param allowPrivate also http, internal names and addresses. @throws BAD_REQUEST, without parts of the URL that may be secret. */
export function parseTarget(text: string, allowPrivate: boolean): URL {
  if (text.length > MAX_URL) throw refused('', `it has more than ${MAX_URL} characters`, 'shorten it')
  let url: URL
  try {
    url = new URL(text)
  } catch {
    throw refused('', 'it is no URL', 'write https://host/path')
  }
  const shown = originOf(url)
  if (url.protocol !== 'https:' && !(allowPrivate && url.protocol === 'http:')) throw refused(shown, 'it is not https', 'use an https URL')
  if (url.username !== '' || url.password !== '') throw refused(shown, 'it carries a user or a password', 'leave them out; deliveries are signed')
  url.hash = ''
  if (allowPrivate) return url
  const address = literalAddress(url.hostname)
  const problem = address === undefined ? (isInternalName(url.hostname) ? 'an internal name' : undefined) : addressProblem(address)
  if (problem !== undefined) throw refused(shown, `its host is ${problem}`, 'use a public host, or set webhooks.allow_private_targets')
  return url
}

/** Paths of webhooks are often secrets: they are shown nowhere. */
export function originOf(url: URL): string {
  return `${url.protocol}//${url.host}`
}

export function refused(shown: string, cause: string, hint: string): SvcError {
  return new SvcError('BAD_REQUEST', `cannot use webhook "${shown}": ${cause}; ${hint}`)
}
