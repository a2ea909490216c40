import { boot, type TestNode } from 'svcdb/testkit'
import t from 'tap'
import plugin from './index.ts'

let node: TestNode
t.before(async () => {
  node = await boot({ plugins: [plugin], config: { server: { max_write_batch_size: 1000, sql_max_rows: 50 } } })
})
t.after(() => node.stop())

const now = BigInt(Date.now()) * 1_000_000n
const post = (url: string, payload: string, type = 'application/json') => node.inject({ method: 'POST', url, payload, headers: { 'content-type': type } })
const query = (plan: string) => post('/api/v1/svc/query', plan)

t.test('what was written is read back exactly', async (t) => {
  const written = await post(
    '/api/v1/write',
    `[{"measurement":"m","tags":{"host":"b"},"timestamp":${now},"fields":{"big":9007199254740993,"f":0.1,"ok":true,"s":"a \\"b\\"","d":{"decimal":"12.50"}}},
      {"measurement":"m","tags":{"host":"a"},"timestamp":${now},"fields":{"f":-0.0}},
      {"measurement":"m","timestamp":${now - 1n},"fields":{"f":1e21}}]`,
  )
  t.equal(written.statusCode, 204, written.body)
  t.equal(written.body, '')
  const answer = await query('{"measurement":"m"}')
  t.equal(answer.statusCode, 200, answer.body)
  t.match(answer.headers['content-type'], /application\/json/)
  t.equal(
    answer.body,
    `[{"timestamp":${now - 1n},"tags":{},"fields":{"f":1e+21}},\n` +
      `{"timestamp":${now},"tags":{"host":"b"},"fields":{"big":9007199254740993,"f":0.1,"ok":true,"s":"a \\"b\\"","d":{"decimal":"12.50"}}},\n` +
      `{"timestamp":${now},"tags":{"host":"a"},"fields":{"f":-0}}]`,
  )
})

t.test('range, tags, fields, limit and offset choose rows', async (t) => {
  const points = Array.from(
    { length: 40 },
    (_, i) => `{"measurement":"q","tags":{"host":"h${i % 4}"},"timestamp":${now + BigInt(i)},"fields":{"v":${i}${i % 2 ? ',"odd":true' : ''}}}`,
  )
  t.equal((await post('/api/v1/write', `[${points.join(',')}]`)).statusCode, 204)
  const values = async (plan: string) => {
    const answer = await query(plan)
    t.equal(answer.statusCode, 200, answer.body)
    return (answer.json() as { fields: { v?: number } }[]).map((row) => row.fields.v)
  }
  t.same(await values(`{"measurement":"q","range":{"start":${now + 3n},"end":${now + 6n}}}`), [3, 4, 5])
  t.same(await values(`{"measurement":"q","range":{"start":"${now + 38n}"}}`), [38, 39])
  t.same(await values('{"measurement":"q","tags":{"host":"h1"},"limit":2,"offset":1}'), [5, 9])
  t.same(await values('{"measurement":"q","limit":0}'), [])
  t.same(await values('{"measurement":"q","offset":38}'), [38, 39])
  t.same((await query('{"measurement":"q","fields":["odd"],"limit":1}')).json(), [{ timestamp: Number(now + 1n), tags: { host: 'h1' }, fields: { odd: true } }])
})

t.test('the ceiling of rows: a larger limit is refused before the scan, a larger result after it', async (t) => {
  const points = Array.from({ length: 60 }, (_, i) => `{"measurement":"many","timestamp":${now + BigInt(i)},"fields":{"v":${i}}}`)
  await post('/api/v1/write', `[${points.join(',')}]`)
  const limit = await query('{"measurement":"nothing here","limit":51}')
  t.equal(limit.statusCode, 400)
  t.match(limit.json().error, /limit 51 is above server\.sql_max_rows, which is 50/)
  const result = await query('{"measurement":"many"}')
  t.equal(result.statusCode, 400, result.body.slice(0, 200))
  t.match(result.json().error, /more than 50 rows/)
  t.equal((await query('{"measurement":"many","limit":50}')).json().length, 50)
  t.equal((await query('{"measurement":"many","offset":10}')).json().length, 50)
})

t.test('a plan that cannot be read is a 400 that names the key', async (t) => {
  for (const [plan, message] of [
    ['{"measurement":"m","order":1}', /order: unknown key/],
    ['{"measurement":"m","range":{"from":1}}', /range\.from: unknown key/],
    ['{"measurement":"m","range":{"start":1.5}}', /range\.start: "1\.5" is not an integer/],
    ['{"measurement":"m","range":{"start":9223372036854775808}}', /range\.start: .* within 64 bits/],
    ['{"measurement":"m","range":{"start":2,"end":1}}', /range: start is after end/],
    ['{"measurement":"m","limit":-1}', /limit: -1 is not a count/],
    ['{"measurement":"m","tags":{"a":1}}', /tags\.a: expected a string/],
    ['{"measurement":"m","fields":[1]}', /fields\[0\]: expected a string/],
    ['{"measurement":""}', /measurement: a query needs the name/],
    ['[]', /expected an object/],
    ['', /found the end of the body/],
  ] as const) {
    const answer = await query(plan)
    t.equal(answer.statusCode, 400, plan)
    t.match(answer.json(), { code: 'BAD_REQUEST', error: message }, plan)
  }
  const nameless = await query('{"limit":1}')
  t.equal(nameless.statusCode, 422)
  t.match(nameless.json(), { code: 'INVALID_BODY', error: /measurement: a query needs the name/ })
  t.equal((await query('{"measurement":"unheard"}')).statusCode, 404)
  t.equal((await post('/api/v1/svc/query', '{}', 'text/plain')).statusCode, 415)
})

t.test('explain shows the range that is scanned', async (t) => {
  const answer = await post('/api/v1/svc/query/explain', `{"measurement":"q","range":{"start":${now}}}`)
  t.equal(answer.statusCode, 200, answer.body)
  t.match(answer.json(), { measurement: 'q', time: { start: String(now) } })
})

t.test('a bad point refuses all, an old one only itself', async (t) => {
  const bad = await post('/api/v1/write', '[{"measurement":"atomic","fields":{"v":1}},{"measurement":"atomic","fields":{"v":}}]')
  t.equal(bad.statusCode, 400)
  t.match(bad.json(), { code: 'INVALID_POINT', error: /points\[1\]\.fields\.v: / })
  t.equal((await query('{"measurement":"atomic"}')).statusCode, 404)
  const old = now - 864_000_000_000_000n
  const body = `[{"measurement":"old","timestamp":${now},"fields":{"v":1}},{"measurement":"old","timestamp":${old},"fields":{"v":2}}]`
  const partial = await post('/api/v1/write', body)
  t.equal(partial.statusCode, 400)
  t.match(partial.json(), { code: 'PARTIAL_WRITE', error: /^partial write: 1 point written, 1 rejected; first: points\[1\]: /, written: 1, rejected: 1 })
  t.equal((await post('/api/v1/write?backfill=true', body)).statusCode, 204)
  t.equal((await query('{"measurement":"old"}')).json().length, 2)
  const future = await post('/api/v1/write', `[{"measurement":"old","timestamp":${now + 86_400_000_000_000n},"fields":{"v":1}}]`)
  t.match(future.json(), { code: 'FUTURE_TIMESTAMP', error: /^points\[0\]: / })
  t.equal((await post('/api/v1/write', '[]', 'text/plain')).statusCode, 415)
})

t.test('times of JSON are nanoseconds, and another precision is refused', async (t) => {
  const body = `[{"measurement":"precise","timestamp":${now},"fields":{"v":1}}]`
  for (const precision of ['ns', 'n']) t.equal((await post(`/api/v1/write?precision=${precision}`, body)).statusCode, 204, precision)
  for (const precision of ['s', 'ms', '', 'x']) {
    const answer = await post(`/api/v1/write?precision=${precision}`, body)
    t.equal(answer.statusCode, 400, precision)
    t.match(answer.json(), { code: 'BAD_REQUEST', error: /^cannot use precision ".*": times of points in JSON are nanoseconds; / })
  }
})

t.test('measurements and their columns', async (t) => {
  const declared = await post('/api/v1/measurements/prices/schema/fields', '{"name":"price","type":"decimal","scale":4}')
  t.equal(declared.statusCode, 200, declared.body)
  const expected = {
    name: 'prices',
    columns: [
      { name: '_time', role: 'timestamp', data_type: 'timestamp(ns)' },
      { name: 'price', role: 'field', data_type: 'decimal(38, 4)' },
    ],
  }
  t.same(declared.json(), expected)
  t.same((await post('/api/v1/measurements/prices/schema/fields', '{"name":"price","type":"decimal","scale":4}')).json(), expected, 'again changes nothing')
  t.same((await node.inject('/api/v1/measurements/prices/schema')).json(), expected)
  t.equal((await node.inject('/api/v1/measurements/none/schema')).statusCode, 404)
  for (const [body, message] of [
    ['{"name":"price","type":"float64"}', /price/],
    ['{"name":"x","type":"float64","scale":2}', /only a decimal has a scale/],
    ['{"name":"x","type":"float32"}', /there is no type "float32"/],
    ['{"name":"x","type":"decimal"}', /a decimal needs a scale/],
    ['{"name":"x","type":"decimal","scale":39}', /a decimal needs a scale/],
  ] as const) {
    const answer = await post('/api/v1/measurements/prices/schema/fields', body)
    t.equal(answer.statusCode, 400, body)
    t.match(answer.json().error, message, body)
  }
  const exceeding = await post('/api/v1/write', `[{"measurement":"prices","timestamp":${now},"fields":{"price":{"decimal":"1.23456"}}}]`)
  t.equal(exceeding.statusCode, 400)
  t.match(exceeding.json().error, /points\[0\].*5.*4/)
  const list = (await node.inject('/api/v1/measurements?limit=1&offset=1')).json()
  t.match(list, { offset: 1, limit: 1 })
  t.equal(list.items.length, 1)
  t.ok(list.total >= 4)
  t.same((await node.inject('/api/v1/measurements')).json().limit, 100)
})

t.test('points and queries are counted', async (t) => {
  const text = (await node.inject('/metrics')).body
  t.match(text, /^svc_http_points_written_total [1-9]\d*$/m)
  t.match(text, /^svc_http_queries_total [1-9]\d*$/m)
})

t.end()

t.test('rows that are held to be put in order are bounded in bytes, whatever is left out of the answer', async (t) => {
  const node = await boot({ plugins: [plugin], config: { native: { max_query_memory_bytes: 1_048_576 } } })
  t.teardown(() => node.stop())
  const send = (url: string, payload: object) => node.inject({ method: 'POST', url, payload })
  const text = 'x'.repeat(10_000)
  const points = Array.from({ length: 100 }, (_, i) => ({
    measurement: 'big',
    tags: { host: `h${i}` },
    timestamp: Number(now / 1_000_000_000n) * 1e9 + i,
    fields: { text, n: i },
  }))
  t.equal((await send('/api/v1/write', points)).statusCode, 204)
  for (const plan of [{ offset: 1000 }, { offset: 1_000_000, limit: 1 }, {}]) {
    const answer = await send('/api/v1/svc/query', { measurement: 'big', ...plan })
    t.equal(answer.statusCode, 400, JSON.stringify(plan))
    t.match(
      answer.json().error,
      /its rows take more than 1048576 bytes of memory, which is native.max_query_memory_bytes; lower offset, narrow the range or name fewer/,
    )
  }
  t.equal((await send('/api/v1/svc/query', { measurement: 'big', limit: 10, offset: 5 })).json().length, 10)
  const long = points.map(({ timestamp, fields }, i) => ({ measurement: 'long', tags: { host: `h${i % 2}` }, timestamp: timestamp + i * 1e6, fields }))
  t.equal((await send('/api/v1/write', long)).statusCode, 204)
  for (const limit of [1, 3, 40]) {
    const answer = await send('/api/v1/svc/query', { measurement: 'long', limit })
    t.same(
      answer.json().map?.(({ fields }: { fields: { n: number } }) => fields.n),
      Array.from({ length: limit }, (_, i) => i),
      `the first ${limit} rows of a series of many`,
    )
  }
  t.equal((await send('/api/v1/svc/query', { measurement: 'long', limit: 80 })).statusCode, 400)
  t.equal((await send('/api/v1/svc/query', { measurement: 'big', fields: ['n'] })).json().length, 100)
})
