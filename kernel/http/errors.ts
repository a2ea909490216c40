/** Every failure over HTTP: `{error, code}` and the members of the error's detail, with the status and headers of the one table. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import { classify, type ErrorCode, type ErrorKind, logged, publicText, SvcError } from '../lib/errors/index.ts'
import type { Logger } from '../log.ts'
import { refuseHttp2 } from './http2-refusal.ts'

// Importing node:http asks for all it exports: among them WebSocket, which loads all of fetch (30 ms, 14 MiB).
const { maxHeaderSize, STATUS_CODES } = process.getBuiltinModule('node:http')

/** What fastify's own errors are, by status. */
const BY_STATUS: Record<number, ErrorCode> = {
  400: 'BAD_REQUEST',
  401: 'UNAUTHORIZED',
  403: 'FORBIDDEN',
  404: 'NOT_FOUND',
  405: 'METHOD_NOT_ALLOWED',
  409: 'CONFLICT',
  413: 'PAYLOAD_TOO_LARGE',
  414: 'BAD_REQUEST',
  415: 'UNSUPPORTED_MEDIA_TYPE',
  422: 'INVALID_BODY',
  429: 'RATE_LIMITED',
}

/** Any thrown value as the error that the caller is told. */
export function toSvcError(error: unknown): SvcError {
  if (error instanceof SvcError) return classify(error)
  const { statusCode, validationContext, message, code: name } = error as Partial<FastifyError>
  if (validationContext !== undefined) {
    const text = (message ?? '').split('\n', 1)[0]
    return new SvcError(validationContext === 'body' ? 'INVALID_BODY' : 'BAD_REQUEST', text, { cause: error })
  }
  // The router's own texts have the URL in them, and with it perhaps a token.
  if (name === 'FST_ERR_BAD_URL') return new SvcError('BAD_REQUEST', badPath)
  if (name === 'FST_ERR_MAX_PARAM_LENGTH') return new SvcError('BAD_REQUEST', longPath)
  const code = statusCode === undefined ? undefined : BY_STATUS[statusCode]
  if (code === undefined) return classify(error)
  return new SvcError(code, code === 'UNSUPPORTED_MEDIA_TYPE' ? unsupportedText : (message ?? STATUS_CODES[statusCode as number] ?? ''), { cause: error })
}

const badPath = 'cannot decode the path: a "%" in it is not followed by two hexadecimal digits of UTF-8'
const longPath = 'cannot find the path: a name in it is too long; GET /api/v1/openapi.json lists the paths'
const unsupportedText = 'cannot read a body of this Content-Type: this endpoint takes application/json'

export function unsupportedType(given: string | undefined, accepted: readonly string[]): SvcError {
  return new SvcError('UNSUPPORTED_MEDIA_TYPE', `cannot read a body of Content-Type "${given ?? ''}": this endpoint takes ${accepted.join(' or ')}`)
}

/** Answers with the status and headers of an error. @param body of the answer; the envelope when absent. */
export function sendError(error: unknown, request: FastifyRequest, reply: FastifyReply, log: Logger, body?: object): void {
  const known = toSvcError(error)
  const kind: ErrorKind = known.kind
  // Returned to the caller or logged, not both: the log has what the caller is not told.
  if (kind.redact)
    log.error({ err: logged(known), code: known.code, request_id: request.id, method: request.method, path: request.url.split('?', 1)[0] }, 'request failed')
  if (known.headers !== undefined) reply.headers(known.headers)
  if (kind.retryAfter !== undefined && !reply.hasHeader('retry-after')) reply.header('retry-after', kind.retryAfter)
  if (kind.http === 401 && !reply.hasHeader('www-authenticate')) reply.header('www-authenticate', 'Bearer')
  // A serializer of the route's own answers must not see the envelope.
  reply
    .code(kind.http)
    .type('application/json; charset=utf-8')
    .serializer(JSON.stringify)
    .send(body ?? envelope(known))
}

/** An error as the body of an answer, with `error`, `code`, and the members of its `detail`. */
export function envelope(error: SvcError): Record<string, unknown> {
  return { error: publicText(error), code: error.code, ...error.detail }
}

const CLIENT_ERRORS: Record<string, { status: number; text: string }> = {
  HPE_HEADER_OVERFLOW: {
    status: 431,
    text: `the request line and headers take more than ${maxHeaderSize} bytes together; send less, or a long query as the body of a POST`,
  },
  HPE_CHUNK_EXTENSIONS_OVERFLOW: { status: 413, text: 'the extensions of the chunks of the body take more than 16384 bytes together; leave them out' },
  ERR_HTTP_REQUEST_TIMEOUT: { status: 408, text: 'the request did not arrive in time' },
}
const TRAILERS_OVERFLOW = { status: 431, text: `the trailers behind the body take more than ${maxHeaderSize} bytes together; send less` }

type ServedSocket = Socket & { _httpMessage?: ServerResponse | null }

/** What is not HTTP never reaches a route; it is answered on the bare socket. */
export function clientError(error: NodeJS.ErrnoException & { rawPacket?: Buffer; bytesParsed?: number }, socket: ServedSocket): void {
  const served = socket._httpMessage ?? undefined
  // An answer under way must not be cut by a second one, nor one be taken for that of a request before, and one before the end of a TLS handshake would
  // wait for it, for ever.
  const answerable = served === undefined || (!served.headersSent && !served.req.complete)
  if (error.code === 'ECONNRESET' || error.code === 'ERR_TLS_HANDSHAKE_TIMEOUT' || socket.destroyed || !answerable) return void socket.destroy()
  if (error.code === 'HPE_PAUSED_H2_UPGRADE') return refuseHttp2(socket, (error.rawPacket ?? Buffer.alloc(0)).subarray(error.bytesParsed))
  const known = served !== undefined && error.code === 'HPE_HEADER_OVERFLOW' ? TRAILERS_OVERFLOW : CLIENT_ERRORS[error.code ?? '']
  const { status, text } = known ?? { status: 400, text: 'the request is not valid HTTP' }
  const body = JSON.stringify({ error: text, code: 'BAD_REQUEST' })
  if (socket.writable) {
    const head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n`
    socket.write(head + body)
  }
  socket.destroySoon()
}

/** An Expect other than 100-continue, which Node.js would refuse with an empty answer (RFC 9110, section 10.1.1). */
export function refuseExpectation(request: IncomingMessage, response: ServerResponse): void {
  const given = JSON.stringify((request.headers.expect ?? '').slice(0, 64))
  const body = JSON.stringify({
    error: `cannot meet the expectation ${given}: this server knows 100-continue only; leave the header Expect out`,
    code: 'BAD_REQUEST',
  })
  response.writeHead(417, { 'content-type': 'application/json; charset=utf-8', 'content-length': Buffer.byteLength(body) }).end(body)
}

/** 100 Continue (RFC 9110, section 10.1.1) when the body is read, and not before: what is refused by its head is answered at once. */
export function continueWhenRead(request: IncomingMessage, response: ServerResponse): void {
  // Node.js reads what an answered request has left, too.
  request.once('resume', () => {
    if (!response.headersSent) response.writeContinue()
  })
}

type ErrorHandler = (error: unknown, request: FastifyRequest, reply: FastifyReply) => unknown

/** What the paths of all routes answer to. Only asked when no route was found, so it may take its time. */
export class KnownPaths {
  private readonly patterns = new Map<string, { pattern: RegExp; methods: Set<string>; errorHandler: ErrorHandler | undefined }>()
  private readonly prefixes: { prefix: string; errorHandler: ErrorHandler }[] = []
  private readonly hints = new Map<string, string>()
  private readonly idlePlugins: () => ReadonlyMap<string, readonly string[]>
  private idle: ReadonlyMap<string, readonly RegExp[]> | undefined

  /** @param idlePlugins ids of built-in plugins that do not run, and their routes. */
  constructor(idlePlugins: () => ReadonlyMap<string, readonly string[]>) {
    this.idlePlugins = idlePlugins
  }

  /** Whose path it is, or may be: a plugin that does not run and has such a route, or that a part of the path is called after, as /api/v1/triggers. */
  private idlePlugin(path: string): string | undefined {
    this.idle ??= new Map([...this.idlePlugins()].map(([id, routes]) => [id, routes.map((route) => new RegExp(`^${routeText(route)}$`))]))
    for (const [id, routes] of this.idle) if (routes.some((route) => route.test(path))) return id
    const parts = path.split('/')
    return [...this.idle.keys()].find((id) => parts.includes(id))
  }

  /** @param errorHandler of the route, where it has one of its own. */
  add(path: string, methods: string | readonly string[], errorHandler?: ErrorHandler): void {
    let known = this.patterns.get(path)
    if (known === undefined) {
      this.patterns.set(path, (known = { pattern: new RegExp(`^${routeText(path)}$`), methods: new Set(), errorHandler }))
    }
    for (const method of [methods].flat()) known.methods.add(method)
  }

  /** Paths below `prefix` that no route has answer errors in this shape. */
  addPrefix(prefix: string, errorHandler: ErrorHandler): void {
    this.prefixes.push({ prefix, errorHandler })
  }

  /** What stands in the place of paths that begin so and that no route has. */
  addHint(prefix: string, hint: string): void {
    this.hints.set(prefix, hint)
  }

  /** What else to do, of a path that no route has: where it belongs to a plugin that does not run, or to another server's API. */
  hint(path: string): string {
    for (const [prefix, hint] of this.hints) if (path === prefix || path.startsWith(prefix.endsWith('/') ? prefix : `${prefix}/`)) return `; ${hint}`
    const idle = this.idlePlugin(path)
    if (idle !== undefined) return `; plugin "${idle}" does not run here: put it into plugins, and its section into the file where it needs one`
    const near = this.near(path)
    return near === undefined ? '' : `; did you mean "${near}"?`
  }

  /** What else to do, of a path whose routes are of other methods. */
  methodHint(path: string): string {
    const hint = this.hints.get(path)
    return hint === undefined ? '' : `; ${hint}`
  }

  /** The shortest path below the same two parts that ends like this one, as /api/v1/svc/sql for /api/v1/sql. */
  private near(path: string): string | undefined {
    const [, first, second, ...others] = path.split('/')
    if (!others.at(-1)) return undefined
    const [begin, end] = [`/${first}/${second}/`, `/${others.at(-1)}`]
    const found = [...this.patterns.keys()].filter((known) => known.startsWith(begin) && known.endsWith(end) && !/[:*]/.test(known))
    return found.sort((a, b) => a.length - b.length)[0]
  }

  /** The methods a path answers to, for 404 or 405. */
  methods(path: string): string[] {
    const found = new Set<string>()
    for (const { pattern, methods } of this.patterns.values()) if (pattern.test(path)) for (const method of methods) found.add(method)
    return [...found].sort()
  }

  /** Of the route that a path would be of, by another method or could it be decoded, else of its prefix: callers expect errors in that shape. */
  errorHandler(path: string): ErrorHandler | undefined {
    for (const { pattern, errorHandler } of this.patterns.values()) if (errorHandler !== undefined && pattern.test(path)) return errorHandler
    return this.methods(path).length > 0 ? undefined : this.prefixes.find(({ prefix }) => path.startsWith(prefix))?.errorHandler
  }
}

export function unroutable(request: IncomingMessage, known: KnownPaths): { error: SvcError; allow?: string } {
  const path = (request.url ?? '/').split('?', 1)[0]
  const methods = known.methods(path)
  // "page not found" is looked for by Grafana, which so learns that a data source has no API to edit rules.
  if (methods.length === 0) {
    const text = `cannot find "${path.slice(0, 256)}": no such path, page not found; GET /api/v1/openapi.json lists them${known.hint(path)}`
    return { error: new SvcError('NOT_FOUND', text) }
  }
  // A route of this method and path, but for bodies of another media type.
  if (methods.includes(request.method ?? '')) {
    const type = (request.headers['content-type'] ?? '').slice(0, 128)
    return {
      error: new SvcError(
        'UNSUPPORTED_MEDIA_TYPE',
        `cannot read a body of Content-Type "${type}" at "${path.slice(0, 256)}": no selected plugin takes it there`,
      ),
    }
  }
  const allow = methods.join(', ')
  const text = `cannot ${request.method} "${path.slice(0, 256)}": the path answers to ${allow}${known.methodHint(path)}`
  return { error: new SvcError('METHOD_NOT_ALLOWED', text), allow }
}

/** Of a route as plugins write it, such as /api/v1/rollups/:name. */
function routeText(route: string): string {
  return route
    .split('/')
    .map((part) => (part === '*' ? '.*' : part.startsWith(':') ? '[^/]+' : part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')))
    .join('/')
}
