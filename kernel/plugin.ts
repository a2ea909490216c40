// What a route says about itself in the OpenAPI description: summary, tags, consumes.
/// <reference types="@fastify/swagger" preserve="true" />
/**
 * The public plugin API: what a plugin declares (`definePlugin`) and what the kernel hands it (`Svc`).
 *
 * Phases: setup declares and does no I/O; start opens what the plugin needs; ready runs when the listeners are open; drain stops
 * producing; stop releases, and must be safe after a failed start. Dependencies go first on the way up and last on the way down.
 */
import type { FastifyReply, FastifyRequest, RouteOptions, RouteShorthandOptions } from 'fastify'
import type { Static, TObject, TSchema } from 'typebox'
import type { Authenticator, Authorizer, CallContext, Caller, Credentials, Limiter, Observer, Source } from './auth/auth.ts'
import type { CheckCall, Command } from './cli/command.ts'
import type { Nodes, Owned, OwnOptions } from './cluster/types.ts'
import type { OwnedWork } from './cluster/want.ts'
import type { ServerConfig, TlsConfig } from './config/schema.ts'
import type { Connection } from './http/body-memory.ts'
import type { Ingest } from './ingest/ingest.ts'
import type { DeclaredCode } from './lib/errors/index.ts'
import type { PageOptions } from './lib/pages/index.ts'
import { didYouMean } from './lib/text/index.ts'
import type { Logger } from './log.ts'
import type { Metrics } from './metrics.ts'
import type { Schedule, ScheduledJob, ScheduleOptions } from './schedule/schedule.ts'
import type { SqlFunction } from './storage/sql-functions.ts'
import type { Capability, Storage } from './storage/storage.ts'
import type { Tracing } from './tracing.ts'
import { apiProblem } from './version.ts'
import { wallClock } from './wall-clock.ts'

/** How settled a plugin is, as `svc plugins` shows it. */
export type Stability = 'stable' | 'beta' | 'experimental'
const STABILITIES: readonly Stability[] = ['stable', 'beta', 'experimental']

/** What a plugin says of itself: looked at before anything of it runs, `setup` apart. */
export interface PluginDefinition<S extends TSchema = TSchema> {
  /** snake_case; the same word is its folder, its section, its logger. */
  id: string
  summary: string
  stability: Stability
  /** The plugin API that it was written for, as `API_VERSION` names it, such as '1.0': it is loaded where that has the same major version and at least this minor one. */
  api?: string
  /** Schema of its section: a description on every key. */
  config?: S
  /**
   * The section's name where it is not the id, such as `auth.jwt`. The empty string: the members of `config` are sections of their own, which
   * plugins share as long as no two declare the same key.
   */
  section?: string
  /** Without its section in the file the plugin is as if it were not selected: nothing is declared, its routes answer 404. An empty section will do. */
  needsSection?: true
  /** Plugin ids or service names that must be there; they start first. */
  requires?: readonly string[]
  /** Plugins that come with it, as they would stand in `plugins`: selected where the config does not name them, and started first. One whose capabilities the engine lacks is left out. */
  includes?: readonly string[]
  /** Names of the services it gives with `provide`. */
  provides?: readonly string[]
  /** What it needs of the storage; a plugin that names nothing here gets no storage. */
  capabilities?: readonly Capability[]
  /** Codes of its own, of `declareErrors`. */
  errors?: Readonly<Record<string, DeclaredCode>>
  /** Actions that it records in the audit log beside those that every node knows. */
  auditActions?: readonly string[]
  /** What its listeners speak, as `Credentials.protocol` names it; `http` is the kernel's. */
  protocols?: readonly string[]
  /** Words that it adds to the command line. */
  commands?: readonly Command[]
  /** Asked by `svc check`, after setup, for what else would end a start: as far as it can be seen without one, beside a server that may run. @throws Error in one line. */
  check?(call: CheckCall): Promise<void>
  setup(svc: Svc, config: Static<S>): void | Promise<void>
}

const NAME = /^[a-z][a-z0-9_]*$/

const MARK = Symbol.for('svc.plugin')

/** What `definePlugin` returns, and a plugin module has as its default export. */
export type Plugin = PluginDefinition & { readonly [MARK]: true }

/** Marks and checks a plugin's declaration. @throws Error for a member that is missing or bad, a version of the API that this is not, or a config key without description. */
export function definePlugin<S extends TSchema = TObject>(definition: PluginDefinition<S>): Plugin {
  const { id, api } = definition
  if (typeof id !== 'string') throw new Error('cannot define a plugin: it has no id; give it one, such as id: "hello"')
  if (!NAME.test(id)) throw new Error(`cannot define plugin "${id}": an id is lower case letters, digits and "_", starting with a letter`)
  const incomplete = memberProblem(definition)
  if (incomplete !== undefined) throw new Error(`cannot define plugin "${id}": ${incomplete}`)
  const problem = api === undefined ? undefined : apiProblem(api)
  if (problem !== undefined) throw new Error(`cannot define plugin "${id}": ${problem}`)
  if (['server', 'database', 'tls', 'plugins', 'kernel', 'storage'].includes(id)) {
    throw new Error(`cannot define plugin "${id}": the name belongs to the kernel; choose another id`)
  }
  for (const name of [...(definition.auditActions ?? []), ...(definition.protocols ?? [])])
    if (!NAME.test(name)) throw new Error(`cannot define plugin "${id}": the name "${name}" is not lower case letters, digits and "_", starting with a letter`)
  for (const { name } of definition.commands ?? [])
    if (!/^[a-z][a-z0-9-]*$/.test(name)) throw new Error(`cannot define plugin "${id}": the command "${name}" is not lower case letters, digits and "-"`)
  if (definition.config !== undefined) requireDescriptions(id, '', definition.config)
  if (definition.needsSection && definition.section === '')
    throw new Error(`cannot define plugin "${id}": it needs its section, and has none of its own; name one`)
  return Object.freeze({ ...(definition as unknown as PluginDefinition), [MARK]: true as const })
}

const OPTIONAL = {
  api: 'a text',
  config: 'a schema',
  section: 'a text',
  needsSection: 'true',
  requires: 'a list',
  includes: 'a list',
  provides: 'a list',
  capabilities: 'a list',
  errors: 'an object',
  auditActions: 'a list',
  protocols: 'a list',
  commands: 'a list',
  check: 'a function',
} as const satisfies Record<Exclude<keyof PluginDefinition, 'id' | 'summary' | 'stability' | 'setup'>, string>
const MEMBERS: ReadonlySet<string> = new Set(['id', 'summary', 'stability', 'setup', ...Object.keys(OPTIONAL)])

const isObject = (value: unknown): boolean => typeof value === 'object' && value !== null && !Array.isArray(value)
const KINDS: Record<(typeof OPTIONAL)[keyof typeof OPTIONAL], (value: unknown) => boolean> = {
  'a text': (value) => typeof value === 'string',
  'a schema': isObject,
  true: (value) => value === true,
  'a list': Array.isArray,
  'an object': isObject,
  'a function': (value) => typeof value === 'function',
}

/** What types do not catch: Node strips them without a look at them, and plugins are written in JavaScript too. */
function memberProblem(definition: Partial<PluginDefinition>): string | undefined {
  const { summary, stability, setup } = definition
  const unknown = Object.keys(definition).find((name) => !MEMBERS.has(name))
  if (unknown !== undefined) return `it has no member "${unknown}"; ${didYouMean(unknown, MEMBERS, `there are ${[...MEMBERS].join(', ')}`)}`
  for (const [name, kind] of Object.entries(OPTIONAL)) {
    const value = definition[name as keyof typeof OPTIONAL]
    if (value !== undefined && !KINDS[kind](value)) return `its ${name} is not ${kind}`
  }
  if (typeof summary !== 'string') return 'it has no summary; say in one line what it does'
  if (!STABILITIES.includes(stability as Stability)) return `its stability is none of ${STABILITIES.join(', ')}; give it one of them`
  return typeof setup === 'function' ? undefined : 'it has no setup; give it a function of that name, which declares its routes and hooks'
}

/** Holds across copies of this package, so that a plugin of another copy is named as one. */
export function isPlugin(value: unknown): value is Plugin {
  return typeof value === 'object' && value !== null && MARK in value
}

interface Described {
  description?: string
  properties?: Record<string, Described>
  items?: Described
}

function requireDescriptions(id: string, path: string, schema: Described): void {
  if (schema.items !== undefined) requireDescriptions(id, path, schema.items)
  for (const [name, property] of Object.entries(schema.properties ?? {})) {
    if (property.description === undefined) throw new Error(`cannot define plugin "${id}": config key "${path}${name}" has no description; give it one`)
    requireDescriptions(id, `${path}${name}.`, property)
  }
}

/** What a route does to data: given to the authorizers. */
export type Action = 'read' | 'write' | 'delete' | 'admin' | 'public'

/** What a route does, and how it takes its body: the member `config` of its options. */
export interface RouteConfig {
  /** Default: read for GET and HEAD, delete for DELETE, else write. `public` needs no credentials. */
  action?: Action
  /**
   * Hands the handler the body's bytes, decoded by Content-Encoding, instead of parsed JSON: for any content type, or for those named.
   * The buffer is the handler's until its answer is sent, and is reused afterwards.
   */
  rawBody?: true | readonly string[]
  /** With `rawBody`: the bytes as they were sent; decoding them by Content-Encoding, and bounding what comes out, is the handler's. */
  encodedBody?: true
  /** The route writes points: calls that fail, whatever refuses them, count in svc_write_errors_total. */
  ingest?: true
}

/** Options of a route: those of Fastify, `schema` among them, with the server's own in `config`. */
export interface HttpOptions extends Omit<RouteShorthandOptions, 'config'> {
  config?: RouteConfig
}

// biome-ignore lint/suspicious/noExplicitAny: the types of body, query and parameters follow the route's own schema
export type HttpRequest = FastifyRequest & { body: any; query: any; params: any }

/** Answers by what it returns, or by `reply`; what it throws is answered as `toSvcError` has it. */
export type HttpHandler = (request: HttpRequest, reply: FastifyReply) => unknown

/** Declares routes on the listener of the server: in setup. They are admitted before their handler is called. */
export interface HttpRoutes {
  get(path: string, handler: HttpHandler): void
  get(path: string, options: HttpOptions, handler: HttpHandler): void
  post(path: string, handler: HttpHandler): void
  post(path: string, options: HttpOptions, handler: HttpHandler): void
  put(path: string, handler: HttpHandler): void
  put(path: string, options: HttpOptions, handler: HttpHandler): void
  delete(path: string, handler: HttpHandler): void
  delete(path: string, options: HttpOptions, handler: HttpHandler): void
  route(options: Omit<RouteOptions, 'config' | 'handler'> & { config?: RouteConfig; handler: HttpHandler }): void
  /**
   * Serves the files of a folder below a path such as "/console", with security headers; `index.html` stands for its folder.
   * @param directory absolute, or a file: URL; it must be there when the plugin starts. @param options `action` as of routes, by default read.
   * @throws Error for a path or an option that is bad.
   */
  pages(path: string, directory: string | URL, options?: PageOptions & { action?: Action }): void
  /** Reads bodies of a content type on this plugin's routes; `parse` gets the decoded bytes. */
  parser(contentType: string, parse: (body: Buffer, request: HttpRequest) => unknown): void
  /**
   * Says what stands in the place of paths at and below a prefix, such as "/exec" of another server's API, that no route of any plugin has, and of
   * what is done to the prefix itself by a method that its routes do not have.
   * @param hint follows "; " in the message of the 404 or 405.
   */
  hintBelow(prefix: string, hint: string): void
  /** Answers errors of paths below a prefix, such as "/v1/", that no route of any plugin has: for callers that expect a shape of their own. */
  errorsBelow(prefix: string, errorHandler: (error: unknown, request: HttpRequest, reply: FastifyReply) => unknown): void
  /**
   * Counts a body that the plugin reads by itself, on a listener of its own for instance, with those that server.max_body_memory bounds.
   * @param owner whose body it is, such as a namespace: none of them keeps the others out. @param connection what it comes by.
   */
  bodyHold(owner: string, connection: Connection): BodyCount
}

/** What is counted of one body. */
export interface BodyCount {
  /** Before the bytes are taken where their number is known then. @throws SvcError BACKPRESSURE: there is no room for them now; BAD_REQUEST: the connection is gone. */
  take(bytes: number): void
  /** Somebody is at the body: as long as that is so, what was taken is counted, also when the connection is gone. Each has its `end`. */
  begin(): void
  end(): void
  /** Nothing of it is needed any more. */
  answered(): void
}

/** What a plugin adds to authentication and authorization, and how it asks for them. */
export interface PluginAuth {
  /** Whether nothing authenticates: known when all plugins are set up. */
  readonly open: boolean
  /** Ids of the plugins that authenticate: known when all plugins are set up. */
  readonly authenticators: readonly string[]
  /** Says what credentials stand for, before anything else looks at them. */
  source(source: Source): void
  limiter(limiter: Limiter): void
  /** Tried by rank, lowest first (`AUTH_RANK`), then in the order of the plugins. */
  authenticator(authenticate: Authenticator, rank?: number): void
  /** Asked about every call that needs credentials. */
  authorizer(authorize: Authorizer): void
  observer(observe: Observer): void
  /** Under multi_tenancy only admins over all namespaces get to an `admin` resource, but to one whose own code keeps those of some to theirs. */
  scoped(resource: string): void
  /** For a listener of the plugin's own: the context of one call. HTTP routes are admitted already. @throws UNAUTHORIZED, FORBIDDEN. */
  admit(credentials: Credentials, action: Action, resource: string): CallContext | Promise<CallContext>
  /**
   * As `admit`, for a call that says what it does with its first message only, which nobody unknown is to send: ask what the answer has before it is done.
   * @param action what such a call does as a rule: that of earlier refusals. @throws UNAUTHORIZED, FORBIDDEN for a namespace.
   */
  admitCaller(credentials: Credentials, action: Action, resource: string): Promise<Caller>
  /**
   * Whether whoever calls may do something beside what the call was admitted for, such as a statement that deletes on a route that writes. The answer is
   * reported to observers as that of a call. @throws FORBIDDEN.
   */
  authorize(context: CallContext, action: Action, resource: string): Promise<void>
  /**
   * For calls that go on and on: what it answers is asked with each message, or once a second. The credential is looked at each time, authorizers are asked
   * again once a second at most; observers are told of refusals only. @throws, when asked, UNAUTHORIZED for a credential that has ended, FORBIDDEN.
   */
  standing(context: CallContext, action: Action, resource: string): () => void | Promise<void>
}

/** What a plugin adds to SQL. */
export interface PluginSql {
  /** A function that statements of SQL may call; in setup, with the capability `sql_functions`. @throws CONFIG_ERROR for a wrong declaration or a name that is taken. */
  function(declaration: SqlFunction): void
}

/** A phase of a plugin. It has a time limit; a start that throws, or is late, ends the start of the node and names the plugin. */
export type Hook = () => void | Promise<void>

/** What a plugin is given in setup: all that it may ask of the node. Declare there; I/O begins with the start phase. */
export interface Svc {
  readonly id: string
  readonly log: Logger
  /** Names without the prefix `svc_`. */
  readonly metrics: Metrics
  readonly http: HttpRoutes
  /** From the start phase on. @throws Error before, or without `capabilities`. */
  readonly storage: Storage
  /** The one way in for writes: idempotency, admission, time limit, metrics. */
  readonly ingest: Ingest
  /** The resolved [server] section. */
  readonly server: Readonly<ServerConfig>
  /** The resolved [tls] section, for listeners of a plugin's own; undefined = listeners are in plain text. */
  readonly tls: Readonly<TlsConfig> | undefined
  readonly auth: PluginAuth
  readonly sql: PluginSql
  /** Spans of what comes in and of work inside the node; `svcdb/lib/trace` has those of what happens below. */
  readonly tracing: Tracing
  readonly clock: Clock
  /** Directory, absolute, where the storage engine keeps its files and plugins may keep theirs; undefined where nothing is kept on this machine. */
  readonly dataDir: string | undefined
  /** Who calls, and for which namespace. */
  context(request: FastifyRequest): CallContext
  /**
   * The context of work inside the node, such as a connector or a timer: principal `system:<id>`, or `system:<id>:<name>`. From the ready phase on; take
   * a new one for each write, for the namespace may be gone by then. It is limited and reported to observers like a call.
   * @param namespace default `default`. Under multi_tenancy one that exists; otherwise there is no other.
   * @throws SvcError BAD_REQUEST, FORBIDDEN, NOT_FOUND for a namespace that nobody could read, RATE_LIMITED.
   */
  systemContext(namespace?: string, options?: { name?: string }): Promise<CallContext>
  start(hook: Hook): void
  ready(hook: Hook): void
  drain(hook: Hook): void
  stop(hook: Hook): void
  /**
   * Has something done again and again, from the ready phase on until the node drains: never twice at once, and by one process of those that share their
   * state, unless it is `local`. Runs are counted, their last error is shown by GET /api/v1/admin/schedules.
   * @param name snake_case. @param every milliseconds from the begin of a run to that of the next. @throws Error for a bad name or interval.
   */
  schedule(name: string, every: number, job: ScheduledJob, options?: ScheduleOptions): Schedule
  /**
   * Has work done by one of the nodes that share their state, such as holding a connection: from the ready phase on, begun when this node comes to own it, ended
   * when it is another's, or the node drains. `Claim` says until when, and fences writes. A node that dies is followed by another; alone, a node owns all.
   * What comes again and again is a `schedule`, which has the same claim.
   * @param name letters, digits, "_", "-" and "."; the same on all nodes. @throws Error for a bad name.
   */
  own(name: string, work: OwnedWork, options?: OwnOptions): Owned
  /** The nodes that share their state with this one. */
  readonly nodes: Nodes
  /** Adds a check to /ready: returns why the node is not ready, or undefined. */
  readiness(check: () => string | undefined): void
  /** Aborted when the node begins to stop, before the first drain: for a listener of the plugin's own, which accepts no more from then on. */
  readonly stopping: AbortSignal
  /** What /ready answers: why the node is not ready, or undefined. */
  notReady(): string | undefined
  /** Names of the services that the selected plugins provide. */
  readonly provided: ReadonlySet<string>
  /** Gives a service to plugins that require its name; call it in setup. */
  provide(name: string, service: unknown): void
  /** A service of a plugin named in `requires`. */
  use<T>(name: string): T
  /** A service that the plugin can do without, from the start phase on; undefined when no selected plugin provides it. Its provider may start later. */
  find<T>(name: string): T | undefined
}

/** Time as plugins see it, so that a test can move it (`ManualClock` of `svcdb/testkit`). */
export interface Clock {
  /** Wall clock, milliseconds since the Unix epoch. */
  now(): number
  /** Wall clock, nanoseconds since the Unix epoch. That of the system gives no time twice: points that come without one stay apart. */
  nowNanos(): bigint
  /** Milliseconds that never go back. */
  monotonic(): number
  /** Calls back once, milliseconds from now (at most 2^31 - 1), unless the function it returns is called before. Keeps no process alive. */
  after(ms: number, callback: () => void): () => void
}

export const systemClock: Clock = {
  now: Date.now,
  nowNanos: wallClock(Date.now, () => performance.now()),
  monotonic: () => performance.now(),
  after(ms, callback) {
    const timer = setTimeout(callback, ms).unref()
    return () => clearTimeout(timer)
  },
}
