/**
 * A gRPC method as a plugin writes it: bytes in, bytes out. Messages are not taken apart here, so that what is hot is decoded straight into
 * columns (`svc/decode`); there is no object for each field on the way.
 */
import type { CallContext, Credentials } from '../../auth/auth.ts'
import type { Action } from '../../plugin.ts'
import type { SvcError } from '../errors/index.ts'

export interface GrpcCall {
  /** Who calls, and for which namespace; the call has been admitted. */
  readonly context: CallContext
  /** What the call has been admitted by, for a method that asks for more than its own action. */
  readonly credentials: Credentials
  /** Aborted when the client cancels or goes away, at the call's deadline, and when the listener closes. */
  readonly signal: AbortSignal
  /** Milliseconds since the Unix epoch; undefined = the client named none. */
  readonly deadline: number | undefined
  /** First value of a key (lower case) of the request's metadata, of keys ending in -bin its bytes in base64. */
  metadata(key: string): string | undefined
  /** Metadata of the answer, before its first message. */
  header(key: string, value: string | Uint8Array): void
}

/** Hands a message to the client; resolves when there is room for more. */
export type SendMessage = (message: Uint8Array) => Promise<void>

interface Common {
  /** `/svc.Service/Write`. */
  path: string
  /** `public` needs no credentials. */
  action: Action
  /** Its messages carry points to write: they may be as large as the listener takes, those of other methods as `server.max_control_body_size` says. */
  carriesPoints?: true
  /** Bytes of one request message where that is less. */
  maxRequestBytes?: number
  /** gRPC status number of an error, where the protocol wants another than the table of error codes has. */
  statusOf?(error: SvcError): number
}

export type GrpcMethod = Common &
  (
    | { kind: 'unary'; handle(request: Uint8Array, call: GrpcCall): Uint8Array | Promise<Uint8Array> }
    | { kind: 'server_stream'; handle(request: Uint8Array, call: GrpcCall, send: SendMessage): Promise<void> }
    | { kind: 'client_stream'; handle(requests: AsyncIterable<Uint8Array>, call: GrpcCall): Promise<Uint8Array> }
    | { kind: 'bidi_stream'; handle(requests: AsyncIterable<Uint8Array>, call: GrpcCall, send: SendMessage): Promise<void> }
  )
