/**
 * One call: a stream of HTTP/2, from its headers to its trailers. It ends once, with whatever ends it first: its handler, its deadline, the
 * client, the listener. What comes later is dropped.
 */
import { constants, type OutgoingHttpHeaders, type ServerHttp2Stream } from 'node:http2'
import { SvcError } from '../errors/index.ts'
import { clientCertificate, plainAddress } from '../network/index.ts'
import { type Span, type TraceContext, traceHeaders } from '../trace/index.ts'
import { ACCEPTED_ENCODINGS, encodingOf, Inbox, type InboxOptions, messagesOf, onlyMessage } from './inbox.ts'
import type { CallMemory, Holder } from './memory.ts'
import type { Metadata } from './metadata.ts'
import type { GrpcAction, GrpcCall, GrpcCredentials, GrpcMessage, GrpcMethod, SendMessage } from './method.ts'
import { CANCELLED, type GrpcStatus, OK, statusHeaders, statusOf } from './status.ts'

const { NGHTTP2_CANCEL, NGHTTP2_NO_ERROR } = constants
/** What setTimeout can wait for; a deadline further away is none. */
const MAX_TIMER_MS = 2 ** 31 - 1
const FRAME_HEADER_BYTES = 5
/** What an open call takes by itself, about; credentials have as many bytes at most, as a rule. */
const CALL_BYTES = 8192
/** Messages that come after the answer are dropped. */
const ENDED = new Error('the call has ended')
export const CONTENT_TYPE = 'application/grpc'

interface CallOptions<Context> {
  method: GrpcMethod<Context>
  metadata: Metadata
  protocol: string
  /** The section that limits are set in, for messages. */
  section: string
  maxReceiveBytes: number
  /** Of a message that carries no points. */
  maxControlBytes: number
  maxSendBytes: number
  sendBufferBytes: number
  /** How long a request of one message may take to arrive; 0 = as long as it likes. */
  requestMs: number
  /** What the calls of the listener hold. */
  memory: CallMemory
  span: Span | undefined
  /** Wall clock, milliseconds. */
  now(): number
  /** What stands behind the credentials of a call. */
  resolve(given: GrpcCredentials): GrpcCredentials
  admit(credentials: GrpcCredentials, action: GrpcAction, resource: string): Context | Promise<Context>
  /** Throws, when asked, if the call would not be admitted any more. */
  standing(context: Context, action: GrpcAction, resource: string): (() => void | Promise<void>) | undefined
  /** The client is to read what was sent to it, over all its calls. */
  hurry(): void
  /** The call is over. */
  ended(call: Call<Context>, status: GrpcStatus): void
}

export class Call<Context> implements GrpcCall<Context>, Holder {
  context!: Context
  credentials!: GrpcCredentials
  deadline: number | undefined
  readonly requestId: string
  readonly method: GrpcMethod<Context>
  /** Of the whole call; undefined = it is not recorded. */
  readonly span: Span | undefined
  /** Wall clock, milliseconds. */
  readonly began: number
  private readonly stream: ServerHttp2Stream
  private readonly options: CallOptions<Context>
  private readonly abort = new AbortController()
  private readonly headers: OutgoingHttpHeaders
  private inbox: Inbox | undefined
  private timer: NodeJS.Timeout | undefined
  private over = false
  /** Bytes handed to the stream and not yet taken off it. */
  private unsent = 0
  /** Bytes that the method keeps, not counted yet: the message they came in still is. */
  private uncounted = 0
  private gaveWay = false
  private roomAgain: (() => void)[] = []
  private trailers: OutgoingHttpHeaders = {}

  constructor(stream: ServerHttp2Stream, options: CallOptions<Context>) {
    const { metadata } = options
    this.stream = stream
    this.options = options
    this.method = options.method
    this.requestId = metadata.requestId()
    this.span = options.span
    this.began = options.now()
    this.headers = {
      ':status': 200,
      'content-type': CONTENT_TYPE,
      'grpc-accept-encoding': ACCEPTED_ENCODINGS,
      'x-request-id': this.requestId,
      ...(options.span === undefined ? metadata.trace() : traceHeaders(options.span)),
    }
    // An error has a close behind it, which ends the call.
    stream.on('error', () => {})
    stream.on('close', () => {
      this.end({ status: CANCELLED, message: 'the client has gone away' })
      options.memory.release(this)
    })
    stream.on('wantTrailers', () => this.sendTrailers())
  }

  /** The trace that the caller says it is a part of. */
  traceContext(): TraceContext {
    return this.options.metadata.context()
  }

  get signal(): AbortSignal {
    return this.abort.signal
  }

  metadata(key: string): string | undefined {
    return this.options.metadata.get(key)
  }

  header(key: string, value: string | Uint8Array): void {
    this.headers[key] = typeof value === 'string' ? value : Buffer.from(value).toString('base64')
  }

  keep(bytes: number): void {
    this.uncounted += bytes
    if (this.uncounted >= 0) return
    // What the call held was given back when it ended.
    if (!this.over) this.options.memory.give(this, -this.uncounted)
    this.uncounted = 0
  }

  /** Runs the call to its end; never throws. */
  async run(): Promise<void> {
    try {
      this.watchDeadline()
      const { metadata, admit, method, resolve, memory } = this.options
      // Whoever it is, it may have any number of calls with large metadata.
      const bytes = CALL_BYTES + metadata.bytes
      memory.take(this, bytes)
      if (this.over) return
      metadata.check()
      this.credentials = resolve(this.given())
      const encoding = encodingOf(metadata.get('grpc-encoding'))
      const context = admit(this.credentials, method.action, method.path)
      // Waiting for what is there already would cost each call a turn.
      this.context = context instanceof Promise ? await context : context
      if (this.over) return
      if (!this.ofAnybody) memory.give(this, Math.min(bytes, 2 * CALL_BYTES))
      this.inbox = new Inbox(this.stream, this.inboxOptions(encoding))
      this.inbox.open()
      await this.handle(this.inbox)
      this.end({ status: OK, message: '' })
    } catch (error) {
      this.end(statusOf(error, this.method.statusOf))
    }
  }

  /** Ends the call from outside: the listener is closing. */
  cut(error: SvcError): void {
    this.end(statusOf(error))
    // Its client would have to read the rest of the answer to come to the status.
    if (this.unsent > 0) this.stream.close(NGHTTP2_CANCEL)
  }

  /** Of the memory that calls may hold, this one's is what its client keeps it waiting with. */
  get waits(): boolean {
    return this.unsent > 0 || (!this.over && this.inbox !== undefined && (this.ofAnybody || this.inbox.waits))
  }

  /** No credentials were needed, nor will the method ask for some, as those do that take points. */
  private get ofAnybody(): boolean {
    const { action, carriesPoints } = this.method
    return action === 'public' && carriesPoints !== true
  }

  giveWay(): void {
    this.gaveWay = true
    const { section } = this.options
    this.end(
      statusOf(
        new SvcError(
          'BACKPRESSURE',
          `cannot hold more for this call: what clients have not sent whole and not taken reaches ${section}.max_buffered_bytes; retry with less at once, or raise it`,
        ),
      ),
    )
    if (this.unsent === 0) return
    this.stream.close(NGHTTP2_CANCEL)
    // That it is closed is known when the client has been told, which one that reads nothing never is.
    this.stream.destroy()
    this.options.hurry()
  }

  private inboxOptions(encoding: string): InboxOptions {
    const { memory, section, maxReceiveBytes, maxControlBytes, method } = this.options
    const { carriesPoints, maxRequestBytes = Number.POSITIVE_INFINITY } = method
    const control = carriesPoints !== true && maxControlBytes < maxReceiveBytes
    const maxBytes = control ? maxControlBytes : maxReceiveBytes
    return {
      maxBytes: Math.min(maxBytes, maxRequestBytes),
      setting: maxRequestBytes < maxBytes ? undefined : control ? 'server.max_control_body_size' : `${section}.max_receive_bytes`,
      encoding,
      hold: (bytes) => (bytes < 0 ? memory.give(this, -bytes) : memory.take(this, bytes)),
      kept: () => {
        const { uncounted } = this
        this.uncounted = 0
        return uncounted
      },
    }
  }

  private async handle(inbox: Inbox): Promise<void> {
    const { method } = this.options
    const send: SendMessage = (message) => this.send(message)
    switch (method.kind) {
      case 'unary': {
        const request = await this.request(inbox)
        if (!this.over) await this.send(await method.handle(request, this))
        return
      }
      case 'server_stream': {
        const request = await this.request(inbox)
        if (!this.over) await method.handle(request, this, this.whileStanding(send))
        return
      }
      case 'client_stream':
        return this.send(await method.handle(messagesOf(inbox), this))
      case 'bidi_stream':
        return method.handle(messagesOf(inbox), this, send)
    }
  }

  /** An answer goes at its client's pace, which may be a slow one. */
  private whileStanding(send: SendMessage): SendMessage {
    const { method, options } = this
    const stands = options.standing(this.context, method.action, method.path)
    if (stands === undefined) return send
    return async (message) => {
      const standing = stands()
      if (standing !== undefined) await standing
      await send(message)
    }
  }

  /** As over HTTP: a client that never sends it would keep the call for as long as its connection. */
  private async request(inbox: Inbox): Promise<Uint8Array> {
    const { method, options } = this
    const stands = options.standing(this.context, method.action, method.path)
    const request = await this.inTime(inbox, options.requestMs)
    const standing = stands?.()
    if (standing !== undefined) await standing
    return request
  }

  private async inTime(inbox: Inbox, requestMs: number): Promise<Uint8Array> {
    if (requestMs === 0) return onlyMessage(inbox)
    const late = () =>
      this.end(
        statusOf(
          new SvcError(
            'BAD_REQUEST',
            'cannot answer the call: its request did not arrive in time; send the message and the end of the request at once, or raise server.request_timeout_secs',
          ),
        ),
      )
    const timer = setTimeout(late, requestMs)
    try {
      return await onlyMessage(inbox)
    } finally {
      clearTimeout(timer)
    }
  }

  private async send(message: GrpcMessage): Promise<void> {
    if (this.over) throw this.signal.reason
    const { maxSendBytes, sendBufferBytes, section } = this.options
    const parts = message instanceof Uint8Array ? [message] : message
    const length = parts.reduce((bytes, part) => bytes + part.length, 0)
    if (length > maxSendBytes) {
      throw new SvcError(
        'PAYLOAD_TOO_LARGE',
        `cannot send the answer: a message of it has ${length} bytes and ${section}.max_send_bytes is ${maxSendBytes}; ask for less at once or raise it`,
      )
    }
    this.respond()
    const head = Buffer.allocUnsafe(FRAME_HEADER_BYTES)
    head[0] = 0
    head.writeUInt32BE(length, 1)
    this.unsent += length
    this.options.memory.take(this, length)
    if (this.over) throw this.signal.reason
    // All goes out as one write, without copying the message behind its header.
    this.stream.cork()
    this.stream.write(head)
    for (const part of parts) this.stream.write(part, () => this.sent(part.length))
    this.stream.uncork()
    while (this.unsent > sendBufferBytes && !this.over) {
      await new Promise<void>((resolve) => this.roomAgain.push(resolve))
    }
    if (this.over) throw this.signal.reason
  }

  private sent(bytes: number): void {
    this.unsent -= bytes
    this.options.memory.give(this, bytes)
    if (this.unsent <= this.options.sendBufferBytes) this.wakeSenders()
  }

  private wakeSenders(): void {
    const waiting = this.roomAgain
    this.roomAgain = []
    for (const wake of waiting) wake()
  }

  private respond(): void {
    if (!this.stream.headersSent && !this.stream.destroyed) this.stream.respond(this.headers, { waitForTrailers: true })
  }

  private end(status: GrpcStatus): void {
    if (this.over) return
    this.over = true
    clearTimeout(this.timer)
    const { stream } = this
    // An answer may still be on its way; what came of requests is not needed any more.
    this.options.memory.release(this)
    if (this.unsent > 0 && !stream.destroyed && !this.gaveWay) this.options.memory.take(this, this.unsent)
    // Only what is cut short is told so; a handler that has returned has nothing to stop, and an abort costs as much as the call.
    if (status.status !== OK) {
      this.abort.abort(status.error ?? new SvcError('BAD_REQUEST', status.message))
      this.inbox?.fail(this.abort.signal.reason)
    } else this.inbox?.fail(ENDED)
    this.wakeSenders()
    this.options.ended(this, status)
    if (this.inbox === undefined) stream.resume()
    if (stream.destroyed || stream.closed) return
    if (!stream.headersSent && status.status !== OK) {
      inNextTurn(stream, () => {
        stream.respond({ ...this.headers, ...statusHeaders(status) }, { endStream: true })
        this.stopReceiving()
      })
      return
    }
    this.respond()
    this.trailers = statusHeaders(status)
    stream.end()
    // A client that does not read would keep the stream for as long as it likes; at its deadline it expects nothing any more.
    if (status.error?.code === 'QUERY_TIMEOUT' && this.unsent > 0) stream.close(NGHTTP2_CANCEL)
  }

  private sendTrailers(): void {
    this.stream.sendTrailers(this.trailers)
    this.stopReceiving()
  }

  /** The answer is out before the request is in: RFC 9113, section 8.1, has the server say that it needs no more of it. */
  private stopReceiving(): void {
    const { stream, inbox } = this
    if (inbox?.ended) return
    setImmediate(() => {
      if (!stream.destroyed) stream.close(NGHTTP2_NO_ERROR)
    })
  }

  private watchDeadline(): void {
    const timeout = this.options.metadata.timeoutMs()
    if (timeout === undefined) return
    this.deadline = this.options.now() + timeout
    if (timeout > MAX_TIMER_MS) return
    const { action } = this.method
    const late = () => {
      const changes = action !== 'read' && action !== 'public'
      const error = changes
        ? new SvcError('WRITE_TIMEOUT', "the call's deadline has passed; what it was to change may still be applied, and retrying is safe")
        : new SvcError('QUERY_TIMEOUT', "the call's deadline has passed; ask for less at once or allow more time")
      this.end(statusOf(error))
    }
    this.timer = setTimeout(late, timeout)
  }

  /** Read at once: a session that has ended meanwhile says nothing any more. */
  private given(): GrpcCredentials {
    const { stream, requestId } = this
    const { metadata, protocol } = this.options
    const socket = stream.session?.destroyed === false ? stream.session.socket : undefined
    const certificate = socket === undefined ? undefined : clientCertificate(socket)
    return {
      protocol,
      path: this.method.path,
      header: (name) => metadata.get(name),
      query: () => undefined,
      ...(certificate === undefined ? {} : { certificate }),
      address: plainAddress(socket?.remoteAddress),
      requestId,
    }
  }
}

/**
 * Refuses a call when the other connections have had their turn. Until then it counts for max_concurrent_streams: refused at once, calls could be sent in any
 * number, and all that a connection has received, megabytes of them, would be one turn.
 */
export function inNextTurn(stream: ServerHttp2Stream, refuse: () => void): void {
  setImmediate(() => {
    if (!stream.destroyed && !stream.closed) refuse()
  })
}
