/** Registrations: what may be one, and what of it is shown. */
import type { Json, PushConfig } from 'svcdb/agents'
import { SvcError } from 'svcdb/lib/errors'

const ID = /^[A-Za-z0-9._:-]{1,128}$/
export const OPERATOR = 'operator:'
const MAX_TEXT = 4096
const HEADER = /^[\x20-\x7e]+$/
const SCHEME = /^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}$/

/** @throws SvcError BAD_REQUEST. */
export function checkPush({ id, url, token, authentication }: PushConfig): void {
  const refuse = (why: string) => new SvcError('BAD_REQUEST', `cannot register a push: ${why}`)
  if (!ID.test(id)) throw refuse('an id has 1 to 128 letters, digits, ".", "_", ":" and "-"')
  if (id.startsWith(OPERATOR)) throw refuse(`ids that begin with "${OPERATOR}" are the operator's; choose another`)
  if (url.length > MAX_TEXT) throw refuse('its URL is too long')
  for (const text of [token, authentication?.credentials])
    if (text !== undefined && (!HEADER.test(text) || text.length > MAX_TEXT))
      throw refuse(`a token and credentials are 1 to ${MAX_TEXT} printable ASCII characters`)
  if (authentication !== undefined && !SCHEME.test(authentication.scheme)) throw refuse('a scheme is a word such as Bearer')
}

/**
 * Runs last for weeks, and the config may be another one by now. @param destinations of the config. @param isShared other nodes share the state, with a config that
 * may have what this one has not yet. @returns undefined for one of the operator's that there is no more.
 */
export function currentOf(registered: PushConfig, destinations: readonly PushConfig[], isShared: boolean): PushConfig | undefined {
  if (!registered.id.startsWith(OPERATOR)) return registered
  return destinations.find(({ id }) => id === registered.id) ?? (isShared ? registered : undefined)
}

/** Headers that the receiver asked for. */
export function headersOf({ token, authentication }: PushConfig): Record<string, string> {
  return {
    ...(token === undefined ? {} : { 'x-notification-token': token }),
    ...(authentication === undefined
      ? {}
      : { authorization: [authentication.scheme, authentication.credentials].filter((part) => part !== undefined).join(' ') }),
  }
}

const REDACTED = '***'

/** As its receiver gave it, without what is secret; of the URL its path and query may be. */
export function redacted(run: string, { id, url, token, authentication }: PushConfig): Json {
  return {
    id,
    task: run,
    url: withoutSecrets(url),
    ...(token === undefined ? {} : { token: REDACTED }),
    ...(authentication === undefined
      ? {}
      : { authentication: { scheme: authentication.scheme, ...(authentication.credentials === undefined ? {} : { credentials: REDACTED }) } }),
  }
}

function withoutSecrets(text: string): string {
  if (!URL.canParse(text)) return REDACTED
  const { origin, pathname, search } = new URL(text)
  return pathname === '/' && search === '' ? origin : `${origin}/${REDACTED}`
}
