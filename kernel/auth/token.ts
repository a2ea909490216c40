/** The token that a call brings. Pure. */
import type { Credentials } from './auth.ts'

const AUTHORIZATION = /^(bearer|token|basic) +([\x21-\x7e]+) *$/i
/** User name, colon, password. */
const BASIC = /^[^:]*:([\x21-\x7e]+)$/

/**
 * The token in an Authorization header: `Bearer`, the `Token` of InfluxDB's clients, or the password of `Basic`, whose user name is not looked at.
 * Schemes are case-insensitive (RFC 9110); undefined for none, another scheme, or what is no token: printable ASCII without spaces.
 */
export function tokenOf(credentials: Pick<Credentials, 'header'>): string | undefined {
  const [, scheme, value] = AUTHORIZATION.exec(credentials.header('authorization') ?? '') ?? []
  if (scheme?.toLowerCase() !== 'basic') return value
  return BASIC.exec(Buffer.from(value, 'base64').toString('utf8'))?.[1]
}

/** Two dots or more: a JSON web token or meant to be one, and no key unless a plugin knows it as one. */
export function isJwtShaped(token: string): boolean {
  const dot = token.indexOf('.')
  return dot >= 0 && token.includes('.', dot + 1)
}
