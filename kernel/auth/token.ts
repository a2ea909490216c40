/** The token that a call brings. Pure. */
import type { Credentials } from './auth.ts'

const AUTHORIZATION = /^(bearer|token|basic) +([\x21-\x7e]+) *$/i
/** What can stand in a header. */
const TOKEN = /^[\x21-\x7e]+$/
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

/** Whether a call came with an Authorization header; an empty one is none. */
export const hasAuthorization = (credentials: Pick<Credentials, 'header'>): boolean => (credentials.header('authorization') ?? '').trim() !== ''

/**
 * The Authorization header that a parameter of the URL stands for, for `svc.auth.source`; undefined for none, and beside a header, which counts before it.
 * What no header could carry is a bad token, not a missing one.
 */
export function authorizationFromQuery(credentials: Pick<Credentials, 'header' | 'query'>, parameter: string): string | undefined {
  const token = hasAuthorization(credentials) ? undefined : credentials.query(parameter)
  if (!token) return undefined
  return TOKEN.test(token) ? `Bearer ${token}` : 'Bearer'
}

/** Two dots or more: a JSON web token or meant to be one, and no key unless a plugin knows it as one. */
export function isJwtShaped(token: string): boolean {
  const dot = token.indexOf('.')
  return dot >= 0 && token.includes('.', dot + 1)
}
