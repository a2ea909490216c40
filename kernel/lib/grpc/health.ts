/** grpc.health.v1, without credentials: what /ready says. docs: grpc/health/v1/health.proto. */

import { SvcError } from '../errors/index.ts'
import { ProtobufReader, ProtobufWriter, readText } from '../protobuf/index.ts'
import type { GrpcCall, GrpcMethod, SendMessage } from './method.ts'

const SERVING = 1
const NOT_SERVING = 2
const SERVICE_UNKNOWN = 3
/** How often a watched state is looked at. */
const POLL_MS = 1000

const PATH = '/grpc.health.v1.Health'
/** Names of services: what needs no credentials takes no more than it needs. */
const LIMITS = { action: 'public', maxRequestBytes: 4096 } as const

/** The service grpc.health.v1.Health of a listener. */
export class Health {
  private readonly services: ReadonlySet<string>
  private readonly notReady: () => string | undefined
  private stopping = false
  private readonly watchers = new Set<() => void>()

  /** @param services those of the listener; the empty name stands for all of it. */
  constructor(services: readonly string[], notReady: () => string | undefined) {
    this.services = new Set(['', ...services])
    this.notReady = notReady
  }

  get methods(): GrpcMethod<unknown>[] {
    return [
      { path: `${PATH}/Check`, ...LIMITS, kind: 'unary', handle: (request) => this.check(request) },
      { path: `${PATH}/List`, ...LIMITS, kind: 'unary', handle: () => this.list() },
      { path: `${PATH}/Watch`, ...LIMITS, kind: 'server_stream', handle: (request, call, send) => this.watch(request, call, send) },
    ]
  }

  /** Tells watchers that nothing more is served, and ends their calls: call it when the listener begins to drain. */
  stop(): void {
    this.stopping = true
    for (const wake of this.watchers) wake()
  }

  private statusOf(service: string): number {
    if (!this.services.has(service)) return SERVICE_UNKNOWN
    return this.stopping || this.notReady() !== undefined ? NOT_SERVING : SERVING
  }

  private check(request: Uint8Array): Uint8Array {
    const service = serviceOf(request)
    const status = this.statusOf(service)
    if (status === SERVICE_UNKNOWN) throw new SvcError('NOT_FOUND', `cannot tell the health of service "${service.slice(0, 256)}": it is not served here`)
    return response(status)
  }

  private list(): Uint8Array {
    const writer = new ProtobufWriter()
    for (const service of this.services) {
      const entry = writer.open(1)
      writer.string(1, service)
      writer.blob(2, response(this.statusOf(service)))
      writer.close(entry)
    }
    return writer.take()
  }

  private async watch(request: Uint8Array, { signal }: GrpcCall<unknown>, send: SendMessage): Promise<void> {
    const service = serviceOf(request)
    let told = 0
    while (!signal.aborted) {
      const status = this.statusOf(service)
      if (status !== told) await send(response((told = status)))
      if (this.stopping) throw new SvcError('DATABASE_CLOSED', 'the server is stopping; retry when it is back')
      await this.nextLook(signal)
    }
  }

  private nextLook(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer)
        this.watchers.delete(done)
        signal.removeEventListener('abort', done)
        resolve()
      }
      const timer = setTimeout(done, POLL_MS)
      timer.unref()
      this.watchers.add(done)
      signal.addEventListener('abort', done)
    })
  }
}

function serviceOf(request: Uint8Array): string {
  const reader = new ProtobufReader()
  let service = ''
  reader.begin(request)
  while (reader.next()) {
    if (reader.field === 1) service = readText(reader, 'service')
    else reader.skip()
  }
  return service
}

function response(status: number): Uint8Array {
  const writer = new ProtobufWriter(16)
  writer.int(1, status)
  return writer.take()
}
