import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import t from 'tap'
import { Type } from 'typebox'
import { SvcError } from '../lib/errors/index.ts'
import { definePlugin } from '../plugin.ts'
import { boot } from '../testkit/index.ts'

const probe = definePlugin({
  id: 'probe',
  summary: 'Routes for the tests',
  stability: 'experimental',
  setup(svc) {
    const body = Type.Object({ a: Type.Integer() }, { additionalProperties: false })
    svc.http.post('/json', { schema: { body } }, async (request) => ({ a: request.body.a }))
    svc.http.get('/query/:name', { schema: { querystring: Type.Object({ n: Type.Integer({ default: 7 }) }) } }, async (request) => ({
      n: request.query.n,
      name: request.params.name,
    }))
    const choice = Type.Object({ format: Type.Optional(Type.Union([Type.Literal('json'), Type.Literal('csv')])), one: Type.Optional(Type.Literal('a')) })
    svc.http.get('/numbered/:id', { schema: { params: Type.Object({ id: Type.Integer() }) } }, async (request) => ({ id: request.params.id }))
    svc.http.get('/choice', { schema: { querystring: choice } }, async () => ({}))
    const shaped = Type.Object(
      {
        query: Type.String(),
        state: Type.Optional(Type.Enum(['up', 'down'])),
        horizon: Type.Optional(Type.Integer({ description: 'Steps ahead' })),
        start: Type.Optional(Type.String({ pattern: '^[0-9]+$', description: 'Nanoseconds since the Unix epoch' })),
      },
      { additionalProperties: false },
    )
    svc.http.post('/shaped', { schema: { body: shaped } }, async () => ({}))
    svc.http.post('/raw', { config: { rawBody: true } }, async (request) => ({ text: request.body?.toString() ?? null }))
    svc.http.post('/encoded', { config: { rawBody: true, encodedBody: true } }, async (request) => ({ text: request.body.toString() }))
    svc.http.post('/raw-csv', { config: { rawBody: ['text/csv'] } }, async (request) => ({ length: request.body.length }))
    svc.http.get('/boom', async () => {
      throw new Error('the password is hunter2')
    })
    svc.http.get('/broken', async () => {
      throw new SvcError('IO_ERROR', 'cannot read "x": it failed; see whether the disk is sound', { cause: new Error('EIO: it failed') })
    })
    svc.http.get('/fails/:code', async (request) => {
      throw new SvcError(request.params.code, 'told to', { detail: { written: 1 } })
    })
  },
})

const json = { 'content-type': 'application/json' }
const shaped = (body: object) => ({ method: 'POST' as const, url: '/shaped', payload: JSON.stringify(body), headers: json })

t.test('a text of a URL is an integer if it is written as one', async (t) => {
  const node = await boot({ plugins: [probe] })
  t.teardown(() => node.stop())
  for (const [text, n] of Object.entries({ 7: 7, '-1': -1, '007': 7, 0: 0 })) {
    t.same((await node.inject(`/query/x?n=${text}`)).json(), { n, name: 'x' }, text)
    t.same((await node.inject(`/numbered/${text}`)).json(), { id: n }, text)
  }
  for (const text of ['', '1.5', 'true', '0x10', '1e1', '%201', '1n', '--1', '99999999999999999999'.repeat(20)])
    t.match((await node.inject(`/query/x?n=${text}`)).json(), { code: 'BAD_REQUEST', error: 'querystring.n must be integer' }, text)
  for (const text of ['1.5', 'true', '0x10'])
    t.match((await node.inject(`/numbered/${text}`)).json(), { code: 'BAD_REQUEST', error: 'params.id must be integer' })
})

t.test('every failure has the envelope', async (t) => {
  const node = await boot({ plugins: [probe], config: { server: { max_body_size: 1024 } } })
  t.teardown(() => node.stop())
  const cases: [string, Parameters<typeof node.inject>[0], number, string, RegExp][] = [
    ['unknown path', { url: '/nope' }, 404, 'NOT_FOUND', /cannot find "\/nope"/],
    ['unknown path with a body of any type', { method: 'POST', url: '/nope', payload: 'x', headers: { 'content-type': 'a/b' } }, 404, 'NOT_FOUND', /./],
    ['none of a choice', { url: '/choice?format=arrow' }, 400, 'BAD_REQUEST', /^querystring\.format must be "json" or "csv"$/],
    ['not the one', { url: '/choice?one=b' }, 400, 'BAD_REQUEST', /^querystring\.one must be "a"$/],
    ['none of an enum', shaped({ query: 'q', state: 'u' }), 422, 'INVALID_BODY', /^body\.state must be "up" or "down"$/],
    ['another form', shaped({ query: 'q', start: '2026-01-31' }), 422, 'INVALID_BODY', /^body\.start must match .*; Nanoseconds since the Unix epoch$/],
    ['another type', shaped({ query: 'q', horizon: '24' }), 422, 'INVALID_BODY', /^body\.horizon must be integer; Steps ahead$/],
    ['missing member', shaped({}), 422, 'INVALID_BODY', /^body must have "query"$/],
    ['misnamed member', shaped({ sql: 'q' }), 422, 'INVALID_BODY', /^body must have "query"; "sql" is not a known member$/],
    ['misnamed, with a slash', shaped({ 'a/~b': 'q' }), 422, 'INVALID_BODY', /; "a\/~b" is not a known member$/],
    ['misnamed, and long', shaped({ ['x'.repeat(500)]: 'q' }), 422, 'INVALID_BODY', /; "x{100}\.\.\." is not a known member$/],
    ['wrong method', { method: 'PUT', url: '/json' }, 405, 'METHOD_NOT_ALLOWED', /cannot PUT "\/json": the path answers to POST/],
    ['wrong method of a path with a parameter', { method: 'DELETE', url: '/query/x' }, 405, 'METHOD_NOT_ALLOWED', /GET, HEAD/],
    ['no content type', { method: 'POST', url: '/json' }, 415, 'UNSUPPORTED_MEDIA_TYPE', /application\/json/],
    [
      'wrong content type',
      { method: 'POST', url: '/json', payload: '{"a":1}', headers: { 'content-type': 'text/plain' } },
      415,
      'UNSUPPORTED_MEDIA_TYPE',
      /"text\/plain"/,
    ],
    ['wrong type for raw bytes', { method: 'POST', url: '/raw-csv', payload: 'a', headers: json }, 415, 'UNSUPPORTED_MEDIA_TYPE', /text\/csv/],
    [
      'unknown encoding',
      { method: 'POST', url: '/raw', payload: 'a', headers: { 'content-encoding': 'rot13' } },
      415,
      'UNSUPPORTED_MEDIA_TYPE',
      /"rot13".*gzip/,
    ],
    [
      'bad gzip',
      { method: 'POST', url: '/raw', payload: 'a', headers: { 'content-encoding': 'gzip' } },
      400,
      'BAD_REQUEST',
      /cannot decompress the body as gzip/,
    ],
    ['bad JSON', { method: 'POST', url: '/json', payload: '{"a":1,}', headers: json }, 400, 'BAD_REQUEST', /not valid JSON: Expected .* at position 7/],
    [
      'secret in bad JSON',
      { method: 'POST', url: '/json', payload: '{"a": s3cret}', headers: json },
      400,
      'BAD_REQUEST',
      /^cannot read the body: it is not valid JSON: Unexpected token 's'$/,
    ],
    ['empty JSON', { method: 'POST', url: '/json', payload: '', headers: json }, 400, 'BAD_REQUEST', /empty/],
    [
      'prototype poisoning',
      { method: 'POST', url: '/json', payload: '{"__proto__":{"x":1},"a":1}', headers: json },
      400,
      'BAD_REQUEST',
      /^cannot read the body: a member is called "__proto__", /,
    ],
    [
      'poisoning of a constructor',
      { method: 'POST', url: '/json', payload: '{"constructor":{"prototype":{"x":1}}}', headers: json },
      400,
      'BAD_REQUEST',
      /"constructor" with a member "prototype"; give it another name$/,
    ],
    ['wrong shape', { method: 'POST', url: '/json', payload: '{"a":"1"}', headers: json }, 422, 'INVALID_BODY', /^body.a must be integer$/],
    ['JSON null', { method: 'POST', url: '/json', payload: 'null', headers: json }, 422, 'INVALID_BODY', /^body must be object$/],
    ['unknown member', { method: 'POST', url: '/json', payload: '{"a":1,"b":2}', headers: json }, 422, 'INVALID_BODY', /^body.b is not a known member$/],
    ['bad query parameter', { url: '/query/x?n=abc' }, 400, 'BAD_REQUEST', /^querystring.n must be integer$/],
    ['too large', { method: 'POST', url: '/raw', payload: 'x'.repeat(1025) }, 413, 'PAYLOAD_TOO_LARGE', /server.max_body_size/],
    [
      'too large once decompressed',
      { method: 'POST', url: '/raw', payload: gzipSync('x'.repeat(5000)), headers: { 'content-encoding': 'gzip' } },
      413,
      'PAYLOAD_TOO_LARGE',
      /./,
    ],
    ['unknown path', { url: '/api/v1/nope' }, 404, 'NOT_FOUND', /no such path, page not found; GET \/api\/v1\/openapi.json lists them$/],
    ['path that ends like another', { url: '/api/v1/x/openapi.json' }, 404, 'NOT_FOUND', /lists them; did you mean "\/api\/v1\/openapi\.json"\?$/],
    [
      'path of a plugin that does not run',
      { url: '/api/v1/triggers/x?y' },
      404,
      'NOT_FOUND',
      /lists them; plugin "triggers" does not run here: put it into plugins, /,
    ],
    ...['/write?db=x', '/api/v1/signals', '/api/v1/query', '/api/v1/admin/agents/runs/a'].map((url, i): (typeof cases)[number] => [
      `path of a plugin that does not run and that it is not called after: ${url}`,
      { url },
      404,
      'NOT_FOUND',
      new RegExp(`lists them; plugin "${['line_protocol', 'triggers', 'promql', 'agent_plane'][i]}" does not run here: put it into plugins, `),
    ]),
    ['own fault', { url: '/boom' }, 500, 'INTERNAL_ERROR', /^INTERNAL_ERROR: an internal error occurred$/],
    ['bad path encoding', { url: '/%zz?token=hunter2' }, 400, 'BAD_REQUEST', /^cannot decode the path: (?!.*hunter2)/],
    ['long path parameter', { url: `/query/${'hunter2'.repeat(1000)}?token=hunter2` }, 400, 'BAD_REQUEST', /^cannot find the path: (?!.*hunter2)/],
  ]
  for (const [name, request, status, code, text] of cases) {
    const answer = await node.inject(request)
    t.equal(answer.statusCode, status, `${name}: status`)
    t.match(answer.json(), { code, error: text }, `${name}: body`)
    t.match(answer.headers['content-type'], 'application/json', `${name}: type`)
  }
  const wrongMethod = await node.inject({ method: 'PUT', url: '/json' })
  t.equal(wrongMethod.headers.allow, 'POST')
})

t.test('errors carry their status, Retry-After and detail', async (t) => {
  const node = await boot({ plugins: [probe] })
  t.teardown(() => node.stop())
  const full = await node.inject('/fails/STORAGE_FULL')
  t.equal(full.statusCode, 507)
  t.equal(full.headers['retry-after'], '5')
  t.same(full.json(), { error: 'told to', code: 'STORAGE_FULL', written: 1 })
  const refused = await node.inject('/fails/UNAUTHORIZED')
  t.equal(refused.headers['www-authenticate'], 'Bearer')
  t.equal((await node.inject('/fails/PARTIAL_WRITE')).headers['retry-after'], undefined)
})

t.test('the log has what a redacted answer leaves out', async (t) => {
  const lines: string[] = []
  const node = await boot({ plugins: [probe], log: (line) => lines.push(line) })
  t.teardown(() => node.stop())
  const answer = await node.inject({ url: '/boom', headers: { 'x-request-id': 'abc-1' } })
  t.notMatch(answer.body, 'hunter2')
  t.same((await node.inject('/broken')).json(), { error: 'IO_ERROR: an internal error occurred', code: 'IO_ERROR' })
  const [boom, broken] = lines.map((l) => JSON.parse(l)).filter((l) => l.msg === 'request failed')
  t.match(boom, {
    request_id: 'abc-1',
    path: '/boom',
    err: { message: /^the password is hunter2$/, stack: /^Error: the password is hunter2\n(?!.*caused by)/s },
  })
  const text = /^SvcError: cannot read "x": it failed; see whether the disk is sound\n.*\ncaused by: Error: EIO: it failed\n/s
  t.match(broken, { path: '/broken', err: { stack: text } }, 'what to do, and what has caused it')
})

t.test('bodies: JSON, raw bytes, encodings, conversion of query text', async (t) => {
  const node = await boot({ plugins: [probe] })
  t.teardown(() => node.stop())
  const post = async (url: string, payload: string | Buffer, headers: Record<string, string> = {}) =>
    (await node.inject({ method: 'POST', url, payload, headers })).json()
  t.same(await post('/json', '{"a":1}', { 'content-type': 'application/json; charset=utf-8' }), { a: 1 })
  t.same(await post('/json', gzipSync('{"a":2}'), { ...json, 'content-encoding': 'gzip' }), { a: 2 })
  t.same(await post('/raw', 'plain', { 'content-type': 'text/plain' }), { text: 'plain' })
  t.same(await post('/raw', '{"not":"parsed"}', json), { text: '{"not":"parsed"}' })
  t.same(await post('/raw', zstdCompressSync('squeezed'), { 'content-encoding': 'zstd' }), { text: 'squeezed' })
  t.same(await post('/encoded', 'as it is', { 'content-encoding': 'snappy' }), { text: 'as it is' })
  t.same(await post('/raw-csv', 'a,b', { 'content-type': 'Text/CSV; header=present' }), { length: 3 })
  t.same((await node.inject('/query/m?n=5')).json(), { n: 5, name: 'm' })
  t.same((await node.inject(`/query/${'x'.repeat(700)}`)).json().name.length, 700, 'long names travel in paths')
})

t.test('megabyte bodies over a socket arrive whole, whichever buffers are reused', async (t) => {
  const node = await boot({ plugins: [probe] })
  t.teardown(() => node.stop())
  const texts = Array.from({ length: 12 }, (_, i) => String.fromCharCode(97 + i).repeat(300_000 + i * 7000))
  for (let round = 0; round < 3; round++) {
    const answers = await Promise.all(
      texts.map(async (text, i) => {
        const encoded = i % 3 === 0 ? gzipSync(text) : Buffer.from(text)
        const headers: Record<string, string> = i % 3 === 0 ? { 'content-encoding': 'gzip' } : {}
        const answer = await fetch(`${node.url}/raw`, { method: 'POST', body: encoded, headers })
        return (await answer.json()) as { text: string }
      }),
    )
    t.ok(answers.every(({ text }, i) => text === texts[i]))
  }
})

t.test('a chunked body above the limit is refused while it comes in', async (t) => {
  const node = await boot({ plugins: [probe], config: { server: { max_body_size: 1024 } } })
  t.teardown(() => node.stop())
  const body = new ReadableStream({
    start(controller) {
      for (let i = 0; i < 8; i++) controller.enqueue(new Uint8Array(512))
      controller.close()
    },
  })
  const answer = await fetch(`${node.url}/raw`, { method: 'POST', body, duplex: 'half' } as RequestInit)
  t.equal(answer.status, 413)
})

t.test('request ids are taken when sane, made otherwise, and returned', async (t) => {
  const node = await boot()
  t.teardown(() => node.stop())
  t.equal((await node.inject({ url: '/health', headers: { 'x-request-id': 'my-id.1' } })).headers['x-request-id'], 'my-id.1')
  const made = (await node.inject({ url: '/health', headers: { 'x-request-id': 'bad id "' } })).headers['x-request-id']
  t.match(made, /^[0-9a-f-]{36}$/)
  t.match((await node.inject('/nope')).headers['x-request-id'], /^[0-9a-f-]{36}$/)
})

/** What is answered to bytes on a connection of their own, until it is closed. */
async function answerTo(url: string, bytes: string): Promise<string> {
  const { connect } = await import('node:net')
  return new Promise((resolve) => {
    let text = ''
    const socket = connect(Number(new URL(url).port), '127.0.0.1', () => socket.write(bytes))
    socket.on('data', (chunk) => (text += chunk))
    socket.on('close', () => resolve(text))
  })
}

t.test('a body that is not HTTP is answered', async (t) => {
  const node = await boot()
  t.teardown(() => node.stop())
  const many = 'x'.repeat(20_000)
  const cases: [string, number, RegExp][] = [
    ['zz\r\n{}\r\n', 400, /"the request is not valid HTTP"/],
    ['2\r\n{}\r\nzz\r\n', 400, /"the request is not valid HTTP"/],
    [`2;${many}\r\n{}\r\n`, 413, /extensions of the chunks of the body take more than 16384 bytes together; leave them out/],
    [`2\r\n{}\r\n0\r\nx: ${many}\r\n\r\n`, 431, /trailers behind the body take more than 16384 bytes together; send less/],
  ]
  const head = 'PUT /api/v1/admin/log-level HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
  for (const [body, status, text] of cases) {
    const answer = await answerTo(node.url, `${head}Transfer-Encoding: chunked\r\n\r\n${body}`)
    t.match(answer, new RegExp(`^HTTP/1\\.1 ${status} `))
    t.match(answer, text)
    t.equal(answer.split('HTTP/1.1').length, 2, 'once')
  }
  // The answer would be taken for that of the request before it.
  const behind = await answerTo(node.url, 'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nNONSENSE\r\n\r\n')
  t.notMatch(behind, /not valid HTTP/)
})

t.test('what is not HTTP gets an envelope too', async (t) => {
  const node = await boot()
  t.teardown(() => node.stop())
  const answer = await answerTo(node.url, 'NONSENSE\r\n\r\n')
  t.match(answer, /^HTTP\/1.1 400 [\s\S]*{"error":"the request is not valid HTTP","code":"BAD_REQUEST"}$/)
  // The text is the same for what is too long in the first line.
  const long = await answerTo(node.url, `GET /health?${'a'.repeat(20_000)} HTTP/1.1\r\nHost: localhost\r\n\r\n`)
  t.match(
    long,
    /^HTTP\/1.1 431 [\s\S]*"error":"the request line and headers take more than 16384 bytes together; send less, or a long query as the body of a POST"/,
  )
})

t.test('what Node.js would refuse by itself has the envelope', async (t) => {
  const node = await boot()
  t.teardown(() => node.stop())
  const close = 'Connection: close\r\n\r\n'
  t.match(
    await answerTo(node.url, `GET /health HTTP/1.1\r\n${close}`),
    /^HTTP\/1.1 400 [\s\S]*{"error":"cannot read the request: it has no header Host.*","code":"BAD_REQUEST"}$/,
  )
  t.match(await answerTo(node.url, 'GET /health HTTP/1.0\r\n\r\n'), /^HTTP\/1.1 200 /)
  const expecting = `POST /write HTTP/1.1\r\nHost: localhost\r\nExpect: bananas\r\nContent-Length: 0\r\n${close}`
  t.match(await answerTo(node.url, expecting), /^HTTP\/1.1 417 [\s\S]*{"error":"cannot meet the expectation \\"bananas\\".*","code":"BAD_REQUEST"}$/)
})

t.test('100 Continue is sent to who will be read', async (t) => {
  const node = await boot({ plugins: [probe], config: { server: { max_body_size: 1024 } } })
  t.teardown(() => node.stop())
  const post = (path: string, headers: string, body = '') =>
    answerTo(node.url, `POST ${path} HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n${headers}\r\n${body}`)
  t.match(await post('/raw', 'Content-Length: 2\r\nConnection: close\r\n', 'hi'), /^HTTP\/1.1 100 Continue\r\n\r\nHTTP\/1.1 200 [\s\S]*{"text":"hi"}$/)
  // Without a body: whoever is told no may go on with it or not, so the connection ends.
  t.match(await post('/nope', 'Content-Length: 2\r\n'), /^HTTP\/1.1 404 [\s\S]*connection: close/i)
  t.match(await post('/raw', 'Content-Length: 2000\r\n'), /^HTTP\/1.1 413 /)
  t.match(await post('/json', 'Content-Length: 2\r\nContent-Type: a/b\r\n'), /^HTTP\/1.1 415 /)
})

t.test('a transfer coding beside chunked is refused: the body would be taken for what it is not', async (t) => {
  const node = await boot({ plugins: [probe] })
  t.teardown(() => node.stop())
  const post = (coding: string) =>
    answerTo(node.url, `POST /raw HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: ${coding}\r\nConnection: close\r\n\r\n2\r\nhi\r\n0\r\n\r\n`)
  for (const coding of ['chunked', 'Chunked']) t.match(await post(coding), /^HTTP\/1.1 200 [\s\S]*{"text":"hi"}$/)
  const answer = await post('gzip, chunked')
  t.match(answer, /^HTTP\/1.1 501 [\s\S]*"cannot read the body: its Transfer-Encoding is \\"gzip, chunked\\".*Content-Encoding.*"/)
})

t.test('a metrics_path that the server answers already is refused', async (t) => {
  await t.rejects(boot({ config: { server: { metrics_path: '/health' } } }), {
    message: /cannot use server.metrics_path "\/health": something else is answered there/,
  })
})

t.test('health, readiness, ping and metrics', async (t) => {
  let reason: string | undefined
  const gated = definePlugin({ id: 'gated', summary: 's', stability: 'beta', setup: (svc) => svc.readiness(() => reason) })
  const node = await boot({ plugins: [gated], config: { server: { metrics_path: '/internal/metrics' } } })
  const healthy = { name: 'svc', status: 'pass', message: 'ready for queries and writes', checks: [], uptime_secs: Number, version: String }
  for (const path of ['/health', '/healthz']) t.match((await node.inject(path)).json(), healthy)
  const ready = { ready: true, status: 'ready', uptime_secs: Number, up: /^\d+s$/, started: /^\d{4}-\d\d-\d\dT[\d:.]+Z$/ }
  for (const path of ['/ready', '/readyz']) t.match((await node.inject(path)).json(), ready)
  const { started } = (await node.inject('/ready')).json()
  for (let i = 0; i < 5; i++, await setTimeout(20)) t.equal((await node.inject('/ready')).json().started, started, 'it has started once')
  reason = 'the cache is cold'
  const cold = await node.inject('/ready')
  t.equal(cold.statusCode, 503)
  t.same(cold.json(), { ready: false, reason })
  for (const method of ['GET', 'HEAD'] as const) {
    const ping = await node.inject({ method, url: '/ping' })
    t.equal(ping.statusCode, 204)
    t.ok(ping.headers['x-influxdb-version'])
    t.ok(ping.headers['x-influxdb-build'])
    t.equal((await node.inject({ method, url: '/ping?verbose=false' })).statusCode, 204)
    // As Tasmota, the client for Arduino and load balancers ask.
    const verbose = await node.inject({ method, url: '/ping?verbose=true' })
    t.equal(verbose.statusCode, 200)
    t.equal(verbose.headers['x-influxdb-version'], ping.headers['x-influxdb-version'])
    if (method === 'GET') t.same(verbose.json(), { version: ping.headers['x-influxdb-version'] })
  }
  const metrics = await node.inject('/internal/metrics')
  t.match(metrics.headers['content-type'], 'text/plain')
  t.match(metrics.body, /svc_main_loop_delay_seconds\{quantile="0.99"\} \d/)
  t.match(metrics.body, /svc_process_resident_memory_bytes \d/)
  t.equal((await node.inject('/metrics')).statusCode, 404)
  await node.stop()
})

t.test('connections that have asked for nothing hold up no stop', async (t) => {
  const logged: string[] = []
  const node = await boot({ log: (line) => void logged.push(line) })
  const { hostname, port } = new URL(node.url)
  const sockets = await Promise.all(
    ['', 'GET /health HT'].map(async (text) => {
      const socket = connect(Number(port), hostname).on('error', () => {})
      await once(socket, 'connect')
      socket.write(text)
      return socket
    }),
  )
  t.equal((await fetch(`${node.url}/health`)).status, 200)
  const closed = Promise.all(sockets.map((socket) => once(socket, 'close')))
  t.same(await node.stop(), [])
  await closed
  t.notOk(logged.some((line) => line.includes('requests in flight were cut')))
})

t.test('a request on a kept connection that arrives with the stop is answered, as the last one', async (t) => {
  const node = await boot()
  const { hostname, port } = new URL(node.url)
  const request = 'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n'
  const sockets = await Promise.all(
    Array.from({ length: 4 }, async () => {
      const socket = connect(Number(port), hostname).setEncoding('utf8')
      socket.write(request)
      t.match((await once(socket, 'data'))[0], /^HTTP\/1\.1 200 /)
      return socket
    }),
  )
  const answers = sockets.map(async (socket) => {
    let text = ''
    for await (const chunk of socket) text += chunk
    return text
  })
  for (const socket of sockets) socket.write(request)
  t.same(await node.stop(), [])
  for (const answer of await Promise.all(answers)) t.match(answer, /^HTTP\/1\.1 200 [^{]*\r\nconnection: close\r\n/i)
})

t.test('the log level changes at run time', async (t) => {
  const node = await boot({ log: () => {} })
  t.teardown(() => node.stop())
  const put = (payload: unknown) => node.inject({ method: 'PUT', url: '/api/v1/admin/log-level', payload: payload as object })
  t.same((await put({ level: 'warn' })).json(), { previous: 'debug', current: 'warn' })
  t.equal(node.node.logs.child('http').level, 'warn')
  const bad = await put({ level: 'loud' })
  t.equal(bad.statusCode, 400)
  t.match(bad.json(), { code: 'BAD_REQUEST', error: /"loud".*trace, debug, info, warn, error/ })
  t.equal((await put({})).statusCode, 422)
})

t.test('the OpenAPI description lists what is loaded', async (t) => {
  const node = await boot({ plugins: [probe], config: { server: { public_url: 'https://tsdb.example' } } })
  t.teardown(() => node.stop())
  const api = (await node.inject('/api/v1/openapi.json')).json()
  t.equal(api.openapi, '3.1.0')
  t.same(api.servers, [{ url: 'https://tsdb.example' }])
  t.match(api.paths['/json'].post, {
    tags: ['probe'],
    requestBody: { content: { 'application/json': { schema: { properties: { a: { type: 'integer' } } } } } },
  })
  t.match(api.paths['/query/{name}'].get.parameters, [
    { in: 'query', name: 'n' },
    { in: 'path', name: 'name' },
  ])
  t.ok(api.paths['/ready'].get.responses.default.content['application/json'].schema.$ref)
  for (const [path, item] of Object.entries(
    api.paths as Record<
      string,
      Record<string, { responses: Record<string, { description: string }>; parameters?: { in: string; name: string; required: boolean }[] }>
    >,
  )) {
    for (const [method, { responses, parameters = [] }] of Object.entries(item)) {
      t.ok(
        Object.values(responses).every(({ description }) => typeof description === 'string'),
        `${method} ${path}: answers are described`,
      )
      const named = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1])
      const declared = parameters.filter((p) => p.in === 'path' && p.required).map((p) => p.name)
      t.same(declared.sort(), named.sort(), `${method} ${path}: path parameters are declared`)
    }
  }
  const page = await node.inject('/api/v1/docs')
  t.match(page.headers['content-type'], 'text/html')
  t.notMatch(page.body, /(src|href)="?https?:/, 'the page loads nothing from elsewhere')
})

t.test('CORS', async (t) => {
  const node = await boot({ plugins: [probe], config: { server: { cors_allowed_origins: ['https://a.example'] } } })
  t.teardown(() => node.stop())
  const preflight = { 'access-control-request-method': 'POST', 'access-control-request-headers': 'x-namespace' }
  const allowed = await node.inject({ method: 'OPTIONS', url: '/json', headers: { origin: 'https://a.example', ...preflight } })
  t.equal(allowed.statusCode, 204)
  t.match(allowed.headers, { 'access-control-allow-origin': 'https://a.example', 'access-control-allow-headers': 'x-namespace', vary: 'Origin' })
  const other = await node.inject({ method: 'OPTIONS', url: '/json', headers: { origin: 'https://b.example', ...preflight } })
  t.equal(other.headers['access-control-allow-origin'], undefined)
  const failure = await node.inject({ url: '/nope', headers: { origin: 'https://a.example' } })
  t.equal(failure.headers['access-control-allow-origin'], 'https://a.example', 'failures can be read too')
  const metrics = await node.inject({ url: '/metrics', headers: { origin: 'https://a.example' } })
  t.match(metrics.headers.vary, /^Origin, Accept\b/, 'no cache gives one site the answer for another')
  const any = await boot({ config: { server: { cors_allowed_origins: ['*'], allow_unsafe_cors: true } } })
  t.teardown(() => any.stop())
  t.equal((await any.inject({ url: '/health', headers: { origin: 'https://c.example' } })).headers['access-control-allow-origin'], '*')
})
