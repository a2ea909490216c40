import { setTimeout } from 'node:timers/promises'
import { type Table, tableFromIPC } from 'apache-arrow'
import type { Storage } from 'svcdb'
import { emptyHistogram, encodeHistogram, type NativeHistogram, storedHistogramJson } from 'svcdb/lib/histogram'
import t, { type Test } from 'tap'
import line from '../line_protocol/index.ts'
import native from '../native/index.ts'
import { type Message, point, type StartOptions, start, TestClient } from './testing.ts'

const NOW = BigInt(Date.now()) * 1_000_000n
const SEED = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31))

async function setUp(t: Test, { plugins = [], ...options }: StartOptions = {}) {
  const { node, port } = await start({ plugins: [line, native, ...plugins], ...options })
  const client = new TestClient(port)
  t.teardown(async () => {
    client.close()
    await node.stop()
  })
  const metric = async (name: string): Promise<string | undefined> =>
    (await node.inject('/metrics')).body
      .split('\n')
      .find((text) => text.startsWith(`svc_${name} `))
      ?.split(' ')[1]
  const settled = async (name: string, value: string): Promise<string | undefined> => {
    for (let i = 0; i < 6000 && (await metric(name)) !== value; i++) await setTimeout(10)
    return metric(name)
  }
  return { node, port, client, metric, settled }
}

type Row = { measurement: string; tags: Record<string, string>; time: bigint; fields: Record<string, unknown> }

/** Record batches of a stream as tables: what a client keeps is the schema of each measurement. */
function tablesOf(messages: readonly Message[]): { message: Message; table: Table }[] {
  const schemas = new Map<string, Buffer>()
  return messages
    .filter(({ kind }) => kind === 'ROWS_WRITTEN')
    .map((message) => {
      if (message.arrow_schema.length > 0) schemas.set(message.measurement, message.arrow_schema)
      const table = tableFromIPC(Buffer.concat([schemas.get(message.measurement) as Buffer, message.arrow_batch]))
      if (table.numRows !== message.rows) throw new Error(`${table.numRows} rows of ${message.rows}`)
      return { message, table }
    })
}

/** Columns whose names begin with `_f` are fields. */
function rowsOf(messages: readonly Message[]): Row[] {
  return tablesOf(messages).flatMap(({ message, table }) => {
    const times = table.getChild('_time')?.data[0].values as BigInt64Array
    return Array.from({ length: table.numRows }, (_, row) => {
      const found: Row = { measurement: message.measurement, tags: {}, time: times[row], fields: {} }
      for (const { name } of table.schema.fields) {
        const value = table.getChild(name)?.get(row)
        if (value === null || name === '_time') continue
        if (name.startsWith('_f')) found.fields[name] = value instanceof Uint32Array ? wide(value) : value
        else found.tags[name] = value
      }
      return found
    })
  })
}

const wide = (words: Uint32Array): bigint =>
  BigInt.asIntN(
    128,
    words.reduceRight((sum, word) => (sum << 32n) | BigInt(word), 0n),
  )
const rowCount = (messages: readonly Message[]): number => messages.reduce((sum, { rows }) => sum + rows, 0)
const plain = (value: unknown): string => JSON.stringify(value, (_, item) => (typeof item === 'bigint' ? `${item}n` : item))
const sorted = (row: Row): string => plain([row.measurement, Object.entries(row.tags).sort(), row.time, Object.entries(row.fields).sort()])

const HISTOGRAM: NativeHistogram = { ...emptyHistogram(), count: 3, sum: 4.5, positiveSpans: [{ offset: 1, length: 1 }], positiveCounts: Float64Array.of(3) }

/** A histogram, a value beside none, and a NaN. */
async function storeHistogram(storage: Storage): Promise<void> {
  const batch = storage.batch('')
  const ref = storage.resolver.measurement('', 'h')
  const table = batch.table(ref)
  const bytes = encodeHistogram(HISTOGRAM)
  for (const [i, host] of ['a', 'b', 'c'].entries()) {
    const row = table.addRow(storage.resolver.series(ref, ['host', host]), Number(BigInt.asIntN(32, NOW)), Number(NOW >> 32n), i)
    if (i > 0) table.column('_fv', 'float64').setF64(row, i === 1 ? 1 : Number.NaN)
    else {
      const at = batch.heap.reserve(bytes.length)
      batch.heap.bytes.set(bytes, at)
      table.column('_fh', 'histogram').setPair(row, at, bytes.length)
    }
  }
  await storage.write(batch)
}

for (const storage of ['memory', 'embedded']) {
  t.test(`rows of all types, deletes, drops and restores: ${storage}`, async (t) => {
    const { node, client, metric } = await setUp(t, { storage, config: { database: { soft_delete_ttl_secs: 3600 } } })
    const all = await client.subscribe().begun()
    const deletes = await client.subscribe({ kinds: ['SERIES_DELETED'], measurements: ['kinds', 'other'] }).begun()
    const kinds = {
      ...{ _ff: { float64: -0.5 }, _fi: { int64: '-9223372036854775808' }, _fu: { uint64: '18446744073709551615' } },
      ...{ _fb: { boolean: false }, _fs: { string: 'ünï' }, _fd: { decimal: '-12.3400' } },
    }
    const points = [
      point('kinds', NOW, { host: 'a', zone: 'ü', constructor: 'c' }, kinds),
      point('kinds', NOW + 1n, { host: 'b' }, { _ff: 2.5, _fs: '' }),
      point('kinds', NOW + 2n, { host: 'a', zone: 'ü', constructor: 'c' }, { _fb: true }),
    ]
    await client.call('Write', { points })
    const [rows] = await all.until((changes) => rowCount(changes) === 3)
    const [{ table }] = tablesOf([rows])
    t.same(
      table.schema.fields.map(({ name, type }) => `${name} ${type}`),
      ['_time Timestamp<NANOSECOND>', 'constructor Utf8', 'host Utf8', 'zone Utf8', '_ff Float64', '_fi Int64', '_fu Uint64', '_fb Bool', '_fs Utf8'].concat(
        '_fd Decimal[38e+4]',
      ),
    )
    const tags = { host: 'a', zone: 'ü', constructor: 'c' }
    const expected = [
      { time: NOW, tags, fields: { _ff: -0.5, _fi: -(2n ** 63n), _fu: 2n ** 64n - 1n, _fb: false, _fs: 'ünï', _fd: -123400n } },
      { time: NOW + 1n, tags: { host: 'b' }, fields: { _ff: 2.5, _fs: '' } },
      { time: NOW + 2n, tags, fields: { _fb: true } },
    ]
    t.same(
      rowsOf([rows]).map(sorted),
      expected.map((row) => sorted({ measurement: 'kinds', ...row })),
      'what is not finite is left out, with its row',
    )

    await storeHistogram(node.storage)
    const h = rowsOf((await all.until((changes) => changes.length === 2)).slice(1))
    const json = storedHistogramJson(encodeHistogram(HISTOGRAM))
    t.same(
      h.map(({ tags, fields }) => [tags, fields]),
      [
        [{ host: 'a' }, { _fh: json }],
        [{ host: 'b' }, { _fv: 1 }],
      ],
      'what is not finite is left out, with its row',
    )

    await client.call('Delete', { measurement: 'kinds', tag_filters: [{ key: 'host', value: 'b' }], range: { start: '0', end: String(NOW + 2n) } })
    await client.call('Delete', { measurement: 'kinds' })
    await client.call('DropMeasurement', { measurement: 'h' })
    t.equal((await node.inject({ method: 'POST', url: '/api/v1/measurements/h/restore' })).statusCode, 204)
    const told = (await all.until((changes) => changes.length >= 6)).slice(2)
    t.match(told, [
      { kind: 'SERIES_DELETED', measurement: 'kinds', all_series: false, range: { end: String(NOW + 2n) }, series: [{ tags: [{ key: 'host', value: 'b' }] }] },
      { kind: 'SERIES_DELETED', all_series: true, series: [], range: null },
      { kind: 'MEASUREMENT_DROPPED', measurement: 'h' },
      { kind: 'MEASUREMENT_RESTORED', measurement: 'h' },
    ])
    const positions = all.messages.map(({ position }) => position)
    t.same(positions, [...new Set(positions)].sort(), 'positions rise')
    t.same(
      (await deletes.until((changes) => changes.length >= 2)).map(({ kind }) => kind),
      ['SERIES_DELETED', 'SERIES_DELETED'],
    )
    t.equal(await metric('grpc_subscribers'), '2')
    t.equal(await metric('grpc_subscribed_rows_total'), '5')
    for (const { stream } of [all, deletes]) stream.cancel()
  })
}

t.test('a schema comes once, and again when it is another', async (t) => {
  const { client } = await setUp(t)
  const stream = await client.subscribe().begun()
  const write = (name: string, fields: object): Promise<Message> => client.call('Write', { points: [point(name, NOW, {}, { ...fields })] })
  const steps: [string, object, boolean][] = [
    ['a', { _f1: 1 }, true],
    ['b', { _f1: 1 }, true],
    ['a', { _f1: 2 }, false],
    ['a', { _f1: 3, _f2: 'x' }, true],
    ['b', { _f1: 2 }, false],
  ]
  for (const [i, [name, fields]] of steps.entries()) {
    await write(name, fields)
    await stream.until((changes) => changes.length === i + 1)
  }
  const changes = await stream.until(() => true)
  t.same(
    changes.map(({ arrow_schema }) => arrow_schema.length > 0),
    steps.map(([, , sent]) => sent),
  )
  t.same(
    rowsOf(changes).map(({ fields }) => fields),
    steps.map(([, fields]) => fields),
  )
  stream.stream.cancel()
})

t.test('a tag that is called like a field is a column of its own', async (t) => {
  const { client } = await setUp(t)
  const stream = await client.subscribe().begun()
  await client.call('Write', { points: [point('a', NOW, { _f1: 'x', host: 'h' }, { _f1: 1 })] })
  const [{ table }] = tablesOf(await stream.until((changes) => changes.length === 1))
  t.same(
    table.schema.fields.map(({ name }) => [name, table.getChild(name)?.get(0)]),
    [
      ['_time', table.getChild('_time')?.get(0)],
      ['_f1_tag', 'x'],
      ['host', 'h'],
      ['_f1', 1],
    ],
  )
  stream.stream.cancel()
})

for (const storage of ['memory', 'embedded']) {
  t.test(`from every position on nothing is missed and nothing comes twice: ${storage}, SEED=${SEED}`, async (t) => {
    // Small messages, so that changes are cut; few rows in memory, so that the log is read.
    const config = storage === 'embedded' ? { database: { cdc_capacity: 64 } } : {}
    const { client } = await setUp(t, { storage, section: { max_send_bytes: 4096, max_receive_bytes: 8_388_608 }, config })
    let state = SEED
    const random = (below: number): number => {
      state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0
      return Math.floor((state / 2 ** 32) * below)
    }
    const witness = await client.subscribe().begun()
    const written: string[] = []
    for (let i = 0; i < 12; i++) {
      const points: Message[] = []
      const model: Row[] = []
      for (let n = i % 4 === 3 ? 150 + random(100) : 1 + random(6); n > 0; n--) {
        const measurement = `m${random(3)}`
        const tags: Record<string, string> = {}
        for (const key of ['host', 'zone']) if (random(3) > 0) tags[key] = `${key}${random(4)}`
        const fields: Record<string, unknown> = { _fi: BigInt(written.length + model.length) }
        if (random(2) === 0) fields._ff = random(1000) / 8
        if (random(3) === 0) fields._fs = 'ä'.repeat(random(40))
        if (random(4) === 0) fields._fb = random(2) === 1
        const time = NOW + BigInt(written.length + model.length)
        points.push(point(measurement, time, tags, fields))
        model.push({ measurement, tags, time, fields })
      }
      await client.call('Write', { points })
      written.push(...model.map(sorted))
    }
    await client.call('Delete', { measurement: 'm1', tag_filters: [{ key: 'host', value: 'host1' }] })
    const whole = await witness.until((changes) => rowCount(changes) === written.length && changes.at(-1)?.kind === 'SERIES_DELETED')
    t.same(rowsOf(whole).map(sorted).sort(), written.toSorted(), 'what was written')
    t.ok(
      whole.some(({ position }) => position.includes('.')),
      'some changes were cut',
    )
    const said = (messages: Message[]): string => plain(messages.map(({ arrow_schema: _, ...rest }) => rest))
    const marks = new Set([0, ...witness.messages.keys()].filter((at) => at < 3 || random(4) === 0))
    for (const at of marks) {
      const from = witness.messages[at]
      const again = await client.subscribe({ after: from.position }).begun()
      const left = witness.messages.slice(at + 1)
      t.equal(said(await again.until((changes) => changes.length >= left.length)), said(left), `behind message ${at}`)
      t.equal(again.messages[0].position, from.position)
      again.stream.cancel()
    }
    const cut = witness.messages.find(({ position }) => position.includes('.')) as Message
    const other = client.subscribe({ after: cut.position, kinds: ['ROWS_WRITTEN'] })
    const start = whole.findIndex(({ sequence, measurement }) => sequence === cut.sequence && measurement === cut.measurement)
    const behind = rowsOf(whole).slice(rowCount(whole.slice(0, start)))
    const got = await other.until((changes) => rowCount(changes) >= behind.length)
    t.same(rowsOf(got).map(sorted), behind.map(sorted), 'with another filter the change comes again')
    for (const { stream } of [other, witness]) stream.cancel()
  })
}

t.test('what the log no longer has is a gap with its range', async (t) => {
  const { node, client, metric } = await setUp(t, {
    storage: 'embedded',
    config: { database: { cdc_capacity: 16, cdc_log_size: 0, wal_max_file_size: 65_536 } },
  })
  const first = await client.subscribe().begun()
  await client.call('Write', { points: [point('m', NOW, {}, { v: 1 })] })
  const [{ position }] = await first.until((changes) => changes.length === 1)
  first.stream.cancel()
  for (let i = 0; i < 40; i++)
    await client.call('Write', { points: Array.from({ length: 500 }, (_, n) => point('m', NOW + BigInt(i * 500 + n), {}, { v: Math.random() })) })
  await node.storage.flush()
  const back = client.subscribe({ after: position, kinds: ['SERIES_DELETED'] })
  const [gap] = await back.until((changes) => changes.length === 1)
  t.match(gap, { kind: 'GAP', from: position, cause: 'GAP_EXPIRED' })
  t.ok(gap.position > position)
  t.equal(await metric('grpc_subscriber_gaps_total'), '1')
  const other = client.subscribe({ after: `${'0'.repeat(16)}${position.slice(16)}` })
  t.match(await other.until((changes) => changes.length === 1), [{ kind: 'GAP', cause: 'GAP_OTHER_HISTORY' }])
  for (const { stream } of [back, other]) stream.cancel()
})

t.test('tenants see their own, and no drops', async (t) => {
  const keys = [
    { name: 'alice', key: `svc_${'a'.repeat(43)}`, namespaces: ['red'] },
    { name: 'bob', key: `svc_${'b'.repeat(43)}`, namespaces: ['blue'] },
    { name: 'root', key: `svc_${'r'.repeat(43)}`, admin: true, namespaces: ['*'] },
  ]
  const { node, client } = await setUp(t, {
    plugins: ['api_keys', 'namespaces'],
    config: { server: { multi_tenancy: true }, auth: { api_keys: keys } },
    section: { max_subscribers_per_namespace: 2 },
  })
  const of = (name: string, namespace: string) => ({
    metadata: { authorization: `Bearer ${keys.find((key) => key.name === name)?.key}`, 'x-namespace': namespace },
  })
  for (const name of ['red', 'blue'])
    t.ok((await node.inject({ method: 'POST', url: '/api/v1/namespaces', payload: { name }, headers: of('root', 'default').metadata })).statusCode < 300)
  t.match(await client.subscribe().ended, { code: 16 })
  t.match(await client.subscribe({}, of('alice', 'blue')).ended, { code: 7 })
  const alice = await client.subscribe({}, of('alice', 'red')).begun()
  const drops = await client.subscribe({ kinds: ['MEASUREMENT_DROPPED'] }, of('alice', 'red')).begun()
  t.match(await client.subscribe({}, of('alice', 'red')).ended, { code: 8, details: /max_subscribers_per_namespace/ })
  const root = await client.subscribe({}, of('root', 'blue')).begun()
  await client.call('Write', { points: [point('secret', NOW, { of: 'bob' }, { _fv: 1 })] }, of('bob', 'blue'))
  await client.call('Write', { points: [point('own', NOW, {}, { _fv: 2 })] }, of('alice', 'red'))
  await client.call('DropMeasurement', { measurement: 'secret' }, of('bob', 'blue'))
  await client.call('DropMeasurement', { measurement: 'own' }, of('alice', 'red'))
  await client.call('Write', { points: [point('own', NOW, {}, { _fv: 3 })] }, of('alice', 'red'))
  await alice.until((changes) => rowCount(changes) >= 2)
  const [secret] = await root.until((changes) => changes.length >= 2)
  t.same(
    root.messages.map(({ kind }) => kind),
    ['PROGRESS', 'ROWS_WRITTEN', 'MEASUREMENT_DROPPED'],
  )
  await setTimeout(50)
  const changes = await alice.until(() => true)
  t.same(
    rowsOf(changes).map(({ measurement, tags, fields }) => [measurement, tags, fields]),
    [
      ['own', {}, { _fv: 2 }],
      ['own', {}, { _fv: 3 }],
    ],
  )
  t.equal(changes.length, 2)
  t.same(await drops.until(() => true), [], 'a tenant that asks for drops is told of none')
  alice.stream.cancel()
  await alice.ended
  await setTimeout(50)
  // A position says nothing of whose it is: with another's, the own changes come.
  const stolen = client.subscribe({ after: secret.position }, of('alice', 'red'))
  t.same(rowsOf(await stolen.until((found) => rowCount(found) >= 1)).map(({ measurement }) => measurement)[0], 'own')
  t.notOk(Buffer.concat(stolen.messages.map(({ arrow_batch }) => arrow_batch)).includes('bob'))
  for (const { stream } of [drops, root, stolen]) stream.cancel()
})

t.test('a client that takes nothing holds up nobody, and is ended', async (t) => {
  const { client, metric, settled } = await setUp(t, {
    storage: 'embedded',
    section: { slow_subscriber_secs: 1, send_buffer_bytes: 65_536, max_send_bytes: 131_072, max_receive_bytes: 8_388_608 },
    config: { database: { cdc_capacity: 1024 } },
  })
  const slow = await client.subscribe().begun()
  slow.stream.pause()
  const quick = await client.subscribe().begun()
  const text = 'x'.repeat(500)
  const batch = (i: number) => Array.from({ length: 1000 }, (_, n) => point('m', NOW + BigInt(i * 1000 + n), { host: `h${n % 50}` }, { _fv: n, _fs: text }))
  let most = 0
  for (let i = 0; i < 60; i++) {
    await client.call('Write', { points: batch(i) })
    most = Math.max(most, Number(await metric('grpc_buffered_bytes')))
  }
  await quick.until((changes) => rowCount(changes) === 60_000)
  t.equal(await settled('grpc_subscribers', '1'), '1', 'the slow one is ended')
  t.ok(most < 4_000_000, `${most} bytes at most wait`)
  slow.stream.resume()
  t.match(await slow.ended, { code: 14, details: /slow_subscriber_secs/ })
  const had = slow.messages.at(-1) as Message
  t.ok(rowCount(slow.messages) < 60_000)
  const again = client.subscribe({ after: had.position })
  await again.until((changes) => rowCount(changes) === 60_000 - rowCount(slow.messages))
  for (const { stream } of [quick, again]) stream.cancel()
  t.equal(await settled('grpc_subscribers', '0'), '0')
})

t.test('subscribers are bounded, told their position, and end in good order', async (t) => {
  const { node, client, settled } = await setUp(t, { section: { max_subscribers: 2, max_subscribe_secs: 4, subscribe_progress_secs: 1 } })
  const streams = [client.subscribe({ measurements: ['quiet'] }), client.subscribe()]
  for (const stream of streams) await stream.begun()
  t.match(await client.subscribe().ended, { code: 8, details: /as many as grpc.max_subscribers lets/ })
  await client.call('Write', { points: [point('loud', NOW, {}, { v: 1 })] })
  for (const { ended } of streams) t.match(await ended, { code: 0 })
  const [quiet, loud] = streams
  t.ok(quiet.messages.length >= 3 && quiet.messages.every(({ kind }) => kind === 'PROGRESS'))
  t.equal(quiet.messages.at(-1)?.position, loud.messages.at(-1)?.position, 'it moves on over what is not asked for')
  t.ok((quiet.messages.at(-1) as Message).position > quiet.messages[0].position)
  t.equal(await settled('grpc_subscribers', '0'), '0')
  const last = await client.subscribe({ after: quiet.messages[0].position }).begun()
  t.equal(rowCount(await last.until((changes) => changes.length === 1)), 1)
  const stopped = node.stop()
  t.match(await last.ended, { code: 14, details: /the server is stopping; subscribe again/ })
  t.same(await stopped, [])
})

t.test('requests that cannot be', async (t) => {
  const { client, settled } = await setUp(t)
  for (const [request, details] of [
    [{ kinds: ['GAP'] }, /of kind 5: there is none to ask for/],
    [{ kinds: ['PROGRESS'] }, /of kind 0/],
    [{ kinds: Array.from({ length: 50 }, (_, i) => i + 100) }, /more than 16 kinds/],
    [{ measurements: [''] }, /the name is empty/],
    [{ measurements: Array.from({ length: 1001 }, (_, i) => `m${i}`) }, /at most 1000/],
    [{ after: 'nonsense' }, /nonsense/],
    [{ after: '.1.2.3' }, /./],
  ] as const)
    t.match(await client.subscribe(request).ended, { code: 3, details }, JSON.stringify(request).slice(0, 40))
  t.equal(await settled('grpc_subscribers', '0'), '0')
})
