/**
 * The auth seam. Authenticators are tried in order, each answers an identity, a refusal, or undefined (not mine); then every
 * authorizer may refuse. Without authenticators the node is open. Nothing in here knows HTTP: each listener brings `Credentials`.
 */
import { SvcError } from './errors.ts'
import type { Action } from './plugin.ts'

export interface Identity {
  principal: string
  /** How it was proven: `jwt`, `api_key`, `mtls` ... */
  method: string
  claims: Record<string, unknown>
  /** Namespaces it may name; empty = all. */
  namespaces: readonly string[]
  admin: boolean
}

/** What travels with every call, whichever listener it came in by. */
export interface CallContext extends Identity {
  /** The namespace asked for; `default` without one. */
  namespace: string
  /** The namespace that data lives in: the one asked for under multi_tenancy, else the empty string. */
  dataNamespace: string
  requestId: string
}

export interface Credentials {
  surface: 'http' | 'grpc' | 'flight'
  /** A header or metadata value; names are lower case. */
  header(name: string): string | undefined
  /** The verified certificate of the client, DER, when it gave one. */
  certificate?: Uint8Array
  address: string | undefined
  requestId: string
}

export type Authenticator = (credentials: Credentials) => Identity | SvcError | undefined | Promise<Identity | SvcError | undefined>
export interface Authorization {
  context: CallContext
  action: Action
  /** The route's pattern, the method's name. */
  resource: string
}
export type Authorizer = (request: Authorization) => SvcError | undefined | Promise<SvcError | undefined>

const DEFAULT_NAMESPACE = 'default'
const MAX_NAMESPACE_LENGTH = 255
// NUL and 0x01 separate identities in the data; no other control character names anything either.
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
const CONTROL = /[\x00-\x1f\x7f]/
const EVERYBODY: Identity = { principal: 'anonymous', method: 'none', claims: {}, namespaces: [], admin: true }
const NOBODY: Identity = { principal: 'anonymous', method: 'none', claims: {}, namespaces: [], admin: false }

export class Auth {
  private readonly authenticators: Authenticator[] = []
  private readonly authorizers: Authorizer[] = []
  private readonly multiTenancy: boolean

  constructor(options: { multiTenancy: boolean }) {
    this.multiTenancy = options.multiTenancy
  }

  get open(): boolean {
    return this.authenticators.length === 0
  }

  addAuthenticator(authenticate: Authenticator): void {
    this.authenticators.push(authenticate)
  }

  addAuthorizer(authorize: Authorizer): void {
    this.authorizers.push(authorize)
  }

  /** The context of one call; a promise only if somebody must be asked. @throws UNAUTHORIZED, FORBIDDEN, BAD_REQUEST for a bad namespace. */
  admit(credentials: Credentials, action: Action, resource: string): CallContext | Promise<CallContext> {
    if (action === 'public') return this.contextOf(NOBODY, credentials)
    if (this.open && this.authorizers.length === 0) return this.contextOf(EVERYBODY, credentials)
    return this.ask(credentials, action, resource)
  }

  private async ask(credentials: Credentials, action: Action, resource: string): Promise<CallContext> {
    const context = this.contextOf(await this.identify(credentials), credentials)
    if (action === 'admin' && !context.admin)
      throw new SvcError('FORBIDDEN', `cannot call "${resource}" as "${context.principal}": an admin credential is needed`)
    for (const authorize of this.authorizers) {
      const refusal = await authorize({ context, action, resource })
      if (refusal !== undefined) throw refusal
    }
    return context
  }

  private async identify(credentials: Credentials): Promise<Identity> {
    if (this.open) return EVERYBODY
    for (const authenticate of this.authenticators) {
      const answer = await authenticate(credentials)
      if (answer instanceof SvcError) throw answer
      if (answer !== undefined) return answer
    }
    const given = credentials.header('authorization') !== undefined
    throw new SvcError(
      'UNAUTHORIZED',
      given ? 'the credentials are not accepted; check the token' : 'no credentials were given; send "Authorization: Bearer <token>"',
    )
  }

  private contextOf(identity: Identity, credentials: Credentials): CallContext {
    const namespace = credentials.header('x-namespace') || DEFAULT_NAMESPACE
    if (namespace.length > MAX_NAMESPACE_LENGTH || CONTROL.test(namespace)) {
      throw new SvcError(
        'BAD_REQUEST',
        `cannot use namespace ${JSON.stringify(namespace.slice(0, 64))}: it is longer than ${MAX_NAMESPACE_LENGTH} characters or has control characters`,
      )
    }
    if (identity.namespaces.length > 0 && !identity.namespaces.includes(namespace)) {
      throw new SvcError(
        'FORBIDDEN',
        `cannot use namespace "${namespace}" as "${identity.principal}": the credential is for other namespaces; name one of them in X-Namespace`,
      )
    }
    return { ...identity, namespace, dataNamespace: this.multiTenancy ? namespace : '', requestId: credentials.requestId }
  }
}
