/** What bodies hold, through a server: by its own figure. */
import { once } from 'node:events'
import { Agent, request as httpRequest } from 'node:http'
import { connect, type Socket } from 'node:net'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { holdBody } from '../index.ts'
import { definePlugin } from '../plugin.ts'
import { boot, type TestNode } from '../testkit/index.ts'

const MIB = 1_048_576

/** A node with a route whose handler waits to be let go. */
async function start(t: Test, server: Record<string, unknown> = {}) {
  const waiting: (() => void)[] = []
  let called = 0
  const plugin = definePlugin({
    id: 'slow',
    summary: 'Routes for the tests',
    stability: 'experimental',
    setup(svc) {
      const options = { config: { rawBody: true as const }, bodyLimit: svc.server.max_body_size }
      const wait = () => new Promise<void>((resolve) => waiting.push(resolve))
      svc.http.post('/slow', options, async (request) => {
        called++
        await wait()
        return { length: request.body.length }
      })
      svc.http.post('/quick', options, async (request) => ({ length: request.body?.length }))
      svc.http.post('/held', { ...options, config: { rawBody: true, encodedBody: true } }, async (request) => {
        called++
        holdBody(request, Number(request.headers['x-bytes']))
        await wait()
        return {}
      })
    },
  })
  const node = await boot({ plugins: [plugin], config: { server: { max_body_size: MIB, max_body_memory: 2 * MIB, multi_tenancy: true, ...server } } })
  const agent = new Agent({ keepAlive: true })
  t.teardown(async () => {
    agent.destroy()
    for (const go of waiting) go()
    await node.stop()
  })
  const send = (path: string, body: Buffer, headers: Record<string, string | number> = {}) =>
    new Promise<{ status: number; headers: Record<string, unknown>; body: { code?: string; error?: string; length?: number } }>((resolve, reject) => {
      const sent = httpRequest(`${node.url}${path}`, { method: 'POST', agent, headers: { 'content-length': body.length, ...headers } }, async (answer) => {
        const text = (await answer.toArray()).join('')
        resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body: text === '' ? {} : JSON.parse(text) })
      })
      sent.on('error', reject)
      sent.end(body)
    })
  const release = () => {
    for (const go of waiting.splice(0)) go()
  }
  return { node, send, release, waiting, called: () => called }
}

async function held(node: TestNode): Promise<number> {
  const { body } = await node.inject('/metrics')
  return Number(/^svc_http_body_bytes (\d+)$/m.exec(body)?.[1])
}

async function until(what: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await what())) await new Promise((resolve) => setImmediate(resolve))
}

async function open(t: Test, node: TestNode): Promise<Socket> {
  const { hostname, port } = new URL(node.url)
  const socket = connect(Number(port), hostname)
  socket.on('error', () => {})
  t.teardown(() => socket.destroy())
  await once(socket, 'connect')
  return socket
}

const head = (path: string, length: number, further = '') => `POST ${path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: ${length}\r\n${further}\r\n`

t.test('bodies that wait for their handlers are bounded, decompressed ones too, and counted back', async (t) => {
  const { node, send, release, waiting } = await start(t)
  const bomb = gzipSync(Buffer.alloc(MIB))
  t.ok(bomb.length < 8192)
  const bombs = Array.from({ length: 10 }, () => send('/slow', bomb, { 'content-encoding': 'gzip' }))
  const refused = await Promise.race(bombs)
  t.equal(refused.status, 503)
  t.equal(refused.headers['retry-after'], '1')
  t.match(refused.body, { code: 'BACKPRESSURE', error: /server\.max_body_memory/ })
  await until(() => waiting.length === 2)
  t.equal((await send('/quick', Buffer.alloc(MIB))).status, 503, 'a body as sent')
  t.equal((await send('/quick', Buffer.alloc(8191))).status, 200, 'a small one is not counted')
  t.equal(await held(node), 2 * MIB)
  release()
  const statuses = (await Promise.all(bombs)).map(({ status }) => status)
  t.same(statuses.filter((status) => status === 200).length, 2)
  await until(async () => (await held(node)) === 0)
  t.match(await send('/quick', Buffer.alloc(MIB)), { status: 200, body: { length: MIB } })
})

t.test('chunked bodies grow as they come, with and without their length', async (t) => {
  const { node } = await start(t)
  const socket = await open(t, node)
  socket.write('POST /quick HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n')
  const text = Buffer.alloc(200_000, 'abcdefg')
  for (let at = 0; at < text.length; at += 1000) socket.write(`3e8\r\n${text.subarray(at, at + 1000)}\r\n`)
  await until(async () => (await held(node)) === text.length)
  socket.write('0\r\n\r\n')
  const [answer] = await once(socket, 'data')
  t.match(String(answer), /"length":200000/)
  await until(async () => (await held(node)) === 0)
})

t.test('connections that announce and do not send have nothing; uploads that are cut give back', async (t) => {
  const { node, send } = await start(t)
  const sockets = await Promise.all(Array.from({ length: 8 }, () => open(t, node)))
  for (const socket of sockets) socket.write(head('/slow', MIB))
  for (const socket of sockets.slice(0, 3)) socket.write(Buffer.alloc(300_000))
  await until(async () => (await held(node)) === 900_000)
  t.equal((await send('/quick', Buffer.alloc(MIB))).status, 200)
  for (const socket of sockets) socket.destroy()
  await until(async () => (await held(node)) === 0)
})

t.test('an upload that is refused on its way gives back what it had, and is answered when it was sent', async (t) => {
  const { node, send, waiting, release } = await start(t)
  const first = send('/slow', Buffer.alloc(MIB))
  await until(() => waiting.length === 1)
  const [half, whole] = [await open(t, node), await open(t, node)]
  half.write(head('/slow', MIB))
  half.write(Buffer.alloc(MIB / 2))
  await until(async () => (await held(node)) === 1.5 * MIB)
  whole.write(head('/quick', MIB))
  whole.write(Buffer.alloc(MIB / 4))
  await until(async () => (await held(node)) === 1.75 * MIB)
  whole.write(Buffer.alloc(MIB / 2))
  await until(async () => (await held(node)) === 1.5 * MIB)
  t.equal((await send('/quick', Buffer.alloc(MIB / 4))).status, 200, 'what it had is free')
  whole.write(Buffer.alloc(MIB / 4))
  t.match(String((await once(whole, 'data'))[0]), /^HTTP\/1\.1 503 /)
  half.destroy()
  release()
  t.equal((await first).status, 200)
  await until(async () => (await held(node)) === 0)
})

t.test('a body whose client has gone counts until its handler has ended', async (t) => {
  const { node, waiting, release } = await start(t)
  const socket = await open(t, node)
  socket.write(head('/slow', MIB))
  socket.write(Buffer.alloc(MIB))
  await until(() => waiting.length === 1)
  const closed = new Promise((resolve) => node.app.server.getConnections(resolve))
  socket.destroy()
  await closed
  await until(() => new Promise((resolve) => node.app.server.getConnections((_error, count) => resolve(count === 0))))
  t.equal(await held(node), MIB)
  release()
  await until(async () => (await held(node)) === 0)
})

t.test('a namespace that has all does not keep another out', async (t) => {
  const { node, send, release, waiting } = await start(t)
  const from = (namespace: string) => ({ 'x-namespace': namespace })
  const bodies = [1, 2].map(() => send('/slow', Buffer.alloc(MIB), from('greedy')))
  await until(() => waiting.length === 2)
  t.equal((await send('/quick', Buffer.alloc(MIB), from('greedy'))).status, 503)
  t.equal((await send('/quick', Buffer.alloc(MIB), from('modest'))).status, 200)
  release()
  await Promise.all(bodies)
  await until(async () => (await held(node)) === 0)
})

t.test('requests sent ahead of answers are read when these are sent, and have their bodies until their own are, or the connection closes', async (t) => {
  for (const closes of [true, false]) {
    const { node, release, called } = await start(t)
    const socket = await open(t, node)
    let text = ''
    socket.on('data', (chunk) => (text += chunk))
    for (let i = 0; i < 4; i++) {
      socket.write(head('/slow', 100_000))
      socket.write(Buffer.alloc(100_000))
    }
    await until(async () => (await held(node)) === 100_000)
    t.equal(called(), 1)
    if (closes) socket.destroy()
    for (let i = 1; i < 4 && !closes; i++) {
      release()
      await until(async () => called() === i + 1 && (await held(node)) === 100_000)
    }
    release()
    if (!closes) await until(() => text.split('200 OK').length === 5)
    await until(async () => (await held(node)) === 0)
    t.equal(called(), closes ? 1 : 4)
  }
})

t.test('keep-alive connections leak nothing, whatever their requests come to', async (t) => {
  const { node, send } = await start(t)
  const gzip = { 'content-encoding': 'gzip' }
  const all = Array.from({ length: 60 }, (_, i) => {
    const body = Buffer.alloc(20_000 + i * 1000)
    if (i % 4 === 0) return send('/quick', body)
    if (i % 4 === 1) return send('/quick', body, gzip)
    if (i % 4 === 2) return send('/quick', gzipSync(body), gzip)
    return send('/quick', gzipSync(Buffer.alloc(2 * MIB)), gzip)
  })
  const statuses = new Set((await Promise.all(all)).map(({ status }) => status))
  t.ok(statuses.has(200) && statuses.has(400) && statuses.has(413), [...statuses].join())
  await until(async () => (await held(node)) === 0)
})

t.test('routes that decode bodies by themselves have what they make counted', async (t) => {
  const { node, send, release, waiting } = await start(t)
  const first = send('/held', Buffer.alloc(10), { 'x-bytes': MIB })
  const second = send('/held', Buffer.alloc(10_000), { 'x-bytes': 100_000 })
  const small = send('/held', Buffer.alloc(10), { 'x-bytes': 100 })
  await until(() => waiting.length === 3)
  t.equal(await held(node), MIB + 110_000)
  t.equal((await send('/held', Buffer.alloc(10), { 'x-bytes': MIB })).status, 503)
  release()
  t.same(
    (await Promise.all([first, second, small])).map(({ status }) => status),
    [200, 200, 200],
  )
  await until(async () => (await held(node)) === 0)
})
