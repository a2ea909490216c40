import { gzipSync, zstdCompressSync } from 'node:zlib'
import { definePlugin } from 'svcdb'
import { encodeSnappy } from 'svcdb/lib/snappy'
import { boot } from 'svcdb/testkit'
import t from 'tap'

const MIB = 1_048_576

t.test('what each protocol decompresses counts as bodies do, and is refused as its senders expect it', async (t) => {
  let release = () => {}
  const filler = definePlugin({
    id: 'filler',
    summary: 'Has bodies',
    stability: 'experimental',
    setup(svc) {
      svc.http.post('/filler', { config: { rawBody: true }, bodyLimit: svc.server.max_body_size }, () => new Promise<void>((resolve) => (release = resolve)))
    },
  })
  const server = { max_body_size: 1_200_000, max_body_memory: 2 * MIB }
  const node = await boot({ plugins: [filler, 'line_protocol', 'otlp', 'remote_write', 'promql'], config: { server } })
  t.teardown(() => node.stop())
  const post = async (url: string, payload: Uint8Array, headers: Record<string, string>) => {
    const { statusCode, body, headers: answered } = await node.inject({ method: 'POST', url, payload: Buffer.from(payload), headers })
    return { status: statusCode, text: body, retryAfter: answered['retry-after'] }
  }
  // Messages of empty messages, and lines without points.
  const message = Buffer.alloc(MIB, Uint8Array.of(0x0a, 0))
  const large = Buffer.alloc(4.5 * MIB, Uint8Array.of(0x0a, 0))
  const protobuf = { 'content-type': 'application/x-protobuf' }
  const requests: [string, Uint8Array, Record<string, string>][] = [
    ['/write', gzipSync(Buffer.alloc(MIB, '#\n')), { 'content-encoding': 'gzip' }],
    ['/v1/metrics', zstdCompressSync(message), { ...protobuf, 'content-encoding': 'zstd' }],
    ['/api/v1/write', zstdCompressSync(message), { ...protobuf, 'content-encoding': 'zstd' }],
    ['/api/v1/write', await encodeSnappy(large), { ...protobuf, 'content-encoding': 'snappy' }],
    ['/api/v1/prom/read', await encodeSnappy(message), { ...protobuf, 'content-encoding': 'snappy' }],
  ]
  const before: number[] = []
  for (const request of requests) before.push((await post(...request)).status)
  t.notOk(before.includes(503), before.join())
  const first = post('/filler', Buffer.alloc(1_200_000), {})
  const metric = async () => Number(/^svc_http_body_bytes (\d+)$/m.exec((await node.inject('/metrics')).body)?.[1])
  while ((await metric()) !== 1_200_000) await new Promise((resolve) => setImmediate(resolve))
  for (const request of requests) {
    const { status, text, retryAfter } = await post(...request)
    t.equal(status, 503, `${request[0]} ${request[2]['content-encoding']}`)
    t.match(text, /server\.max_body_memory/)
    t.equal(retryAfter, '1')
  }
  t.equal(await metric(), 1_200_000)
  release()
  t.equal((await first).status, 200)
  for (const [i, request] of requests.entries()) t.equal((await post(...request)).status, before[i])
  t.equal(await metric(), 0)
})
