/** Collectors in this process: OTLP over gRPC, answered by grpc-js, and over HTTP; what they were sent, taken apart without the SDK. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Server, ServerCredentials, status } from '@grpc/grpc-js'
import { type WireField, walkFields } from 'svcdb/testkit'
import type { Test } from 'tap'

export interface TestSpan {
  traceId: string
  spanId: string
  parentId: string
  tracestate: string
  name: string
  kind: number
  /** Nanoseconds since the Unix epoch. */
  start: bigint
  end: bigint
  attributes: Record<string, unknown>
  /** Its status has the code of an error. */
  failed: boolean
  message: string
  resource: Record<string, unknown>
}

export interface Collector {
  url: string
  spans: TestSpan[]
  requests: number
  /** Of HTTP. */
  connections: number
  headers: Record<string, string | undefined>[]
  /** Refuses what comes, while it is true. */
  refuses: boolean
  /** Waits for a span that is like this. @throws Error with the names of those that came instead. */
  span(is: (span: TestSpan) => boolean): Promise<TestSpan>
  close(): Promise<void>
}

type Fields = Map<number, WireField[]>

function fieldsOf(message: Uint8Array): Fields {
  const fields: Fields = new Map()
  for (const field of walkFields(message)) {
    const known = fields.get(field.number)
    if (known === undefined) fields.set(field.number, [field])
    else known.push(field)
  }
  return fields
}

const many = (fields: Fields, field: number): Uint8Array[] => (fields.get(field) ?? []).map(({ bytes }) => bytes)
const text = (fields: Fields, field: number): string => Buffer.from(many(fields, field)[0] ?? []).toString()
const hex = (fields: Fields, field: number): string => Buffer.from(many(fields, field)[0] ?? []).toString('hex')
const whole = (fields: Fields, field: number): bigint => fields.get(field)?.[0].value ?? 0n

function attributes(pairs: readonly Uint8Array[]): Record<string, unknown> {
  return Object.fromEntries(
    pairs.map((pair) => {
      const fields = fieldsOf(pair)
      const value = fieldsOf(many(fields, 2)[0] ?? new Uint8Array())
      if (value.has(1)) return [text(fields, 1), text(value, 1)]
      if (value.has(2)) return [text(fields, 1), whole(value, 2) === 1n]
      return [text(fields, 1), Number(whole(value, 3))]
    }),
  )
}

/** Of an ExportTraceServiceRequest. */
export function spansOf(request: Uint8Array): TestSpan[] {
  return many(fieldsOf(request), 1).flatMap((one) => {
    const ofResource = fieldsOf(one)
    const resource = attributes(many(fieldsOf(many(ofResource, 1)[0]), 1))
    return many(ofResource, 2).flatMap((scope) =>
      many(fieldsOf(scope), 2).map((span): TestSpan => {
        const fields = fieldsOf(span)
        const state = fieldsOf(many(fields, 15)[0] ?? new Uint8Array())
        return {
          ...{ traceId: hex(fields, 1), spanId: hex(fields, 2), tracestate: text(fields, 3), parentId: hex(fields, 4), name: text(fields, 5) },
          ...{ kind: Number(whole(fields, 6)), start: whole(fields, 7), end: whole(fields, 8), attributes: attributes(many(fields, 9)) },
          ...{ failed: whole(state, 3) === 2n, message: text(state, 2), resource },
        }
      }),
    )
  })
}

const PATIENCE_MS = 20_000

function collector(url: string, close: () => Promise<void>): Collector {
  const spans: TestSpan[] = []
  return {
    ...{ url, spans, requests: 0, connections: 0, headers: [], refuses: false, close },
    async span(is) {
      const late = Date.now() + PATIENCE_MS
      for (;;) {
        const found = spans.find(is)
        if (found !== undefined) return found
        if (Date.now() > late) throw new Error(`no such span came; there are ${spans.map(({ name }) => name).join(', ')}`)
        await new Promise((resolve) => setTimeout(resolve, 10))
      }
    },
  }
}

export async function httpCollector(t: Test, port = 0): Promise<Collector> {
  const server = createServer((request, answer) => {
    const parts: Buffer[] = []
    request.on('data', (part: Buffer) => parts.push(part))
    request.on('end', () => {
      own.requests++
      own.headers.push({ path: request.url, type: request.headers['content-type'], authorization: request.headers.authorization })
      if (own.refuses) return answer.writeHead(400).end()
      own.spans.push(...spansOf(Buffer.concat(parts)))
      answer.writeHead(200, { 'content-type': 'application/x-protobuf' }).end()
    })
  })
  server.on('connection', () => own.connections++)
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  const close = async () => {
    server.closeAllConnections()
    await new Promise<void>((resolve) => server.close(() => resolve()))
  }
  const own = collector(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, close)
  t.teardown(close)
  return own
}

export async function grpcCollector(t: Test): Promise<Collector> {
  const server = new Server()
  const same = (bytes: Buffer) => bytes
  const path = '/opentelemetry.proto.collector.trace.v1.TraceService/Export'
  const shape = {
    path,
    requestStream: false,
    responseStream: false,
    requestSerialize: same,
    requestDeserialize: same,
    responseSerialize: same,
    responseDeserialize: same,
  }
  server.addService(
    { export: shape },
    {
      export(call: { request: Buffer; metadata: { get(name: string): unknown[] } }, done: (error: object | null, answer?: Buffer) => void) {
        own.requests++
        own.headers.push({ authorization: call.metadata.get('authorization')[0] as string | undefined })
        if (own.refuses) return done({ code: status.INVALID_ARGUMENT, message: 'for the test' })
        own.spans.push(...spansOf(call.request))
        done(null, Buffer.alloc(0))
      },
    },
  )
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) => (error ? reject(error) : resolve(bound))),
  )
  const close = async () => server.forceShutdown()
  const own = collector(`http://127.0.0.1:${port}`, close)
  t.teardown(close)
  return own
}
