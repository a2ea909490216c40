/** A node with the plugin and a client made from svc.proto by @grpc/proto-loader, as tests and benchmarks need them. */
import { fileURLToPath } from 'node:url'
import {
  type ChannelCredentials,
  type ClientReadableStream,
  type ClientWritableStream,
  credentials,
  type GrpcObject,
  loadPackageDefinition,
  Metadata,
  type ServiceClientConstructor,
  type ServiceError,
} from '@grpc/grpc-js'
import { loadSync } from '@grpc/proto-loader'
import { type CallContext, definePlugin, type Plugin } from 'svcdb'
import type { GrpcListener } from 'svcdb/lib/grpc'
import { type BootOptions, boot, type TestNode } from 'svcdb/testkit'
import grpc from './index.ts'

export const PROTO = fileURLToPath(new URL('./svc.proto', import.meta.url))
const HEALTH = fileURLToPath(new URL('./health.proto', import.meta.url))
const packageDefinition = loadSync([PROTO, HEALTH], { keepCase: true, longs: String, enums: String, oneofs: true, arrays: true, defaults: true })
const loaded = loadPackageDefinition(packageDefinition) as GrpcObject & { svc: { Service: ServiceClientConstructor } }

export { packageDefinition }

// biome-ignore lint/suspicious/noExplicitAny: messages as the proto file has them
export type Message = any

export interface CallOptions {
  metadata?: Record<string, string>
  /** Milliseconds from now. */
  deadline?: number
}

export class TestClient {
  readonly service: Message
  readonly health: Message

  constructor(port: number, channel: ChannelCredentials = credentials.createInsecure(), options: Record<string, unknown> = {}) {
    const all = { 'grpc.max_receive_message_length': -1, 'grpc.max_send_message_length': -1, ...options }
    this.service = new loaded.svc.Service(`localhost:${port}`, channel, all)
    const { v1 } = (loaded.grpc as Message).health
    this.health = new v1.Health(`localhost:${port}`, channel, all)
  }

  /** The answer of a unary method. @throws ServiceError */
  call(method: string, request: Message, { metadata, deadline }: CallOptions = {}): Promise<Message> {
    const stub = method.startsWith('Health/') ? this.health : this.service
    return new Promise((resolve, reject) => {
      const options = deadline === undefined ? {} : { deadline: Date.now() + deadline }
      stub[method.replace('Health/', '')](request, metadataOf(metadata), options, (error: ServiceError | null, value: Message) =>
        error ? reject(error) : resolve(value),
      )
    })
  }

  /** All messages of Query. */
  async query(request: Message, { metadata, deadline }: CallOptions = {}): Promise<Message[]> {
    const stream: ClientReadableStream<Message> = this.service.Query(
      request,
      metadataOf(metadata),
      deadline === undefined ? {} : { deadline: Date.now() + deadline },
    )
    const messages: Message[] = []
    for await (const message of stream) messages.push(message)
    return messages
  }

  /** @returns a stream to write to, and its answer. */
  streamWrite({ metadata }: CallOptions = {}): { stream: ClientWritableStream<Message>; answer: Promise<Message> } {
    const { promise, resolve, reject } = Promise.withResolvers<Message>()
    promise.catch(() => {}) // a test may look at it later
    const stream = this.service.StreamWrite(metadataOf(metadata), (error: ServiceError | null, value: Message) => (error ? reject(error) : resolve(value)))
    return { stream, answer: promise }
  }

  subscribe(request: Message = {}, { metadata }: CallOptions = {}): Subscription {
    return new Subscription(this.service.Subscribe(request, metadataOf(metadata)))
  }

  close(): void {
    this.service.close()
    this.health.close()
  }
}

/** What a Subscribe has got so far. */
export class Subscription {
  readonly messages: Message[] = []
  /** Resolves with the status when the stream has ended. */
  readonly ended: Promise<{ code: number; details: string }>
  readonly stream: ClientReadableStream<Message>

  constructor(stream: ClientReadableStream<Message>) {
    this.stream = stream
    this.ended = new Promise((resolve) => stream.on('status', resolve))
    stream.on('error', () => {})
    stream.on('data', (message: Message) => this.messages.push(message))
  }

  /** Messages of changes, once `done` says that they are enough. @throws Error when they are not within 20 s. */
  async until(done: (changes: Message[]) => boolean): Promise<Message[]> {
    for (const end = Date.now() + 20_000; ; await new Promise((resolve) => setTimeout(resolve, 2))) {
      const changes = this.messages.filter(({ kind }) => kind !== 'PROGRESS')
      if (done(changes)) return changes
      if (Date.now() > end) throw new Error(`waited for more than ${JSON.stringify(changes.slice(-3))}, of ${changes.length}`)
    }
  }

  /** Resolves when the first message is there, so that what follows is told. */
  async begun(): Promise<this> {
    for (const end = Date.now() + 20_000; this.messages.length === 0 && Date.now() < end; ) await new Promise((resolve) => setTimeout(resolve, 2))
    if (this.messages.length === 0) throw new Error('the stream does not begin')
    return this
  }
}

function metadataOf(values: Record<string, string> = {}): Metadata {
  const metadata = new Metadata()
  for (const [key, value] of Object.entries(values)) metadata.set(key, value)
  return metadata
}

export interface StartOptions extends BootOptions {
  /** Keys of [grpc]. */
  section?: Record<string, unknown>
}

export async function start({ section, ...options }: StartOptions = {}): Promise<{ node: TestNode; port: number }> {
  let listener: GrpcListener<CallContext> | undefined
  const watcher: Plugin = definePlugin({
    id: 'port_watcher',
    summary: 'Knows the port',
    stability: 'stable',
    requires: ['grpc_listener'],
    setup: (svc) => {
      listener = svc.use<GrpcListener<CallContext>>('grpc_listener')
    },
  })
  const config = { ...options.config, grpc: { addr: '127.0.0.1:0', ...section } }
  const node = await boot({ ...options, plugins: [grpc, watcher, ...(options.plugins ?? [])], config })
  return { node, port: (listener as GrpcListener<CallContext>).port }
}

const KINDS: Record<string, string> = { number: 'float64', boolean: 'boolean', string: 'string', bigint: 'int64' }

/** A Point; values that are objects are FieldValues as they stand. */
export function point(measurement: string, timestamp: bigint | number, tags: Record<string, string>, fields: Record<string, unknown>): Message {
  return {
    measurement,
    timestamp: String(timestamp),
    tags: Object.entries(tags).map(([key, value]) => ({ key, value })),
    fields: Object.entries(fields).map(([key, value]) => ({
      key,
      value: typeof value === 'object' ? value : { [KINDS[typeof value]]: typeof value === 'bigint' ? String(value) : value },
    })),
  }
}
