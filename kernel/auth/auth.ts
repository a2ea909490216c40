/**
 * Who may call. A call comes with credentials; sources may say what they stand for; limiters may turn it away on arrival; authenticators, by rank,
 * each answer an identity, a refusal, or undefined (not mine); then limiters and authorizers may refuse who it is, and observers are told how it went.
 * Without authenticators the node is open. Nothing in here knows HTTP: each listener brings `Credentials`.
 */
import { randomUUID } from 'node:crypto'
import { classify, SvcError } from '../lib/errors/index.ts'
import type { ClientCertificate } from '../lib/network/index.ts'
import type { Action, Clock } from '../plugin.ts'
import { tokenOf } from './token.ts'

export type { ClientCertificate }

/** Who calls: what an authenticator has proven, or `anonymous` where none is selected. */
export interface Identity {
  principal: string
  /** How it was proven: `jwt`, `api_key`, `mtls` ... */
  method: string
  claims: Record<string, unknown>
  roles?: readonly string[]
  /** Namespaces it may name; empty = all, and under multi_tenancy none but for admins. */
  namespaces: readonly string[]
  admin: boolean
  /** When the credential ends, milliseconds since the Unix epoch. */
  expiresAt?: number
  /** For how long beyond its end it is taken, where that is more than a minute. */
  toleranceMs?: number
  /** Whether it was taken back since. */
  revoked?(): boolean
}

/** What travels with every call, whichever listener it came in by. */
export interface CallContext extends Identity {
  roles: readonly string[]
  /** The namespace asked for; without one the credential's only one, or `default`; see also `Credentials.anyNamespace`. */
  namespace: string
  /** The call is about no namespace in particular, and asked for none: `namespace` stands for all that the credential names. */
  anyNamespace?: true
  /** The namespace that data lives in: the one asked for under multi_tenancy, else the empty string. */
  dataNamespace: string
  requestId: string
  /** Of the caller, as far as it is known. */
  address: string | undefined
}

/** What a call shows of itself, as an authenticator is given it; nothing in it is proven. */
export interface Credentials {
  /** How the call came in: http, grpc, flight, or what a plugin's own listener calls itself. */
  protocol: string
  /** Of the request, without the query; of gRPC, the method's. */
  path: string
  /** A header or metadata value; names are lower case. */
  header(name: string): string | undefined
  /** A parameter of the URL; undefined where there are none. */
  query(name: string): string | undefined
  /** What the client showed in the TLS handshake. */
  certificate?: ClientCertificate
  address: string | undefined
  requestId: string
  /** The call is about no namespace in particular: without X-Namespace the first that the credential names stands for all. */
  anyNamespace?: true
}

/** Credentials as they count, such as a token out of the query, or the address behind a proxy. */
export type Source = (given: Credentials) => Credentials

/** Says who calls, by credentials that it knows. Undefined: none of these were shown, and the next authenticator is asked. An error refuses the call. */
export type Authenticator = (credentials: Credentials) => Identity | SvcError | undefined | Promise<Identity | SvcError | undefined>

/** A call whose caller and namespace are known, as authorizers and limiters are asked about it. */
export interface Authorization {
  context: CallContext
  action: Action
  /** The route's pattern, the method's name. */
  resource: string
}

/** Returns the error that the call is refused with; undefined = it may go on, as far as this authorizer is concerned. */
export type Authorizer = (request: Authorization) => SvcError | undefined | Promise<SvcError | undefined>

/** Bounds how often may be asked. Calls that need no credentials are never limited. */
export interface Limiter {
  /** Before it is known who calls. */
  arrival?(credentials: Credentials, action: Action, resource: string): SvcError | undefined
  admitted?(request: Authorization): SvcError | undefined
}

/** How a call that needs credentials fared. */
export interface Decision {
  outcome: 'allow' | 'deny'
  /** What decided. */
  stage: 'arrival' | 'authentication' | 'namespace' | 'limit' | 'authorization'
  credentials: Credentials
  action: Action
  resource: string
  /** Once it is proven. */
  identity?: Identity
  /** Once the namespace is known to be the caller's. */
  context?: CallContext
  /** Why it was denied. */
  error?: SvcError
}
/** A caller whose call says later what it does. */
export interface Caller {
  readonly context: CallContext
  /** Whether it may; what is answered is told to observers as the call's decision. @throws FORBIDDEN. */
  require(action: Action): Promise<void>
}

/** Awaited before the call goes on; one that throws has the call refused with its error. */
export type Observer = (decision: Decision) => void | Promise<void>

/** Ranks of authenticators: certificates before tokens before keys. */
export const AUTH_RANK = { certificate: 10, token: 20, key: 30, other: 40 } as const

const DEFAULT_NAMESPACE = 'default'
/** 1 to 63 lower case letters, digits and hyphens, beginning with a letter and not ending with a hyphen. */
const NAMESPACE = /^[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?$/
const NAMESPACE_RULE = 'a name is 1 to 63 lower case letters, digits and hyphens, begins with a letter and does not end with a hyphen'
const EVERYBODY: Identity = { principal: 'anonymous', method: 'none', claims: {}, namespaces: [], admin: true }
const NOBODY: Identity = { principal: 'anonymous', method: 'none', claims: {}, namespaces: [], admin: false }

/** In a credential's list of namespaces, alone: all of them. What it lets in has an empty list. */
export const ALL_NAMESPACES = '*'

/** Whether a credential's list of namespaces says all of them. */
export function isForAll(namespaces: readonly string[]): boolean {
  return namespaces.length === 1 && namespaces[0] === ALL_NAMESPACES
}

/** What is wrong with a credential's list of namespaces. */
export function namespaceListProblems(namespaces: readonly string[]): string[] {
  if (isForAll(namespaces)) return []
  return namespaces.flatMap((name) =>
    name === ALL_NAMESPACES ? ['cannot use namespaces "*" beside others: it stands for all; leave the others out'] : (namespaceProblem(name) ?? []),
  )
}

/** @returns what is wrong with a namespace's name, or undefined. */
export function namespaceProblem(name: string): string | undefined {
  return NAMESPACE.test(name) ? undefined : `cannot use namespace ${JSON.stringify(name.slice(0, 64))}: ${NAMESPACE_RULE}`
}

interface AuthOptions {
  multiTenancy: boolean
  /** Answered also while calls are turned away. */
  metricsPath?: string
  /** Resources that need no credentials; "*" at the end stands for anything. */
  exempt: readonly string[]
}

export class Auth {
  private readonly sources: Source[] = []
  private readonly limiters: Limiter[] = []
  private authenticators: { authenticate: Authenticator; rank: number; owner: string }[] = []
  private readonly authorizers: Authorizer[] = []
  private readonly observers: Observer[] = []
  private readonly scoped = new Set<string>()
  private turnedAway: SvcError | undefined
  private readonly metricsPath: string | undefined
  private readonly multiTenancy: boolean
  private readonly exempt: ReadonlySet<string>
  private readonly exemptPrefixes: readonly string[]

  constructor({ multiTenancy, metricsPath, exempt }: AuthOptions) {
    this.metricsPath = metricsPath
    this.multiTenancy = multiTenancy
    this.exempt = new Set(exempt.filter((path) => !path.endsWith('*')))
    this.exemptPrefixes = exempt.filter((path) => path.endsWith('*')).map((path) => path.slice(0, -1))
  }

  get open(): boolean {
    return this.authenticators.length === 0
  }

  /** Ids of the plugins that authenticate. */
  get owners(): readonly string[] {
    return [...new Set(this.authenticators.map(({ owner }) => owner))]
  }

  /** Refuses all calls for data from now on, with this; undefined = no more. Those that were admitted before go on, and so does work inside the node. */
  turnAway(reason: SvcError | undefined): void {
    this.turnedAway = reason
  }

  addSource(source: Source): void {
    this.sources.push(source)
  }

  addLimiter(limiter: Limiter): void {
    this.limiters.push(limiter)
  }

  addAuthenticator(authenticate: Authenticator, rank: number, owner: string): void {
    this.authenticators = [...this.authenticators, { authenticate, rank, owner }].sort((a, b) => a.rank - b.rank)
  }

  addAuthorizer(authorize: Authorizer): void {
    this.authorizers.push(authorize)
  }

  addObserver(observe: Observer): void {
    this.observers.push(observe)
  }

  addScoped(resource: string): void {
    this.scoped.add(resource)
  }

  /** Once everything is declared. @throws Error for authorizers without anybody to authorize. */
  verify(): void {
    if (this.open && this.authorizers.length > 0)
      throw new Error('cannot authorize callers that nothing authenticates: select a plugin that does, such as api_keys, jwt or mtls')
  }

  /** The context of one call; a promise only if somebody must be asked. @throws UNAUTHORIZED, FORBIDDEN, RATE_LIMITED, BAD_REQUEST for a bad namespace. */
  admit(given: Credentials, action: Action, resource: string): CallContext | Promise<CallContext> {
    return this.admitUnasked(given, action, resource) ?? this.ask(given, action, resource)
  }

  /** See `PluginAuth.admitCaller`. */
  async admitCaller(given: Credentials, action: Action, resource: string): Promise<Caller> {
    const unasked = this.admitUnasked(given, action, resource)
    if (unasked !== undefined) return { context: unasked, require: async () => {} }
    const decision = arriving(given, action, resource)
    await this.refusalsTold(decision, () => this.recognize(decision))
    const context = decision.context as CallContext
    const require = async (asked: Action) => {
      const own = { ...decision, action: asked }
      await this.settled(own, () => this.requireMay(context, asked, resource))
    }
    return { context, require }
  }

  /** The context of a call about which nobody must be asked. @throws what calls are turned away with, BAD_REQUEST for a bad namespace. */
  private admitUnasked(given: Credentials, action: Action, resource: string): CallContext | undefined {
    if (this.turnedAway !== undefined && action !== 'admin' && action !== 'public' && resource !== this.metricsPath && !this.exempt.has(resource))
      throw this.turnedAway
    if (!this.needsCredentials(action, resource)) return this.contextOf(NOBODY, given, false)
    const unasked = this.open && this.limiters.length === 0 && this.observers.length === 0 && given.certificate?.error === undefined
    return unasked ? this.contextOf(EVERYBODY, this.sourced(given)) : undefined
  }

  /** @param resource a route's pattern, never the path that was asked for: it is what the router made of it. */
  needsCredentials(action: Action, resource: string): boolean {
    return action !== 'public' && !this.exempt.has(resource) && !this.exemptPrefixes.some((prefix) => resource.startsWith(prefix))
  }

  /**
   * The context of work inside the node, which its configuration has asked for: no credentials, and no authorizer is asked. It writes where callers
   * read, limiters may refuse it, and observers are told.
   * @param known whether there is a namespace of this name; undefined = nobody defines them, and all that callers can name are. @throws BAD_REQUEST,
   * FORBIDDEN, NOT_FOUND, RATE_LIMITED.
   */
  admitSystem(principal: string, namespace: string, known: ((namespace: string) => boolean) | undefined): Promise<CallContext> {
    const none = () => undefined
    const credentials: Credentials = { protocol: 'system', path: principal, header: none, query: none, address: undefined, requestId: randomUUID() }
    const decision: Decision = { outcome: 'allow', stage: 'namespace', credentials, action: 'write', resource: principal }
    return this.settled(decision, async () => {
      const identity: Identity = { principal, method: 'system', claims: {}, roles: [], namespaces: [namespace], admin: false }
      decision.identity = identity
      const problem = this.unreadable(principal, namespace, known)
      if (problem !== undefined) throw problem
      const context = {
        ...identity,
        roles: [],
        namespace,
        dataNamespace: this.multiTenancy ? namespace : '',
        requestId: credentials.requestId,
        address: undefined,
      }
      decision.context = context
      decision.stage = 'limit'
      for (const limiter of this.limiters) refuse(limiter.admitted?.({ context, action: 'write', resource: principal }))
    })
  }

  /** Asks about more that an admitted call is to do. @throws FORBIDDEN. */
  async authorize(context: CallContext, action: Action, resource: string): Promise<void> {
    if (this.open) return
    await this.settled(internalDecision(context, action, resource), () => this.requireMay(context, action, resource))
  }

  /** See `PluginAuth.standing`. */
  standing(context: CallContext, action: Action, resource: string, clock: Pick<Clock, 'now' | 'monotonic'>): () => void | Promise<void> {
    const authorized = this.authorizers.length > 0 && this.needsCredentials(action, resource)
    let asked = clock.monotonic()
    return () => {
      requireStanding(context, clock.now())
      if (!authorized || clock.monotonic() - asked < ASK_AGAIN_MS) return
      asked = clock.monotonic()
      return this.requireStill(context, action, resource)
    }
  }

  /** What goes on as before is no decision that observers are told of. */
  private async requireStill(context: CallContext, action: Action, resource: string): Promise<void> {
    try {
      await this.requireMay(context, action, resource)
    } catch (error) {
      await this.report({ ...internalDecision(context, action, resource), outcome: 'deny', error: classify(error) })
      throw error
    }
  }

  /** Why no caller could read what is written to a namespace. */
  private unreadable(principal: string, namespace: string, known: ((namespace: string) => boolean) | undefined): SvcError | undefined {
    const problem = namespaceProblem(namespace)
    if (problem !== undefined) return new SvcError('BAD_REQUEST', problem)
    const cannot = `cannot use namespace "${namespace}" as "${principal}"`
    if (!this.multiTenancy) {
      if (namespace === DEFAULT_NAMESPACE) return undefined
      return new SvcError('FORBIDDEN', `${cannot}: the server keeps no namespaces apart, and there is only "${DEFAULT_NAMESPACE}"; set server.multi_tenancy`)
    }
    if (known === undefined || known(namespace)) return undefined
    return new SvcError('NOT_FOUND', `${cannot}: there is none of this name, and nobody could read it; POST /api/v1/namespaces creates one`)
  }

  private ask(given: Credentials, action: Action, resource: string): Promise<CallContext> {
    const decision = arriving(given, action, resource)
    return this.settled(decision, async () => {
      await this.recognize(decision)
      await this.requireMay(decision.context as CallContext, action, resource)
    })
  }

  /** Has observers told how a decision went. */
  private async settled(decision: Decision, decide: () => Promise<void>): Promise<CallContext> {
    await this.refusalsTold(decision, decide)
    await this.report(decision)
    return decision.context as CallContext
  }

  private async refusalsTold(decision: Decision, decide: () => Promise<void>): Promise<void> {
    try {
      await decide()
    } catch (error) {
      decision.outcome = 'deny'
      decision.error = classify(error)
      await this.report(decision)
      throw error
    }
  }

  /** Who calls, for which namespace, and whether that may be now: all but what is to be done. */
  private async recognize(decision: Decision): Promise<void> {
    const { action, resource } = decision
    const credentials = this.sourced(decision.credentials)
    decision.credentials = credentials
    for (const limiter of this.limiters) refuse(limiter.arrival?.(credentials, action, resource))
    decision.stage = 'authentication'
    const identity = await this.identify(credentials)
    decision.identity = identity
    decision.stage = 'namespace'
    const context = this.contextOf(identity, credentials)
    decision.context = context
    decision.stage = 'limit'
    for (const limiter of this.limiters) refuse(limiter.admitted?.({ context, action, resource }))
    decision.stage = 'authorization'
  }

  private async requireMay(context: CallContext, action: Action, resource: string): Promise<void> {
    if (action === 'admin') this.requireAdmin(context, resource)
    for (const authorize of this.authorizers) refuse(await authorize({ context, action, resource }))
  }

  /** Where data is kept apart, an admin of some namespaces is none of the server, which others' data is a part of. */
  private requireAdmin({ admin, namespaces, principal }: CallContext, resource: string): void {
    const refused = (needed: string) => new SvcError('FORBIDDEN', `cannot call "${resource}" as "${principal}": an admin credential ${needed}`)
    if (!admin) throw refused('is needed')
    if (this.multiTenancy && namespaces.length > 0 && !this.scoped.has(resource)) throw refused('for all namespaces is needed')
  }

  private sourced(given: Credentials): Credentials {
    let credentials = given
    for (const source of this.sources) credentials = source(credentials)
    return credentials
  }

  private async report(decision: Decision): Promise<void> {
    for (const observe of this.observers) await observe(decision)
  }

  private async identify(credentials: Credentials): Promise<Identity> {
    const { certificate } = credentials
    // One that was shown and does not hold is no reason to look for other credentials.
    if (certificate?.error !== undefined)
      throw new SvcError('UNAUTHORIZED', `InvalidCertificate: the client certificate is not accepted: ${certificate.error}; show one that is, or none`)
    if (this.open) return EVERYBODY
    for (const { authenticate } of this.authenticators) {
      const answer = await authenticate(credentials)
      if (answer instanceof SvcError) throw answer
      if (answer !== undefined) return answer
    }
    const header = credentials.header('authorization')
    const given = header !== undefined && header.trim() !== ''
    const [check, send] = this.authenticators.every(({ rank }) => rank === AUTH_RANK.certificate)
      ? ['; show a client certificate', '; show a client certificate']
      : [
          `; check the token${tokenOf(credentials) === undefined ? ', and that "Bearer" is before it' : ''}`,
          ' in the header Authorization; send "Authorization: Bearer <token>"',
        ]
    throw new SvcError('UNAUTHORIZED', given ? `the credentials are not accepted${check}` : `no credentials were given${send}`)
  }

  /** @param confined whether the caller must have authority over the namespace. */
  private contextOf(identity: Identity, credentials: Credentials, confined = true): CallContext {
    const { namespaces } = identity
    const asked = credentials.header('x-namespace')?.trim()
    const anyNamespace = credentials.anyNamespace && !asked
    const own = namespaces.length === 1 || anyNamespace ? namespaces[0] : undefined
    const namespace = asked || (own ?? DEFAULT_NAMESPACE)
    const problem = namespaceProblem(namespace)
    if (problem !== undefined) throw new SvcError('BAD_REQUEST', problem)
    if (confined && namespaces.length > 0 && !namespaces.includes(namespace)) {
      throw new SvcError(
        'FORBIDDEN',
        `cannot use namespace "${namespace}" as "${identity.principal}": the credential is for other namespaces; name one of them in X-Namespace`,
      )
    }
    if (confined && this.multiTenancy && namespaces.length === 0 && !identity.admin) {
      throw new SvcError(
        'FORBIDDEN',
        `cannot use namespace "${namespace}" as "${identity.principal}": the credential is for no namespace, and the server keeps namespaces apart; have it issued with namespaces`,
      )
    }
    const { requestId, address } = credentials
    const dataNamespace = this.multiTenancy ? namespace : ''
    return { ...identity, roles: identity.roles ?? [], namespace, ...(anyNamespace && { anyNamespace }), dataNamespace, requestId, address }
  }
}

/** Whether the caller may know of the machine, such as where files lie: not an admin of some namespaces where data is kept apart. */
export function administersServer({ admin, namespaces, dataNamespace }: CallContext): boolean {
  return admin && (dataNamespace === '' || namespaces.length === 0)
}

/** Policies may take long to be asked, and calls may have many messages. */
const ASK_AGAIN_MS = 1000

/** Clocks of issuers differ, and a token is taken for some time beyond its end. */
const GRACE_MS = 60_000

/** Whether a credential stands, which `PluginAuth.standing` asks for calls that go on and on. @param now milliseconds. @throws UNAUTHORIZED. */
export function requireStanding({ principal, expiresAt = Number.POSITIVE_INFINITY, toleranceMs = 0, revoked }: CallContext, now: number): void {
  if (now < expiresAt + Math.max(toleranceMs, GRACE_MS) && revoked?.() !== true) return
  throw new SvcError(
    'UNAUTHORIZED',
    `cannot take more from "${principal}" in this call: the credential was revoked or has expired since it began; begin anew with another`,
  )
}

function arriving(credentials: Credentials, action: Action, resource: string): Decision {
  return { outcome: 'allow', stage: 'arrival', credentials, action, resource }
}

/** On what an admitted call does further. */
function internalDecision(context: CallContext, action: Action, resource: string): Decision {
  const none = () => undefined
  const { address, requestId } = context
  const credentials: Credentials = { protocol: 'internal', path: resource, header: none, query: none, address, requestId }
  return { outcome: 'allow', stage: 'authorization', credentials, action, resource, identity: context, context }
}

function refuse(refusal: SvcError | undefined): void {
  if (refusal !== undefined) throw refusal
}
