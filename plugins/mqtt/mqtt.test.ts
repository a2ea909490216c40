import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises'
import { SvcError } from 'svcdb/lib/errors'
import { boot } from 'svcdb/testkit'
import t from 'tap'
import { eventually } from '../../test/support/until.ts'
import { broker, listed, rowsOf, running, start } from './testing.ts'

// The broker of these tests speaks 3.1.1; Mosquitto is asked in both versions by test/interop/mqtt.test.ts.
for (const qos of [0, 1, 2]) {
  t.test(`messages become points: QoS ${qos}`, async (t) => {
    const mqtt = await broker(t)
    const node = await start(t, {
      broker: '127.0.0.1',
      port: mqtt.port,
      topics: ['plant/#', 'other'],
      qos,
      tags_from_topic: ['plant/+line/+machine/#'],
      topic_measurement_map: { other: 'mapped' },
    })
    await running(node)
    const client = await mqtt.client()
    const before = BigInt(Date.now()) * 1_000_000n
    await client.publishAsync('plant/a/press/temperature', JSON.stringify({ fields: { value: 21.5 } }), { qos: qos as 0 })
    await client.publishAsync('other', JSON.stringify({ fields: { value: true } }), { qos: qos as 0 })
    await eventually(async () => (await rowsOf(node)).length === 2)
    await client.publishAsync('plant/a/press/own', JSON.stringify([{ measurement: 'vibration', tags: { axis: 'x' }, fields: { value: 1 }, timestamp: 1e18 }]), {
      qos: qos as 0,
    })
    await client.publishAsync('ignored', JSON.stringify({ fields: { value: 1 } }), { qos: qos as 0 })
    await eventually(async () => (await listed(node))[0].metrics.decode_errors === 1)
    const rows = await rowsOf(node)
    t.match(rows, [
      { measurement: 'mapped', tags: {}, fields: { value: 1 } },
      { measurement: 'temperature', tags: { line: 'a', machine: 'press' }, fields: { value: 21.5 } },
    ])
    t.ok(
      rows.every(({ time }) => time >= before && time <= BigInt(Date.now() + 1) * 1_000_000n),
      'the time is that of arrival',
    )
    t.match(await listed(node), [
      {
        name: 'mqtt-default',
        connector_type: 'mqtt',
        status: 'Running',
        metrics: { messages_total: 3, points_total: 2, decode_errors: 1, lag: null, throughput: Number },
      },
    ])
    const text = (await node.inject('/metrics')).body
    t.match(text, /svc_connector_up\{connector="mqtt-default",type="mqtt"\} 1/)
    t.match(text, /svc_mqtt_messages_received_total 3/)
    t.match(text, /svc_mqtt_decode_errors_total 1/, 'the point of the past is outside of the window')
  })
}

for (const address of [
  (port: number) => ({ broker: `mqtt://127.0.0.1:${port}` }),
  (port: number) => ({ broker: `127.0.0.1:${port}/` }),
  (port: number) => ({ broker: `mqtt://[::ffff:127.0.0.1]:${port}` }),
  (port: number) => ({ broker: 'mqtt://[::ffff:127.0.0.1]', port }),
  (port: number) => ({ broker: '::ffff:127.0.0.1', port }),
  (port: number) => ({ broker: `mqtt://localhost:${port}`, port }),
])
  t.test(`a broker is found by ${JSON.stringify(address(1883))}`, async (t) => {
    const mqtt = await broker(t)
    await running(await start(t, { ...address(mqtt.port), topics: ['#'] }))
  })

t.test('messages without a time that have waited at the broker, and come at once, are all kept', async (t) => {
  const mqtt = await broker(t)
  const node = await start(t, { broker: `127.0.0.1:${mqtt.port}`, topics: ['#'] })
  await running(node)
  const client = await mqtt.client()
  await Promise.all(Array.from({ length: 200 }, (_, i) => client.publishAsync('burst', JSON.stringify({ fields: { v: i } }), { qos: 1 })))
  await eventually(async () => (await listed(node))[0].metrics.points_total === 200)
  t.same(
    (await rowsOf(node)).sort((a, b) => (a.time < b.time ? -1 : 1)).map(({ fields }) => fields.v),
    Array.from({ length: 200 }, (_, i) => i),
    'in their order',
  )
})

t.test('what cannot be stored is kept whole, and holds up nobody', async (t) => {
  const mqtt = await broker(t)
  const node = await start(
    t,
    { broker: 'mqtt://127.0.0.1', port: mqtt.port, topics: ['#'], format: 'line_protocol', max_message_bytes: 1024 },
    { storage: 'embedded' },
  )
  await running(node)
  const client = await mqtt.client()
  const bodies = ['cpu v=1\nnonsense\ncpu,host=b v=2', 'nothing of it', `cpu,host=c v=3 # ${'x'.repeat(2000)}`, 'cpu,host=d v=4', '']
  for (const body of bodies) await client.publishAsync('t', body, { qos: 1 })
  await eventually(async () => (await listed(node))[0].metrics.messages_total === 5)
  await eventually(async () => (await rowsOf(node)).length === 3)
  t.same(
    (await rowsOf(node)).map(({ tags, fields }) => [tags.host ?? '', fields.v]),
    [
      ['', 1],
      ['b', 2],
      ['d', 4],
    ],
  )
  const file = join(node.dataDir, 'dead-letters', 'mqtt-default.jsonl')
  const letters = (await readFile(file, 'utf8'))
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  t.match(letters, [
    { topic: 't', code: 'PARTIAL_WRITE', error: /2 points written, 1 rejected; first: line 2/ },
    { topic: 't', code: 'INVALID_POINT', error: /line 1/ },
    { topic: 't', code: 'PAYLOAD_TOO_LARGE', error: /max_message_bytes is 1024/ },
  ])
  t.same(
    letters.map(({ body }) => Buffer.from(body, 'base64').toString()),
    bodies.slice(0, 3),
  )
})

t.test('dead letters are read again when their cause is mended, in whatever of their files they are', async (t) => {
  const mqtt = await broker(t)
  const node = await start(
    t,
    { broker: '127.0.0.1', port: mqtt.port, topics: ['#'], format: 'line_protocol', dead_letter_bytes: 65_536 },
    { storage: 'embedded' },
  )
  await running(node)
  const client = await mqtt.client()
  const { storage } = node
  const write = storage.write.bind(storage)
  let broken = true
  storage.write = async (batch, how) => {
    if (broken) throw new SvcError('SCHEMA_ERROR', 'not yet')
    return write(batch, how)
  }
  const now = BigInt(Date.now()) * 1_000_000n
  // More than one file of them, and some that stay what they are.
  for (let i = 0; i < 300; i++) await client.publishAsync('t', i % 50 === 7 ? `nonsense ${i}` : `cpu,n=${i} v=${i}${i % 2 === 0 ? '' : ` ${now}`}`, { qos: 1 })
  await eventually(async () => (await listed(node))[0].metrics.decode_errors === 300)
  t.equal((await rowsOf(node)).length, 0)
  broken = false
  const replay = async (name = 'mqtt-default') => {
    const answer = await node.inject({ method: 'POST', url: `/api/v1/admin/connectors/${name}/dead-letters/replay` })
    return { status: answer.statusCode, ...answer.json() }
  }
  const [first, second] = await Promise.all([replay(), replay()])
  t.match(second, { status: 409, code: 'CONFLICT' })
  t.match(first, { status: 200 })
  const rows = await rowsOf(node)
  t.equal(rows.length, 294)
  t.ok(
    rows.every(({ tags, time }) => (Number(tags.n) % 2 === 0 ? time <= BigInt(Date.now()) * 1_000_000n : time === now)),
    'those without a time have that of their letter',
  )
  t.match(await replay(), { status: 200, messages: 6, failed: 6 }, 'what cannot be read is kept')
  t.equal((await rowsOf(node)).length, 294)
  const files = (await readdir(join(node.dataDir, 'dead-letters'))).sort()
  t.same(files, ['mqtt-default.jsonl'])
  t.match(await replay('none'), { status: 404, code: 'NOT_FOUND' })
})

t.test('a replay that fails on its way begins again, and what it has stored is the same points', async (t) => {
  const mqtt = await broker(t)
  const node = await start(t, { broker: '127.0.0.1', port: mqtt.port, topics: ['#'], format: 'line_protocol' }, { storage: 'embedded' })
  await running(node)
  const folder = join(node.dataDir, 'dead-letters')
  await mkdir(folder, { recursive: true })
  const time = new Date().toISOString()
  const letter = (i: number): string =>
    JSON.stringify({ time, topic: 't', code: 'SCHEMA_ERROR', error: 'x', body: Buffer.from(`cpu,n=${i} v=1`).toString('base64') })
  await writeFile(join(folder, 'mqtt-default.jsonl.replay'), `${letter(1)}\n${letter(2)}\nno letter\n{"time":"20`)
  await writeFile(join(folder, 'mqtt-default.jsonl.1'), `${letter(2)}\n${letter(3)}\n`)
  const answer = await node.inject({ method: 'POST', url: '/api/v1/admin/connectors/mqtt-default/dead-letters/replay' })
  t.same(answer.json(), { messages: 4, failed: 0 })
  t.same(
    (await rowsOf(node)).map(({ tags }) => tags.n),
    ['1', '2', '3'],
  )
  t.same(await readdir(folder), [])
})

t.test('the log has a sample of what cannot be stored, and says how much it has left out', async (t) => {
  const mqtt = await broker(t)
  const logged: string[] = []
  const node = await boot({
    plugins: ['mqtt', 'line_protocol'],
    config: { mqtt: { broker: '127.0.0.1', port: mqtt.port, topics: ['#'], format: 'line_protocol' } },
    log: (line) => void (line.includes('dead letters') && logged.push(line)),
  })
  t.teardown(() => node.stop())
  await running(node)
  const client = await mqtt.client()
  const send = async (total: number) => {
    while ((await listed(node))[0].metrics.decode_errors !== total) await sleep(5)
  }
  for (let i = 0; i < 500; i++) await client.publishAsync('t', 'nonsense', { qos: 1 })
  await send(500)
  await sleep(1000)
  await client.publishAsync('t', 'nonsense', { qos: 1 })
  await send(501)
  t.ok(logged.length < 60, `${logged.length} lines for 501 messages`)
  t.ok(logged.some((line) => /"more":\d+/.test(line)))
})

t.test('a message is acknowledged when its points are durable, in the order in which they came', async (t) => {
  const mqtt = await broker(t)
  const gate = Promise.withResolvers<void>()
  const node = await start(t, { broker: '127.0.0.1', port: mqtt.port, topics: ['#'], format: 'line_protocol' })
  const { storage } = node
  const write = storage.write.bind(storage)
  storage.write = async (batch, how) => {
    await gate.promise
    return write(batch, how)
  }
  const acked: number[] = []
  mqtt.aedes.on('ack', (packet, client) => {
    if (client?.id.startsWith('svc-')) acked.push((packet as unknown as { messageId?: number })?.messageId ?? 0)
  })
  await running(node)
  const client = await mqtt.client()
  for (let i = 0; i < 20; i++) await client.publishAsync('t', `cpu,n=${i} v=${i}`, { qos: ((i % 2) + 1) as 1 })
  await eventually(async () => (await listed(node))[0].metrics.messages_total === 20)
  for (let i = 0; i < 50; i++) await turn()
  t.same(acked, [], 'all have come, and none is acknowledged')
  gate.resolve()
  await eventually(async () => (await rowsOf(node)).length === 20)
  await eventually(() => acked.length >= 20)
  t.pass('and then they are')
})

t.test('a broker that is away, comes, goes and comes again', async (t) => {
  const mqtt = await broker(t)
  await mqtt.down()
  const logged: string[] = []
  const node = await boot({
    plugins: ['mqtt', 'line_protocol'],
    config: { mqtt: { broker: '127.0.0.1', port: mqtt.port, topics: ['t'], format: 'line_protocol', client_id: 'one', reconnect_ms: 200 } },
    log: (line) => void logged.push(line),
  })
  t.teardown(() => node.stop())
  t.equal((await node.inject('/ready')).statusCode, 200, 'the node is ready without it')
  await eventually(async () => (await listed(node))[0].status === 'Reconnecting')
  t.match((await node.inject('/metrics')).body, /svc_connector_up\{connector="mqtt-default",type="mqtt"\} 0/)
  t.ok(logged.some((line) => /cannot reach the broker, tried again every 0\.2 s: connect ECONNREFUSED/.test(line)))
  await mqtt.up()
  await running(node)
  const client = await mqtt.client()
  // With a time of their own, for one that comes twice is to be the same point.
  const now = BigInt(Date.now()) * 1_000_000n
  await client.publishAsync('t', `cpu v=1 ${now}`, { qos: 1 })
  await eventually(async () => (await rowsOf(node)).length === 1)
  await mqtt.down()
  await eventually(async () => (await listed(node))[0].status === 'Reconnecting')
  await mqtt.up()
  await eventually(() => client.connected)
  await client.publishAsync('t', `cpu,kept=yes v=2 ${now}`, { qos: 1 })
  await eventually(async () => (await rowsOf(node)).length === 2)
  await eventually(async () => /svc_mqtt_reconnections_total 1/.test((await node.inject('/metrics')).body))
})

t.test('a connector that is stopped while it connects stays stopped', async (t) => {
  const mqtt = await broker(t)
  await mqtt.down()
  const node = await boot({
    plugins: ['mqtt', 'line_protocol'],
    config: { mqtt: { broker: '127.0.0.1', port: mqtt.port, topics: ['t'], format: 'line_protocol', reconnect_ms: 100 } },
  })
  await node.stop()
  let clients = 0
  mqtt.aedes.on('client', () => void clients++)
  await mqtt.up()
  await sleep(400)
  t.equal(clients, 0)
})

t.test('a broker that refuses is named in the status', async (t) => {
  const mqtt = await broker(t, {
    authenticate: (_client: unknown, username: string, password: Buffer | undefined, done: (error: unknown, ok: boolean) => void) =>
      done(null, username === 'me' && password?.toString() === 'right'),
    authorizeSubscribe: (_client: unknown, subscription: { topic: string }, done: (error: unknown, subscription: unknown) => void) =>
      done(null, subscription.topic === 'secret' ? null : subscription),
  })
  const config = (name: string, more: object) => ({ name, broker: '127.0.0.1', port: mqtt.port, format: 'line_protocol', topics: ['t'], ...more })
  const node = await boot({
    plugins: ['mqtt', 'line_protocol'],
    config: {
      mqtt: {
        connector: [
          config('wrong', { username: 'me', password: 'wrong' }),
          config('unsubscribed', { username: 'me', password: 'right', topics: ['t', 'secret'] }),
          config('right', { username: 'me', password: 'right' }),
        ],
      },
    },
  })
  t.teardown(() => node.stop())
  await eventually(async () => (await listed(node)).every(({ status }) => status !== 'Stopped' && status !== 'Reconnecting'))
  t.match(
    (await listed(node)).map(({ name, status }) => [name, status]),
    [
      ['wrong', { failed: /[Bb]ad user ?name or password|[Nn]ot authorized/ }],
      ['unsubscribed', { failed: /the broker refuses the subscription to "secret"/ }],
      ['right', /^(Idle|Running)$/],
    ],
  )
})

t.test('back-pressure: what is in flight is bounded, the session lives, and nothing is lost', async (t) => {
  const mqtt = await broker(t)
  let full = true
  const node = await start(t, { broker: '127.0.0.1', port: mqtt.port, topics: ['#'], format: 'line_protocol', max_in_flight: 10 })
  const { storage } = node
  const write = storage.write.bind(storage)
  storage.write = async (batch, how) => {
    if (full) throw new SvcError('STORAGE_FULL', 'full')
    return write(batch, how)
  }
  await running(node)
  const client = await mqtt.client()
  for (let i = 0; i < 200; i++) await client.publishAsync('t', `cpu,n=${i} v=${i}`, { qos: 1 })
  await sleep(100)
  t.ok((await listed(node))[0].metrics.points_total === 0)
  full = false
  await eventually(async () => (await rowsOf(node)).length === 200)
  t.pass('all are there')
})

t.test('a connection that is lost under back-pressure acknowledges nothing on the next one', async (t) => {
  const mqtt = await broker(t)
  let full = true
  const node = await start(t, { broker: '127.0.0.1', port: mqtt.port, topics: ['#'], format: 'line_protocol', max_in_flight: 8, reconnect_ms: 100 })
  const { storage } = node
  const write = storage.write.bind(storage)
  storage.write = async (batch, how) => {
    if (full) throw new SvcError('STORAGE_FULL', 'full')
    return write(batch, how)
  }
  let acks = 0
  mqtt.aedes.on('ack', (_, client) => {
    if (client?.id.startsWith('svc-')) acks++
  })
  await running(node)
  const client = await mqtt.client()
  const now = BigInt(Date.now()) * 1_000_000n
  for (let i = 0; i < 40; i++) await client.publishAsync('t', `cpu,n=${i} v=${i} ${now}`, { qos: 1 })
  for (let i = 0; i < 3; i++) {
    await sleep(50)
    await mqtt.down()
    await eventually(async () => (await listed(node))[0].status === 'Reconnecting')
    await mqtt.up()
    await running(node)
  }
  t.equal(acks, 0)
  full = false
  await eventually(async () => (await rowsOf(node)).length === 40)
  await eventually(() => acks >= 40)
})

t.test('retained messages: stored or left out, and told apart', async (t) => {
  for (const retained of ['store', 'ignore']) {
    const mqtt = await broker(t)
    const client = await mqtt.client()
    await client.publishAsync('t', 'kept v=1', { qos: 1, retain: true })
    const node = await start(t, { broker: '127.0.0.1', port: mqtt.port, topics: ['#'], format: 'line_protocol', retained, status_topic: 'status/svc' })
    await running(node)
    await client.publishAsync('t', 'live v=1', { qos: 1 })
    await eventually(async () => (await rowsOf(node)).some(({ measurement }) => measurement === 'live'))
    t.equal((await rowsOf(node)).length, retained === 'store' ? 2 : 1)
    t.match((await node.inject('/metrics')).body, /svc_mqtt_retained_messages_total [12]/)
    const status: string[] = []
    client.on('message', (topic, payload) => void (topic === 'status/svc' && status.push(payload.toString())))
    await client.subscribeAsync('status/svc')
    await eventually(() => status.length > 0)
    await node.stop()
    await eventually(() => status.length > 1)
    t.same(status, ['online', 'offline'], 'the status is kept at the broker')
  }
})

t.test('several connectors, namespaces, and what each caller sees of them', async (t) => {
  const mqtt = await broker(t)
  const connector = (name: string, namespace: string) => ({
    name,
    namespace,
    broker: '127.0.0.1',
    port: mqtt.port,
    topics: [`${name}/#`],
    format: 'line_protocol',
  })
  const node = await boot({
    plugins: ['mqtt', 'line_protocol', 'api_keys', 'namespaces'],
    config: {
      server: { multi_tenancy: true },
      auth: {
        api_keys: [
          { name: 'root', key: 'r'.repeat(32), admin: true, namespaces: ['*'] },
          { name: 'one', key: 'o'.repeat(32), namespaces: ['one'] },
          { name: 'admin of one', key: 'a'.repeat(32), admin: true, namespaces: ['one'] },
        ],
      },
      mqtt: { connector: [connector('a', 'one'), connector('b', 'two')] },
    },
  } as never)
  t.teardown(() => node.stop())
  const as = (key: string, namespace?: string) => ({
    authorization: `Bearer ${key.repeat(32)}`,
    ...(namespace === undefined ? {} : { 'x-namespace': namespace }),
  })
  const names = async (headers: Record<string, string>) =>
    ((await node.inject({ url: '/api/v1/connectors', headers })).json().items as { name: string }[]).map(({ name }) => name)
  for (const name of ['one', 'two'])
    t.equal((await node.inject({ method: 'POST', url: '/api/v1/namespaces', headers: as('r'), payload: { name } })).statusCode, 201)
  t.same(await names(as('r')), ['a', 'b'])
  t.same(await names(as('o', 'one')), ['a'])
  const client = await mqtt.client()
  await eventually(async () =>
    ((await node.inject({ url: '/api/v1/connectors', headers: as('r') })).json().items as { status: unknown }[]).every(
      ({ status }) => status === 'Idle' || status === 'Running',
    ),
  )
  await client.publishAsync('a/x', 'cpu v=1', { qos: 1 })
  await client.publishAsync('b/x', 'cpu v=2', { qos: 1 })
  await eventually(async () => (await rowsOf(node, 'one')).length + (await rowsOf(node, 'two')).length === 2)
  const replay = async (connector: string, key: string) =>
    (await node.inject({ method: 'POST', url: `/api/v1/admin/connectors/${connector}/dead-letters/replay`, headers: as(key, 'one') })).statusCode
  t.equal(await replay('a', 'o'), 403)
  t.equal(await replay('b', 'a'), 403, 'admins of a namespace do not administer the server')
  t.equal(await replay('b', 'r'), 200)
  t.match(await rowsOf(node, 'one'), [{ fields: { v: 1 } }])
  t.match(await rowsOf(node, 'two'), [{ fields: { v: 2 } }])
})

t.test('configurations that cannot be', async (t) => {
  const base = { broker: 'b', topics: ['t'] }
  for (const [mqtt, error] of [
    [{}, /it has no connector; add mqtt\.broker and mqtt\.topics/],
    [{ topics: ['t'] }, /mqtt\.topics without mqtt\.broker/],
    [{ broker: 'b' }, /it has no topics/],
    [{ ...base, broker: 'http://b' }, /broker "http:\/\/b" is no host and no URL of mqtt/],
    [{ ...base, broker: 'mqtt://user:hunter22@b' }, /^(?!.*hunter22).*its broker has a user; write username and password/],
    [{ ...base, broker: 'mqtt://b:1884', port: 1883 }, /broker "mqtt:\/\/b:1884" has another port than the key port, which is 1883; give one of them/],
    [{ ...base, broker: 'mqtt://b:0' }, /port "0" of broker "mqtt:\/\/b:0" is none: 1 to 65535/],
    [{ ...base, broker: 'b:65536' }, /port "65536"/],
    [{ ...base, broker: 'b:' }, /broker "b:" is no host and no URL of mqtt/],
    [{ ...base, broker: 'mqtt://[b]:1' }, /broker "mqtt:\/\/\[b\]:1" is no host/],
    [{ ...base, format: 'xml' }, /cannot read format "xml" of mqtt-default: the plugins of this node read json, line_protocol/],
    [{ ...base, format: 'otlp' }, /cannot read format "otlp"/],
    [{ ...base, client_cert: 'c.pem' }, /client_cert and client_key belong together/],
    [{ ...base, password: 'p' }, /a password and no username/],
    [{ ...base, credential_file: 'f', username: 'u' }, /credential_file has username and password/],
    [{ ...base, tags_from_topic: ['a/#/b'] }, /"#" is a level of its own, and the last one/],
    [{ ...base, tags_from_topic: ['+a/+a'] }, /two levels are tag "a"/],
    [{ ...base, qos: 3 }, /qos/],
    [
      {
        connector: [
          { name: 'x', ...base },
          { name: 'x', ...base },
        ],
      },
      /cannot name two connectors "x"/,
    ],
    [{ ...base, topic_map: {} }, /topic_map/],
  ] as const)
    await t.rejects(boot({ plugins: ['mqtt', 'native', 'line_protocol'], config: { mqtt } }), { message: error }, JSON.stringify(mqtt))
  await t.rejects(boot({ plugins: ['mqtt', 'otlp'], config: { mqtt: { ...base, format: 'otlp', tags_from_topic: ['+a'] } } }), {
    message: /points of format "otlp" name their measurements and tags/,
  })
})
