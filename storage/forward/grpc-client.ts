/** Unary calls of gRPC over node:http2 to one address: one connection, made when it is needed, made again when it is gone. */
import type { ClientHttp2Session, IncomingHttpHeaders } from 'node:http2'
import { connect as connectPlain, isIP, type Socket } from 'node:net'
import type { ConnectionOptions } from 'node:tls'
import { promisify } from 'node:util'
import { constants, gzip, zstdCompress } from 'node:zlib'
import { type ErrorCode, errorKind, SvcError } from 'svcdb/lib/errors'
import { BoundedBytes } from 'svcdb/lib/network'

interface ClientOptions {
  /** http: or https:. */
  url: string
  /** Read for each connection, so that renewed files need no restart. */
  tls(): Promise<{ ca?: Buffer; cert?: Buffer; key?: Buffer }>
  compression: 'none' | 'gzip' | 'zstd'
  timeoutMs: number
}

interface Answer {
  body: Uint8Array
  /** Bytes that were sent. */
  sent: number
}

interface CallErrorOptions {
  code?: ErrorCode
  status?: number
  retryAfterSecs?: number
  late?: boolean
  cause?: unknown
}

/** What came back, or that nothing did. `code` is one of the table of errors, or undefined where the other side said something else. */
export class CallError extends Error {
  readonly code: ErrorCode | undefined
  /** Of gRPC; undefined when there was no answer. */
  readonly status: number | undefined
  readonly retryAfterSecs: number | undefined
  /** There was no answer within the time for one. */
  readonly late: boolean

  constructor(message: string, { code, status, retryAfterSecs, late = false, cause }: CallErrorOptions = {}) {
    super(message, cause === undefined ? undefined : { cause })
    this.code = code
    this.status = status
    this.retryAfterSecs = retryAfterSecs
    this.late = late
  }
}

/** Contexts of the defaults take tens of megabytes on an edge; points are alike within a small window. */
const GZIP = { level: 1 }
const ZSTD = { params: { [constants.ZSTD_c_compressionLevel]: 1, [constants.ZSTD_c_windowLog]: 17 } }
const zip = { gzip: promisify(gzip), zstd: promisify(zstdCompress) }
/** Below it, compressing costs more than it saves. */
const LEAST_COMPRESSED = 256
const FRAME = 5
const MAX_ANSWER = 1 << 20
/** What a proxy says of a request that is too large for it, and what gRPC would. */
const HTTP_TOO_LARGE = 413
const TOO_LARGE = { code: 'PAYLOAD_TOO_LARGE', status: 8 } as const
/** Characters of what the other side says of an error: it is logged, and kept for each namespace that waits. */
const MAX_TEXT = 1024
const UNKNOWN = 2
const LAST_STATUS = 16
/** A connection takes no longer to make, nor than an answer may. */
const CONNECT_MS = 10_000
const WINDOW = 1 << 20

export class GrpcClient {
  private readonly options: ClientOptions
  private session: Promise<ClientHttp2Session> | undefined
  /** Ends the attempt to make a connection that is under way. */
  private giveUp: ((cause: Error) => void) | undefined
  /** Connections that were made. */
  connections = 0
  /** Of requests, whatever became of them. */
  bytes = 0

  constructor(options: ClientOptions) {
    this.options = options
  }

  /** @throws CallError. */
  async call(path: string, message: Uint8Array, metadata: Record<string, string>, signal: AbortSignal): Promise<Answer> {
    const { compression } = this.options
    const packed = compression !== 'none' && message.length >= LEAST_COMPRESSED
    const body = packed ? await (compression === 'gzip' ? zip.gzip(message, GZIP) : zip.zstd(message, ZSTD)) : message
    const frame = Buffer.allocUnsafe(FRAME + body.length)
    frame[0] = packed ? 1 : 0
    frame.writeUInt32BE(body.length, 1)
    frame.set(body, FRAME)
    const session = await unlessAborted(this.connected(), signal, () => new CallError(`no answer from ${this.options.url}: given up`))
    const headers = { ...metadata, ...(packed ? { 'grpc-encoding': compression } : {}) }
    this.bytes += frame.length
    return { body: await this.exchange(session, path, frame, headers, signal), sent: frame.length }
  }

  /** Makes the connection, if there is none. @throws CallError. */
  async reach(): Promise<void> {
    await this.connected()
  }

  async close(): Promise<void> {
    const made = this.session?.catch(() => undefined)
    this.giveUp?.(new Error('given up'))
    const session = await made
    this.session = undefined
    session?.destroy()
  }

  private connected(): Promise<ClientHttp2Session> {
    this.session ??= this.connect()
    return this.session
  }

  private async connect(): Promise<ClientHttp2Session> {
    const { url, tls, timeoutMs } = this.options
    const limitMs = Math.min(CONNECT_MS, timeoutMs)
    await Promise.resolve() // `session` is set
    try {
      const { connect } = process.getBuiltinModule('node:http2')
      const secure = url.startsWith('https:') ? await tls() : {}
      const socket = socketTo(new URL(url), secure)
      const session = connect(url, { createConnection: () => socket, settings: { enablePush: false, initialWindowSize: WINDOW } })
      const own = this.session
      const forget = (): void => {
        if (this.session === own) this.session = undefined
      }
      session.on('close', forget).on('goaway', forget)
      let timer: NodeJS.Timeout | undefined
      await new Promise<void>((resolve, reject) => {
        // A session that is not connected waits for its socket to be, also where it is destroyed.
        const fail = (cause: Error): void => {
          reject(cause)
          socket.destroy()
          session.destroy()
        }
        timer = setTimeout(() => fail(new Error(`no connection within ${limitMs / 1000} s`)), limitMs)
        this.giveUp = fail
        session
          .once('connect', resolve)
          .on('error', reject)
          .once('close', () => reject(new Error('the connection was closed')))
      }).finally(() => {
        clearTimeout(timer)
        this.giveUp = undefined
      })
      session.unref()
      this.connections++
      return session
    } catch (error) {
      this.session = undefined
      throw new CallError(`cannot connect to ${url}: ${(error as Error).message}`, { cause: error })
    }
  }

  /** @returns the message of the answer. @throws CallError. */
  private exchange(session: ClientHttp2Session, path: string, frame: Buffer, metadata: Record<string, string>, signal: AbortSignal): Promise<Uint8Array> {
    const { timeoutMs, url } = this.options
    return new Promise((resolve, reject) => {
      const received: Received = { first: {}, trailers: {}, answer: new BoundedBytes(MAX_ANSWER) }
      const lost = (cause: unknown, late = false): void => {
        end()
        reject(noAnswer(url, cause, late))
      }
      if (session.closed || session.destroyed) return reject(new CallError(`no answer from ${url}: the connection is closed`))
      const stream = session.request({ ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers', ...metadata })
      const timer = setTimeout(() => {
        lost(`none within ${timeoutMs / 1000} s`, true)
        // Whoever is silent for so long is likely not there any more.
        session.destroy()
      }, timeoutMs)
      const aborted = (): void => {
        lost('given up')
        stream.destroy()
      }
      const end = (): void => {
        clearTimeout(timer)
        signal.removeEventListener('abort', aborted)
      }
      signal.addEventListener('abort', aborted, { once: true })
      stream
        .on('response', (headers) => {
          received.first = headers
        })
        .on('trailers', (headers) => {
          received.trailers = headers
        })
        .on('data', (bytes: Buffer) => {
          if (received.answer.add(bytes)) return
          end()
          reject(new CallError(`cannot read the answer from ${url}: it has more than ${MAX_ANSWER} bytes`))
          // It may go on for as long as it is read, on a link that others need.
          session.destroy()
        })
        .on('error', (error) => lost(error))
        .on('close', () => {
          end()
          try {
            resolve(messageOf(received, url))
          } catch (error) {
            reject(error)
          }
        })
      stream.end(frame)
    })
  }
}

/** What has come of an answer. */
interface Received {
  first: IncomingHttpHeaders
  trailers: IncomingHttpHeaders
  answer: BoundedBytes
}

/** The message of an answer that is over. @throws CallError for one that is an error, or none. */
function messageOf({ first, trailers, answer }: Received, url: string): Uint8Array {
  const headers = trailers['grpc-status'] === undefined ? first : trailers
  if (headers['grpc-status'] === undefined) {
    const status = first[':status']
    if (Number(status) === HTTP_TOO_LARGE) throw new CallError(`${url} answers HTTP status ${status}: the request is too large`, TOO_LARGE)
    throw noAnswer(url, status === undefined || Number(status) === 200 ? 'it broke off' : `HTTP status ${status}`)
  }
  if (headers['grpc-status'] !== '0') throw callError(headers, url)
  const body = answer.bytes
  if (body.length < FRAME || body.length !== FRAME + body.readUInt32BE(1) || body[0] !== 0)
    throw new CallError(`cannot read the answer from ${url}: it is no message`)
  return body.subarray(FRAME)
}

function noAnswer(url: string, cause: unknown, late = false): CallError {
  return new CallError(`no answer from ${url}: ${cause instanceof Error ? cause.message : cause}`, { cause, late })
}

function socketTo({ protocol, hostname, port }: URL, secure: ConnectionOptions): Socket {
  const host = hostname.replace(/^\[|\]$/g, '')
  if (protocol !== 'https:') return connectPlain({ host, port: Number(port || 80) })
  const named = isIP(host) === 0 ? { servername: host } : {}
  return process.getBuiltinModule('node:tls').connect({ ...secure, ...named, host, port: Number(port || 443), ALPNProtocols: ['h2'] })
}

/** @throws what `error` makes, as soon as the signal ends. */
async function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal, error: () => Error): Promise<T> {
  promise.catch(() => {}) // nobody may wait for it any more
  if (signal.aborted) throw error()
  let aborted = (): void => {}
  const end = new Promise<never>((_, reject) => {
    aborted = () => reject(error())
    signal.addEventListener('abort', aborted, { once: true })
  })
  return Promise.race([promise, end]).finally(() => signal.removeEventListener('abort', aborted))
}

function callError(headers: IncomingHttpHeaders, url: string): CallError {
  const said = Number(headers['grpc-status'])
  const status = Number.isInteger(said) && said > 0 && said <= LAST_STATUS ? said : UNKNOWN
  const given = String(headers['svc-code'] ?? '')
  const code = errorKind(given) === undefined ? undefined : (given as ErrorCode)
  const after = Number(headers['retry-after'] ?? (code === undefined ? undefined : errorKind(code)?.retryAfter))
  let text = String(headers['grpc-message'] ?? '')
  try {
    text = decodeURIComponent(text)
  } catch {}
  return new CallError(`${url} answers ${code ?? `status ${status}`}: ${shortText(text)}`, {
    status,
    ...(code === undefined ? {} : { code }),
    ...(Number.isFinite(after) ? { retryAfterSecs: after } : {}),
  })
}

/** The beginning of a long text, which does not keep the whole in memory. */
export const shortText = (text: string): string => (text.length <= MAX_TEXT ? text : Buffer.from(text.slice(0, MAX_TEXT)).toString())

/** What the wait for a call's outcome is worth, for `patiently`. */
export function asSvcError(error: CallError, code: ErrorCode): SvcError {
  return new SvcError(code, error.message, {
    cause: error,
    ...(error.retryAfterSecs === undefined ? {} : { headers: { 'retry-after': String(error.retryAfterSecs) } }),
  })
}
