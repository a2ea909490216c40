import { definePlugin } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { boot, type TestNode } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { parseDelete, parseDeleteBatch } from './delete-body.ts'
import plugin from './index.ts'

const now = BigInt(Date.now()) * 1_000_000n
/** A name with everything that a path escapes. */
const ODD = 'weather station/ü 😀?a=1#%2F"'

async function start(t: Test, config: Record<string, unknown> = {}, plugins = [plugin]): Promise<TestNode> {
  const node = await boot({ plugins, config: { native: { max_deletes_per_batch: 4 }, ...config } as never })
  t.teardown(() => node.stop())
  return node
}

const client = (node: TestNode, headers: Record<string, string> = {}) => ({
  post: (url: string, payload: string, type = 'application/json') =>
    node.inject({ method: 'POST', url, payload, headers: { ...headers, 'content-type': type } }),
  drop: (name: string) => node.inject({ method: 'DELETE', url: `/api/v1/measurements/${encodeURIComponent(name)}`, headers }),
  restore: (name: string) => node.inject({ method: 'POST', url: `/api/v1/measurements/${encodeURIComponent(name)}/restore`, headers }),
  async write(measurement: string, hosts: string, times: bigint[] = [now]): Promise<void> {
    const points = [...hosts].flatMap((host) =>
      times.map((time) => `{"measurement":${JSON.stringify(measurement)},"tags":{"host":"${host}"},"timestamp":${time},"fields":{"v":1}}`),
    )
    const answer = await this.post('/api/v1/write', `[${points.join(',')}]`)
    if (answer.statusCode !== 204) throw new Error(answer.body)
  },
  /** Host and nanoseconds after `now` of each row, in order; the code when there is no answer. */
  async rows(measurement: string): Promise<string[] | string> {
    const answer = await this.post('/api/v1/svc/query', `{"measurement":${JSON.stringify(measurement)}}`)
    if (answer.statusCode !== 200) return answer.json().code
    return [...answer.body.matchAll(/"timestamp":(\d+),"tags":\{"host":"(.)"/g)].map(([, time, host]) => `${host}${BigInt(time) - now}`)
  },
})

t.test('both ends of a range are deleted, in either spelling', async (t) => {
  const api = client(await start(t))
  const times = Array.from({ length: 6 }, (_, i) => now + BigInt(i))
  for (const range of [
    `"range":{"start":${now + 1n},"end":${now + 2n}}`,
    `"start":${now + 1n},"end":${now + 2n}`,
    `"start":"${now + 1n}","end":"${now + 2n}"`,
    `"range":{"end":${now + 2n}},"start":${now + 1n}`,
  ]) {
    await api.write('cpu', 'ab', times)
    const answer = await api.post('/api/v1/delete', `{"measurement":"cpu","tags":{"host":"a"},${range}}`)
    t.equal(answer.statusCode, 200, answer.body)
    t.same(answer.json(), { deleted: 1, segments_skipped: 0, complete: true })
    t.same(await api.rows('cpu'), ['a0', 'b0', 'b1', 'b2', 'a3', 'b3', 'a4', 'b4', 'a5', 'b5'], range)
  }
  t.same((await api.post('/api/v1/delete', `{"measurement":"cpu","start":${now + 1n}}`)).json(), { deleted: 2, segments_skipped: 0, complete: true })
  t.same(await api.rows('cpu'), ['a0', 'b0'])
  t.same((await api.post('/api/v1/delete', `{"measurement":"cpu","tags":{"host":"c"}}`)).json().deleted, 0)
  t.same((await api.post('/api/v1/delete', `{"measurement":"cpu","range":{},"tags":{}}`)).json().deleted, 2)
  t.same(await api.rows('cpu'), [])
  await api.write('cpu', 'a')
  t.same(await api.rows('cpu'), ['a0'], 'writing again works')
})

t.test('bodies are read exactly', async (t) => {
  const parsed = (body: string) => parseDelete(Buffer.from(body), now)
  t.same(parsed('{"measurement":"m"}'), { measurement: 'm', matchers: [] })
  t.same(parsed('{"start":9007199254740993,"measurement":"m","tags":{"a":"","__proto__":"x"},"end":9007199254740993}'), {
    measurement: 'm',
    matchers: [
      { tag: 'a', op: '=', value: '' },
      { tag: '__proto__', op: '=', value: 'x' },
    ],
    start: 9007199254740993n,
    end: 9007199254740994n,
  })
  t.equal(parsed('{"measurement":"m","end":9223372036854775807}').end, 2n ** 63n - 1n, 'the last time of all has none after it')
  t.equal(parsed('{"measurement":"m","start":-9223372036854775808}').start, -(2n ** 63n))
  t.same(
    parseDeleteBatch(Buffer.from('{"deletes":[{"measurement":"a","end":1},{"measurement":"b"}]}'), 2, now).map(({ measurement, end }) => ({
      measurement,
      end,
    })),
    [
      { measurement: 'a', end: 2n },
      { measurement: 'b', end: undefined },
    ],
  )
})

t.test('a start of another unit does not delete all points by an open end', async (t) => {
  const api = client(await start(t))
  await api.write('m', 'a')
  for (const [unit, length] of [
    ['seconds', 1_000_000_000n],
    ['milliseconds', 1_000_000n],
    ['microseconds', 1000n],
  ] as const) {
    const time = now / length
    const error = new RegExp(`range: without an end, a start of ${time} ns, .* if it is ${unit}, 20.*Z, write ${time * length}; .* give an end too$`)
    for (const range of [`"start":${time}`, `"range":{"start":${time}}`]) {
      const deletion = `{"measurement":"m",${range}}`
      for (const [path, body] of [
        ['/api/v1/delete', deletion],
        ['/api/v1/delete_batch', `{"deletes":[{"measurement":"none"},${deletion}]}`],
      ] as const) {
        const answer = await api.post(path, body)
        t.equal(answer.statusCode, 400, body)
        t.match(answer.json(), { code: 'BAD_REQUEST', error })
      }
    }
  }
  t.same(await api.rows('m'), ['a0'])
  t.equal((await api.post('/api/v1/delete', `{"measurement":"m","start":${now}}`)).statusCode, 200)
  t.same(await api.rows('m'), [])
  await api.write('m', 'a')
  const seconds = now / 1_000_000_000n
  t.equal((await api.post('/api/v1/delete', `{"measurement":"m","start":${seconds},"end":${now}}`)).statusCode, 200, 'with an end it is meant')
  t.same(await api.rows('m'), [])
  for (const early of ['0', '1', '-1', '1000000000', '1000000000000'])
    t.equal((await api.post('/api/v1/delete', `{"measurement":"m","start":${early}}`)).statusCode, 200, early)
})

t.test('an end of another unit does not pass for a delete of nothing', async (t) => {
  const api = client(await start(t))
  await api.write('m', 'a')
  for (const [unit, length] of [
    ['seconds', 1_000_000_000n],
    ['milliseconds', 1_000_000n],
    ['microseconds', 1000n],
  ] as const) {
    const end = now / length + 60n
    const error = new RegExp(`range: an end of ${end} ns is in 1970; if it is ${unit}, 20.*Z, write ${end * length}; if it is nanoseconds, let start be 0$`)
    for (const range of [`"start":${now / length},"end":${end}`, `"range":{"start":${now / length},"end":${end}}`, `"end":${end}`]) {
      const answer = await api.post('/api/v1/delete', `{"measurement":"m",${range}}`)
      t.equal(answer.statusCode, 400, range)
      t.match(answer.json(), { code: 'BAD_REQUEST', error })
    }
    t.equal((await api.post('/api/v1/delete', `{"measurement":"m","start":0,"end":${end}}`)).statusCode, 200, 'after such a start it is meant')
  }
  t.same(await api.rows('m'), ['a0'])
  for (const range of ['"start":1,"end":2', '"start":1000000000,"end":2000000000', '"end":0', '"end":-1', `"end":${2n ** 62n}`])
    t.equal((await api.post('/api/v1/delete', `{"measurement":"m",${range}}`)).statusCode, 200, range)
})

t.test('a body that cannot be read is a 400 that names the key, and deletes nothing', async (t) => {
  const api = client(await start(t))
  await api.write('m', 'a')
  const missing = ['{"tags":{"a":"b"}}', '{"deletes":[{"measurement":"m"},{}]}', '{}']
  const refused = (answer: { statusCode: number; json(): object }, body: string, error: RegExp) => {
    const [status, code] = missing.includes(body) ? [422, 'INVALID_BODY'] : [400, 'BAD_REQUEST']
    t.equal(answer.statusCode, status, body)
    t.match(answer.json(), { code, error }, body)
  }
  for (const [body, message] of [
    ['{"measurement":"m","fields":["v"]}', /^cannot read delete: fields: unknown key; a delete has measurement/],
    ['{"measurement":"m","range":{"from":1}}', /range\.from: unknown key/],
    ['{"measurement":"m","start":1.5}', /start: "1\.5" is not an integer/],
    ['{"measurement":"m","range":{"end":9223372036854775808}}', /range\.end: .* within 64 bits/],
    ['{"measurement":"m","start":2,"end":1}', /range: start is after end/],
    ['{"measurement":"m","start":1,"range":{"start":1}}', /range\.start: the bound is given twice/],
    ['{"measurement":"m","range":{"end":1},"end":1}', /end: the bound is given twice/],
    ['{"measurement":"m","start":1,"start":1}', /occurs twice/],
    ['{"measurement":"m","tags":{"a":1}}', /tags\.a: expected a string/],
    ['{"tags":{"a":"b"}}', /measurement: a delete needs the name/],
    ['{"measurement":""}', /measurement: a delete needs the name/],
    ['{"measurement":"m"} x', /expected the end of the body/],
    ['', /found the end of the body/],
  ] as const) {
    refused(await api.post('/api/v1/delete', body), body, message)
  }
  for (const [body, message] of [
    ['{"deletes":[{"measurement":"m"},{"measurement":"m","range":{"start":"x"}}]}', /deletes\[1\]\.range\.start: "x" is not an integer/],
    ['{"deletes":[{"measurement":"m"},{"a":1}]}', /deletes\[1\]\.a: unknown key/],
    ['{"deletes":[{"measurement":"m"},{}]}', /deletes\[1\]\.measurement: a delete needs the name/],
    ['{"deletes":[]}', /deletes: a batch needs at least one/],
    ['{}', /deletes: a batch needs a list of deletes/],
    ['{"deletes":[],"x":1}', /x: unknown key; a batch has deletes/],
    [`{"deletes":[${Array(5).fill('{"measurement":"m"}').join(',')}]}`, /deletes: there are more than 4, native\.max_deletes_per_batch/],
    ['[{"measurement":"m"}]', /expected an object/],
  ] as const) {
    refused(await api.post('/api/v1/delete_batch', body), body, message)
  }
  t.same(await api.rows('m'), ['a0'])
  t.match((await api.post('/api/v1/delete', '{"measurement":"none"}')).json(), { code: 'NOT_FOUND', error: /^cannot delete from measurement "none": / })
  t.equal((await api.post('/api/v1/delete', '{}', 'text/plain')).statusCode, 415)
})

t.test('a batch answers for each item in its order', async (t) => {
  const api = client(await start(t))
  await api.write('m', 'ab')
  await api.write('n', 'a', [now, now + 1n])
  const deletes = [`{"measurement":"n","end":${now}}`, '{"measurement":"none"}', '{"measurement":"m","tags":{"host":"a"}}', '{"measurement":"m"}']
  const answer = await api.post('/api/v1/delete_batch', `{"deletes":[${deletes.join(',')}]}`)
  t.equal(answer.statusCode, 200, answer.body)
  const items = answer.json()
  t.match(items, [
    { measurement: 'n', deleted: 1, segments_skipped: 0 },
    { measurement: 'none', deleted: null, segments_skipped: 0, error: /^cannot delete from measurement "none": it does not exist/ },
    { measurement: 'm', deleted: 1, segments_skipped: 0 },
    { measurement: 'm', deleted: 1, segments_skipped: 0 },
  ])
  t.notOk('error' in items[0])
  t.same(await api.rows('m'), [])
  t.same(await api.rows('n'), ['a1'])
})

t.test('segments out of reach are told and counted, faults of the server are not described', async (t) => {
  const node = await start(t)
  const api = client(node)
  const answers = [
    async () => ({ series: 2, segmentsSkipped: 3 }),
    async () => ({ series: 1, segmentsSkipped: 1 }),
    async () => {
      throw new SvcError('DATABASE_ERROR', 'a secret of the server')
    },
    async () => {
      throw new SvcError('STORAGE_FULL', 'no space left')
    },
  ]
  Object.defineProperty(node.storage, 'delete', { value: () => (answers.shift() as () => Promise<unknown>)() })
  t.same((await api.post('/api/v1/delete', '{"measurement":"m"}')).json(), { deleted: 2, segments_skipped: 3, complete: false })
  const batch = await api.post('/api/v1/delete_batch', '{"deletes":[{"measurement":"a"},{"measurement":"b"},{"measurement":"c"}]}')
  t.same(batch.json(), [
    { measurement: 'a', deleted: 1, segments_skipped: 1 },
    { measurement: 'b', deleted: null, segments_skipped: 0, error: 'DATABASE_ERROR: an internal error occurred' },
    { measurement: 'c', deleted: null, segments_skipped: 0, error: 'no space left' },
  ])
})

t.test('measurements are dropped and restored, whatever their names', async (t) => {
  const api = client(await start(t, { database: { soft_delete_ttl_secs: 3600 } }))
  for (const name of ['cpu', ODD, 'restore', 'a/restore', '%', 'x'.repeat(256)]) {
    await api.write(name, 'a')
    const dropped = await api.drop(name)
    t.equal(dropped.statusCode, 204, dropped.body)
    t.equal(dropped.body, '')
    t.equal(await api.rows(name), 'NOT_FOUND', name)
    t.match((await api.drop(name)).json(), { code: 'NOT_FOUND', error: /^cannot drop measurement/ })
    const restored = await api.restore(name)
    t.equal(restored.statusCode, 204, restored.body)
    t.same(await api.rows(name), ['a0'], name)
    t.match((await api.restore(name)).json(), { code: 'NOT_FOUND', error: /it was never dropped/ })
    await api.drop(name)
    await api.write(name, 'b')
    const conflict = await api.restore(name)
    t.equal(conflict.statusCode, 409)
    t.match(conflict.json(), { code: 'CONFLICT', error: /^cannot restore measurement .* the name is in use/ })
    t.same((await api.post('/api/v1/delete', `{"measurement":${JSON.stringify(name)}}`)).json().deleted, 1)
  }
  await api.write(ODD, 'c')
  t.equal((await api.drop(ODD)).statusCode, 204)
})

t.test('a drop is final without soft_delete_ttl_secs', async (t) => {
  const api = client(await start(t))
  await api.write('cpu', 'a')
  t.equal((await api.drop('cpu')).statusCode, 204)
  const answer = await api.restore('cpu')
  t.equal(answer.statusCode, 404)
  t.match(answer.json(), { code: 'NOT_FOUND', error: /soft_delete_ttl_secs is unset/ })
})

t.test('under multi_tenancy a drop is final and reaches its namespace only', async (t) => {
  const node = await start(t, { server: { multi_tenancy: true }, database: { soft_delete_ttl_secs: 3600 } })
  const [one, two] = ['one', 'two'].map((namespace) => client(node, { 'x-namespace': namespace }))
  for (const tenant of [one, two]) await tenant.write('cpu', 'ab')
  t.equal((await one.post('/api/v1/delete', '{"measurement":"cpu","tags":{"host":"a"}}')).json().deleted, 1)
  t.same(await one.rows('cpu'), ['b0'])
  t.same(await two.rows('cpu'), ['a0', 'b0'])
  t.equal((await one.drop('cpu')).statusCode, 204)
  t.equal(await one.rows('cpu'), 'NOT_FOUND')
  t.same(await two.rows('cpu'), ['a0', 'b0'])
  const answer = await one.restore('cpu')
  t.equal(answer.statusCode, 404)
  t.match(answer.json(), { code: 'NOT_FOUND', error: /^cannot restore measurement "cpu": under \[server\] multi_tenancy a drop is final$/ })
})

t.test('authorizers are asked for delete, and for write where a drop is undone', async (t) => {
  const asked: string[] = []
  const watch = definePlugin({
    id: 'watch',
    summary: 'Notes what is asked',
    stability: 'experimental',
    setup(svc) {
      svc.auth.authenticator(() => ({ principal: 'somebody', method: 'test', claims: {}, namespaces: [], admin: true }))
      svc.auth.authorizer(({ action, resource }) => {
        asked.push(`${action} ${resource}`)
        return undefined
      })
    },
  })
  const api = client(await start(t, {}, [watch, plugin]))
  await api.post('/api/v1/delete', '{}')
  await api.post('/api/v1/delete_batch', '{}')
  await api.drop('m')
  await api.restore('m')
  t.same(asked, ['delete /api/v1/delete', 'delete /api/v1/delete_batch', 'delete /api/v1/measurements/:name', 'write /api/v1/measurements/:name/restore'])
})

t.test('the routes are described', async (t) => {
  const node = await start(t)
  const { paths } = (await node.inject('/api/v1/openapi.json')).json()
  t.match(paths['/api/v1/delete'].post, { requestBody: {}, responses: { 200: { content: { 'application/json': { schema: { type: 'object' } } } } } })
  t.match(paths['/api/v1/delete_batch'].post, { responses: { 200: { content: { 'application/json': { schema: { type: 'array' } } } } } })
  t.match(paths['/api/v1/measurements/{name}'].delete, { responses: { 204: { description: 'Done' } } })
  t.match(paths['/api/v1/measurements/{name}/restore'].post, { responses: { 204: { description: 'Done' } } })
})
