import { setTimeout as sleep } from 'node:timers/promises'
import { definePlugin, EXEMPLARS, type Exemplars } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { atOnce } from 'svcdb/lib/event-loop'
import { boot, type TestNode } from 'svcdb/testkit'
import t from 'tap'
import native from '../../native/index.ts'
import plugin from '../index.ts'
import { answerOf, apiError } from './api-error.ts'
import { unescapeName } from './label-names.ts'
import { metadataAnswer } from './metadata-endpoint.ts'

/** Takes much longer than the time limit. */
const LONG = 'sum_over_time(sum_over_time(vector(1)[100h:10s])[1000h:1h])'

t.test('errors: status and type of each kind', async (t) => {
  for (const [error, status, type, retryAfter] of [
    [apiError('bad_data', 'x'), 400, 'bad_data', undefined],
    [apiError('execution', 'x'), 422, 'execution', undefined],
    [apiError('timeout', 'x'), 503, 'timeout', undefined],
    [apiError('canceled', 'x'), 503, 'canceled', undefined],
    [new SvcError('QUERY_TIMEOUT', 'x'), 503, 'timeout', undefined],
    [new SvcError('OVERLOADED', 'x'), 503, 'unavailable', 60],
    [new SvcError('DATABASE_CLOSED', 'x'), 503, 'unavailable', undefined],
    [new SvcError('STORAGE_FULL', 'x'), 503, 'unavailable', 5],
    [new SvcError('WRITE_TIMEOUT', 'x'), 503, 'timeout', undefined],
    [new SvcError('BAD_REQUEST', 'x'), 400, 'bad_data', undefined],
    [new SvcError('UNAUTHORIZED', 'x'), 401, 'unauthorized', undefined],
    [new SvcError('FORBIDDEN', 'x'), 403, 'forbidden', undefined],
    [new SvcError('METHOD_NOT_ALLOWED', 'x'), 405, 'bad_data', undefined],
    [new SvcError('RATE_LIMITED', 'x'), 429, 'too_many_requests', 1],
    [new SvcError('PAYLOAD_TOO_LARGE', 'x'), 413, 'bad_data', undefined],
    [new SvcError('UNSUPPORTED_MEDIA_TYPE', 'x'), 415, 'bad_data', undefined],
  ] as const)
    t.same(answerOf(error), { status, type, text: 'x', ...(retryAfter === undefined ? {} : { retryAfter }) }, `${error.code} ${type}`)
  t.same(answerOf(new SvcError('INTERNAL_ERROR', 'a secret')), { status: 500, type: 'internal', text: 'INTERNAL_ERROR: an internal error occurred' })
})

t.test('escaped label names', async (t) => {
  for (const [escaped, name] of [
    ['plain', 'plain'],
    ['U__', ''],
    ['U__a_2e_b', 'a.b'],
    ['U__a__b', 'a_b'],
    ['U___1f4a7_', '💧'],
    ['U__l_E4_nge', 'länge'],
    ['U__a_', 'U__a_'],
    ['U__a_xyz_', 'U__a_xyz_'],
    ['U__a_d800_', 'U__a_d800_'],
    ['U__a_1234567_', 'U__a_1234567_'],
    ['U__a_110000_', 'U__a_110000_'],
  ])
    t.equal(unescapeName(escaped), name, escaped)
})

const ask = (node: TestNode, fields: Record<string, string> = {}, signal?: AbortSignal) =>
  fetch(`${node.url}/api/v1/query`, { method: 'POST', body: new URLSearchParams({ query: LONG, ...fields }), ...(signal === undefined ? {} : { signal }) })

/** A plugin that finds exemplars in this way. */
function exemplarsBy(select: Exemplars['select']) {
  const exemplars: Exemplars = {
    *add() {
      yield
      return 0
    },
    select,
  }
  return definePlugin({
    id: 'exemplars_of_a_test',
    summary: 'Finds exemplars',
    stability: 'experimental',
    provides: [EXEMPLARS],
    setup: (svc) => svc.provide(EXEMPLARS, exemplars),
  })
}

t.test('exemplars are looked for until the time is up', async (t) => {
  const endless = exemplarsBy(function* () {
    for (;;) yield
  })
  const node = await boot({ plugins: [plugin, endless], storage: 'embedded', config: { server: { prom_query_timeout_secs: 1 } } })
  t.teardown(() => node.stop())
  // The expression is parsed on a query thread, which the first question of all starts: on a slow machine that alone may take the second.
  while (!(await fetch(`${node.url}/api/v1/query?query=1`)).ok) await sleep(10)
  const late = await fetch(`${node.url}/api/v1/query_exemplars?query=x`)
  t.equal(late.status, 503)
  t.match(await late.json(), {
    errorType: 'timeout',
    error: 'the query did not end within 1 s; ask with fewer selectors, or raise server.prom_query_timeout_secs',
  })
})

t.test('an answer that becomes too large is given up in the midst of a series', async (t) => {
  const exemplar = { labels: ['trace_id', 'a'], value: 1, time: 1 }
  let told = 0
  const entries = function* () {
    for (let at = 0; at < 200_000; at++) {
      told = at
      yield [at, exemplar]
    }
  }
  const one = exemplarsBy(function* () {
    yield
    return [{ series: ['__name__', 'x'], exemplars: Object.assign([exemplar], { entries }) as never }]
  })
  const node = await boot({ plugins: [plugin, one], storage: 'embedded', config: { server: { prom_max_result_bytes: 10_000 } } })
  t.teardown(() => node.stop())
  const large = await fetch(`${node.url}/api/v1/query_exemplars?query=x`)
  t.match(await large.json(), { errorType: 'execution', error: /larger than 10000 bytes.*prom_max_result_bytes/ })
  t.ok(told < 1000, `exemplar ${told} was the last`)
})

t.test('an answer that turns out too large in the writing has a status of its own, too', async (t) => {
  const node = await boot({ plugins: [plugin], storage: 'embedded', config: { server: { prom_max_result_bytes: 1_300_000 } } })
  t.teardown(() => node.stop())
  const query = Array.from({ length: 6 }, (_, i) => `label_replace(vector(time() / 7), "a", "${i}", "", "")`).join('or ')
  const large = await fetch(`${node.url}/api/v1/query_range?query=${encodeURIComponent(query)}&start=0&end=10999&step=1`)
  t.equal(large.status, 422)
  t.match(await large.json(), { errorType: 'execution', error: /larger than 1300000 bytes.*prom_max_result_bytes/ })
})

t.test('time limits', async (t) => {
  const node = await boot({ plugins: [plugin], storage: 'embedded', config: { server: { prom_query_timeout_secs: 0.05 } } })
  t.teardown(() => node.stop())
  const late = await ask(node)
  t.equal(late.status, 503)
  t.match(await late.json(), { status: 'error', errorType: 'timeout', error: /0\.05 s.*server\.prom_query_timeout_secs$/ })
  const own = await ask(node, { timeout: '20ms' })
  t.equal(own.status, 503)
  t.match(await own.json(), { errorType: 'timeout', error: /0\.02 s.*the request's timeout$/ })
  const longer = await ask(node, { timeout: '1h' })
  t.match(await longer.json(), { error: /server\.prom_query_timeout_secs/ }, 'a request may not allow itself more')
  t.equal((await ask(node, { timeout: '0.0001' })).status, 503, 'a millisecond at least')
  t.equal((await ask(node, { timeout: '0' })).status, 400)
})

t.test('a query ends with its client', async (t) => {
  const node = await boot({ plugins: [plugin], storage: 'embedded', config: { server: { prom_query_timeout_secs: 0 } } })
  t.teardown(() => node.stop())
  t.equal((await ask(node, { query: '1' })).status, 200)
  const canceled = async (): Promise<boolean> => /svc_promql_request_errors_total\{type="canceled"\} [1-9]/.test((await node.inject('/metrics')).body)
  do {
    // On a busy machine a client may be gone before its query has begun.
    await t.rejects(ask(node, {}, AbortSignal.timeout(50)))
    await sleep(20)
  } while (!(await canceled()))
  t.equal((await ask(node, { query: '1' })).status, 200)
})

t.test('POST reads: the action is that of GET', async (t) => {
  const asked = new Map<string, string>()
  const watcher = definePlugin({
    id: 'watcher',
    summary: 'Notes what each route does',
    stability: 'experimental',
    setup(svc) {
      svc.auth.authenticator(() => ({ principal: 'somebody', method: 'test', claims: {}, namespaces: [], admin: true }))
      svc.auth.authorizer(({ action, resource }) => {
        asked.set(resource, action)
        return resource.endsWith('/labels') ? new SvcError('FORBIDDEN', 'not you') : undefined
      })
    },
  })
  const node = await boot({ plugins: [plugin, watcher] })
  t.teardown(() => node.stop())
  const headers = { 'content-type': 'application/x-www-form-urlencoded' }
  for (const path of ['query', 'query_range', 'labels', 'series', 'format_query', 'parse_query', 'query_exemplars', 'read'])
    for (const prefix of ['/api/v1/', '/api/v1/prom/']) await node.inject({ method: 'POST', url: prefix + path, headers, payload: 'query=1' })
  t.equal(asked.size, 16)
  t.same([...new Set(asked.values())], ['read'])
  const refused = await node.inject('/api/v1/labels')
  t.equal(refused.statusCode, 403)
  t.same(refused.json(), { status: 'error', errorType: 'forbidden', error: 'not you', code: 'FORBIDDEN' })
})

t.test('every refusal is in the shape of the Prometheus API, and has the code beside it', async (t) => {
  const guard = definePlugin({
    id: 'guard',
    summary: 'Refuses who says so',
    stability: 'experimental',
    setup(svc) {
      svc.auth.authenticator(({ header }) =>
        header('x-who') === undefined ? undefined : { principal: 'somebody', method: 'test', claims: {}, namespaces: ['red'], admin: false },
      )
      svc.auth.limiter({
        admitted: ({ context }) => (context.namespace === 'red' ? undefined : new SvcError('RATE_LIMITED', 'slowly', { headers: { 'retry-after': '7' } })),
        arrival: ({ header }) => (header('x-who') === 'often' ? new SvcError('RATE_LIMITED', 'slowly', { headers: { 'retry-after': '7' } }) : undefined),
      })
    },
  })
  const node = await boot({ plugins: [plugin, guard], config: { server: { max_body_size: 1024 } } })
  t.teardown(() => node.stop())
  const form = 'application/x-www-form-urlencoded'
  for (const prefix of ['/api/v1', '/api/v1/prom'])
    for (const [request, status, errorType, code, headers] of [
      [{ url: '/query', headers: {} }, 401, 'unauthorized', 'UNAUTHORIZED', { 'www-authenticate': 'Bearer' }],
      [{ url: '/query', headers: { 'x-who': 'me', 'x-namespace': 'blue' } }, 403, 'forbidden', 'FORBIDDEN', {}],
      [{ url: '/query', headers: { 'x-who': 'often' } }, 429, 'too_many_requests', 'RATE_LIMITED', { 'retry-after': '7' }],
      [{ url: '/query', method: 'DELETE' as const }, 405, 'bad_data', 'METHOD_NOT_ALLOWED', { allow: 'GET, HEAD, POST' }],
      [{ url: '/label/%zz/values' }, 400, 'bad_data', 'BAD_REQUEST', {}],
      [
        { url: '/query', method: 'POST' as const, payload: 'x'.repeat(2000), headers: { 'x-who': 'me', 'content-type': form } },
        413,
        'bad_data',
        'PAYLOAD_TOO_LARGE',
        {},
      ],
      [
        { url: '/query', method: 'POST' as const, payload: 'x', headers: { 'x-who': 'me', 'content-type': 'text/css' } },
        415,
        'bad_data',
        'UNSUPPORTED_MEDIA_TYPE',
        {},
      ],
    ] as const) {
      const answer = await node.inject({ ...request, url: prefix + request.url })
      t.equal(answer.statusCode, status, `${prefix}${request.url} ${status}`)
      t.match(answer.json(), { status: 'error', errorType, code, error: /./ })
      t.match(answer.headers, headers)
    }
  t.match((await node.inject('/api/v1/prom/nothing')).json(), { status: 'error', errorType: 'not_found', code: 'NOT_FOUND' })
  t.same(Object.keys((await node.inject('/api/v1/nothing')).json()), ['error', 'code'], "a path that nobody has is nobody's")
})

t.test('a body of JSON is refused, not passed over: its matchers and times would be missing from the answer', async (t) => {
  const node = await boot({ plugins: [native, plugin] })
  t.teardown(() => node.stop())
  const headers = { 'content-type': 'application/json' }
  for (const [path, payload] of [
    ['/query', '{"query":"1"}'],
    ['/labels', '{"match[]":["up"]}'],
    ['/series?match[]=up', '{"start":1}'],
    ['/query?query=1', '[1]'],
  ]) {
    const answer = await node.inject({ method: 'POST', url: `/api/v1${path}`, payload, headers })
    t.equal(answer.statusCode, 415, path)
    t.match(answer.json(), {
      errorType: 'bad_data',
      code: 'UNSUPPORTED_MEDIA_TYPE',
      error: /application\/json.*send parameters as application\/x-www-form-urlencoded/,
    })
  }
  // What says nothing is no harm: some HTTP clients name the type whatever they send.
  for (const payload of ['{}', 'null', '""']) {
    const answer = await node.inject({ method: 'POST', url: '/api/v1/query?query=1', payload, headers })
    t.match(answer.json(), { status: 'success', data: { resultType: 'scalar' } }, payload)
  }
})

t.test('health as Prometheus tells it, to whoever asks', async (t) => {
  let reason: string | undefined
  const locks = definePlugin({
    id: 'locks',
    summary: 'Lets nobody in',
    stability: 'stable',
    setup(svc) {
      svc.auth.authenticator(() => new SvcError('UNAUTHORIZED', 'nobody'))
      svc.readiness(() => reason)
    },
  })
  const node = await boot({ plugins: [plugin, locks] })
  t.teardown(() => node.stop())
  const ask = async (path: string) => {
    const { statusCode, body } = await node.inject(path)
    return [statusCode, body]
  }
  t.same(await ask('/-/healthy'), [200, 'svc is healthy\n'])
  t.same(await ask('/-/ready'), [200, 'svc is ready\n'])
  reason = 'the disk is being looked for'
  t.same(await ask('/-/ready'), [503, 'svc is not ready\n'], 'and why is for those who may know')
  t.same(await ask('/-/healthy'), [200, 'svc is healthy\n'])
  t.equal((await node.inject('/api/v1/status/buildinfo')).statusCode, 401)
})

t.test('namespaces are apart', async (t) => {
  const node = await boot({ plugins: [native, plugin], config: { server: { multi_tenancy: true } } })
  t.teardown(() => node.stop())
  const payload = `[{"measurement":"up","timestamp":${Date.now()}000000,"fields":{"value":1}}]`
  const written = await node.inject({ method: 'POST', url: '/api/v1/write', payload, headers: { 'content-type': 'application/json', 'x-namespace': 'one' } })
  t.equal(written.statusCode, 204, written.body)
  const results = async (path: string, namespace: string): Promise<number> => {
    const data = (await node.inject({ url: `/api/v1${path}`, headers: { 'x-namespace': namespace } })).json().data
    return (data.result ?? data).length
  }
  for (const path of ['/query?query=up', '/series?match[]=up', '/labels']) {
    t.equal(await results(path, 'one'), 1, path)
    t.equal(await results(path, 'two'), 0, path)
  }
})

t.test('the OpenAPI description names parameters', async (t) => {
  const node = await boot({ plugins: [plugin] })
  t.teardown(() => node.stop())
  const { paths } = (await node.inject('/api/v1/openapi.json')).json()
  const names = (paths['/api/v1/query_range'].get.parameters as { name: string }[]).map(({ name }) => name)
  t.same(names, ['query', 'start', 'end', 'step', 'timeout', 'limit', 'lookback_delta', 'stats'])
  t.ok(paths['/api/v1/prom/label/{name}/values'])
})

t.test('many regular expressions together take no longer than one may', async (t) => {
  const node = await boot({ plugins: [native, plugin], storage: 'embedded' })
  t.teardown(() => node.stop())
  const points = [{ measurement: 'm', tags: { a: 'a'.repeat(24) }, fields: { value: 1 } }]
  await fetch(`${node.url}/api/v1/write`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(points) })
  const slow = Array.from({ length: 100 }, (_, i) => `a=~"(a|a){24}b|a{24}|x${i}"`)
  const answer = await ask(node, { query: `m{${slow.join()}}` })
  t.equal(answer.status, 400)
  t.match(await answer.json(), { errorType: 'bad_data', error: /it takes too long/ })
})

t.test('metadata: others have their turn while a long answer is made', async (t) => {
  const known = Array.from({ length: 10_000 }, (_, i) => ({ metric: `m${i}`, type: 'gauge', help: 'x'.repeat(100), unit: '' }))
  const work = metadataAnswer(known, '', -1, -1, 1e9)
  let turns = 0
  for (let step = work.next(); step.done !== true; step = work.next()) turns++
  t.ok(turns > 100)
})

t.test('metadata: an answer within the bytes allowed', async (t) => {
  const known = ['one', 'two', 'six'].map((metric) => ({ metric, type: 'gauge', help: 'helps', unit: 'cm' }))
  const answer = (limit: number, maxBytes: number) => JSON.parse(Buffer.from(atOnce(metadataAnswer(known, '', limit, -1, maxBytes))).toString())
  const entry = { type: 'gauge', help: 'helps', unit: 'cm' }
  t.same(answer(-1, 30), { status: 'success', data: { one: [entry], two: [entry], six: [entry] } })
  t.same(answer(2, 20), { status: 'success', data: { one: [entry], two: [entry] } })
  t.same(answer(0, 20), { status: 'success', data: {} })
  t.throws(() => answer(-1, 29), { message: /^cannot answer with the metadata: it is larger than 29 bytes; .*prom_max_result_bytes$/ })
})
