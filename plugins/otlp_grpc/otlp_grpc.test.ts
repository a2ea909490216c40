import { Client, credentials, Metadata, type ServiceError } from '@grpc/grpc-js'
import { type CallContext, definePlugin } from 'svcdb'
import { type ErrorCode, SvcError } from 'svcdb/lib/errors'
import type { GrpcListener } from 'svcdb/lib/grpc'
import { type BootOptions, boot, Message, type TestNode } from 'svcdb/testkit'
import t, { type Test } from 'tap'

const EXPORT = '/opentelemetry.proto.collector.metrics.v1.MetricsService/Export'
const now = BigInt(Date.now()) * 1_000_000n
const DAY = 86_400_000_000_000n

/** ExportMetricsServiceRequest with one gauge for each name. */
function request(...points: { name: string; value?: number; time?: bigint }[]): Buffer {
  const scope = new Message()
  for (const { name, value = 1, time = now } of points) {
    const point = new Message().fixed(3, time).double(4, value)
    scope.put(2, new Message().put(1, name).put(5, new Message().put(1, point.done()).done()).done())
  }
  return new Message().put(1, new Message().put(2, scope.done()).done()).done()
}

interface Started {
  node: TestNode
  /** Ports of [otlp_grpc] and [grpc]. */
  ports: { own: number; shared: number }
  /** What writes, and callers, are refused with. */
  refuse: { write?: unknown; caller?: SvcError }
}

async function start(t: Test, options: BootOptions = {}): Promise<Started> {
  const refuse: Started['refuse'] = {}
  const listeners: GrpcListener<CallContext>[] = []
  const watcher = definePlugin({
    id: 'watcher',
    summary: 'Knows the ports, and refuses',
    stability: 'experimental',
    requires: ['otlp_grpc_listener', 'grpc_listener'],
    setup(svc) {
      listeners.push(svc.use('otlp_grpc_listener'), svc.use('grpc_listener'))
      svc.ingest.admit(() => {
        if (refuse.write !== undefined) throw refuse.write
      })
      svc.auth.authenticator(() => refuse.caller ?? { principal: 'p', method: 'test', claims: {}, namespaces: [], admin: false })
    },
  })
  const addr = '127.0.0.1:0'
  const config = { grpc: { addr }, ...options.config, otlp_grpc: { addr, ...(options.config?.otlp_grpc as object) } }
  const node = await boot({ ...options, plugins: ['otlp', 'otlp_grpc', 'grpc', watcher], config })
  t.teardown(() => node.stop())
  const [own, shared] = listeners
  return { node, ports: { own: own.port, shared: shared.port }, refuse }
}

interface Answer {
  error?: ServiceError
  message?: Buffer
}

async function send(t: Test, port: number, body: Buffer, headers: Record<string, string> = {}, options = {}): Promise<Answer> {
  const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure(), options)
  t.teardown(() => client.close())
  const metadata = new Metadata()
  for (const [key, value] of Object.entries(headers)) metadata.set(key, value)
  const identity = (bytes: Buffer) => bytes
  return new Promise((resolve) => {
    client.makeUnaryRequest(EXPORT, identity, identity, body, metadata, {}, (error, message) => resolve(error === null ? { message } : { error }))
  })
}

async function values(node: TestNode, measurement: string, namespace = ''): Promise<unknown[]> {
  const found: unknown[] = []
  for await (const chunk of node.storage.scan({ namespace, measurement })) for (const { values } of chunk.columns) found.push(...values)
  return found
}

t.test('metrics are written through the own port and through that of grpc, compressed and not', async (t) => {
  const { node, ports } = await start(t)
  t.same(await send(t, ports.own, request({ name: 'a', value: 1.5 })), { message: Buffer.alloc(0) })
  t.same(await send(t, ports.shared, request({ name: 'b', value: 2.5 })), { message: Buffer.alloc(0) })
  t.same(await send(t, ports.own, request({ name: 'c', value: 3.5 }), {}, { 'grpc.default_compression_algorithm': 2 }), { message: Buffer.alloc(0) }, 'gzip')
  t.same(await send(t, ports.own, Buffer.alloc(0)), { message: Buffer.alloc(0) }, 'an empty request')
  for (const [name, value] of [
    ['a', 1.5],
    ['b', 2.5],
    ['c', 3.5],
  ] as const)
    t.same(await values(node, name), [value])
  const metrics = (await node.inject('/metrics')).body
  t.match(metrics, new RegExp(`svc_otlp_grpc_calls_total\\{method="${EXPORT}",status="OK"\\} 3`))
  t.match(metrics, new RegExp(`svc_grpc_calls_total\\{method="${EXPORT}",status="OK"\\} 1`))
})

t.test('refused points are a partial success, and all of them an error', async (t) => {
  const { node, ports } = await start(t)
  const old = { name: 'old', time: now - 30n * DAY }
  await send(t, ports.own, request({ name: 'good' }))
  const { message = Buffer.alloc(0) } = await send(t, ports.own, request({ name: 'good', value: 2, time: now + 1n }, old))
  t.equal(message[0], 0x0a, 'field 1, partial_success')
  t.ok(message.includes(Buffer.from([0x08, 1, 0x12])), 'one data point rejected, and why')
  t.match(message.toString(), /partial write: 1 data point written, 1 rejected.*metric "old"/)
  t.same(await values(node, 'good'), [1, 2])
  const { error } = await send(t, ports.own, request(old))
  t.equal(error?.code, 3)
  t.match(error?.details, /metric "old"/)
  t.same(await send(t, ports.own, request(old), { 'x-backfill': 'true' }), { message: Buffer.alloc(0) })
  t.match(await send(t, ports.own, Buffer.from('no protobuf')), { error: { code: 3, details: /cannot decode/ } })
})

/** Repeated are UNAVAILABLE and DEADLINE_EXCEEDED always, RESOURCE_EXHAUSTED with a RetryInfo, and nothing else of these (OTLP specification). */
const STATUSES: [ErrorCode, number, boolean][] = [
  ['STORAGE_FULL', 8, true],
  ['RATE_LIMITED', 8, true],
  ['BACKPRESSURE', 14, true],
  ['OVERLOADED', 14, true],
  ['DATABASE_CLOSED', 14, false],
  ['WRITE_TIMEOUT', 4, false],
  ['DATABASE_ERROR', 14, false],
  ['INTERNAL_ERROR', 14, false],
  ['ENCRYPTION_KEY_UNAVAILABLE', 14, false],
  ['CARDINALITY_EXCEEDED', 8, false],
  ['BAD_REQUEST', 3, false],
  ['CONFLICT', 6, false],
]

t.test('what may be sent again has a status that exporters repeat', async (t) => {
  const { ports, refuse } = await start(t)
  for (const [code, status, retryInfo] of STATUSES) {
    refuse.write = new SvcError(code, 'the reason')
    const { error } = await send(t, ports.own, request({ name: 'a' }))
    t.equal(error?.code, status, code)
    t.equal(error?.metadata.get('svc-code')[0], code)
    const details = String(error?.metadata.get('grpc-status-details-bin')[0])
    t.equal(details.includes('google.rpc.RetryInfo'), retryInfo, `${code}: RetryInfo`)
  }
})

t.test('callers are admitted as everywhere, and limits hold', async (t) => {
  const { ports, refuse } = await start(t, { config: { otlp: { max_decompressed_bytes: 1024 }, otlp_grpc: { max_receive_bytes: 2048 } } })
  refuse.caller = new SvcError('UNAUTHORIZED', 'who are you')
  for (const port of [ports.own, ports.shared]) t.equal((await send(t, port, request({ name: 'a' }))).error?.code, 16)
  refuse.caller = undefined
  t.match(await send(t, ports.own, Buffer.alloc(1500)), { error: { code: 8, details: /1024/ } })
})
