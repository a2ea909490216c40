/** The HTTP listener: fastify with the kernel's rules for bodies, errors, request ids, credentials and shutdown. */
import { randomUUID } from 'node:crypto'
import { lookup } from 'node:dns/promises'
import type { Server } from 'node:http'
import type { Server as SocketServer } from 'node:net'
import type { Server as TlsServer } from 'node:tls'
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest, type FastifyServerOptions, LogController } from 'fastify'
import type { Auth, CallContext } from '../auth/auth.ts'
import type { ServerConfig, TlsConfig } from '../config/schema.ts'
import { SvcError } from '../lib/errors/index.ts'
import { whenAtRest } from '../lib/heap/index.ts'
import { checkJsonBounds, jsonProblem } from '../lib/json/index.ts'
import {
  boundConnections,
  CertificateTerm,
  ClientAuthorities,
  cannotListen,
  HostGuard,
  IdleConnections,
  lastRequests,
  parseAddress,
  serveInOrder,
  takeChunksInTurns,
  tlsOptions,
  tlsReload,
} from '../lib/network/index.ts'
import { didYouMean, withoutBom } from '../lib/text/index.ts'
import { inSpan } from '../lib/trace/index.ts'
import type { Logger } from '../log.ts'
import type { Metrics } from '../metrics.ts'
import type { Action, Clock, RouteConfig } from '../plugin.ts'
import type { Tracing } from '../tracing.ts'
import { admission } from './admission.ts'
import { AnswerMemory, type HeldAnswer } from './answer-memory.ts'
import { answers } from './answers.ts'
import { arrival } from './arrival.ts'
import { BodyPool, REST_MS, readBody } from './body.ts'
import { type BodyHold, BodyMemory, type Connection } from './body-memory.ts'
import { compression } from './compression.ts'
import { contentType, restoreContentType } from './content-type.ts'
import { cors } from './cors.ts'
import { clientError, continueWhenRead, KnownPaths, refuseExpectation, sendError, unroutable, unsupportedType } from './errors.ts'
import { closeAll, listenAlso } from './further-addresses.ts'
import { byMediaType } from './media-type.ts'
import { countRequests } from './request-metrics.ts'
import { serializerCompiler } from './serialize.ts'
import { tracingHooks } from './tracing.ts'
import { validatorCompiler } from './validate.ts'

declare module 'fastify' {
  interface FastifyRequest {
    svcContext: CallContext | null
    /** Of an admitted request: throws, when asked, if it would not be admitted any more. */
    standing(): (() => void | Promise<void>) | undefined
    pooledBody: Buffer | null
    /** Of a request whose body was read. */
    bodyHold: BodyHold | null
    /** Of a request that a job answers: bytes that it has emitted and that are not in the answer's stream yet. */
    unsent: (() => number) | null
    heldAnswer: HeldAnswer | null
  }
  interface FastifyContextConfig extends RouteConfig {}
}

/** Ids that callers may choose: safe in a header and a log line. */
const REQUEST_ID = /^[\w.:/+=@-]{1,128}$/
/** Names of measurements travel in paths, percent-encoded up to three times their length. */
const MAX_PARAM_LENGTH = 4096
const IDLE_SWEEP_MS = 20
const JSON_TYPE = /^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i

interface HttpDependencies {
  server: ServerConfig
  tls: TlsConfig | undefined
  auth: Auth
  log: Logger
  metrics: Metrics
  tracing: Tracing
  /** Ids of built-in plugins that do not run, for messages. */
  idlePlugins(): ReadonlyMap<string, readonly string[]>
  clock: Clock
}

export class HttpServer {
  readonly app: FastifyInstance
  private readonly dependencies: HttpDependencies
  private readonly pool = new BodyPool()
  private readonly bodies: BodyMemory
  private readonly answers: AnswerMemory
  /** Content types that a scope's routes read beside JSON: for messages. */
  private readonly parsed = new WeakMap<object, readonly string[]>()
  /** Looks for new TLS files; undefined without TLS. */
  readonly reloadTls: (() => Promise<void>) | undefined
  /** Of the certificate of all listeners; undefined without TLS. */
  readonly term: CertificateTerm | undefined
  readonly authorities: ClientAuthorities | undefined
  private readonly paths: KnownPaths
  private readonly poolTimer: NodeJS.Timeout
  private readonly forgetPool: () => void
  private draining = false
  private readonly idle: IdleConnections
  private readonly bound: (listener: SocketServer) => void
  private further: readonly SocketServer[] = []

  private constructor(dependencies: HttpDependencies, app: FastifyInstance, secure: Pick<HttpServer, 'reloadTls' | 'term' | 'authorities'>, paths: KnownPaths) {
    this.dependencies = dependencies
    this.paths = paths
    this.app = app
    this.reloadTls = secure.reloadTls
    this.term = secure.term
    this.authorities = secure.authorities
    this.idle = new IdleConnections(app.server as Server)
    const { server, metrics, log } = dependencies
    this.bodies = new BodyMemory(Math.max(server.max_body_memory, server.max_body_size))
    metrics.gauge(
      'http_body_bytes',
      'Bodies of HTTP requests that are read or worked on, as sent or decompressed; server.max_body_memory bounds them',
      [],
      (gauge) => gauge.set(this.bodies.total),
    )
    const cut = metrics.counter('http_answers_cut_total', 'Answers that were cut, for clients did not take them: beyond server.max_answer_memory', [])
    this.answers = new AnswerMemory(server.max_answer_memory, (count) => {
      cut.inc(count)
      log.warn({ answers: count }, 'connections were closed whose clients do not take their answers: they have what server.max_answer_memory allows')
    })
    metrics.gauge(
      'http_answer_bytes',
      'Answers of HTTP requests that are made and not taken by their clients; server.max_answer_memory bounds them',
      [],
      (gauge) => gauge.set(this.answers.total),
    )
    metrics.gauge(
      'tls_certificate_expires_seconds',
      'When the certificate of [tls] that is in use expires, in seconds since the Unix epoch; nothing without TLS',
      ['file'],
      (gauge) => {
        if (this.term !== undefined) gauge.set({ file: dependencies.tls?.cert ?? '' }, this.term.endsSecs)
      },
    )
    const refused = metrics.counter('http_connections_refused_total', 'Connections that were closed at once, beyond server.max_connections', [])
    const closed = metrics.counter('http_idle_connections_closed_total', 'Connections without a request under way that were closed to make room for others', [])
    this.bound = (listener) =>
      boundConnections(listener, {
        max: server.max_connections,
        log,
        refused: () => refused.inc(),
        makeRoom: (waitedMs) => this.idle.makeRoom(waitedMs),
        closed: () => closed.inc(),
      })
    this.bound(app.server)
    this.poolTimer = setInterval(() => this.pool.rest(), REST_MS).unref()
    this.forgetPool = whenAtRest(() => this.pool.giveUp())
    this.install(paths)
  }

  static async create(dependencies: HttpDependencies): Promise<HttpServer> {
    const { server, tls, log } = dependencies
    const secure = tls === undefined ? undefined : await tlsOptions(tls)
    const paths = new KnownPaths(() => dependencies.idlePlugins())
    const limits = timeLimits(Math.ceil(server.request_timeout_secs * 1000))
    const options: FastifyServerOptions = {
      loggerInstance: perRequest(log),
      logController: new LogController({ disableRequestLogging: true }),
      genReqId: (request) => requestIdOf(request.headers['x-request-id']),
      // Routes that take points ask for more.
      bodyLimit: Math.min(server.max_control_body_size, server.max_body_size),
      // Given here, and not set later: fastify would load its own for nothing.
      schemaController: { compilersFactory: { buildValidator: () => validatorCompiler as never, buildSerializer: () => serializerCompiler as never } },
      routerOptions: { maxParamLength: MAX_PARAM_LENGTH, constraints: { mediaType: byMediaType } },
      // Whole milliseconds: fastify and Node.js take no others.
      keepAliveTimeout: Math.ceil(server.keep_alive_timeout_secs * 1000),
      requestTimeout: limits.requestTimeout, // fastify would set its own
      // Requests that were under way when the server began to stop are answered as usual.
      return503OnClosing: false,
      forceCloseConnections: 'idle',
      pluginTimeout: 0, // the lifecycle has limits of its own, which name the plugin
      clientErrorHandler: (error, socket) => clientError(error as NodeJS.ErrnoException, socket as never),
      frameworkErrors: (error, request, reply) => {
        const own = paths.errorHandler(request.url.split('?', 1)[0])
        if (own === undefined) sendError(error, request, reply, log)
        else own(error, request, reply)
      },
    }
    // Requests without Host are refused on arrival, with an answer that says so.
    const listener = { requireHostHeader: false, ...limits }
    const own = secure === undefined ? { http: listener } : { https: { ...secure, ...listener, handshakeTimeout: limits.headersTimeout } }
    const app = Fastify({ ...options, ...own } as FastifyServerOptions)
    serveInOrder(app.server as Server)
    takeChunksInTurns(app.server as Server)
    app.server.on('checkExpectation', refuseExpectation)
    app.server.on('checkContinue', (request, response) => {
      continueWhenRead(request, response)
      app.server.emit('request', request, response)
    })
    if (tls === undefined || secure === undefined)
      return new HttpServer(dependencies, app, { reloadTls: undefined, term: undefined, authorities: undefined }, paths)
    const term = new CertificateTerm(tls.cert, secure.cert as Buffer)
    const authorities = tls.client_ca === undefined ? undefined : new ClientAuthorities(tls.client_ca, secure.ca as Buffer)
    const reload = tlsReload(app.server as unknown as TlsServer, tls, secure, log, (next) => {
      term.renewed(next.cert as Buffer)
      authorities?.renewed(next.ca as Buffer)
    })
    const reloadTls = async (): Promise<void> => {
      try {
        await reload()
      } finally {
        const now = dependencies.clock.now()
        const news = term.news(now)
        if (news !== undefined) log.warn(news)
        for (const problem of authorities?.news(now) ?? []) log.warn(problem)
      }
    }
    return new HttpServer(dependencies, app, { reloadTls, term, authorities }, paths)
  }

  private install(paths: KnownPaths): void {
    const { app } = this
    const { server, auth, log, metrics, tracing } = this.dependencies
    app.decorateRequest('svcContext', null)
    const standing = (request: FastifyRequest) => this.standing(request)
    app.decorateRequest('standing', function (this: FastifyRequest) {
      return standing(this)
    })
    app.decorateRequest('pooledBody', null)
    app.decorateRequest('bodyHold', null)
    app.setErrorHandler((error, request, reply) => sendError(error, request, reply, log))
    app.setNotFoundHandler((request, reply) => this.refuse(request, reply, paths))
    app.addHook('onRoute', (route) => {
      paths.add(route.url, route.method, route.errorHandler as never)
      const { action = defaultAction(route.method) } = (route.config ?? {}) as RouteConfig
      requireAction(action, route.url)
      route.config = { ...route.config, action } as never
    })
    app.register(tracingHooks, { tracing })
    app.register(arrival, { auth, guard: new HostGuard(server) })
    app.register(contentType)
    if (server.compression_min_bytes > 0) app.register(compression, { minBytes: server.compression_min_bytes })
    // Behind compression, as they are sent.
    app.register(answers, { memory: this.answers })
    if (server.cors_allowed_origins.length > 0) app.register(cors, { origins: server.cors_allowed_origins })
    app.register(admission, { auth, draining: () => this.draining, refuse: (request, reply) => this.refuse(request, reply, paths) })
    const count = countRequests(metrics)
    app.addHook('onResponse', (request, reply, done) => {
      // In its span, which the figure then names as an example.
      inSpan(request.svcSpan ?? undefined, () => count(request, reply))
      this.answered(request, reply)
      done()
    })
    app.addHook('preValidation', requireBody)
    app.removeAllContentTypeParsers()
    app.addContentTypeParser('*', this.jsonOrRaw())
  }

  private answered(request: FastifyRequest, reply: FastifyReply): void {
    const { log } = this.dependencies
    request.bodyHold?.answered()
    const pooled = request.pooledBody
    if (pooled !== null) {
      request.pooledBody = null
      request.body = undefined
      this.pool.give(pooled)
    }
    if (!log.isLevelEnabled('debug')) return
    const ms = Math.round(reply.elapsedTime * 1000) / 1000
    log.debug({ request_id: request.id, method: request.method, path: request.url.split('?', 1)[0], status: reply.statusCode, ms }, 'request')
  }

  /** Reads bodies as their routes want them: as bytes, or parsed as JSON. */
  private jsonOrRaw(): (request: FastifyRequest) => Promise<unknown> {
    const { app } = this
    const { server } = this.dependencies
    const parseJson = app.getDefaultJsonParser('error', 'error') as unknown as (
      request: FastifyRequest,
      body: string,
      done: (error: Error | null, value: unknown) => void,
    ) => void
    return async (request) => {
      restoreContentType(request)
      const type = request.headers['content-type']
      const { rawBody } = request.routeOptions.config
      if (rawBody !== undefined) {
        if (rawBody !== true && !rawBody.some((accepted) => sameType(accepted, type))) throw unsupportedType(type, rawBody)
        const bytes = await this.body(request)
        return rawBody === true ? bytes : withoutBom(bytes)
      }
      if (request.routeOptions.schema?.body === undefined && nothingSent(request)) return undefined
      if (type === undefined || !JSON_TYPE.test(type)) {
        // Where the plugin reads a type of its own, JSON is only for routes that say what is in it.
        const own = this.parsed.get(request.server) ?? []
        throw unsupportedType(type, own.length > 0 && request.routeOptions.schema?.body === undefined ? own : ['application/json', ...own])
      }
      const body = withoutBom(await this.body(request))
      checkJsonBounds(body, { depth: server.max_body_depth, members: server.max_body_members })
      const text = body.toString('utf8')
      return new Promise((resolve, reject) => parseJson(request, text, (error, value) => (error ? reject(notJson(text) ?? error) : resolve(value))))
    }
  }

  /** Has a scope's routes read bodies of one more type. */
  parser(scope: FastifyInstance, contentType: string, parse: (body: Buffer, request: FastifyRequest) => unknown): void {
    scope.addContentTypeParser(contentType, async (request: FastifyRequest) => parse(await this.body(request), request))
    this.parsed.set(scope, [...(this.parsed.get(scope) ?? []), contentType])
  }

  /** For a body that is read elsewhere, such as on another listener. */
  bodyHold(owner: string, connection: Connection): BodyHold {
    return this.bodies.open(owner, connection)
  }

  /** The decoded body; the buffer goes back to the pool once the answer is sent. @throws what ends the request, or the right to it: a body may take minutes to arrive. */
  async body(request: FastifyRequest): Promise<Buffer> {
    const { bodyLimit: bytesAllowed = 0, config } = request.routeOptions
    const stands = request.standing()
    const setting = bytesAllowed === this.dependencies.server.max_control_body_size ? 'server.max_control_body_size' : 'server.max_body_size'
    const hold = this.bodies.open(request.svcContext?.dataNamespace ?? '', request.raw.socket)
    request.bodyHold = hold
    hold.begin()
    try {
      const { bytes, pooled } = await readBody(request.raw, { bytes: bytesAllowed, setting }, this.pool, config.encodedBody, hold)
      if (pooled !== undefined) request.pooledBody = pooled
      await stands?.()
      return bytes
    } catch (error) {
      hold.give(hold.bytes)
      throw error
    } finally {
      hold.end()
    }
  }

  private standing({ svcContext, routeOptions: { config, url } }: FastifyRequest): (() => void | Promise<void>) | undefined {
    const { auth, clock } = this.dependencies
    return svcContext === null || url === undefined ? undefined : auth.standing(svcContext, config.action as Action, url, clock)
  }

  private refuse(request: FastifyRequest, reply: FastifyReply, paths: KnownPaths): void {
    const { error, allow } = unroutable(request.raw, paths)
    if (allow !== undefined) reply.header('allow', allow)
    const own = paths.errorHandler(request.url.split('?', 1)[0])
    if (own === undefined) sendError(error, request, reply, this.dependencies.log)
    else own(error, request, reply)
  }

  /** Answers with an error in the kernel's shape. */
  fail(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
    sendError(error, request, reply, this.dependencies.log)
  }

  /** Paths at and below `prefix` that no route has are told `hint`. */
  hintBelow(prefix: string, hint: string): void {
    this.paths.addHint(prefix, hint)
  }

  /** Paths below `prefix` that no route has answer errors as `errorHandler` does. */
  errorsBelow(prefix: string, errorHandler: (error: unknown, request: FastifyRequest, reply: FastifyReply) => unknown): void {
    this.paths.addPrefix(prefix, errorHandler)
  }

  /** @returns the URL it answers under. @throws IO_ERROR naming the address. */
  async listen(): Promise<string> {
    const address = this.dependencies.server.http_addr
    const { host, port } = parseAddress(address)
    const server = this.app.server as Server
    let further: string[]
    try {
      const [first, ...others] = host === 'localhost' ? new Set((await lookup(host, { all: true })).map((found) => found.address)) : [host]
      further = others
      await this.app.listen({ host: first, port, listenTextResolver: (url) => `listening on ${url}` })
    } catch (error) {
      throw cannotListen('server.http_addr', address, error as Error)
    }
    const bound = server.address() as { port: number; address: string; family: string }
    this.further = await listenAlso(server, further, bound.port, this.bound, (missed, error) => {
      this.dependencies.log.warn({ err: error }, `cannot listen on ${missed}, which is ${host}, too: ${bound.address} is the only address that is answered`)
    })
    const shown = bound.address === '0.0.0.0' || bound.address === '::' ? '127.0.0.1' : bound.family === 'IPv6' ? `[${bound.address}]` : bound.address
    return `${this.dependencies.tls === undefined ? 'http' : 'https'}://${shown}:${bound.port}`
  }

  /** Stops accepting, answers what has been sent, waits for what is in flight, then cuts what is left. Safe twice. */
  async close(graceMs: number): Promise<void> {
    this.draining = true
    const server = this.app.server as Server
    // Each is the last one of its connection: its answer says so.
    await lastRequests([server, ...this.further])
    const timer = setTimeout(() => {
      this.dependencies.log.warn({ after_secs: graceMs / 1000 }, 'requests in flight were cut at server.shutdown_timeout_secs')
      this.answers.cutAll()
      server.closeAllConnections()
    }, graceMs)
    // A connection whose answer was under way is kept alive by it, and would hold the listener open until the limit.
    const idle = setInterval(() => {
      server.closeIdleConnections()
      this.idle.closeUnasked()
    }, IDLE_SWEEP_MS)
    try {
      await Promise.all([this.app.close(), closeAll(this.further)])
    } finally {
      clearInterval(this.poolTimer)
      this.forgetPool()
      this.answers.close()
      clearInterval(idle)
      clearTimeout(timer)
    }
  }
}

/** What is wrong with it, and where, which fastify does not say. Undefined = there is nothing. */
function notJson(text: string): SvcError | undefined {
  if (text === '') return undefined
  try {
    JSON.parse(text)
    // All else that the parser refuses.
    return new SvcError('BAD_REQUEST', 'cannot read the body: a member is called "__proto__", or "constructor" with a member "prototype"; give it another name')
  } catch (error) {
    return new SvcError('BAD_REQUEST', `cannot read the body: it is not valid JSON: ${jsonProblem(error as Error)}`)
  }
}

const MAX_HEADERS_MS = 60_000
const MAX_CHECK_MS = 30_000
const MIN_CHECK_MS = 100

/** @param requestMs 0 = none, for bodies. Node.js takes the longer of its two limits for that of the whole request. */
function timeLimits(requestMs: number) {
  const headersTimeout = Math.min(requestMs || MAX_HEADERS_MS, MAX_HEADERS_MS)
  return { headersTimeout, requestTimeout: requestMs, connectionsCheckingInterval: Math.max(Math.min(headersTimeout, MAX_CHECK_MS), MIN_CHECK_MS) }
}

/**
 * A logger that is its own child: one for each request would cost more than the request's own logging, which is at debug, and what a factory of children
 * makes is checked each time, a sixth of the time that a small request takes.
 */
function perRequest(log: Logger): Logger {
  const shared: Logger = Object.create(log, { child: { value: () => shared } })
  return shared
}

function requestIdOf(given: string | string[] | undefined): string {
  return typeof given === 'string' && REQUEST_ID.test(given) ? given : randomUUID()
}

const ACTIONS: readonly Action[] = ['read', 'write', 'delete', 'admin', 'public']

/** One that is misspelt would let in callers whom the right one keeps out. */
function requireAction(action: Action, url: string): void {
  if (ACTIONS.includes(action)) return
  throw new Error(`cannot add route "${url}": there is no action "${action}"; ${didYouMean(action, ACTIONS, `the actions are ${ACTIONS.join(', ')}`)}`)
}

function defaultAction(method: string | readonly string[]): Action {
  const methods = [method].flat()
  if (methods.every((m) => m === 'GET' || m === 'HEAD')) return 'read'
  return methods.every((m) => m === 'DELETE') ? 'delete' : 'write'
}

/** Clients such as vmalert and axios name a Content-Type with every request, also where there is nothing of it. */
/** Refuses a body without a Content-Type, or no body at all, where JSON is expected. */
function requireBody(request: FastifyRequest, _reply: FastifyReply, done: (error?: Error) => void): void {
  const { schema, config } = request.routeOptions
  if (schema?.body !== undefined && config.rawBody !== true && request.body === undefined)
    return done(unsupportedType(undefined, config.rawBody ?? ['application/json']))
  done()
}

function nothingSent({ headers }: FastifyRequest): boolean {
  return headers['transfer-encoding'] === undefined && Number(headers['content-length'] ?? 0) === 0
}

function sameType(accepted: string, given: string | undefined): boolean {
  return given !== undefined && given.split(';', 1)[0].trim().toLowerCase() === accepted
}
