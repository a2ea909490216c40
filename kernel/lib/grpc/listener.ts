/**
 * A gRPC listener over node:http2, for plugins: credentials, deadlines, statuses and shutdown as everywhere on the node.
 *
 * It is begun when the node is ready and takes bytes in and out. docs/decisions/014-grpc-over-http2.md says why it is no server of a gRPC library.
 */
import {
  constants,
  createSecureServer,
  createServer,
  type Http2SecureServer,
  type Http2Server,
  type Http2Session,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2'
import type { Server as TlsServer } from 'node:tls'
import { logged, SvcError } from '../errors/index.ts'
import {
  boundConnections,
  cannotListen,
  drainMs,
  Handshakes,
  HostGuard,
  handshakeMs,
  lastRequests,
  parseAddress,
  refuseDuplicates,
  tlsOptions,
  tlsReload,
} from '../network/index.ts'
import { type Attributes, inSpan } from '../trace/index.ts'
import { Call, CONTENT_TYPE, inNextTurn } from './call.ts'
import type { GrpcConfig } from './config.ts'
import { Connections } from './connections.ts'
import { keepAlive } from './keepalive.ts'
import { CallMemory } from './memory.ts'
import { Metadata } from './metadata.ts'
import type { GrpcCredentials, GrpcMethod } from './method.ts'
import type { GrpcMetrics, GrpcOwner } from './owner.ts'
import { copyWhatWaits } from './received.ts'
import { type GrpcStatus, GrpcStatusError, STATUS_NAMES, statusHeaders, statusOf, UNIMPLEMENTED } from './status.ts'

const GRPC_CONTENT = /^application\/grpc(?:\+proto)?\s*(?:;|$)/
/** How long calls that were cut have to tell their clients. */
const CUT_MS = 100
/** Calls that a connection may begin in one turn, however few it may have under way. */
const LEAST_AT_ONCE = 100

/** A gRPC listener of a plugin: admission, limits, deadlines, metrics, drain. @param Context what the owner admits a call as. */
export class GrpcListener<Context> {
  private readonly owner: GrpcOwner<Context>
  private readonly config: GrpcConfig
  private readonly protocol: string
  private readonly resolve: (given: GrpcCredentials) => GrpcCredentials
  private readonly methods: Map<string, GrpcMethod<Context>>
  private readonly guard: HostGuard
  private readonly answered: ReturnType<GrpcMetrics['counter']>
  private readonly running: ReturnType<GrpcMetrics['gauge']>
  private readonly refused: ReturnType<GrpcMetrics['counter']>
  private readonly closed: ReturnType<GrpcMetrics['counter']>
  /** Each with the number of its calls. */
  private readonly sessions = new Map<Http2Session, number>()
  private readonly calls = new Map<Call<Context>, Http2Session | undefined>()
  /** Calls that each session has begun in this turn. */
  private readonly begun = new Map<Http2Session, number>()
  private readonly memory: CallMemory
  private server: Http2Server | Http2SecureServer | undefined
  private handshakes: Handshakes | undefined
  private connections: Connections | undefined
  private draining = false
  private drained: Promise<void> | undefined
  private whenIdle: () => void = () => {}

  /**
   * Call it in setup: it declares its metrics. The plugin's section holds the keys of `grpcListenerKeys`.
   * @param protocol how authenticators know the listener.
   * @param resolve what a call is admitted by, where its own credentials stand for others.
   */
  constructor(
    owner: GrpcOwner<Context>,
    config: GrpcConfig,
    methods: readonly GrpcMethod<Context>[],
    protocol: string = 'grpc',
    resolve: (given: GrpcCredentials) => GrpcCredentials = (given) => given,
  ) {
    this.owner = owner
    this.resolve = resolve
    this.config = config
    this.protocol = protocol
    this.memory = new CallMemory(config.max_buffered_bytes)
    this.guard = new HostGuard(owner.server)
    this.methods = new Map(methods.map((method) => [method.path, method]))
    this.answered = owner.metrics.counter(`${owner.id}_calls_total`, 'Calls that ended, by method and status', ['method', 'status'])
    this.running = owner.metrics.gauge(`${owner.id}_calls_running`, 'Calls under way', [], (gauge) => gauge.set(this.calls.size))
    this.running.set(0)
    this.refused = owner.metrics.counter(`${owner.id}_connections_refused_total`, 'Connections that were closed at once, beyond server.max_connections', [])
    this.closed = owner.metrics.counter(
      `${owner.id}_idle_connections_closed_total`,
      'Connections without a call under way that were closed to make room for others',
      [],
    )
    const buffered = owner.metrics.gauge(`${owner.id}_buffered_bytes`, 'Bytes that calls hold of messages and of answers not taken', [], (gauge) =>
      gauge.set(this.memory.bytes),
    )
    buffered.set(0)
  }

  /** Has it answer a method of another plugin as well, until that is ready. @throws Error for a path that it answers already. */
  add(method: GrpcMethod<Context>): void {
    if (this.methods.has(method.path)) throw new Error(`cannot add method "${method.path}" to ${this.owner.id}: it answers it already`)
    this.methods.set(method.path, method)
  }

  /** The port it listens on, once started. */
  get port(): number {
    const address = this.server?.address()
    if (typeof address !== 'object' || address === null) throw new Error(`cannot tell the port of ${this.owner.id}: it does not listen`)
    return address.port
  }

  /** Begins to listen: in the ready phase, when the storage is open. @throws IO_ERROR naming the key, TLS_ERROR. */
  async start(): Promise<void> {
    const { owner, config } = this
    const { host, port } = parseAddress(config.addr)
    const { tls } = owner
    // All listeners of a node wait for their calls at the same time: one after the other they would take the limit each, open to new calls until then.
    owner.stopping.addEventListener('abort', () => void this.drain(), { once: true })
    const options = {
      settings: { initialWindowSize: config.stream_window_bytes, maxConcurrentStreams: config.max_concurrent_streams, enablePush: false },
      // The window and max_concurrent_streams bound what a connection holds; a session at this limit of node's own breaks off its calls.
      maxSessionMemory: Number.MAX_SAFE_INTEGER,
      // Such a field would be left out, and a namespace taken for absent.
      strictFieldWhitespaceValidation: false,
      noDelay: true,
    }
    const secure = tls === undefined ? undefined : await tlsOptions(tls)
    const server =
      secure === undefined
        ? createServer(options)
        : createSecureServer({ ...options, ...secure, allowHTTP1: false, handshakeTimeout: handshakeMs(owner.server) })
    if (tls !== undefined && secure !== undefined && tls.reload_interval_secs > 0)
      owner.schedule('tls_reload', tls.reload_interval_secs * 1000, tlsReload(server as unknown as TlsServer, tls, secure, owner.log), { local: true })
    this.server = server
    const handshakes = new Handshakes(server)
    const connections = new Connections(server, config)
    this.handshakes = handshakes
    this.connections = connections
    boundConnections(server, {
      max: owner.server.max_connections,
      log: owner.log,
      refused: () => this.refused.inc({}),
      makeRoom: (waitedMs) => connections.makeRoom(handshakes, waitedMs),
      closed: () => this.closed.inc({}),
    })
    server.on('session', (session) => this.accept(session))
    // What is no HTTP/2 ends its own connection.
    server.on('sessionError', (error) => owner.log.debug({ err: error }, 'a connection failed'))
    const serve = (stream: ServerHttp2Stream, _headers: IncomingHttpHeaders, _flags: number, raw: string[]) => this.serve(stream, raw)
    server.on('stream', serve)
    await new Promise<void>((resolve, reject) => {
      const failed = (error: Error) => {
        reject(cannotListen(`${owner.id}.addr`, config.addr, error))
      }
      server.once('error', failed)
      server.listen({ host, port }, () => {
        server.off('error', failed)
        server.on('error', (error) => owner.log.warn({ err: error }, 'the listener failed'))
        resolve()
      })
    })
    owner.log.info({ addr: config.addr, port: this.port, tls: tls !== undefined }, 'listening')
  }

  /**
   * Takes no more connections, answers calls that have been sent, and waits for those under way, for its share of server.shutdown_timeout_secs; what is left then
   * is cut. Safe twice.
   */
  drain(): Promise<void> {
    this.drained ??= this.waitForCalls()
    return this.drained
  }

  private async waitForCalls(): Promise<void> {
    const { server, owner } = this
    if (server !== undefined) await lastRequests([server])
    this.draining = true
    if (server === undefined) return
    server.close()
    this.handshakes?.close()
    for (const session of this.sessions.keys()) session.close()
    if (this.idle) return
    const limit = drainMs(owner.server)
    const inTime = await new Promise<boolean>((resolve) => {
      const timer = setTimeout(() => resolve(false), limit)
      this.whenIdle = () => {
        clearTimeout(timer)
        resolve(true)
      }
    })
    if (inTime) return
    owner.log.warn(
      { calls: this.calls.size, connections: this.sessions.size, after_secs: limit / 1000 },
      'calls under way were cut at server.shutdown_timeout_secs',
    )
    for (const call of this.calls.keys()) call.cut(stopping())
    await new Promise((resolve) => setTimeout(resolve, CUT_MS))
  }

  /** Closes what is left. Safe twice, and after a failed start. */
  async stop(): Promise<void> {
    this.draining = true
    const { server } = this
    if (server === undefined) return
    this.server = undefined
    const closed = new Promise<void>((resolve) => server.close(() => resolve()))
    this.handshakes?.close()
    for (const call of this.calls.keys()) call.cut(stopping())
    for (const session of this.sessions.keys()) session.destroy()
    this.connections?.cutAll()
    await closed
  }

  /** No call is under way, and no answer on its way: sessions that were told to close do so when their streams have ended. */
  private get idle(): boolean {
    return this.calls.size === 0 && this.sessions.size === 0
  }

  private accept(session: ServerHttp2Session): void {
    this.sessions.set(session, 0)
    session.setLocalWindowSize(this.config.connection_window_bytes)
    const stopPings = keepAlive(session, this.config, () => this.connections?.cut(session))
    session.on('close', () => {
      stopPings()
      this.sessions.delete(session)
      if (this.idle) this.whenIdle()
    })
    if (this.draining) session.close()
  }

  /**
   * What is cancelled as soon as it is sent never counts as under way, and one read has some thousands of such calls: a turn of 100 ms and more (CVE-2023-44487).
   * One turn may have what several reads brought, with answers on their way between them, and what came while the loop was held up: so twice what may be under way.
   * @returns false for a stream whose session has begun more than that in this turn; the session is ended.
   */
  private paced(stream: ServerHttp2Stream): boolean {
    const { session } = stream
    if (session === undefined) return true
    const { begun } = this
    if (begun.size === 0) setImmediate(() => begun.clear())
    const count = (begun.get(session) ?? 0) + 1
    begun.set(session, count)
    if (count <= Math.max(LEAST_AT_ONCE, 2 * this.config.max_concurrent_streams)) return true
    stream.on('error', () => {})
    session.destroy(new Error(`a connection began more than twice ${this.owner.id}.max_concurrent_streams calls at once`), constants.NGHTTP2_ENHANCE_YOUR_CALM)
    return false
  }

  private serve(stream: ServerHttp2Stream, rawHeaders: readonly string[]): void {
    const { owner, config } = this
    if (!this.paced(stream)) return
    copyWhatWaits(stream)
    const metadata = new Metadata(rawHeaders)
    try {
      refuseDuplicates(rawHeaders)
      if (owner.auth.open) for (const host of [metadata.get(':authority'), metadata.get('host')]) this.guard.check({ host, origin: metadata.get('origin') })
    } catch (error) {
      return this.refuseCall(stream, error as Error)
    }
    if (metadata.get(':method') !== 'POST' || !GRPC_CONTENT.test(metadata.get('content-type') ?? '')) return refuse(stream, metadata)
    const path = metadata.get(':path') ?? ''
    const method = this.methods.get(path)
    if (method === undefined) {
      const shown = path.slice(0, 256)
      return this.refuseCall(stream, new GrpcStatusError(UNIMPLEMENTED, `cannot call "${shown}": this server has no such method; check its proto file`))
    }
    if (this.draining) return this.refuseCall(stream, stopping())
    const { session } = stream
    if (!this.hasRoom(session)) return this.refuseCall(stream, this.tooManyCalls())
    const { tracing } = owner
    const span = tracing?.on === true ? tracing.begin(spanName(path), { kind: 'server', attributes: spanAttributes(path) }, metadata.context()) : undefined
    const call = new Call(stream, {
      method,
      metadata,
      span,
      protocol: this.protocol,
      section: owner.id,
      maxReceiveBytes: config.max_receive_bytes,
      maxControlBytes: owner.server.max_control_body_size,
      maxSendBytes: config.max_send_bytes,
      sendBufferBytes: config.send_buffer_bytes,
      requestMs: owner.server.request_timeout_secs * 1000,
      memory: this.memory,
      now: () => owner.clock.now(),
      resolve: this.resolve,
      admit: (credentials, action, resource) => owner.auth.admit(credentials, action, resource),
      standing: (context, action, resource) => owner.auth.standing?.(context, action, resource),
      hurry: () => session !== undefined && this.connections?.hurry(session),
      ended: (ended, status) => this.ended(ended, status),
    })
    this.calls.set(call, session)
    this.count(session, 1)
    inSpan(span, () => void call.run())
  }

  /** Beyond max_calls a connection has its share of them still: so together they have less than twice as many, and none keeps the others out. */
  private hasRoom(session: Http2Session | undefined): boolean {
    const { max_calls: max } = this.config
    if (this.calls.size < max || session === undefined) return true
    return (this.sessions.get(session) ?? 0) < Math.max(1, Math.floor(max / this.sessions.size))
  }

  private tooManyCalls(): SvcError {
    const { owner, config } = this
    return new SvcError(
      'BACKPRESSURE',
      `cannot take the call: ${this.calls.size} are under way, ${owner.id}.max_calls is ${config.max_calls}, and this connection has its share of them; end some of its calls, or raise it`,
    )
  }

  private count(session: Http2Session | undefined, calls: number): void {
    const before = session === undefined ? undefined : this.sessions.get(session)
    if (session !== undefined && before !== undefined) this.sessions.set(session, before + calls)
  }

  private ended(call: Call<Context>, status: GrpcStatus): void {
    const { path } = call.method
    this.count(this.calls.get(call), -1)
    this.calls.delete(call)
    this.answered.inc({ method: path, status: STATUS_NAMES[status.status] ?? String(status.status) })
    const { error } = status
    this.endSpan(call, status)
    // Returned to the caller or logged, not both: the log has what the caller is not told.
    if (error !== undefined && 'redact' in error.kind) {
      this.owner.log.error({ err: logged(error), code: error.code, request_id: call.requestId, method: path }, 'call failed')
    } else if (this.owner.log.isLevelEnabled('debug')) {
      this.owner.log.debug({ request_id: call.requestId, method: path, status: STATUS_NAMES[status.status] }, 'call')
    }
    if (this.idle) this.whenIdle()
  }

  private endSpan(call: Call<Context>, { status, error, message }: GrpcStatus): void {
    const { tracing } = this.owner
    const failed = SERVER_ERRORS.has(status)
    const { span, began, requestId } = call
    if (span !== undefined) {
      span.set('rpc.grpc.status_code', status)
      span.set('svc.request_id', requestId)
      if (failed) span.fail(error ?? message)
      span.end()
    } else if (failed && tracing?.on === true) {
      const { path } = call.method
      const attributes = { ...spanAttributes(path), 'rpc.grpc.status_code': status, 'svc.request_id': requestId }
      tracing.failed(spanName(path), { kind: 'server', attributes, start: began }, call.traceContext(), error ?? message)
    }
  }

  private refuseCall(stream: ServerHttp2Stream, error: Error): void {
    stream.on('error', () => {})
    stream.resume()
    const status = statusOf(error)
    this.answered.inc({ method: 'unknown', status: STATUS_NAMES[status.status] })
    answer(stream, { ':status': 200, 'content-type': CONTENT_TYPE, ...statusHeaders(status) })
  }
}

/** OpenTelemetry, "Semantic conventions for gRPC": the server's own failures are UNKNOWN, DEADLINE_EXCEEDED, UNIMPLEMENTED, INTERNAL, UNAVAILABLE, DATA_LOSS. */
const SERVER_ERRORS: ReadonlySet<number> = new Set([2, 4, 12, 13, 14, 15])

const spanName = (path: string): string => path.slice(1)

function spanAttributes(path: string): Attributes {
  const [, service, method] = path.split('/')
  return { 'rpc.system': 'grpc', 'rpc.service': service, 'rpc.method': method }
}

function stopping(): SvcError {
  return new SvcError('DATABASE_CLOSED', 'the server is stopping; retry when it is back')
}

/** gRPC over HTTP/2, "Requests": what is no gRPC is told so in HTTP. */
function refuse(stream: ServerHttp2Stream, metadata: Metadata): void {
  stream.on('error', () => {})
  stream.resume()
  const post = metadata.get(':method') === 'POST'
  answer(stream, post ? { ':status': 415 } : { ':status': 405, allow: 'POST' })
}

/** With headers alone, and takes no more. */
function answer(stream: ServerHttp2Stream, headers: OutgoingHttpHeaders): void {
  inNextTurn(stream, () => {
    stream.respond(headers, { endStream: true })
    setImmediate(() => stream.close(constants.NGHTTP2_NO_ERROR))
  })
}
