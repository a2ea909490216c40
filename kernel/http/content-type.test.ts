/** Over raw sockets: clients' libraries would tidy the headers up. */
import { once } from 'node:events'
import { connect as connectHttp2 } from 'node:http2'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { Type } from 'typebox'
import { definePlugin } from '../plugin.ts'
import { boot } from '../testkit/index.ts'

const probe = definePlugin({
  id: 'probe',
  summary: 'Routes for the tests',
  stability: 'experimental',
  setup(svc) {
    svc.http.post('/any', { config: { rawBody: true } }, async (request) => ({
      type: request.headers['content-type'] ?? null,
      text: String(request.body ?? ''),
    }))
    svc.http.post('/json', { schema: { body: Type.Object({ a: Type.Integer() }) } }, async (request) => request.body)
    svc.http.post('/bytes', { config: { rawBody: ['application/json'] } }, async (request) => ({ length: request.body.length }))
    svc.http.post('/bare', async (request) => ({ body: request.body ?? null }))
    svc.http.post('/two', { config: { rawBody: true } }, async () => ({ took: 'all others' }))
    svc.http.route({ method: 'POST', url: '/two', constraints: { mediaType: 'a/b' }, config: { rawBody: true }, handler: async () => ({ took: 'a/b' }) })
  },
})

async function start(t: Test) {
  const node = await boot({ plugins: [probe] })
  t.teardown(() => node.stop())
  return node
}

function exchange(url: string, bytes: string | Buffer): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(Number(new URL(url).port), '127.0.0.1', () => socket.write(bytes))
    const chunks: Buffer[] = []
    socket.on('data', (chunk) => chunks.push(chunk))
    socket.on('end', () => resolve(Buffer.concat(chunks).toString('latin1')))
    socket.on('error', reject)
  })
}

async function post(url: string, path: string, header: string, body = 'x') {
  const length = Buffer.byteLength(body)
  const answer = await exchange(url, `POST ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n${header}Content-Length: ${length}\r\n\r\n${body}`)
  return { status: Number(answer.slice(9, 12)), body: answer.slice(answer.indexOf('\r\n\r\n') + 4) }
}

t.test('an empty Content-Type is as none', async (t) => {
  const { url } = await start(t)
  for (const header of ['', 'Content-Type:\r\n', 'Content-Type: \r\n', 'content-type:\t \r\n']) {
    t.same(await post(url, '/any', header), { status: 200, body: '{"type":null,"text":"x"}' }, JSON.stringify(header))
    t.same(await post(url, '/bare', header, ''), { status: 200, body: '{"body":null}' })
    t.same(await post(url, '/two', header), { status: 200, body: '{"took":"all others"}' })
    for (const path of ['/json', '/bytes']) {
      t.match(await post(url, path, header, '{"a":1}'), { status: 415, body: /Content-Type \\"\\": this endpoint takes application\/json/ })
    }
  }
})

t.test('the Content-Type of no body is not looked at where none is expected', async (t) => {
  const { url } = await start(t)
  for (const type of ['application/json', 'application/x-www-form-urlencoded', 'text/plain', 'a/b']) {
    const header = `Content-Type: ${type}\r\n`
    t.same(await post(url, '/bare', header, ''), { status: 200, body: '{"body":null}' }, type)
    const none = await exchange(url, `POST /bare HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n${header}\r\n`)
    t.match(none, /^HTTP\/1\.1 200 .*\{"body":null\}$/s, type)
  }
  t.match(await post(url, '/json', 'Content-Type: application/json\r\n', ''), { status: 400, body: /empty/ })
  t.match(await post(url, '/bare', 'Content-Type: a/b\r\n', 'x'), { status: 415 })
})

t.test('a Content-Type that is no media type is left to whoever reads the body', async (t) => {
  const { url } = await start(t)
  for (const type of ['text', 'undefined', '/', 'text/', 'text plain', 'a/b c', '"text/plain"', 'text/plain, text/plain', '\x80/\x81', 'multipart']) {
    const header = `Content-Type: ${type}\r\n`
    t.match(await post(url, '/any', header), { status: 200, body: /"text":"x"/ }, type)
    t.match(await post(url, '/two', header), { status: 200, body: /all others/ }, type)
    for (const path of ['/json', '/bytes']) {
      const { status, body } = await post(url, path, header, '{"a":1}')
      t.equal(status, 415, type)
      t.match(JSON.parse(Buffer.from(body, 'latin1').toString()), {
        code: 'UNSUPPORTED_MEDIA_TYPE',
        error: /^cannot read a body of Content-Type ".+": this endpoint takes application\/json$/,
      })
    }
  }
})

t.test('a byte order mark before JSON is skipped', async (t) => {
  const { url } = await start(t)
  const type = 'Content-Type: application/json\r\n'
  t.same(await post(url, '/json', type, '\ufeff{"a":1}'), { status: 200, body: '{"a":1}' })
  t.same(await post(url, '/bytes', type, '\ufeff{"a":1}'), { status: 200, body: '{"length":7}' })
})

t.test('HTTP/2 without asking is refused with a reason, asking for it is answered in HTTP/1.1', async (t) => {
  const { url } = await start(t)
  const session = connectHttp2(url)
  session.on('error', () => {})
  const goaway = new Promise<[number, number, string]>((resolve) => {
    session.on('goaway', (code, last, data) => resolve([code, last, String(data)]))
  })
  const request = session.request({ ':method': 'POST', ':path': '/svc.Service/Query', 'content-type': 'application/grpc' })
  request.on('error', () => {}).end('question')
  const [answered] = await once(request, 'response')
  t.match(answered, { ':status': 505, 'grpc-status': '12', 'grpc-message': /this port answers HTTP\/1\.1 only.*grpc\.addr/ })
  t.equal(await text(request), '', 'gRPC reads the status only where nothing follows')
  const [code, last, reason] = await goaway
  t.equal(code, 0x0d, 'HTTP_1_1_REQUIRED')
  t.equal(last, 1, 'the request is answered: who was told that it was not looked at sends it again, for ever')
  t.match(reason, /this port answers HTTP\/1\.1 only.*grpc\.addr/)
  const upgrade = 'Connection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n'
  t.match(await exchange(url, `GET /health HTTP/1.1\r\nHost: localhost\r\n${upgrade}\r\n`), /^HTTP\/1\.1 200 OK/)
})

t.test('HTTP/2 without asking may arrive byte by byte', async (t) => {
  const { url } = await start(t)
  const socket = connect(Number(new URL(url).port), '127.0.0.1').setNoDelay(true)
  const got: Buffer[] = []
  socket.on('data', (chunk) => got.push(chunk))
  const settings = Buffer.from('000006040000000000000300000064', 'hex')
  const request = Buffer.from('0000010105000000038f', 'hex')
  for (const byte of Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), settings, request])) {
    socket.write(Buffer.from([byte]))
    await new Promise((resolve) => setImmediate(resolve))
  }
  await once(socket, 'end')
  const frames = Buffer.concat(got)
  t.equal(frames.subarray(0, 9).toString('hex'), '000000040000000000', 'settings first')
  t.equal(frames.readUInt32BE(14), 3, 'the stream of the request is answered')
  t.match(frames.toString('latin1'), /grpc-message.+this port answers HTTP/)
})

t.test('HTTP/2 without asking is answered once, whatever comes with the request or behind it', async (t) => {
  const { url } = await start(t)
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  // A frame of a type that nobody knows, longer than a byte says, which holds what looks like a request; and two requests.
  const unknown = Buffer.concat([Buffer.from('00012cee0000000000', 'hex'), Buffer.alloc(300, Buffer.from('0000010105000000098f', 'hex'))])
  const requests = Buffer.from('0000010105000000038f' + '0000010105000000058f', 'hex')
  socket.write(Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), unknown, requests]))
  const got: Buffer[] = []
  socket.on('data', (chunk) => got.push(chunk))
  await once(socket, 'end')
  const all = Buffer.concat(got)
  const frames: [number, number][] = []
  for (let at = 0; at < all.length; at += 9 + all.readUIntBE(at, 3)) frames.push([all[at + 3], all.readUInt32BE(at + 5)])
  t.same(
    frames,
    [
      [4, 0],
      [1, 3],
      [7, 0],
    ],
    'settings, the answer of the first request, goodbye',
  )
})

t.test('HTTP/2 without asking that never comes to a request is not waited for', async (t) => {
  const { url } = await start(t)
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  const { setTimeout } = globalThis
  const waits: (() => void)[] = []
  t.teardown(() => {
    globalThis.setTimeout = setTimeout
  })
  globalThis.setTimeout = ((callback: () => void, ms: number) => {
    if (ms !== 10_000) return setTimeout(callback, ms)
    waits.push(callback)
    return undefined
  }) as typeof setTimeout
  socket.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
  await once(socket, 'data')
  t.equal(waits.length, 1)
  waits[0]()
  await once(socket, 'close')
})

t.test('GET / answers a page that loads nothing, HEAD too', async (t) => {
  const node = await start(t)
  const page = await node.inject('/')
  t.equal(page.statusCode, 200)
  t.match(page.headers, { 'content-type': 'text/html; charset=utf-8', 'content-security-policy': /default-src 'none'/ })
  t.match(page.body, /time-series database/)
  t.notMatch(page.body, /https?:|<script|<style|<img|<link/)
  const head = await node.inject({ method: 'HEAD', url: '/' })
  t.equal(head.statusCode, 200)
  t.equal(head.body, '')
})
