import { once } from 'node:events'
import { connect } from 'node:net'
import { gzipSync } from 'node:zlib'
import { AUDIT_LOG, type AuditLog, type AuditRecord, definePlugin } from 'svcdb'
import { defineSkill } from 'svcdb/agents'
import { seeded } from 'svcdb/lib/random'
import { Type } from 'svcdb/lib/schema'
import t from 'tap'
import { ACTIONS } from './actions.ts'
import { OPERATIONS } from './routes/index.ts'
import { answerProblem, DOCUMENT, startApi, tokenOf } from './testing.ts'

const echo = defineSkill({
  capability: 'echo',
  summary: 'Of a test',
  input: Type.Any(),
  output: Type.Any(),
  invoke: async (_context, input) => input,
})

t.test('who calls, whose plane, what the policies say, and then what was asked', async (t) => {
  const { as, with: bearing, run } = await startApi(t, [echo])
  const ours = await run('echo', 1)
  const theirs = await run('echo', 1, 'acme')
  t.match(await as('ann').get(`/runs/${ours}`), { status: 200, body: { run: ours, status: 'succeeded', records: 5 } })
  t.match(await as('zoe').get(`/runs/${theirs}`), { status: 200, body: { run: theirs } })
  for (const [authorization, error] of [
    [undefined, /no credentials were presented/],
    ['Basic YTpi', /no credentials were presented/],
    [`Bearer ${tokenOf('eve')}`, /are not accepted/],
    ['Bearer x', /are not accepted/],
  ] as const)
    for (const id of [ours, 'x', '%zz', 'run_01ARZ3NDEKTSV4RRFFQ69G5FAV', 'x'.repeat(5000)]) {
      const { status, body, headers } = await bearing(authorization).get(`/runs/${id}`)
      t.equal(status, 401)
      t.match(body.error, error)
      t.equal(headers['www-authenticate'], 'Bearer')
    }
  t.equal((await bearing(`bEaReR  ${tokenOf('ann')}`).get(`/runs/${ours}`)).status, 200, 'the scheme has no case')
  t.match(await as('stray').get(`/runs/${ours}`), { status: 403, body: { error: /no plane here for the tenant/ } })
  for (const id of [ours, 'x', '%zz', 'run_01ARZ3NDEKTSV4RRFFQ69G5FAV'])
    t.same((await as('nobody').get(`/runs/${id}`)).body, {
      error: 'nobody may not do "api:run.read" here: no policy permits it; operator_api.policy says who may',
    })
  t.match(await as('ann').get('/runs/x'), { status: 400, body: { error: '"x" is not a run id' } })
  t.match(await as('ann').get('/runs/%zz'), { status: 400, body: { error: '"%zz" is not a run id' } })
  t.match(await as('ann').get('/runs/run_01ARZ3NDEKTSV4RRFFQ69G5FAV'), { status: 404, body: { error: /there is none/ } })
  t.equal((await as('ann').get(`/runs/${theirs}`)).status, 404, 'of another tenant')
  t.equal((await as('zoe').get(`/runs/${ours}`)).status, 404)
})

t.test('its tokens open nothing else, and nothing else opens it', async (t) => {
  const key = `svc_${'k'.repeat(43)}`
  const { node, with: bearing, as } = await startApi(t, [echo], { plugins: ['api_keys'], config: { auth: { api_keys: [{ name: 'k', key, admin: true }] } } })
  t.equal((await as('ann').get('/runs/run_01ARZ3NDEKTSV4RRFFQ69G5FAV')).status, 404)
  t.equal((await bearing(`Bearer ${key}`).get('/runs/run_01ARZ3NDEKTSV4RRFFQ69G5FAV')).status, 401)
  const other = async (token: string) => (await node.inject({ url: '/metrics', headers: { authorization: `Bearer ${token}` } })).statusCode
  t.same([await other(key), await other(tokenOf('ann'))], [200, 401])
})

t.test('no caller who is refused can tell a malformed id from one that nobody has', async (t) => {
  const { as, with: bearing, run } = await startApi(t, [echo])
  const known = await run('echo', 1)
  const seed = Number(process.env.SVC_SEED ?? 20_261_123)
  t.comment(`SVC_SEED=${seed}`)
  const random = seeded(seed)
  const ids = ['run_01ARZ3NDEKTSV4RRFFQ69G5FAV', known, 'x', '%', '%zz', '%00', 'a%2Fb', 'task_1', 'x'.repeat(5000)]
  for (let i = 0; i < 10; i++)
    ids.push(encodeURIComponent(String.fromCodePoint(...Array.from({ length: 1 + random() * 8 }, () => 1 + Math.floor(random() * 0xd000)))))
  const bodies = [undefined, '{', '[]', '{}', JSON.stringify({ reason: 'x' }), JSON.stringify({ case: 'x', scope: 7 }), 'x'.repeat(1_100_000)]
  const types = ['application/json', 'text/plain']
  for (const { method, path, envelope } of OPERATIONS) {
    if (envelope !== undefined) continue
    const answers = new Map<string, Set<string>>([
      ['unknown token', new Set()],
      ['no token', new Set()],
      ['nobody', new Set()],
      ['stray', new Set()],
    ])
    for (const id of path.includes('{') ? ids : ['-'])
      for (const body of method === 'GET' ? [undefined] : id === ids[0] || id === '-' ? bodies : [bodies[1], bodies[4]]) {
        const url = path.replace(/\{\w+\}/, id)
        const headers: Record<string, string> = body === undefined ? {} : { 'content-type': types[Math.floor(random() * 2)] }
        for (const [who, client] of [
          ['unknown token', bearing(`Bearer ${tokenOf('eve')}`)],
          ['no token', bearing(undefined)],
          ['nobody', as('nobody')],
          ['stray', as('stray')],
        ] as const) {
          const { status, body: said } = method === 'GET' ? await client.get(url) : await client.post(url, body, headers)
          answers.get(who)?.add(`${status} ${JSON.stringify(said)}`)
        }
      }
    for (const [who, told] of answers) t.equal(told.size, 1, `${method} ${path} as ${who}: ${[...told].join(' | ')}`)
    t.same(
      [...answers.values()].map((told) => [...told][0]?.slice(0, 3)),
      ['401', '401', '403', '403'],
      `${method} ${path}`,
    )
  }
})

t.test('on a listener of its own the operations are at the root, and nothing else is', async (t) => {
  const { node, run } = await startApi(t, [echo], { config: { operator_api: { addr: '127.0.0.1:0' } } })
  const url = `http://127.0.0.1:${node.port('operator_api')}`
  const known = await run('echo', 1)
  const ask = async (path: string, init: RequestInit = {}, name = 'ann') => {
    const answer = await fetch(url + path, { ...init, headers: { authorization: `Bearer ${tokenOf(name)}`, ...init.headers } })
    const text = await answer.text()
    const body = text === '' ? undefined : JSON.parse(text)
    t.same(answerProblem(init.method ?? 'GET', path, { status: answer.status, body }), undefined)
    return { status: answer.status, body, headers: answer.headers }
  }
  t.match(await ask(`/runs/${known}`), { status: 200, body: { run: known } })
  t.match(await ask(`/runs/${known}`, {}, 'nobody'), { status: 403 })
  t.match(await ask(`/runs/${known}`, {}, 'eve'), { status: 401 })
  for (const path of ['/', '/health', '/metrics', '/openapi.json', '/api/v1/plane/runs', '/api/v1/query', `/runs/${known}/`, '//runs']) {
    t.match(await ask(path), { status: 404, body: { error: /no operation at/ } }, path)
    t.equal((await ask(path, {}, 'eve')).status, 401, path)
  }
  const wrong = await ask('/runs', { method: 'DELETE' })
  t.match(wrong, { status: 405, body: { error: /answers to GET/ } })
  t.equal(wrong.headers.get('allow'), 'GET')
  const json = { 'content-type': 'application/json' }
  t.equal((await ask(`/runs/${known}/cancel`, { method: 'POST', headers: json, body: JSON.stringify({ reason: 'x'.repeat(1 << 20) }) })).status, 413)
  t.equal((await ask(`/runs/${known}/cancel`, { method: 'POST', headers: json, body: JSON.stringify({ reason: 'late' }) })).status, 409)
  const packed = gzipSync(JSON.stringify({ reason: 'late' }))
  t.equal((await ask(`/runs/${known}/cancel`, { method: 'POST', headers: { ...json, 'content-encoding': 'gzip' }, body: packed })).status, 409)
  const bomb = gzipSync(Buffer.alloc(4 << 20, 32))
  t.equal((await ask(`/runs/${known}/cancel`, { method: 'POST', headers: { ...json, 'content-encoding': 'gzip' }, body: bomb })).status, 413)
  await node.stop()
  await t.rejects(fetch(url))
})

/** What a connection answers to bytes as they are. */
function raw(port: number, bytes: string): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    let text = ''
    socket.on('data', (data) => (text += data))
    socket.on('error', () => {})
    socket.on('close', () => resolve(text))
    socket.write(bytes, 'latin1')
  })
}

t.test('a whole URL as the target is the path in it, on either listener', async (t) => {
  const { node } = await startApi(t, [], { config: { operator_api: { addr: '127.0.0.1:0' } } })
  const bearer = `Authorization: Bearer ${tokenOf('ann')}`
  for (const [port, base] of [
    [Number(new URL(node.url).port), '/api/v1/plane'],
    [node.port('operator_api'), ''],
  ] as const)
    for (const at of ['http://127.0.0.1', 'HTTP://127.0.0.1:80', 'https://127.0.0.1']) {
      const answer = await raw(port, `GET ${at}${base}/halts?state=lifted HTTP/1.1\r\nHost: 127.0.0.1\r\n${bearer}\r\nConnection: close\r\n\r\n`)
      t.match(answer, /^HTTP\/1.1 200 [\s\S]*{"halts":\[\],"lifted":\[\],"truncated":false}$/, `${at}${base}`)
    }
})

t.test('what is no request is refused in the same form', async (t) => {
  const { node } = await startApi(t, [], { config: { operator_api: { addr: '127.0.0.1:0' } } })
  const head = `POST /halts HTTP/1.1\r\nAuthorization: Bearer ${tokenOf('ann')}\r\nContent-Type: application/json\r\nConnection: close\r\n`
  const cases: [string, number, RegExp][] = [
    ['GARBAGE\r\n\r\n', 400, /not valid HTTP/],
    [`${head}Host: x\r\nX: ${'x'.repeat(40_000)}\r\n\r\n`, 431, /headers are too large/],
    [`${head}Host: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n`, 400, /not valid HTTP|closed before/],
    [`${head}Content-Length: 0\r\n\r\n`, 400, /no header Host/],
    [`${head}Host: x\r\nContent-Length: 0\r\nExpect: tea\r\n\r\n`, 417, /only 100-continue/],
  ]
  for (const [bytes, status, error] of cases) {
    const [answered, body = ''] = (await raw(node.port('operator_api'), bytes)).split('\r\n\r\n')
    t.match(answered, new RegExp(`^HTTP/1.1 ${status} `), `${error}`)
    t.match(answered, /content-type: application\/json/i)
    t.match(body, /^{"error":"[^"\\]*"}$/)
    t.match(body, error)
  }
})

t.test('time limits may have any fraction of a second', async (t) => {
  const server = { request_timeout_secs: 1.001, keep_alive_timeout_secs: 4.0001 }
  const { node } = await startApi(t, [], { config: { operator_api: { addr: '127.0.0.1:0' }, server } })
  t.equal((await fetch(`http://127.0.0.1:${node.port('operator_api')}/`)).status, 401)
})

t.test('a client that connects and says nothing does not keep a node from stopping', async (t) => {
  const { node } = await startApi(t, [echo], { config: { operator_api: { addr: '127.0.0.1:0' }, server: { shutdown_timeout_secs: 600 } } })
  const silent = connect(node.port('operator_api'), '127.0.0.1')
  await once(silent.on('error', () => {}).resume(), 'connect')
  t.equal((await fetch(`http://127.0.0.1:${node.port('operator_api')}/`)).status, 401, 'it is accepted by now')
  const closed = once(silent, 'close')
  await node.stop()
  await closed
})

t.test('clients that connect and say nothing keep nobody out', async (t) => {
  const { node } = await startApi(t, [echo], { config: { operator_api: { addr: '127.0.0.1:0' }, server: { max_connections: 8 } } })
  for (let i = 0; i < 20; i++) {
    const silent = connect(node.port('operator_api'), '127.0.0.1')
    await once(silent.on('error', () => {}).resume(), 'connect')
  }
  t.equal((await fetch(`http://127.0.0.1:${node.port('operator_api')}/`)).status, 401)
  t.match((await node.inject('/metrics')).body, /^svc_operator_api_idle_connections_closed_total [1-9]/m)
})

t.test('requests sent ahead have turns of the event loop of their own', async (t) => {
  const { node } = await startApi(t, [echo], { config: { operator_api: { addr: '127.0.0.1:0' } } })
  const ahead = 500
  let turns = 0
  let next = setImmediate(count)
  function count(): void {
    turns++
    next = setImmediate(count)
  }
  t.teardown(() => clearImmediate(next))
  const socket = connect(node.port('operator_api'), '127.0.0.1')
  const get = (more: string) => `GET /runs HTTP/1.1\r\nHost: localhost\r\n${more}\r\n`
  socket.write(get('').repeat(ahead) + get('Connection: close\r\n'))
  let text = ''
  let begun: number | undefined
  for await (const chunk of socket) {
    begun ??= turns
    text += chunk
  }
  t.equal([...text.matchAll(/HTTP\/1\.1 401/g)].length, ahead + 1)
  t.ok(turns - (begun ?? turns) >= ahead / 2, `${turns - (begun ?? turns)} turns`)
})

t.test('what cannot be used ends the start', async (t) => {
  const refused = (options: Parameters<typeof startApi>[2], message: RegExp) => t.rejects(startApi(t, [], options), { message })
  await refused({ actors: {} }, /cannot use operator_api\.tokens_file ".*": it has no entries/)
  await refused({ actors: { ann: { tenant: 'x'.repeat(65) } } }, /entry 1: tenant is a name/)
  await refused({ policy: 'permit (principal, action == Action::"api:run.fly", resource);' }, /all\.cedar:1:\d+: .*api:run\.fly/)
  await refused(
    { policy: 'permit (principal, action, resource) when { 9223372036854775807 + 1 == 0 };' },
    /cannot evaluate the policies for "api:attention" of tenant "default"/,
  )
  await refused({ config: { operator_api: { base_path: 'plane' } } }, /operator_api\.base_path/)
  await refused({ config: { operator_api: { tokens_file: '/nowhere/tokens' } } }, /cannot be read \(ENOENT\)/)
})

t.test('policies that cannot be evaluated are no permit', async (t) => {
  const policy =
    'permit (principal, action, resource);\nforbid (principal, action, resource) when { resource == Resource::"failed" && 9223372036854775807 + 1 == 0 };'
  const { as } = await startApi(t, [], { policy })
  t.equal((await as('ann').get('/runs')).status, 200)
  t.match(await as('ann').get('/runs?outcome=failed'), { status: 500, body: { error: /policy set could not be evaluated/ } })
})

t.test('what acts and what is refused is in the audit log', async (t) => {
  const records: AuditRecord[] = []
  const audit = definePlugin({
    id: 'audit_of_test',
    summary: 'Keeps records',
    stability: 'experimental',
    provides: [AUDIT_LOG],
    setup: (svc) => svc.provide(AUDIT_LOG, { record: async (record: AuditRecord) => void records.push(record) } satisfies AuditLog),
  })
  const { as, with: having, run } = await startApi(t, [echo], { plugins: [audit] })
  const nobody = having(undefined)
  const known = await run('echo', 1)
  records.length = 0
  await as('rita').get(`/runs/${known}`)
  t.same(records, [])
  await as('rita').post(`/runs/${known}/cancel`, { reason: 'x' })
  await as('ann').post(`/runs/${known}/cancel`, { reason: 'x' })
  await as('eve').get('/runs')
  await as('stray').post(`/runs/${known}/cancel`, { reason: 'x' })
  await nobody.get('/runs')
  await as('ann').post(`/runs/${known}/cancel`, { reason: ' ' })
  t.match(records, [
    {
      action: 'operator_call',
      decision: 'deny',
      resource: `api:run.cancel ${known}`,
      by: { principal: 'rita' },
      metadata: { tenant: 'default', roles: 'reader' },
    },
    { action: 'operator_call', decision: 'allow', by: { principal: 'ann' } },
    { action: 'operator_call', decision: 'deny', by: { principal: 'ann' }, metadata: { failed: 'CONFLICT' } },
    { action: 'login_failure', decision: 'deny', resource: 'operator_api', metadata: { credential: 'bearer', reason: /not accepted/ } },
    {
      action: 'operator_call',
      decision: 'deny',
      resource: 'api:run.cancel *',
      by: { principal: 'stray' },
      metadata: { tenant: 'nowhere', roles: 'admin' },
    },
    { action: 'login_failure', decision: 'deny', metadata: { credential: 'none', reason: /no credentials/ } },
    { action: 'operator_call', decision: 'allow', by: { principal: 'ann' } },
    { action: 'operator_call', decision: 'deny', by: { principal: 'ann' }, metadata: { failed: 'BAD_REQUEST' } },
  ])
})

t.test('the document says of each operation what it needs and answers', async (t) => {
  const operations = Object.values(DOCUMENT.paths).flatMap((item) => Object.values(item)) as unknown as Record<string, unknown>[]
  t.match(DOCUMENT, { openapi: '3.1.0', jsonSchemaDialect: /2020-12/, info: { title: 'svc operator API' }, security: [{ bearer: [] }] })
  t.equal(new Set(operations.map(({ operationId }) => operationId)).size, operations.length)
  for (const one of operations) {
    t.ok(ACTIONS.includes(one['x-svc-action'] as never), String(one.operationId))
    for (const status of ['401', '403', '500']) t.ok(Object.keys(one.responses as object).includes(status))
  }
  t.same(JSON.parse(JSON.stringify(DOCUMENT)), DOCUMENT, 'it is plain JSON')
  const objects = Object.entries(DOCUMENT.components.schemas).filter(
    ([name, schema]) => (schema as { type?: string }).type === 'object' && name !== 'CloudEvent',
  )
  for (const [name, schema] of objects) t.equal((schema as { additionalProperties?: boolean }).additionalProperties, false, `${name} is closed`)
})
