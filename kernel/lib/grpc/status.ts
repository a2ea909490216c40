/** What a call ends with: status number, text and details, from the one table of error codes. */
import type { OutgoingHttpHeaders } from 'node:http2'
import { classify, type ErrorCode, type ErrorKind, publicText, type SvcError } from '../errors/index.ts'
import { ProtobufWriter } from '../protobuf/index.ts'

export const OK = 0
export const CANCELLED = 1
export const UNIMPLEMENTED = 12

/** Names of grpc/status.proto, by number. */
export const STATUS_NAMES = [
  'OK',
  'CANCELLED',
  'UNKNOWN',
  'INVALID_ARGUMENT',
  'DEADLINE_EXCEEDED',
  'NOT_FOUND',
  'ALREADY_EXISTS',
  'PERMISSION_DENIED',
  'RESOURCE_EXHAUSTED',
  'FAILED_PRECONDITION',
  'ABORTED',
  'OUT_OF_RANGE',
  'UNIMPLEMENTED',
  'INTERNAL',
  'UNAVAILABLE',
  'DATA_LOSS',
  'UNAUTHENTICATED',
] as const

/** A status that no code of the table stands for, such as UNIMPLEMENTED. */
export class GrpcStatusError extends Error {
  readonly status: number

  constructor(status: number, message: string) {
    super(message)
    this.name = 'GrpcStatusError'
    this.status = status
  }
}

/** What a call ends with: a number of grpc/status.proto, and a text. */
export interface GrpcStatus {
  status: number
  message: string
  /** The error it was made from. */
  error?: SvcError
}

/** Any thrown value as the status that the caller reads. @param number of the status, where it is not that of the table. */
export function statusOf(error: unknown, number = (known: SvcError): number => known.kind.grpc): GrpcStatus {
  if (error instanceof GrpcStatusError) return { status: error.status, message: error.message }
  const known = classify(error)
  return { status: number(known), message: publicText(known), error: known }
}

/** Clients bound the metadata of an answer, Java at 8 KiB; the text is in it twice, and percent-encoding may triple it. */
const MAX_MESSAGE_BYTES = 1500

/** The headers that carry a status: trailers, or an answer that has nothing else. */
export function statusHeaders({ status, message, error }: GrpcStatus): OutgoingHttpHeaders {
  if (status === OK) return { 'grpc-status': '0' }
  const bytes = Buffer.from(shortened(message))
  const headers: OutgoingHttpHeaders = { 'grpc-status': String(status), 'grpc-message': percentEncoded(bytes) }
  if (error !== undefined) {
    headers['svc-code'] = error.code
    Object.assign(headers, error.headers)
    headers['grpc-status-details-bin'] = details(status, bytes, error).toString('base64').replace(/=+$/, '')
  }
  return headers
}

function shortened(message: string): string {
  if (Buffer.byteLength(message) <= MAX_MESSAGE_BYTES) return message
  // A character that the cut goes through is left out.
  return `${Buffer.from(message)
    .subarray(0, MAX_MESSAGE_BYTES)
    .toString()
    .replace(/\uFFFD$/, '')}...`
}

/** gRPC over HTTP/2, "Responses": all but printable ASCII is encoded, and the percent sign. */
function percentEncoded(bytes: Uint8Array): string {
  let text = ''
  for (const byte of bytes) {
    text += byte >= 0x20 && byte <= 0x7e && byte !== 0x25 ? String.fromCharCode(byte) : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
  }
  return text
}

const TYPE = 'type.googleapis.com/google.rpc.'

/** google.rpc.Status with an ErrorInfo, and a RetryInfo where the error says when to come back. */
function details(status: number, message: Uint8Array, error: SvcError): Buffer {
  const writer = new ProtobufWriter()
  writer.int(1, status)
  writer.blob(2, message)
  detail(writer, 'ErrorInfo', () => {
    writer.string(1, error.code satisfies ErrorCode)
    writer.string(2, 'svc')
    for (const [key, value] of Object.entries(error.detail ?? {})) {
      if (typeof value === 'object') continue
      const entry = writer.open(3)
      writer.string(1, key)
      writer.string(2, String(value))
      writer.close(entry)
    }
  })
  const seconds = Number(error.headers?.['retry-after'] ?? (error.kind as ErrorKind).retryAfter)
  if (Number.isInteger(seconds)) {
    detail(writer, 'RetryInfo', () => {
      const delay = writer.open(1)
      writer.int(1, seconds)
      writer.close(delay)
    })
  }
  return Buffer.from(writer.take())
}

function detail(writer: ProtobufWriter, type: string, fill: () => void): void {
  const any = writer.open(3)
  writer.string(1, TYPE + type)
  const value = writer.open(2)
  fill()
  writer.close(value)
  writer.close(any)
}
