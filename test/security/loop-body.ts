/** What requests that are made to hold the event loop have in common. */
import { ProtobufWriter } from 'svcdb/lib/protobuf'

export interface HttpBody {
  over: 'http'
  /** Default: POST. */
  method?: 'GET' | 'POST'
  name: string
  path: string
  headers: Record<string, string>
  /** Made when it is asked for: some take a while, and all of them much memory. */
  body(): Buffer
  /** What has to be there before. */
  prepare?(url: string): Promise<void>
}

export interface GrpcBody {
  over: 'grpc' | 'flight_sql'
  name: string
  /** `/svc.Service/Write`. */
  path: string
  message(): Buffer
  /** The method takes a stream of messages. */
  stream: boolean
}

export type AttackBody = HttpBody | GrpcBody

export const JSON_TYPE = { 'content-type': 'application/json' }
export const FORM = { 'content-type': 'application/x-www-form-urlencoded' }
export const TEXT = { 'content-type': 'text/plain' }
export const PROTOBUF = { 'content-type': 'application/x-protobuf' }
export const V1 = { ...PROTOBUF, 'content-encoding': 'snappy' }
export const V2 = { ...V1, 'content-type': 'application/x-protobuf;proto=io.prometheus.write.v2.Request' }
/** All points lie here, in the window of a node that has none yet. */
export const NANOS = 1_700_000_000_000_000_000n
export const MILLIS = 1_700_000_000_000

export const bytesOf = (of: string | Uint8Array): Buffer => (typeof of === 'string' ? Buffer.from(of) : Buffer.from(of.buffer, of.byteOffset, of.byteLength))
export const http = (name: string, path: string, headers: Record<string, string>, body: () => string | Uint8Array): HttpBody => ({
  over: 'http',
  name,
  path,
  headers,
  body: () => bytesOf(body()),
})
export const grpc = (name: string, method: string, message: () => Uint8Array): GrpcBody => ({
  over: 'grpc',
  name: `grpc ${method}: ${name}`,
  path: `/svc.Service/${method}`,
  message: () => bytesOf(message()),
  stream: method === 'StreamWrite',
})

/** Text of `bytes` bytes or a little more. */
export function filled(bytes: number, item: (i: number) => string, separator = ','): string {
  const items: string[] = []
  for (let length = 0, i = 0; length < bytes; i++) {
    const text = item(i)
    items.push(text)
    length += text.length + separator.length
  }
  return items.join(separator)
}

export const range = <T>(count: number, item: (i: number) => T): T[] => Array.from({ length: count }, (_, i) => item(i))

/** An expression of PromQL, in parentheses that halve it: a row of operators may not be that long. */
export function sumOf(terms: readonly string[]): string {
  if (terms.length === 1) return terms[0]
  const half = terms.length >> 1
  return `(${sumOf(terms.slice(0, half))}+${sumOf(terms.slice(half))})`
}

export function message(write: (out: ProtobufWriter) => void, capacity = 1024): Uint8Array {
  const out = new ProtobufWriter(capacity)
  write(out)
  return out.take()
}

export function nested(out: ProtobufWriter, field: number, write: () => void): void {
  const mark = out.open(field)
  write()
  out.close(mark)
}
