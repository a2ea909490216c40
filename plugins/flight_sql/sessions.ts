/**
 * Logins: Handshake takes a user name and a password, which is an API key or another token, and hands out a bearer token of this node's. A call that
 * presents it is admitted as if it had come with what the login came with: a key that is revoked ends its logins too.
 */
import type { Credentials } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { BoundedMap } from './bounded-map.ts'

/** A JSON web token with many claims has a few thousand. */
const MAX_AUTHORIZATION_LENGTH = 16_384

interface SessionOptions {
  maxSessions: number
  lifetimeMs: number
}

/** The value of the metadata key `authorization`; absent where nothing was given and nothing is needed. */
interface Session {
  authorization: string | undefined
}

export class Sessions {
  private readonly sessions: BoundedMap<Session>

  constructor({ maxSessions, lifetimeMs }: SessionOptions, monotonic: () => number) {
    this.sessions = new BoundedMap({ maxEntries: maxSessions, maxWeight: Number.POSITIVE_INFINITY, lifetimeMs }, monotonic)
  }

  get size(): number {
    return this.sessions.size
  }

  /** What a call is admitted by: tokens of this node's and Basic credentials stand for the bearer token behind them. */
  resolve(given: Credentials): Credentials {
    const authorization = given.header('authorization')
    const token = tokenOf(given.header)
    const session = token === undefined ? undefined : this.sessions.get(token)
    if (session !== undefined) return withAuthorization(given, session.authorization)
    const basic = authorization === undefined ? undefined : readBasic(authorization)
    return basic === undefined ? given : withAuthorization(given, `Bearer ${basic.password}`)
  }

  /**
   * @param given checked credentials, as `resolve` answers them. @param owner whose share of the room it takes: never what the caller can write in many ways, or
   * each would have a share. @returns the token.
   */
  open(given: Credentials, owner?: string): string {
    const authorization = given.header('authorization')
    if ((authorization?.length ?? 0) > MAX_AUTHORIZATION_LENGTH)
      throw new SvcError('BAD_REQUEST', `cannot log in with a token of ${authorization?.length} characters: ${MAX_AUTHORIZATION_LENGTH} are the limit`)
    return this.sessions.add({ authorization }, 0, owner) as string
  }

  /** @param header of the call as it came. */
  close(header: Credentials['header']): void {
    const token = tokenOf(header)
    if (token !== undefined) this.sessions.delete(token)
  }
}

/** Clients send a login's token back as `authorization`, those with an older handshake as the bytes of `auth-token-bin`. */
function tokenOf(header: Credentials['header']): string | undefined {
  const bearer = /^bearer +(\S+)$/i.exec(header('authorization') ?? '')?.[1]
  if (bearer !== undefined) return bearer
  const bytes = header('auth-token-bin')
  return bytes === undefined ? undefined : Buffer.from(bytes, 'base64').toString('latin1')
}

export function withAuthorization(given: Credentials, authorization: string | undefined): Credentials {
  return { ...given, header: (name) => (name === 'authorization' ? authorization : given.header(name)) }
}

/** RFC 7617; the user name is not looked at. */
function readBasic(authorization: string): { username: string; password: string } | undefined {
  const encoded = /^basic +([A-Za-z0-9+/_=-]+)$/i.exec(authorization)?.[1]
  if (encoded === undefined) return undefined
  const text = Buffer.from(encoded, 'base64').toString('utf8')
  const colon = text.indexOf(':')
  return colon < 0 ? undefined : { username: text.slice(0, colon), password: text.slice(colon + 1) }
}
