import type { ServiceError } from '@grpc/grpc-js'
import { tableFromIPC } from 'apache-arrow'
import { emptyHistogram, encodeHistogram, type NativeHistogram, staleHistogram } from 'svcdb/lib/histogram'
import t, { type Test } from 'tap'
import { until } from '../../test/support/until.ts'
import { type Message, point, type StartOptions, start, TestClient } from './testing.ts'

const NOW = BigInt(Date.now()) * 1_000_000n

async function setUp(t: Test, options: StartOptions = {}) {
  const { node, port } = await start(options)
  const client = new TestClient(port)
  t.teardown(async () => {
    client.close()
    await node.stop()
  })
  return { node, port, client }
}

/** The error that a call ends with. */
async function errorOf(answer: Promise<unknown>): Promise<ServiceError> {
  return answer.then(
    (value) => {
      throw new Error(`it was answered ${JSON.stringify(value)}`)
    },
    (error) => error,
  )
}

const rowsOf = async (client: TestClient, request: Message): Promise<Message[]> =>
  (await client.query({ format: 'ROWS', ...request })).flatMap((message) => message.rows)

const tableOf = async (client: TestClient, request: Message) => tableFromIPC(Buffer.concat((await client.query(request)).map((message) => message.arrow_ipc)))

const HISTOGRAM: NativeHistogram = {
  ...emptyHistogram(),
  count: 3,
  sum: 4.5,
  positiveSpans: [{ offset: 1, length: 1 }],
  positiveCounts: Float64Array.of(3),
}

const KINDS = {
  f: { float64: -0.5 },
  i: { int64: '-9223372036854775808' },
  u: { uint64: '18446744073709551615' },
  b: { boolean: false },
  s: { string: 'ünï' },
  d: { decimal: '12.3400' },
}

for (const storage of ['memory', 'embedded']) {
  t.test(`every kind of value there and back: ${storage}`, async (t) => {
    const { client, node } = await setUp(t, { storage })
    const points = [point('kinds', NOW, { host: 'a', zone: 'ü' }, KINDS), point('kinds', NOW + 1n, { host: 'b' }, { f: 2.5 })]
    t.match(await client.call('Write', { points }), { written: '2' })
    const rows = await rowsOf(client, { measurement: 'kinds' })
    t.same(
      rows.map((row) => row.timestamp),
      [String(NOW), String(NOW + 1n)],
    )
    t.same(rows[0].tags, points[0].tags)
    const kindOf = (field: Message) => [field.key, { [field.value.value]: field.value[field.value.value] }]
    t.same(Object.fromEntries(rows[0].fields.map(kindOf)), KINDS)
    t.same(rows[1].fields.map(kindOf), [['f', { float64: 2.5 }]])

    const table = await tableOf(client, { measurement: 'kinds' })
    t.same(
      table.schema.fields.map(({ name, type }) => `${name} ${type}`),
      ['_time Timestamp<NANOSECOND>', 'host Utf8', 'zone Utf8', 'f Float64', 'i Int64', 'u Uint64', 'b Bool', 's Utf8', 'd Decimal[38e+4]'],
    )
    t.same(Array.from(table.getChild('_time')?.data[0].values as BigInt64Array), [NOW, NOW + 1n])
    t.same(table.getChild('host')?.toArray(), ['a', 'b'])
    t.same([table.getChild('zone')?.get(0), table.getChild('zone')?.get(1)], ['ü', null])
    t.same([table.getChild('i')?.get(0), table.getChild('i')?.get(1)], [-9223372036854775808n, null])
    t.same([table.getChild('u')?.get(0), table.getChild('b')?.get(0), table.getChild('s')?.get(0)], [18446744073709551615n, false, 'ünï'])
    const { body } = await node.inject('/metrics')
    t.match(body, /svc_grpc_points_written_total 2\n/)
    t.match(body, /svc_grpc_queries_total 2\n/)
  })
}

t.test('a point without a time has the server’s', async (t) => {
  const { client } = await setUp(t)
  await client.call('Write', { points: [point('m', 0, {}, { v: 1 })] })
  const [row] = await rowsOf(client, { measurement: 'm' })
  const age = BigInt(Date.now()) * 1_000_000n - BigInt(row.timestamp)
  t.ok(age >= 0n && age < 10_000_000_000n)
})

t.test('range, tags, fields and limit; rows by time and then series', async (t) => {
  const { client } = await setUp(t)
  const points = Array.from({ length: 20 }, (_, i) => point('m', NOW + BigInt(i >> 1), { host: `h${i & 1}` }, { a: i, b: BigInt(i) }))
  await client.call('Write', { points })
  const all = await rowsOf(client, { measurement: 'm' })
  t.same(
    all.map(({ fields }) => Number(fields[0].value.float64)),
    Array.from({ length: 20 }, (_, i) => i),
  )
  const request = {
    measurement: 'm',
    range: { start: String(NOW + 2n), end: String(NOW + 8n) },
    tag_filters: [{ key: 'host', value: 'h1' }],
    field_columns: ['b', 'none'],
    limit: 2,
  }
  t.same(
    (await rowsOf(client, request)).map(({ fields }) => fields.map((field: Message) => [field.key, field.value.int64])),
    [[['b', '5']], [['b', '7']]],
  )
  const table = await tableOf(client, request)
  t.same(
    table.schema.fields.map(({ name }) => name),
    ['_time', 'host', 'b'],
  )
  t.same(Array.from(table.getChild('b')?.toArray()), [5n, 7n])
  t.equal((await tableOf(client, { ...request, range: { start: '1', end: '2' } })).numRows, 0)
  t.match(await errorOf(rowsOf(client, { ...request, range: { start: '3', end: '2' } })), { code: 3, details: /start 3 is after end 2/ })
  t.match(await errorOf(rowsOf(client, { measurement: 'no' })), { code: 5, details: /no/ })
  t.match(await errorOf(rowsOf(client, { measurement: '' })), { code: 3, details: /measurement is empty/ })
})

t.test('a tag that is called like a field is a column of its own, named as in SQL', async (t) => {
  const { client } = await setUp(t, { storage: 'embedded' })
  const points = [point('m', NOW, { f: 'a', f_tag: 'b', host: 'c' }, { f: 1, g: 2 }), point('m', NOW + 1n, { g: 'd' }, { f: 3 })]
  await client.call('Write', { points })
  const namesOf = async (request: Message): Promise<string[]> => (await tableOf(client, { measurement: 'm', ...request })).schema.fields.map(({ name }) => name)
  const { columns } = await client.call('ExecuteSql', { query: 'SELECT * FROM m' })
  const names = columns.map(({ name }: Message) => name)
  t.equal(new Set(names).size, 7)
  t.same(await namesOf({}), names)
  // Whatever fields are asked for.
  t.same(
    await namesOf({ field_columns: ['g'] }),
    names.filter((name: string) => name !== 'f'),
  )
  const table = await tableOf(client, { measurement: 'm' })
  t.same([...(table.getChild('g_tag') ?? [])], [null, 'd'])
})

t.test('many rows come in many messages, and no more than allowed', async (t) => {
  const { client } = await setUp(t, { config: { server: { sql_max_rows: 50_000 } }, section: { max_send_bytes: 200_000 } })
  const points = Array.from({ length: 50_000 }, (_, i) => point('m', NOW + BigInt(i), { host: `h${i % 7}` }, { v: i }))
  t.match(await client.call('Write', { points }), { written: '50000' })
  const expected = Array.from({ length: 50_000 }, (_, i) => i)
  const messages = await client.query({ measurement: 'm' })
  t.ok(messages.length > 5)
  const table = tableFromIPC(Buffer.concat(messages.map((message) => message.arrow_ipc)))
  t.same(Array.from(table.getChild('v')?.toArray()), expected)
  const rows = await rowsOf(client, { measurement: 'm' })
  t.same(
    rows.map(({ fields }) => fields[0].value.float64),
    expected,
  )
  await client.call('Write', { points: [point('m', NOW - 1n, {}, { v: -1 })] })
  t.match(await errorOf(client.query({ measurement: 'm' })), { code: 3, details: /more than 50000 rows/ })
  t.match(await errorOf(client.query({ measurement: 'm', limit: 50_001 })), { code: 3, details: /server\.sql_max_rows/ })
  t.match(await errorOf(client.call('ExecuteSql', { query: 'SELECT * FROM m' })), { code: 12 }, 'the engine in memory has no SQL')
})

t.test('a client that does not read does not keep its query beyond its time', async (t) => {
  const { client, node } = await setUp(t, { config: { server: { query_timeout_secs: 10 } }, section: { send_buffer_bytes: 65_536 } })
  const points = Array.from({ length: 1000 }, (_, i) => point('long', NOW + BigInt(i), {}, { text: 'x'.repeat(30_000) }))
  await client.call('Write', { points })
  const stream = client.service.Query({ measurement: 'long', format: 'ROWS' })
  const ended = new Promise<{ code: number }>((resolve) => stream.on('error', resolve))
  stream.once('data', () => stream.pause())
  const running = async (): Promise<string | undefined> => /^svc_grpc_calls_running (\d)/m.exec((await node.inject('/metrics')).body)?.[1]
  await until('the call is running', async () => (await running()) === '1')
  await until('its time is over', async () => (await running()) === '0')
  stream.on('data', () => {}).resume()
  t.ok([1, 4, 13, 14].includes((await ended).code), 'it does not pass for the whole answer')
})

t.test('points that are none are left out, and the others written', async (t) => {
  const { client } = await setUp(t, { section: { max_fields_per_point: 2 }, config: { server: { max_write_batch_size: 10 } } })
  const written = async (...points: Message[]) => client.call('Write', { points })
  const good = (i: number) => point('m', NOW + BigInt(i), {}, { v: i })
  for (const [bad, text] of [
    [point('', NOW, {}, { v: 1 }), /points\[0\]: .*measurement/],
    [point('m', NOW, {}, {}), /points\[0\]: .*no field/],
    [point('m', NOW, { 'a\x01': 'x' }, { v: 1 }), /points\[0\]: .*reserved/],
    [point('m', NOW, {}, { _time: 1 }), /points\[0\]: .*_time/],
    [point('m', NOW, {}, { v: {} }), /points\[0\]: .*field "v": its value is empty; set float64/],
    [point('m', NOW, {}, { v: { json: '{}' } }), /points\[0\]: .*field "v": json/],
    [point('m', NOW, {}, { v: { decimal: '12x' } }), /points\[0\]: .*"12x" is not a decimal/],
    [point('m', NOW, {}, { v: { decimal: '1'.repeat(39) } }), /points\[0\]: .*38 digits/],
    [point('m', NOW, {}, { v: Number.NaN }), /points\[0\]: /],
    [point('m', NOW, {}, { a: 1, b: 1, c: 1 }), /points\[0\]: .*more than 2 fields/],
    [{ ...good(0), fields: [...good(0).fields, ...good(0).fields] }, /points\[0\]: .*"v" occurs twice/],
    [
      {
        ...good(0),
        tags: [
          { key: 'a', value: '1' },
          { key: 'a', value: '2' },
        ],
      },
      /points\[0\]: .*tag "a" occurs twice/,
    ],
  ] as const) {
    const error = await errorOf(written(bad))
    t.equal(error.code, 3, String(text))
    t.match(error.details, text)
    t.same(error.metadata.get('svc-code'), ['INVALID_POINT'])
  }
  const partial = await errorOf(written(good(0), point('m', NOW + 1n, {}, { v: 'text' }), good(2), point('m', NOW + 3n, {}, { v: {} })))
  t.match(partial, { code: 3, details: /partial write: 2 points written, 2 rejected; first: points\[1\]: .*"v"/ })
  t.same(partial.metadata.get('svc-code'), ['PARTIAL_WRITE'])
  t.same(
    (await rowsOf(client, { measurement: 'm' })).map(({ fields }) => fields[0].value.float64),
    [0, 2],
  )
  t.match(await errorOf(written(...Array.from({ length: 11 }, (_, i) => good(i)))), { code: 3, details: /max_write_batch_size is 10/ })
  t.match(await written(), { written: '0' })
})

t.test('backfill and idempotency keys', async (t) => {
  const { client } = await setUp(t)
  const old = NOW - 30n * 86_400_000_000_000n
  await client.call('Write', { points: [point('m', NOW, {}, { v: 1 })] })
  const late = { points: [point('m', old, {}, { v: 2 })] }
  const refused = await errorOf(client.call('Write', late))
  t.equal(refused.code, 3)
  t.match(refused.details, new RegExp(`${old}.*backfill`))
  t.match(await client.call('Write', { ...late, backfill: true }), { written: '1' })
  const metadata = { 'idempotency-key': 'once' }
  await client.call('Write', { points: [point('m', NOW + 1n, {}, { v: 1 })] }, { metadata })
  t.match(await errorOf(client.call('Write', { points: [point('m', NOW + 1n, {}, { v: 1 })] }, { metadata })), { code: 6 })
})

t.test('schemas, deletes, drops, the server', async (t) => {
  const { client } = await setUp(t)
  await client.call('Write', {
    points: Array.from({ length: 10 }, (_, i) => point('m', NOW + BigInt(i), { host: `h${i % 2}` }, { f: i, d: { decimal: '1.50' } })),
  })
  const columns = [
    { name: '_time', role: 'timestamp', data_type: 'timestamp(ns)' },
    { name: 'host', role: 'tag', data_type: 'string' },
    { name: 'f', role: 'field', data_type: 'float64' },
    { name: 'd', role: 'field', data_type: 'decimal(38, 2)' },
  ]
  t.same(await client.call('GetSchema', { measurement: 'm' }), { measurement: 'm', columns })
  t.same(await client.call('ListMeasurements', {}), { measurements: [{ name: 'm', columns }] })
  const info = await client.call('ServerInfo', {})
  t.match(info, { version: /^\d+\.\d+\.\d+/, measurement_count: '1' })
  t.match(await errorOf(client.call('GetSchema', { measurement: 'no' })), { code: 5 })

  const range = { start: String(NOW), end: String(NOW + 5n) }
  t.same(await client.call('Delete', { measurement: 'm', tag_filters: [{ key: 'host', value: 'h0' }], range }), { deleted: '1', segments_skipped: '0' })
  t.same(
    (await rowsOf(client, { measurement: 'm', field_columns: ['f'] })).map(({ fields }) => fields[0].value.float64),
    [1, 3, 5, 6, 7, 8, 9],
  )
  t.match(
    await errorOf(client.call('Delete', { measurement: 'm', range: { start: '5' } })),
    { code: 3, details: /leave the range out/ },
    'half a range is no range',
  )
  t.match(await errorOf(client.call('Delete', { measurement: 'no' })), { code: 5 })
  await client.call('DropMeasurement', { measurement: 'm' })
  t.match(await errorOf(client.query({ measurement: 'm' })), { code: 5 })
  t.match(await errorOf(client.call('DropMeasurement', { measurement: 'm' })), { code: 5 })
})

t.test('decimals: sign and point are optional', async (t) => {
  const { client } = await setUp(t)
  const written = ['+.5', '.5', '-.50', '+5.', '5']
  await client.call('Write', { points: written.map((decimal, i) => point('m', NOW + BigInt(i), {}, { d: { decimal } })) })
  const rows = await rowsOf(client, { measurement: 'm' })
  t.same(
    rows.map(({ fields }) => Number(fields[0].value.decimal)),
    [0.5, 0.5, -0.5, 5, 5],
  )
  for (const decimal of ['+', '+-1', '.', '+.'])
    t.match(await errorOf(client.call('Write', { points: [point('m', NOW, {}, { d: { decimal } })] })), { code: 3, details: /is not a decimal/ }, decimal)
})

t.test('SQL: scalars of their own kind, json for the rest', async (t) => {
  const { client } = await setUp(t, { storage: 'embedded', config: { server: { sql_max_rows: 1000 } } })
  const { columns, rows, row_count, truncated } = await client.call('ExecuteSql', {
    query: `SELECT 1.5::DOUBLE AS f, 'nan'::DOUBLE AS n, -1::BIGINT AS i, 18446744073709551615::UBIGINT AS u, true AS b, 'x' AS s, 1.25::DECIMAL(38, 4) AS d,
      [1, 2] AS l, {'a': 1.50::DECIMAL(5, 2)} AS st, NULL::BIGINT AS nothing, TIMESTAMP_NS '1970-01-01 00:00:01' AS at`,
  })
  t.same([row_count, truncated], ['1', false])
  t.equal(columns.map(({ name }: Message) => name).join(), 'f,n,i,u,b,s,d,l,st,nothing,at')
  const [{ values }] = rows
  t.same(
    values.map((value: Message) => [value.value, value[value.value]]),
    [
      ['float64', 1.5],
      ['float64', Number.NaN],
      ['int64', '-1'],
      ['uint64', '18446744073709551615'],
      ['boolean', true],
      ['string', 'x'],
      ['decimal', '1.2500'],
      ['json', '[1,2]'],
      ['json', '{"a":"1.50"}'],
      [undefined, undefined],
      ['int64', '1000000000'],
    ],
  )
  t.equal(values[9].is_null, true)
  t.match(await client.call('ExecuteSql', { query: 'SELECT * FROM range(1001)' }), { row_count: '1000', truncated: true, rows: { length: 1000 } })
  t.match(await errorOf(client.call('ExecuteSql', { query: 'SELEC 1' })), { code: 3, details: /SELEC/ })
  t.match(await errorOf(client.call('ExecuteSql', { query: 'DROP TABLE m' })), { code: 3 })
  t.match(await errorOf(client.call('ExecuteSql', { query: '' })), { code: 3 })
  const slow = { query: 'SELECT count(*) FROM range(10000000) a, range(10000000) b' }
  t.match(await errorOf(client.call('ExecuteSql', slow, { deadline: 300 })), { code: 4 })
  t.match(await client.call('ExecuteSql', { query: 'SELECT 1' }), { row_count: '1' }, 'the engine is free again')
})

t.test('an answer of SQL over the limit of a message', async (t) => {
  const { client } = await setUp(t, { storage: 'embedded', section: { max_send_bytes: 10_000 } })
  t.match(await errorOf(client.call('ExecuteSql', { query: 'SELECT * FROM range(20000)' })), { code: 8, details: /grpc\.max_send_bytes/ })
})

/** A histogram of host a at NOW, in the measurement h. */
async function storeHistogram({ storage }: Awaited<ReturnType<typeof setUp>>['node']): Promise<void> {
  const batch = storage.batch('')
  const ref = storage.resolver.measurement('', 'h')
  const table = batch.table(ref)
  const bytes = encodeHistogram(HISTOGRAM)
  for (const [i, host] of ['a', 'b'].entries()) {
    const row = table.addRow(storage.resolver.series(ref, ['host', host]), Number(BigInt.asIntN(32, NOW)), Number(NOW >> 32n), i)
    if (i === 1) table.column('v', 'float64').setF64(row, 1)
    else {
      const at = batch.heap.reserve(bytes.length)
      batch.heap.bytes.set(bytes, at)
      table.column('value', 'histogram').setPair(row, at, bytes.length)
    }
  }
  await storage.write(batch)
}

t.test('SQL: native histograms are json, as in Query', async (t) => {
  const { client, node } = await setUp(t, { storage: 'embedded' })
  await storeHistogram(node)
  const { columns, rows } = await client.call('ExecuteSql', { query: "SELECT value, value AS again, 'x' AS text, 'ab'::BLOB AS bytes FROM h WHERE host = 'a'" })
  t.same(
    columns.map(({ data_type }: Message) => data_type),
    ['Utf8', 'Utf8', 'Utf8', 'Utf8'],
  )
  const [value, again, text, bytes] = rows[0].values as Message[]
  t.same([value.value, again.value, text.value, bytes.value], ['json', 'json', 'string', 'json'])
  t.match(JSON.parse(value.json), { count: 3, sum: 4.5 })
  t.equal(JSON.parse(bytes.json), 'YWI=')
})

t.test('native histograms are shown as JSON', async (t) => {
  const { client, node } = await setUp(t)
  await storeHistogram(node)
  const [a, b] = await rowsOf(client, { measurement: 'h' })
  t.match(JSON.parse(a.fields[0].value.json), { count: 3, sum: 4.5 })
  t.equal(b.fields[0].value.float64, 1)
  const column = (await tableOf(client, { measurement: 'h', field_columns: ['value'] })).getChild('value')
  t.same([JSON.parse(column?.get(0)).count, column?.length], [3, 1])
  t.same((await client.call('GetSchema', { measurement: 'h' })).columns.map((each: Message) => each.data_type).sort(), [
    'float64',
    'histogram',
    'string',
    'timestamp(ns)',
  ])
})

t.test('namespaces keep data apart', async (t) => {
  const { client } = await setUp(t, { config: { server: { multi_tenancy: true } } })
  const one = { metadata: { 'x-namespace': 'one' } }
  const two = { metadata: { 'x-namespace': 'two' } }
  await client.call('Write', { points: [point('m', NOW, {}, { v: 1 })] }, one)
  t.equal((await client.call('ListMeasurements', {}, one)).measurements.length, 1)
  t.equal((await client.call('ListMeasurements', {}, two)).measurements.length, 0)
  t.match(await errorOf(client.query({ measurement: 'm' }, two)), { code: 5 })
  t.equal((await client.query({ measurement: 'm', format: 'ROWS' }, one))[0].rows.length, 1)
})

t.test('what is no message of the method', async (t) => {
  const { client } = await setUp(t, { storage: 'embedded' })
  const raw = (method: string, bytes: Uint8Array) =>
    new Promise((resolve, reject) => {
      const pass = (value: Buffer) => value
      client.service.makeUnaryRequest(`/svc.Service/${method}`, pass, pass, Buffer.from(bytes), (error: unknown, value: unknown) =>
        error ? reject(error) : resolve(value),
      )
    })
  for (const method of ['Write', 'GetSchema', 'ListMeasurements', 'Delete', 'DropMeasurement', 'ServerInfo', 'ExecuteSql']) {
    t.match(await errorOf(raw(method, Uint8Array.of(255, 255, 255, 255))), { code: 3, details: /cannot decode the protobuf message/ }, method)
  }
  // Of two points the second is cut: nothing is written.
  const bytes = Uint8Array.of(0x0a, 0x0f, 0x0a, 1, 109, 0x1a, 10, 0x0a, 1, 118, 0x12, 5, 0x0a, 3, 97, 98, 99, 0x0a, 5, 0x0a, 9)
  t.match(await errorOf(raw('Write', bytes)), { code: 3 })
  t.equal((await client.call('ListMeasurements', {})).measurements.length, 0)
  t.match(await errorOf(raw('NoSuchMethod', new Uint8Array(0))), { code: 12 })
})

t.test('forwarded points: what is refused is told in the answer, a key is taken once, and what another server has taken is taken here', async (t) => {
  const { client, node } = await setUp(t)
  const nan = { float64: Number.NaN }
  const points = [
    point('fwd', NOW, { host: 'a' }, { v: 1 }),
    point('fwd', NOW, { host: 'b' }, { v: 'text' }),
    point('fwd', NOW + 1n, { host: 'a' }, { v: nan }),
    point('fwd', 0n, { host: 'c' }, { v: 2 }),
  ]
  const request = { points, forwarded: true, backfill: true, dedup_key: 'one' }
  const first = await client.call('Write', request)
  t.match(first, { written: '3', rejected: '1', duplicate: false, refused: [{ position: '1', code: 'SCHEMA_ERROR', message: /string/ }] })
  t.match(await client.call('Write', request), { written: '3', rejected: '1', duplicate: false }, 'a request that was not written whole is not left out')
  const whole = { ...request, points: [points[0]], dedup_key: 'two' }
  const both = await Promise.all([client.call('Write', whole), client.call('Write', whole)])
  t.same(both.map(({ duplicate }) => duplicate).sort(), [false, true])
  t.match(await client.call('Write', whole), { written: '0', duplicate: true })
  const times: bigint[] = []
  for await (const chunk of node.storage.scan({ namespace: '', measurement: 'fwd' })) times.push(...chunk.times)
  t.ok(times.includes(0n), 'a time of 0 is one')
  await t.rejects(client.call('Write', { points: [points[2]] }), { code: 3 }, 'not forwarded')
  await t.rejects(client.call('Write', { points: [points[0]], dedup_key: 'x'.repeat(256) }), { code: 3, details: /dedup_key of 256 characters/ })
})

t.test('histograms as they are stored are written, and other bytes refused', async (t) => {
  const { client, node } = await setUp(t)
  const stale = staleHistogram()
  const histogram = (bytes: Uint8Array) => point('h', NOW, {}, { h: { histogram: bytes } })
  t.match(await client.call('Write', { points: [histogram(stale)] }), { written: '1' })
  t.same((await node.storage.measurements(''))[0].fields, [{ name: 'h', type: 'histogram' }])
  for (const bytes of [Uint8Array.of(), Uint8Array.of(1), new Uint8Array(50).fill(255)])
    await t.rejects(client.call('Write', { points: [histogram(bytes)] }), { code: 3, details: /field "h": its bytes are no histogram/ })
})
