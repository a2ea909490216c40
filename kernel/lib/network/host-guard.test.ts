import { once } from 'node:events'
import { connect as connectHttp2 } from 'node:http2'
import { connect } from 'node:net'
import t from 'tap'
import { definePlugin } from '../../plugin.ts'
import { boot } from '../../testkit/index.ts'
import { echo, pluginOf } from '../grpc/testing.ts'
import { HostGuard, openProblem } from './host-guard.ts'

const probe = definePlugin({
  id: 'probe',
  summary: 'A route',
  stability: 'experimental',
  setup(svc) {
    svc.http.post('/take', { config: { rawBody: true } }, async (request) => ({ namespace: svc.context(request).namespace }))
  },
})

/** Everybody is let in, as whoever the header says. */
const trusting = definePlugin({
  id: 'trusting',
  summary: 'Authenticates',
  stability: 'experimental',
  setup(svc) {
    svc.auth.authenticator((credentials) => ({
      principal: credentials.header('authorization') ?? 'nobody',
      method: 'test',
      claims: {},
      namespaces: [],
      admin: true,
    }))
  },
})

const settings = {
  http_addr: '127.0.0.1:8086',
  public_url: 'https://Metrics.example/svc',
  allowed_hosts: ['tsdb'],
  cors_allowed_origins: ['https://grafana.example'],
}

t.test('names that are answered to', async (t) => {
  const guard = new HostGuard(settings)
  for (const host of [
    '127.0.0.1',
    '127.0.0.1:8086',
    '10.1.2.3:9',
    '[::1]:8086',
    '[2001:db8::1]',
    'localhost',
    'LOCALHOST.:8086',
    'a.localhost',
    'metrics.example',
    'tsdb:8086',
    'TSDB.',
    undefined,
  ])
    t.doesNotThrow(() => guard.check({ host, origin: undefined }), String(host))
  for (const host of [
    'evil.example',
    'evil.example:8086',
    '127.0.0.1.evil.example',
    'localhost.evil.example',
    'tsdb.evil.example',
    'user@localhost',
    '',
    'a b',
    '[::1',
    '1.2.3',
  ])
    t.throws(() => guard.check({ host, origin: undefined }), { code: 'FORBIDDEN', message: /server\.allowed_hosts/ }, host)
  t.doesNotThrow(() => new HostGuard({ ...settings, allowed_hosts: ['*'] }).check({ host: 'evil.example', origin: undefined }))
})

t.test('sites that requests are taken from', async (t) => {
  const guard = new HostGuard(settings)
  const fine: [string, string][] = [
    ['http://localhost:8086', 'localhost:8086'],
    ['http://127.0.0.1', '127.0.0.1:80'],
    ['https://tsdb', 'tsdb:443'],
    ['http://[::1]:8086', '[::1]:8086'],
    ['https://grafana.example', 'tsdb:8086'],
    ['https://metrics.example', 'tsdb:8086'],
  ]
  for (const [origin, host] of fine) t.doesNotThrow(() => guard.check({ host, origin }), origin)
  const foreign: [string, string | undefined][] = [
    ['https://evil.example', 'localhost:8086'],
    ['http://localhost:3000', 'localhost:8086'],
    ['https://localhost', 'localhost:80'],
    ['http://localhost:8086', undefined],
    ['null', 'localhost:8086'],
    ['file://', 'localhost'],
    ['', 'localhost'],
    ['https://grafana.example.evil.example', 'localhost'],
  ]
  for (const [origin, host] of foreign) t.throws(() => guard.check({ host, origin }), { code: 'FORBIDDEN', message: /server\.cors_allowed_origins/ }, origin)
})

t.test('an open node refuses them before any route, and one that asks for credentials does not', async (t) => {
  const open = await boot({ plugins: [probe] })
  t.teardown(() => open.stop())
  const ask = (node: typeof open, url: string, headers: Record<string, string>) =>
    node.inject({ method: 'POST', url, payload: 'cpu v=1', headers: { 'content-type': 'text/plain', ...headers } })
  for (const url of ['/take', '/nothing', '/health']) {
    for (const headers of [{ host: 'evil.example' }, { origin: 'https://evil.example' }] as Record<string, string>[]) {
      const answer = await ask(open, url, headers)
      t.equal(answer.statusCode, 403, `${url} ${JSON.stringify(headers)}`)
      t.match(answer.json(), { code: 'FORBIDDEN', error: /^cannot .*"(https:\/\/)?evil\.example".*server\.\w+$/ })
      t.ok(answer.headers['x-request-id'])
    }
  }
  t.equal((await ask(open, '/take', { origin: 'http://localhost:80' })).statusCode, 200)
  t.equal((await ask(open, '/take', { host: '10.0.0.1:8086' })).statusCode, 200)
  const closed = await boot({ plugins: [probe, trusting] })
  t.teardown(() => closed.stop())
  t.equal((await ask(closed, '/take', { host: 'evil.example', origin: 'https://evil.example' })).statusCode, 200)
})

t.test('an open node listens beyond this machine only where it is told to', async (t) => {
  for (const [address, fine] of [
    ['127.0.0.1:1', true],
    ['127.9.9.9:1', true],
    ['localhost:1', true],
    ['[::1]:1', true],
    ['[::ffff:127.0.0.1]:1', true],
    ['0.0.0.0:1', false],
    [':1', false],
    ['[::]:1', false],
    ['10.0.0.1:1', false],
    ['127.evil.example:1', false],
  ] as const)
    t.equal(openProblem([{ key: 'k', address }]) === undefined, fine, address)
  const server = { http_addr: '0.0.0.0:0' }
  await t.rejects(boot({ plugins: [probe], config: { server } }), {
    code: 'CONFIG_ERROR',
    message: /cannot listen on server\.http_addr "0\.0\.0\.0:0": no selected plugin authenticates.*server\.allow_open = true$/,
  })
  await t.rejects(boot({ plugins: [pluginOf(() => [echo], {})], config: { server, echo: { addr: '0.0.0.0:0' } } }), {
    message: /server\.http_addr "0\.0\.0\.0:0" and echo\.addr "0\.0\.0\.0:0"/,
  })
  const told = await boot({ plugins: [probe], config: { server: { ...server, allow_open: true } } })
  t.equal((await fetch(`${told.url}/health`)).status, 200)
  await told.stop()
  const closed = await boot({ plugins: [probe, trusting], config: { server } })
  await closed.stop()
})

/** Sends a request head as it is. @returns the answer. */
async function raw(url: string, ...lines: string[]): Promise<string> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  socket.end(`POST /take HTTP/1.1\r\nContent-Length: 0\r\nConnection: close\r\n${lines.map((line) => `${line}\r\n`).join('')}\r\n`)
  let answer = ''
  socket.setEncoding('utf8').on('data', (text) => (answer += text))
  await once(socket, 'close')
  return answer
}

t.test('headers that say who calls come once, over HTTP and gRPC', async (t) => {
  const held: { listener?: { port: number } } = {}
  const node = await boot({ plugins: [probe, trusting, pluginOf(() => [echo], held as never)], config: { echo: { addr: '127.0.0.1:0' } } })
  t.teardown(() => node.stop())
  t.match(await raw(node.url, 'Host: localhost', 'Authorization: a', 'X-Namespace: a'), /^HTTP\/1\.1 200/)
  for (const name of ['Authorization', 'X-Namespace', 'X-API-Key', 'Origin', 'Host']) {
    const answer = await raw(node.url, ...(name === 'Host' ? [] : ['Host: localhost']), `${name}: a`, `${name.toLowerCase()}: a`)
    t.match(answer, /^HTTP\/1\.1 400/, name)
    t.match(answer, new RegExp(`cannot read header \\\\"${name.toLowerCase()}\\\\": the request has it more than once`))
  }
  const session = connectHttp2(`http://127.0.0.1:${held.listener?.port}`)
  t.teardown(() => session.close())
  const call = async (headers: Record<string, string | string[]>): Promise<{ status: number; text: string }> => {
    const stream = session.request({ ':method': 'POST', ':path': '/t.S/Echo', 'content-type': 'application/grpc', te: 'trailers', ...headers })
    stream.end(Buffer.alloc(5))
    const seen: Record<string, unknown> = {}
    stream.on('response', (head) => Object.assign(seen, head)).on('trailers', (tail) => Object.assign(seen, tail))
    stream.resume()
    await once(stream, 'close')
    return { status: Number(seen['grpc-status']), text: decodeURIComponent(String(seen['grpc-message'])) }
  }
  t.equal((await call({ 'x-namespace': 'a' })).status, 0)
  for (const name of ['x-namespace', 'x-api-key']) {
    const { status, text } = await call({ [name]: ['a', 'b'] })
    t.equal(status, 3, name)
    t.match(text, `cannot read header "${name}"`)
  }
})

t.test('an open gRPC listener refuses foreign authorities and sites', async (t) => {
  const held: { listener?: { port: number } } = {}
  const node = await boot({ plugins: [pluginOf(() => [echo], held as never)], config: { echo: { addr: '127.0.0.1:0' } } })
  t.teardown(() => node.stop())
  const session = connectHttp2(`http://127.0.0.1:${held.listener?.port}`)
  t.teardown(() => session.close())
  const status = async (headers: Record<string, string>): Promise<number> => {
    const stream = session.request({ ':method': 'POST', ':path': '/t.S/Echo', 'content-type': 'application/grpc', te: 'trailers', ...headers })
    stream.end(Buffer.alloc(5))
    const seen: Record<string, unknown> = {}
    stream.on('response', (head) => Object.assign(seen, head)).on('trailers', (tail) => Object.assign(seen, tail))
    stream.resume()
    await once(stream, 'close')
    return Number(seen['grpc-status'])
  }
  t.equal(await status({}), 0)
  t.equal(await status({ ':authority': 'localhost:1' }), 0)
  t.equal(await status({ ':authority': 'evil.example' }), 7)
  t.equal(await status({ host: 'evil.example' }), 7)
  t.equal(await status({ origin: 'https://evil.example' }), 7)
})
