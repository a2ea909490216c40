import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { get } from 'node:http'
import { Readable } from 'node:stream'
import { gunzipSync, zstdDecompressSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { definePlugin } from '../plugin.ts'
import { type BootOptions, boot } from '../testkit/index.ts'
import { codingOf } from './compression.ts'

const long = JSON.stringify(Array.from({ length: 500 }, (_, i) => ({ i })))

function probeOf(stream: () => Readable) {
  return definePlugin({
    id: 'probe',
    summary: 'Routes for the tests',
    stability: 'experimental',
    setup(svc) {
      svc.http.get('/text', async (_request, reply) => reply.type('text/plain').send(long))
      svc.http.get('/object', async () => JSON.parse(long))
      svc.http.get('/bytes', async (_request, reply) => reply.type('application/json').send(Buffer.from(long)))
      svc.http.get('/tiny', async () => ({ a: 1 }))
      svc.http.get('/binary', async (_request, reply) => reply.type('application/vnd.apache.parquet').send(Buffer.from(long)))
      svc.http.get('/encoded', async (_request, reply) => reply.type('text/plain').header('content-encoding', 'identity').send(long))
      svc.http.get('/empty', async (_request, reply) => reply.code(204).send())
      svc.http.get('/varies', async (_request, reply) => reply.type('text/plain').header('vary', 'Origin').send(long))
      svc.http.get('/stream', async (_request, reply) => reply.type('application/json').send(stream()))
    },
  })
}

async function start(t: Test, options: BootOptions = {}, stream = () => Readable.from([long.slice(0, 100), long.slice(100)], { objectMode: false })) {
  const node = await boot({ plugins: [probeOf(stream)], ...options })
  t.teardown(() => node.stop())
  const ask = (url: string, accept?: string) => node.inject({ url, headers: accept === undefined ? {} : { 'accept-encoding': accept } })
  return { node, ask }
}

t.test('answers of text and JSON are compressed for clients that accept it', async (t) => {
  const { ask } = await start(t)
  for (const url of ['/text', '/object', '/bytes', '/stream']) {
    const zipped = await ask(url, 'gzip')
    t.match(zipped.headers, { 'content-encoding': 'gzip', vary: 'Accept-Encoding' }, url)
    t.equal(gunzipSync(zipped.rawPayload).toString(), long)
    if (url !== '/stream') t.equal(Number(zipped.headers['content-length']), zipped.rawPayload.length)
    const zstd = await ask(url, 'gzip, deflate, br, zstd')
    t.equal(zstd.headers['content-encoding'], 'zstd', url)
    t.equal(zstdDecompressSync(zstd.rawPayload).toString(), long)
    const plain = await ask(url)
    t.notOk(plain.headers['content-encoding'])
    t.equal(plain.headers.vary, 'Accept-Encoding', 'a cache must know that there is another answer')
    t.equal(plain.body, long)
    t.notOk((await ask(url, 'gzip;q=0, br')).headers['content-encoding'])
  }
  t.equal((await ask('/varies', 'gzip')).headers.vary, 'Origin, Accept-Encoding')
})

t.test('what is tiny, empty, binary or encoded already is left as it is', async (t) => {
  const { ask } = await start(t)
  for (const url of ['/tiny', '/binary', '/encoded', '/empty']) {
    const { headers } = await ask(url, 'gzip, zstd')
    t.notMatch(headers['content-encoding'] ?? '', /gzip|zstd/, url)
    t.notOk(headers.vary, url)
  }
})

t.test('/metrics and errors go the same way; 0 turns it off', async (t) => {
  const { ask } = await start(t)
  const { headers, rawPayload } = await ask('/metrics', 'gzip')
  t.equal(headers['content-encoding'], 'gzip')
  t.match(gunzipSync(rawPayload).toString(), /svc_/)
  const off = await start(t, { config: { server: { compression_min_bytes: 0 } } })
  t.notOk((await off.ask('/metrics', 'gzip')).headers['content-encoding'])
  const all = await start(t, { config: { server: { compression_min_bytes: 1 } } })
  t.equal((await all.ask('/tiny', 'gzip')).headers['content-encoding'], 'gzip')
})

t.test('HEAD says the length of the plain answer', async (t) => {
  const { node } = await start(t)
  const head = await node.inject({ method: 'HEAD', url: '/text', headers: { 'accept-encoding': 'gzip' } })
  t.equal(head.headers['content-length'], String(long.length))
  t.notOk(head.headers['content-encoding'])
})

t.test('a client that goes away ends the source of a streamed answer', async (t) => {
  const source = new Readable({ read: () => void source.push(`${Math.random()}`.repeat(1000)) })
  const { node } = await start(t, {}, () => source)
  const request = get(`${node.url}/stream`, { headers: { 'accept-encoding': 'gzip' } })
  request.on('error', () => {})
  const [response] = await once(request, 'response')
  response.on('error', () => {})
  await once(response, 'data')
  const closed = once(source, 'close').catch(() => {})
  request.destroy()
  await closed
  t.ok(source.destroyed)
})

t.test('a source that fails midway cuts the answer', async (t) => {
  let begun = () => {}
  const beginning = new Promise<void>((resolve) => {
    begun = resolve
  })
  const failing = async function* () {
    for (let i = 0; i < 100; i++) yield randomBytes(10_000)
    await beginning
    throw new Error('the disk is gone')
  }
  const { node } = await start(t, {}, () => Readable.from(failing()))
  const cut = await new Promise<string | undefined>((resolve) => {
    const request = get(`${node.url}/stream`, { headers: { 'accept-encoding': 'gzip' } }, (response) => {
      response.on('error', (error) => resolve((error as NodeJS.ErrnoException).code))
      response.on('end', () => resolve(undefined))
      response.once('data', begun)
    })
    request.on('error', (error) => resolve((error as NodeJS.ErrnoException).code))
  })
  t.equal(cut, 'ECONNRESET')
})

t.test('Accept-Encoding is weighed', async (t) => {
  const cases: [string | undefined, string | undefined][] = [
    [undefined, undefined],
    ['', undefined],
    ['gzip', 'gzip'],
    ['GZIP', 'gzip'],
    ['x-gzip', 'gzip'],
    ['identity', undefined],
    ['br, deflate', undefined],
    ['gzip, zstd', 'zstd'],
    ['gzip;q=1, zstd;q=0.5', 'gzip'],
    ['gzip;q=0.1', 'gzip'],
    ['gzip; q=0', undefined],
    ['gzip;q=0.000', undefined],
    ['*', 'zstd'],
    ['*;q=0', undefined],
    ['zstd;q=0, *', 'gzip'],
    ['gzip;q=x', undefined],
  ]
  for (const [header, coding] of cases) t.equal(codingOf(header), coding, String(header))
})
