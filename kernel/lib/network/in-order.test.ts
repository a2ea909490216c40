/** Requests that a client sends ahead of their answers, over a real connection. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import t from 'tap'
import { definePlugin } from '../../plugin.ts'
import { boot } from '../../testkit/index.ts'

const AHEAD = 500
const LARGE = 4 * 1024 * 1024
/** Requests that are answered before one takes its time. */
const BEFORE = 2000

let added = 0
let underWay = 0
let most = 0
let begun = 0
/** Of the event loop. */
let turn = 0
let slow: (() => void) | undefined
const probe = definePlugin({
  id: 'probe',
  summary: 'Routes for the tests',
  stability: 'experimental',
  setup(svc) {
    svc.http.post('/add', { config: { rawBody: true } }, async (request) => {
      await pause(20)
      return { added: (added += request.body?.length ?? 0) }
    })
    svc.http.get('/added', async () => ({ added }))
    svc.http.get('/work', async () => {
      most = Math.max(most, ++underWay)
      begun++
      await pause(0)
      underWay--
      return {}
    })
    svc.http.get('/large', async (_request, reply) => {
      begun++
      return reply.type('application/octet-stream').send(Buffer.alloc(LARGE))
    })
    svc.http.get('/slow', async () => {
      await new Promise<void>((resolve) => {
        slow = resolve
      })
      return {}
    })
    svc.http.get('/begun', async () => ({ begun }))
    svc.http.post('/refused', { config: { rawBody: true }, onRequest: (_request, reply) => void reply.code(403).send({ turn }) }, async () => ({}))
  },
})

const get = (path: string, headers = '') => `GET ${path} HTTP/1.1\r\nhost: localhost\r\n${headers}\r\n`
const post = (path: string, body: string, headers = '') =>
  `POST ${path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\ncontent-length: ${body.length}\r\n${headers}\r\n${body}`

async function opened(url: string): Promise<Socket> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  socket.on('error', () => {})
  await once(socket, 'connect')
  return socket
}

/** All that is answered until the connection closes. */
async function answers(url: string, requests: string): Promise<string> {
  const socket = await opened(url)
  socket.write(requests)
  let text = ''
  for await (const chunk of socket) text += chunk
  return text
}

t.test('requests sent ahead', async (t) => {
  const node = await boot({ plugins: [probe] })
  t.teardown(() => node.stop())
  const close = 'connection: close\r\n'

  await t.test('begin when the answer before is sent: what reads sees what was written before it', async (t) => {
    const text = await answers(node.url, post('/add', 'ab') + get('/added') + post('/add', 'c', 'expect: 100-continue\r\n') + get('/added', close))
    t.same(
      [...text.matchAll(/\{"added":(\d+)\}/g)].map(([, count]) => Number(count)),
      [2, 2, 3, 3],
    )
    t.match(text, /HTTP\/1\.1 100 Continue/)
  })

  await t.test('are answered all, in order, one at a time', async (t) => {
    const bodies = Array.from({ length: AHEAD }, (_, i) => (i % 2 === 0 ? get('/work') : post('/add', 'x'.repeat(i % 7 === 0 ? 100_000 : 1))))
    const text = await answers(node.url, `${bodies.slice(0, 60).join('')}${get('/work').repeat(AHEAD)}${get('/begun', close)}`)
    t.equal([...text.matchAll(/HTTP\/1\.1 200/g)].length, 60 + AHEAD + 1)
    t.match(text, new RegExp(`\\{"begun":${30 + AHEAD}\\}$`))
    t.equal(most, 1, 'one is under way')
  })

  await t.test('have no end: a connection that had many ahead is answered later, too', async (t) => {
    const socket = await opened(node.url)
    let text = ''
    socket.on('data', (chunk) => {
      text += chunk
    })
    for (let round = 1; round <= 3; round++) {
      socket.write(get('/added').repeat(100))
      while ([...text.matchAll(/HTTP\/1\.1 200/g)].length < round * 100) await once(socket, 'data')
    }
    socket.end(get('/begun', close))
    await once(socket, 'end')
    t.match(text, /\{"begun":\d+\}$/)
  })

  await t.test('have turns of the event loop of their own, those too that are refused by their head', async (t) => {
    let next = setImmediate(count)
    function count(): void {
      turn++
      next = setImmediate(count)
    }
    t.teardown(() => clearImmediate(next))
    const text = await answers(node.url, `${post('/refused', 'x').repeat(AHEAD)}${get('/begun', close)}`)
    const turns = [...text.matchAll(/\{"turn":(\d+)\}/g)].map(([, number]) => Number(number))
    t.equal(turns.length, AHEAD)
    t.equal(new Set(turns).size, AHEAD)
  })

  await t.test('of a client that reads nothing are not begun, and others are answered', async (t) => {
    begun = 0
    const socket = await opened(node.url)
    socket.pause()
    socket.write(get('/large').repeat(AHEAD))
    // As many as the buffers of the connection hold, and one more.
    let known = -1
    for (; known !== begun; await pause(200)) known = begun
    t.ok(begun > 0 && begun < AHEAD / 2, `${begun} of ${AHEAD}`)
    t.equal((await node.inject('/added')).statusCode, 200)
    socket.destroy()
    await pause(200)
    t.ok(begun <= known + 1, 'nor when it has gone')
  })

  await t.test('are not read on while some wait, not even when those before them are answered', async (t) => {
    const part = Buffer.from(get('/added', `x-long: ${'x'.repeat(1000)}\r\n`).repeat(64))
    const parts = 512
    const socket = await opened(node.url)
    socket.resume()
    let sent = 0
    socket.write(get('/added').repeat(BEFORE) + get('/slow'))
    for (let i = 0; i < parts; i++) socket.write(part, () => void sent++)
    let known = -1
    for (; slow === undefined || known !== sent; await pause(200)) known = sent
    t.ok(sent < parts / 2, `${sent} of ${parts} were taken`)
    socket.destroy()
    slow()
    t.equal((await node.inject('/added')).statusCode, 200)
  })
})
