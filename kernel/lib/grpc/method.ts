/**
 * A gRPC method as a plugin writes it: bytes in, bytes out. Messages are not taken apart here, so that what is hot is decoded straight into
 * columns; there is no object for each field on the way.
 */
import type { SvcError } from '../errors/index.ts'
import type { ClientCertificate } from '../network/index.ts'

/** What a call comes with; a server's own credentials are the same. */
export interface GrpcCredentials {
  /** How authenticators know the listener. */
  protocol: string
  /** The method's. */
  path: string
  /** A metadata value; names are lower case. */
  header(name: string): string | undefined
  /** gRPC has no parameters in a URL: always undefined, unless the server has put them there. */
  query(name: string): string | undefined
  /** What the client showed in the TLS handshake. */
  certificate?: ClientCertificate
  address: string | undefined
  requestId: string
}

/** What a method does to data. `public` needs no credentials. */
export type GrpcAction = 'read' | 'write' | 'delete' | 'admin' | 'public'

/** `Context` is what the server admits a call as (`GrpcOwner`). */
export interface GrpcCall<Context> {
  /** Who calls, and for which namespace; the call has been admitted. */
  readonly context: Context
  /** What the call has been admitted by, for a method that asks for more than its own action. */
  readonly credentials: GrpcCredentials
  /** Aborted when the client cancels or goes away, at the call's deadline, and when the listener closes. */
  readonly signal: AbortSignal
  /** Milliseconds since the Unix epoch; undefined = the client named none. */
  readonly deadline: number | undefined
  /** First value of a key (lower case) of the request's metadata, of keys ending in -bin its bytes in base64. */
  metadata(key: string): string | undefined
  /** Metadata of the answer, before its first message. */
  header(key: string, value: string | Uint8Array): void
  /**
   * So many bytes more, or less, are kept of what the client has sent, when the next message is asked for: they count against `max_buffered_bytes`, and the
   * call ends when there is no room for them. Needless for what is let go with each message.
   */
  keep(bytes: number): void
}

/** A message of an answer, or the parts that are the message when joined: they are sent without being joined, which would hold the event loop. */
export type GrpcMessage = Uint8Array | readonly Uint8Array[]

/** Hands a message to the client; resolves when there is room for more. */
export type SendMessage = (message: Uint8Array) => Promise<void>

interface Common {
  /** `/svc.Service/Write`. */
  path: string
  action: GrpcAction
  /** Its messages carry points to write: they may be as large as the listener takes, those of other methods as `server.max_control_body_size` says. */
  carriesPoints?: true
  /** Bytes of one request message where that is less. */
  maxRequestBytes?: number
  /** gRPC status number of an error, where the protocol wants another than the table of error codes has. */
  statusOf?(error: SvcError): number
}

/** One method: its path, what it does to data, and what answers. A SvcError that it throws is a status by its code. */
export type GrpcMethod<Context> = Common &
  (
    | { kind: 'unary'; handle(request: Uint8Array, call: GrpcCall<Context>): GrpcMessage | Promise<GrpcMessage> }
    | { kind: 'server_stream'; handle(request: Uint8Array, call: GrpcCall<Context>, send: SendMessage): Promise<void> }
    | { kind: 'client_stream'; handle(requests: AsyncIterable<Uint8Array>, call: GrpcCall<Context>): Promise<Uint8Array> }
    | { kind: 'bidi_stream'; handle(requests: AsyncIterable<Uint8Array>, call: GrpcCall<Context>, send: SendMessage): Promise<void> }
  )
