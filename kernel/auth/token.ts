/** The token that a call brings. Pure. */
import type { Credentials } from './auth.ts'

const AUTHORIZATION = /^(bearer|token|basic) +([\x21-\x7e]+) *$/i
/** User name, colon, password. */
const USER_AND_PASSWORD = /^[^:]*:([\x21-\x7e]+)$/

/**
 * The token in an Authorization header: `Bearer`, the `Token` of InfluxDB's clients, or the password of `Basic`, whose user name is not looked at.
 * Of `Token <user>:<password>`, which clients of InfluxDB 2 send to an InfluxDB 1.8, it is the password.
 * Schemes are case-insensitive (RFC 9110); undefined for none, another scheme, or what is no token: printable ASCII without spaces.
 */
export function tokenOf(credentials: Pick<Credentials, 'header'>): string | undefined {
  const [, scheme, value] = AUTHORIZATION.exec(credentials.header('authorization') ?? '') ?? []
  switch (scheme?.toLowerCase()) {
    case 'basic':
      return USER_AND_PASSWORD.exec(Buffer.from(value, 'base64').toString('utf8'))?.[1]
    case 'token':
      return value.includes(':') ? USER_AND_PASSWORD.exec(value)?.[1] : value
    default:
      return value
  }
}

/** Two dots or more: a JSON web token or meant to be one, and no key unless a plugin knows it as one. */
export function isJwtShaped(token: string): boolean {
  const dot = token.indexOf('.')
  return dot >= 0 && token.includes('.', dot + 1)
}
