import { connect } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import { type BootOptions, boot, systemClock, type TestNode } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { until } from '../../test/support/until.ts'
import line from '../line_protocol/index.ts'
import native from '../native/index.ts'
import plugin from './index.ts'
import { EventClient } from './testing.ts'

const NOW = BigInt(Date.now()) * 1_000_000n

t.setTimeout(300_000)

async function started(t: Test, { config, ...options }: BootOptions = {}): Promise<TestNode> {
  const node = await boot({ plugins: [plugin, line, native], config: { ...config }, ...options })
  t.teardown(() => node.stop())
  return node
}

async function write(node: TestNode, payload: string, headers: Record<string, string> = {}): Promise<void> {
  const written = await node.inject({ method: 'POST', url: '/write', payload, headers: { 'content-type': 'text/plain', ...headers } })
  if (written.statusCode !== 204) throw new Error(written.body)
}

const streamOf = (node: TestNode, query = ''): string => `${node.url}/api/v1/cdc/stream${query}`
const remove = (node: TestNode, body: object) => node.inject({ method: 'POST', url: '/api/v1/delete', payload: body })
const metric = async (node: TestNode, name: string, headers: Record<string, string> = {}): Promise<string | undefined> =>
  (await node.inject({ url: '/metrics', headers })).body
    .split('\n')
    .find((text) => text.startsWith(`svc_${name}`))
    ?.split(' ')[1]

t.test('what is written, deleted and dropped comes as the documented frames', async (t) => {
  const node = await started(t)
  const client = await EventClient.open(streamOf(node))
  await write(node, `weather,city=basel,zone=a temp=21.5,n=-3i,u=18446744073709551615u,big=9007199254740993i,ok=true,note="a \\"b\\"\nc",price=1.25d ${NOW}`)
  await remove(node, { measurement: 'weather', tags: { city: 'basel' } })
  await node.inject({ method: 'DELETE', url: '/api/v1/measurements/weather' })
  const [point, deleted, dropped] = await client.until(3)
  t.equal(point.event, 'point_written')
  const { timestamp: _, ...rest } = point.data.PointWritten
  t.match(rest, {
    measurement: 'weather',
    tags: { city: 'basel', zone: 'a' },
    fields: { temp: { F64: 21.5 }, n: { I64: -3 }, ok: { Bool: true }, note: { String: 'a "b"\nc' }, price: { Decimal128: '1.25' } },
  })
  t.equal(deleted.event, 'series_deleted')
  t.match(deleted.data, { SeriesDeleted: { measurement: 'weather', tags: { city: 'basel', zone: 'a' } } })
  t.same([dropped.event, dropped.data.MeasurementDropped.measurement], ['measurement_dropped', 'weather'])
  const sequences = [point.data.PointWritten.seq, deleted.data.SeriesDeleted.seq, dropped.data.MeasurementDropped.seq]
  t.same(
    sequences,
    sequences.toSorted((a, b) => a - b),
  )
  t.equal(await metric(node, 'cdc_subscribers'), '1')
  t.equal(await metric(node, 'cdc_events_total'), '3')
  await client.close()
  await until('a client that has gone is forgotten', async () => (await metric(node, 'cdc_subscribers')) === '0')
})

t.test('digits of numbers that JavaScript cannot hold are kept, and the sign of a zero', async (t) => {
  const node = await started(t)
  const abort = new AbortController()
  const answer = await fetch(streamOf(node), { signal: abort.signal })
  t.match(answer.headers.get('content-type'), /^text\/event-stream/)
  await write(node, `m u=18446744073709551615u,i=-9223372036854775808i,f=-0 ${NOW}`)
  let text = ''
  for await (const bytes of answer.body as ReadableStream<Uint8Array>) {
    text += Buffer.from(bytes).toString()
    if (text.includes('PointWritten')) break
  }
  abort.abort()
  for (const part of [`"timestamp":${NOW},`, '"u":{"U64":18446744073709551615}', '"i":{"I64":-9223372036854775808}', '"f":{"F64":-0.0}'])
    t.ok(text.includes(part), part)
})

t.test('filters take comma lists, and say what is wrong', async (t) => {
  const node = await started(t)
  const some = await EventClient.open(streamOf(node, '?measurement=a,%20b&event_type=point_written'))
  const deletes = await EventClient.open(streamOf(node, '?event_type=series_deleted,measurement_dropped'))
  await write(node, `a v=1 ${NOW}\nb v=2 ${NOW}\nc v=3 ${NOW}`)
  await remove(node, { measurement: 'a' })
  await write(node, `a v=4 ${NOW}`)
  t.same(
    (await some.until(3)).map(({ data }) => `${data.PointWritten.measurement} ${data.PointWritten.fields.v.F64}`),
    ['a 1', 'b 2', 'a 4'],
  )
  t.match(await deletes.until(1), [{ event: 'series_deleted', data: { SeriesDeleted: { measurement: 'a' } } }])
  await Promise.all([some.close(), deletes.close()])
  for (const [query, text] of [
    ['event_type=point_written,nothing', /there is none; use point_written, series_deleted/],
    ['event_type=', /a name in the list is empty/],
    ['measurement=a,,b', /a name in the list is empty/],
    [`measurement=${Array.from({ length: 1001 }, (_, i) => `m${i}`).join(',')}`, /at most 1000/],
  ] as const) {
    const { statusCode, body } = await node.inject(`/api/v1/cdc/stream?${query}`)
    t.equal(statusCode, 400, query.slice(0, 40))
    t.match(body, text)
  }
  for (const id of ['nonsense', 'half.7.abc.9']) {
    const { statusCode, body } = await node.inject({ url: '/api/v1/cdc/stream', headers: { 'last-event-id': id } })
    t.equal(statusCode, 400, 'an id that is none')
    t.equal(JSON.parse(body).error, `cannot go on after Last-Event-ID "${id}": it is no id of this stream; leave the header out to begin with what comes`)
  }
  await until('they are forgotten', async () => (await metric(node, 'cdc_subscribers')) === '0')
  t.equal((await node.inject({ method: 'HEAD', url: '/api/v1/cdc/stream' })).statusCode, 200, 'HEAD ends')
  t.equal(await metric(node, 'cdc_subscribers'), '0', 'and leaves no stream behind')
})

t.test('a client that comes back misses nothing, wherever it was cut', async (t) => {
  const node = await started(t, { storage: 'embedded', config: { database: { cdc_capacity: 64 } } })
  const witness = await EventClient.open(streamOf(node))
  const rows = (from: number, n: number): string =>
    Array.from({ length: n }, (_, i) => `${i % 3 === 0 ? 'a' : 'b'},host=h${i % 5} v=${from + i},w=1 ${NOW + BigInt(from + i)}`).join('\n')
  await write(node, rows(0, 700))
  await write(node, rows(700, 5))
  await remove(node, { measurement: 'a', tags: { host: 'h3' } })
  await write(node, rows(705, 20))
  const all = await witness.until(726)
  t.equal(all.length, 726)
  const said = (events: typeof all): string => JSON.stringify(events.map(({ data }) => data))
  for (const at of [0, 1, 99, 232, 233, 234, 511, 699, 700, 704, 705, 706, 725]) {
    const client = await EventClient.open(streamOf(node), { 'last-event-id': all[at].id })
    t.equal(said(await client.until(725 - at)), said(all.slice(at + 1)), `behind event ${at}`)
    await client.close()
  }
  const other = await EventClient.open(streamOf(node, '?measurement=b'), { 'last-event-id': all[100].id })
  t.match((await other.until(1))[0].data.PointWritten, { measurement: 'b', fields: { v: { F64: 1 } } }, 'another filter begins with the whole write')
  await Promise.all([other.close(), witness.close()])
})

t.test('what is gone from the log is a gap that says its range', async (t) => {
  const node = await started(t, { storage: 'embedded', config: { database: { cdc_capacity: 16, cdc_log_size: 0, wal_max_file_size: 65_536 } } })
  const client = await EventClient.open(streamOf(node))
  await write(node, `m v=1 ${NOW}`)
  const [{ id }] = await client.until(1)
  await client.close()
  for (let i = 0; i < 40; i++) await write(node, Array.from({ length: 500 }, (_, n) => `m v=${Math.random()} ${NOW + BigInt(i * 500 + n)}`).join('\n'))
  await node.storage.flush()
  const back = await EventClient.open(streamOf(node), { 'last-event-id': id })
  const [gap] = await back.until(1)
  t.match(gap, { event: 'gap', data: { Gap: { from: id, cause: 'expired' } } })
  t.ok(gap.data.Gap.to > id && gap.id === gap.data.Gap.to)
  t.equal(await metric(node, 'cdc_gaps_total'), '1')
  await back.close()
})

t.test('tenants see their own, and no drops', async (t) => {
  const keys = [
    { name: 'alice', key: `svc_${'a'.repeat(43)}`, namespaces: ['red'] },
    { name: 'bob', key: `svc_${'b'.repeat(43)}`, namespaces: ['blue'] },
    { name: 'root', key: `svc_${'r'.repeat(43)}`, admin: true, namespaces: ['*'] },
  ]
  const node = await started(t, {
    plugins: [plugin, line, native, 'api_keys', 'namespaces'],
    config: { server: { multi_tenancy: true }, auth: { api_keys: keys } },
  })
  const of = (name: string, namespace: string) => ({ authorization: `Bearer ${keys.find((key) => key.name === name)?.key}`, 'x-namespace': namespace })
  for (const name of ['red', 'blue'])
    t.ok((await node.inject({ method: 'POST', url: '/api/v1/namespaces', payload: { name }, headers: of('root', 'default') })).statusCode < 300)
  t.equal((await node.inject('/api/v1/cdc/stream')).statusCode, 401)
  t.equal((await node.inject({ url: '/api/v1/cdc/stream', headers: of('alice', 'blue') })).statusCode, 403)
  const alice = await EventClient.open(streamOf(node), of('alice', 'red'))
  const root = await EventClient.open(streamOf(node), of('root', 'blue'))
  await write(node, `secret,of=bob v=1 ${NOW}`, of('bob', 'blue'))
  await write(node, `own v=2 ${NOW}`, of('alice', 'red'))
  for (const [name, namespace, measurement] of [
    ['bob', 'blue', 'secret'],
    ['alice', 'red', 'own'],
  ])
    t.ok((await node.inject({ method: 'DELETE', url: `/api/v1/measurements/${measurement}`, headers: of(name, namespace) })).statusCode < 300)
  await write(node, `own v=3 ${NOW}`, of('alice', 'red'))
  const seen = await alice.until(2)
  await setTimeout(50)
  t.same(
    seen.map(({ data }) => [data.PointWritten.measurement, data.PointWritten.tags, data.PointWritten.fields]),
    [
      ['own', {}, { v: { F64: 2 } }],
      ['own', {}, { v: { F64: 3 } }],
    ],
  )
  // A place says nothing of whose it is: with another's, the own changes come.
  t.same(
    (await root.until(2)).map(({ event }) => event),
    ['point_written', 'measurement_dropped'],
  )
  const stolen = await EventClient.open(streamOf(node), { ...of('alice', 'red'), 'last-event-id': root.events[0].id })
  await stolen.until(2)
  t.notOk(JSON.stringify(stolen.events).includes('bob'))
  await Promise.all([alice.close(), root.close(), stolen.close()])
})

t.test('where namespaces are not kept apart, drops are told to whoever may read', async (t) => {
  const keys = [
    { name: 'reader', key: `svc_${'a'.repeat(43)}` },
    { name: 'root', key: `svc_${'r'.repeat(43)}`, admin: true },
  ]
  const node = await started(t, { plugins: [plugin, line, native, 'api_keys'], config: { auth: { api_keys: keys } } })
  const [reader, root] = keys.map(({ key }) => ({ authorization: `Bearer ${key}` }))
  const client = await EventClient.open(streamOf(node), reader)
  await write(node, `m v=1 ${NOW}`, root)
  t.ok((await node.inject({ method: 'DELETE', url: '/api/v1/measurements/m', headers: root })).statusCode < 300)
  t.match(await client.until(2), [{ event: 'point_written' }, { event: 'measurement_dropped' }])
  await client.close()
})

t.test('the streams of one namespace are bounded, and one that has ended makes room', async (t) => {
  const options = { plugins: [plugin, line, native, 'namespaces'], config: { server: { multi_tenancy: true }, cdc: { max_subscribers_per_namespace: 2 } } }
  const node = await started(t, options)
  const [red, blue] = [{ 'x-namespace': 'red' }, { 'x-namespace': 'blue' }]
  const open = (headers: Record<string, string>) => EventClient.open(streamOf(node), headers)
  const clients = [await open(red), await open(red), await open(blue)]
  const refused = await node.inject({ url: '/api/v1/cdc/stream', headers: red })
  t.equal(refused.statusCode, 429)
  t.match(refused.body, /2 streams of the namespace are open, as many as cdc.max_subscribers_per_namespace lets/)
  await clients[0].close()
  await until('it is forgotten', async () => (await metric(node, 'cdc_subscribers')) === '2')
  clients.push(await open(red))
  t.equal((await node.inject({ url: '/api/v1/cdc/stream', headers: red })).statusCode, 429, 'there is room for one')
  await Promise.all(clients.map((client) => client.close()))
  await until('all are forgotten', async () => (await metric(node, 'cdc_subscribers')) === '0')

  const together = await started(t, { config: { cdc: { max_subscribers_per_namespace: 1 } } })
  const all = [await EventClient.open(streamOf(together)), await EventClient.open(streamOf(together))]
  t.pass('nothing is bounded by namespace where there is one for all')
  await Promise.all(all.map((client) => client.close()))
})

t.test('who has the name of a deleted namespace next is told nothing of what it had', async (t) => {
  for (const storage of ['memory', 'embedded']) {
    const node = await started(t, { storage, plugins: [plugin, line, native, 'namespaces'], config: { server: { multi_tenancy: true } } })
    const acme = { 'x-namespace': 'acme' }
    const old = await EventClient.open(streamOf(node), acme)
    await write(node, `secret,of=old v=1 ${NOW}\nother v=1 ${NOW}`, acme)
    const [{ id: place }] = await old.until(2)
    await old.close()
    for (const [method, url] of [
      ['DELETE', '/api/v1/measurements/other'],
      ['DELETE', '/api/v1/namespaces/acme'],
    ] as const)
      t.ok((await node.inject({ method, url, headers: acme })).statusCode < 300, url)
    await write(node, `own v=2 ${NOW}`, acme)
    // A place before anything was written, made up from one that is known.
    const first = place.replace(/-.*/, `-${'0'.repeat(14)}-${'0'.repeat(14)}`)
    for (const id of [place, first]) {
      const next = await EventClient.open(streamOf(node), { ...acme, 'last-event-id': id })
      const told = () => next.events.flatMap(({ data }) => data.PointWritten?.measurement ?? [])
      await until('its own has come', async () => told().includes('own'))
      t.same(told(), ['own'], `${storage} ${id}`)
      await next.close()
    }
    await node.stop()
  }
})

t.test('a stream ends with its credential', async (t) => {
  const node = await started(t, {
    clock: { ...systemClock, after: (ms, then) => systemClock.after(ms / 10, then) },
    plugins: [plugin, line, native, 'api_keys'],
    config: { auth: { api_keys: [{ name: 'root', key: `svc_${'r'.repeat(43)}`, admin: true }] } },
  })
  const root = { authorization: `Bearer svc_${'r'.repeat(43)}` }
  const made = await node.inject({ method: 'POST', url: '/api/v1/admin/auth/keys', payload: { name: 'reader' }, headers: root })
  t.equal(made.statusCode, 201)
  const [own, other] = [await EventClient.open(streamOf(node), { authorization: `Bearer ${made.json().key}` }), await EventClient.open(streamOf(node), root)]
  // It is looked at again and again.
  await setTimeout(250)
  t.equal((await node.inject({ method: 'DELETE', url: '/api/v1/admin/auth/keys/reader', headers: root })).statusCode, 204)
  // Nothing is written: it ends by itself.
  await own.ended
  t.match(own.events, [{ event: 'end', data: { reason: 'credential', message: /"reader".*was revoked or has expired/ } }])
  t.equal(await metric(node, 'cdc_streams_ended_total{reason="credential"}', root), '1')
  await write(node, `m v=1 ${NOW}`, root)
  t.equal((await other.until(1)).length, 1, 'others go on')
  await other.close()
})

t.test('subscribers are bounded, streams end with a sentence, and idle ones are kept alive', async (t) => {
  const node = await started(t, { config: { cdc: { max_subscribers: 2, max_stream_secs: 2, keep_alive_secs: 1 } } })
  const clients = [await EventClient.open(streamOf(node)), await EventClient.open(streamOf(node))]
  const { statusCode, body } = await node.inject('/api/v1/cdc/stream')
  t.equal(statusCode, 429)
  t.match(body, /2 streams are open, as many as cdc.max_subscribers lets/)
  await Promise.all(clients.map(({ ended }) => ended))
  for (const { events, comments, lastId } of clients) {
    t.ok(comments >= 1)
    t.ok(lastId !== '', 'there is an id to come back with')
    t.match(events, [{ event: 'end', data: { reason: 'lasted', message: /connect again with Last-Event-ID/ } }])
  }
  const again = await EventClient.open(streamOf(node), { 'last-event-id': clients[0].lastId })
  const stopped = node.stop()
  await again.ended
  t.match(again.events, [{ event: 'end', data: { reason: 'drained' } }])
  await stopped
})

t.test('a reader that has fallen behind and comes after is not ended later', async (t) => {
  const node = await started(t, { config: { cdc: { slow_reader_secs: 1, max_buffered_bytes: 65_536, keep_alive_secs: 1 } } })
  const client = await EventClient.open(streamOf(node))
  await write(node, Array.from({ length: 3000 }, (_, n) => `m,host=h${n % 50} v=${n},text="${'x'.repeat(100)}" ${NOW + BigInt(n)}`).join('\n'))
  t.equal((await client.until(3000)).length, 3000)
  await until('it has been idle for longer than it may take nothing', async () => client.comments > 1)
  await write(node, `m v=1 ${NOW}`)
  t.same((await client.until(3001)).at(-1)?.event, 'point_written')
  await client.close()
})

t.test('a reader that takes nothing holds up nobody, and is ended', async (t) => {
  const node = await started(t, { storage: 'embedded', config: { cdc: { slow_reader_secs: 1, max_buffered_bytes: 65_536 }, database: { cdc_capacity: 1024 } } })
  const { hostname, port } = new URL(node.url)
  const socket = connect(Number(port), hostname)
  socket.pause()
  socket.write(`GET /api/v1/cdc/stream HTTP/1.1\r\nhost: ${hostname}\r\n\r\n`)
  await until('its stream is open', async () => (await metric(node, 'cdc_subscribers')) === '1')
  const began = Date.now()
  for (let i = 0; i < 60; i++)
    await write(node, Array.from({ length: 1000 }, (_, n) => `m,host=h${n % 50} v=${n},text="${'x'.repeat(100)}" ${NOW + BigInt(i * 1000 + n)}`).join('\n'))
  t.ok(Date.now() - began < 60_000)
  await until('its stream is ended', async () => (await metric(node, 'cdc_subscribers')) === '0')
  t.equal(await metric(node, 'cdc_subscribers'), '0')
  t.equal(await metric(node, 'cdc_streams_ended_total{reason="slow"}'), '1')
  socket.destroy()
})

t.test('a reader that takes little at a time is no reader that takes nothing', async (t) => {
  const node = await started(t, { storage: 'embedded', config: { cdc: { slow_reader_secs: 2, max_buffered_bytes: 16_777_216 } } })
  const { hostname, port } = new URL(node.url)
  const socket = connect(Number(port), hostname)
  // It reads by hand: whoever only looks fills the buffers of both sides.
  let taken = 0
  const reading = setInterval(() => (taken += socket.read(131_072)?.length ?? 0), 50)
  t.teardown(() => {
    clearInterval(reading)
    socket.destroy()
  })
  socket.on('readable', () => {})
  socket.write(`GET /api/v1/cdc/stream HTTP/1.1\r\nhost: ${hostname}\r\n\r\n`)
  await until('its stream is open', async () => (await metric(node, 'cdc_subscribers')) === '1')
  const text = 'x'.repeat(1000)
  for (let i = 0; i < 40; i++)
    await write(node, Array.from({ length: 1000 }, (_, n) => `m,host=h${n % 50} v=${n},text="${text}" ${NOW + BigInt(i * 1000 + n)}`).join('\n'))
  const slow = () => metric(node, 'cdc_streams_ended_total{reason="slow"}')
  const before = taken
  await setTimeout(6000)
  t.ok(taken - before > 1_000_000, `it takes ${taken - before} bytes in 6 s`)
  t.equal(await slow(), undefined, 'it is told on')
  clearInterval(reading)
  await until('it is ended when it takes nothing any more', async () => (await slow()) === '1')
})
