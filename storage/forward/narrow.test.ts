/** Links and proxies that take less at a time than an edge sends: what waits gets there in smaller requests. */

import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { temporaryFolder } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { FaultyLink } from '../../test/support/faulty-link.ts'
import { f64, lines, NOW, type TestPoint, write } from '../conformance/points.ts'
import { edgeOf, upstream } from './testing.ts'

const OPEN = { server: { allow_open: true } }
const points = (count: number): TestPoint[] =>
  Array.from({ length: count }, (_, n) => ({ measurement: 'cpu', tags: { host: `h${n % 100}` }, time: NOW + BigInt(n), fields: { v: f64(n / 7) } }))

async function edgeTo(t: Test, url: string, forward: Record<string, unknown>) {
  const warned: string[] = []
  const warn = (o: object, m?: string): void => void warned.push(`${m} ${JSON.stringify(o)}`)
  const log = { debug() {}, info() {}, warn, error: warn }
  const edge = edgeOf({ data_dir: temporaryFolder(t), forward: { upstream: [{ name: 'one', url, ...(forward.one as object) }], ...forward } }, { log })
  await edge.open()
  t.teardown(() => edge.close())
  return { edge, warned }
}

t.test('a link over which a whole request takes longer than timeout_secs', { timeout: 60_000 }, async (t) => {
  const { node, url } = await upstream(t, { config: OPEN })
  const link = await FaultyLink.to(Number(new URL(url).port))
  t.teardown(() => link.close())
  link.narrow(100_000)
  const { edge, warned } = await edgeTo(t, `http://127.0.0.1:${link.port}`, { timeout_secs: 1, compression: 'none' })
  await write(edge, points(3000), { namespace: '' })
  await edge.drained()
  t.equal((await lines(node.storage, { namespace: '', measurement: 'cpu' })).length, 3000)
  t.match(warned[0], /the upstream takes no points; they wait .*none within 1 s/)
})

/** The upstream says that it has had the request before. */
const DUPLICATE = Buffer.of(0, 0, 0, 0, 2, 0x20, 1)

/** A proxy that answers requests above a size with 413, as nginx does, and has the others taken. */
async function strict(t: Test, maxBytes: number) {
  const sizes: number[] = []
  const server = createServer()
  server.on('stream', (stream) => {
    const parts: Buffer[] = []
    stream.on('error', () => {})
    stream.on('data', (part: Buffer) => parts.push(part))
    stream.on('end', () => {
      const { length } = Buffer.concat(parts)
      sizes.push(length)
      if (length > maxBytes) return stream.respond({ ':status': 413, 'content-type': 'text/html' }, { endStream: true })
      stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true })
      stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }))
      stream.end(DUPLICATE)
    })
  })
  await new Promise<void>((go) => server.listen(0, '127.0.0.1', go))
  t.teardown(() => server.close())
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, sizes }
}

t.test('a proxy that takes smaller requests', { timeout: 60_000 }, async (t) => {
  const { url, sizes } = await strict(t, 20_000)
  const { edge } = await edgeTo(t, url, { compression: 'none' })
  await write(edge, points(2000), { namespace: '' })
  await edge.drained()
  t.ok(sizes.some((size) => size <= 20_000))
})

t.test('a file with more than a key in it is said to be one', { timeout: 60_000 }, async (t) => {
  const { url } = await upstream(t, { config: OPEN })
  const file = join(temporaryFolder(t), 'key')
  writeFileSync(file, 'one-key\nanother-key\n')
  const { edge, warned } = await edgeTo(t, url, { one: { api_key_file: file } })
  await write(edge, points(1), { namespace: '' })
  while (warned.length === 0) await new Promise((go) => setTimeout(go, 20))
  t.match(warned[0], /the upstream refuses this node: .*cannot use api_key_file/)
  t.notMatch(warned.join(), /another-key/)
  writeFileSync(file, 'one-key\n')
  await edge.drained()
})
