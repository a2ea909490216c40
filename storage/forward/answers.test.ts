/** Upstreams, or what stands in their place, whose answers are no account of the points: nothing is lost by what they say, and they take no memory. */

import { createServer } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { ProtobufWriter } from 'svcdb/lib/protobuf'
import { temporaryFolder } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { f64, NOW, type TestPoint, write } from '../conformance/points.ts'
import { realEnvironment } from './engine.ts'
import { edgeOf, metricsOf } from './testing.ts'

const points = (count: number): TestPoint[] =>
  Array.from({ length: count }, (_, n) => ({ measurement: 'cpu', tags: { host: `h${n}` }, time: NOW + BigInt(n), fields: { v: f64(n) } }))

interface Said {
  written?: number
  rejected?: number
  refused?: { position: number; code?: string; message?: string }[]
  /** It has had them before. */
  duplicate?: boolean
}

function bodyOf({ written = 0, rejected = 0, refused = [], duplicate }: Said): Buffer {
  const writer = new ProtobufWriter()
  writer.int(1, written)
  writer.int(2, rejected)
  for (const { position, code = 'SCHEMA_ERROR', message = 'bad' } of refused) {
    const one = writer.open(3)
    writer.int(1, position)
    writer.string(2, code)
    writer.string(3, message)
    writer.close(one)
  }
  if (duplicate !== undefined) writer.int(4, Number(duplicate))
  const message = writer.take()
  const frame = Buffer.alloc(5 + message.length)
  frame.writeUInt32BE(message.length, 1)
  frame.set(message, 5)
  return frame
}

/** Answers as it is told to: a message, or headers that say what is wrong. */
async function liar(t: Test, answer: () => Said | Record<string, string>) {
  const server = createServer()
  server.on('stream', (stream) => {
    stream.on('error', () => {})
    stream.resume()
    stream.on('end', () => {
      const said = answer()
      const head = { ':status': 200, 'content-type': 'application/grpc' }
      if ('grpc-status' in said) return stream.respond({ ...head, ...said }, { endStream: true })
      stream.respond(head, { waitForTrailers: true })
      stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }))
      stream.end(bodyOf(said))
    })
  })
  await new Promise<void>((go) => server.listen(0, '127.0.0.1', go))
  t.teardown(() => server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function edgeTo(t: Test, url: string) {
  const warned: string[] = []
  const warn = (o: object, m?: string): void => void warned.push(`${m} ${JSON.stringify(o)}`)
  const log = { debug() {}, info() {}, warn, error: warn }
  const environment = { ...realEnvironment, pause: (_: number, signal: AbortSignal) => realEnvironment.pause(1, signal) }
  const edge = edgeOf({ data_dir: temporaryFolder(t), forward: { upstream: [{ name: 'one', url }] } }, { log, environment })
  await edge.open()
  t.teardown(() => edge.close())
  return { edge, warned }
}

const lies: { what: string; said: Said }[] = [
  { what: 'says nothing of any', said: {} },
  { what: 'says nothing of any, nor that it has had them', said: { duplicate: false } },
  { what: 'has taken fewer', said: { written: 9 } },
  { what: 'has taken more', said: { written: 11 } },
  { what: 'refuses more', said: { written: 5, rejected: 6 } },
  { what: 'refuses one that was not sent', said: { written: 9, rejected: 1, refused: [{ position: 10 }] } },
  { what: 'refuses one twice', said: { written: 8, rejected: 2, refused: [{ position: 3 }, { position: 3 }] } },
  { what: 'lists those that it refuses in no order', said: { written: 8, rejected: 2, refused: [{ position: 4 }, { position: 3 }] } },
  { what: 'lists more than it refuses', said: { written: 9, rejected: 1, refused: [{ position: 3 }, { position: 4 }] } },
]
for (const { what, said } of lies) {
  t.test(`an upstream that ${what} is not believed: the points wait`, { timeout: 30_000 }, async (t) => {
    let requests = 0
    const url = await liar(t, () => (++requests < 5 ? said : { written: 10 }))
    const { edge, warned } = await edgeTo(t, url)
    await write(edge, points(10), { namespace: '' })
    await edge.drained()
    t.equal(requests, 5)
    t.match(warned, [/^the upstream takes no points; they wait .*cannot read the answer from http/])
    t.match(edge.connectors()[0].status(), { up: true, points: 10, deadLettered: 0 })
  })
}

t.test('an upstream that has had the points before need not count them', { timeout: 30_000 }, async (t) => {
  let requests = 0
  const url = await liar(t, () => {
    requests++
    return { duplicate: true }
  })
  const { edge } = await edgeTo(t, url)
  await write(edge, points(10), { namespace: '' })
  await edge.drained()
  t.equal(requests, 1)
})

t.test('codes and statuses that nobody knows do not become figures of their own', { timeout: 30_000 }, async (t) => {
  let requests = 0
  const url = await liar(t, () => {
    requests++
    if (requests <= 40) return { 'grpc-status': `${100 + requests}`, 'grpc-message': 'x', 'svc-code': `ODD_${requests}` }
    return { written: 0, rejected: 1, refused: [{ position: 0, code: `ODD_${requests}`, message: 'x'.repeat(500_000) }] }
  })
  const { edge, warned } = await edgeTo(t, url)
  for (const one of points(20)) {
    await write(edge, [one], { namespace: '' })
    await edge.drained()
  }
  const { setAside, waits } = metricsOf(edge)
  const labels = async (counter: unknown) => (await (counter as { get(): Promise<{ values: { labels: object }[] }> }).get()).values.map(({ labels }) => labels)
  t.same(await labels(setAside), [{ upstream: 'one', code: 'unknown' }])
  t.same(await labels(waits), [{ upstream: 'one', reason: 'status_2' }])
  t.ok(
    warned.every((text) => text.length < 4000),
    `texts of ${warned.map(({ length }) => length)} characters were logged`,
  )
})

t.test('of a long text for a namespace that is refused its beginning is kept', { timeout: 30_000 }, async (t) => {
  const url = await liar(t, () => ({ 'grpc-status': '5', 'svc-code': 'NOT_FOUND', 'grpc-message': 'x'.repeat(30_000) }))
  const { edge } = await edgeTo(t, url)
  await write(edge, points(1), { namespace: 'red' })
  while (edge.connectors().length < 2) await new Promise((go) => setTimeout(go, 2))
  const { lastError = '' } = edge.connectors()[1].status()
  t.match(lastError, /^1 namespaces wait, "red" for: one: http.* answers NOT_FOUND: xxx/)
  t.ok(lastError.length < 1500, `${lastError.length} characters`)
})
