import { connect } from 'node:http2'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ServiceDefinition, ServiceError } from '@grpc/grpc-js'
import { definePlugin } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import t, { type Test } from 'tap'
import { type Message, packageDefinition, point, type StartOptions, start, TestClient } from './testing.ts'

const NOW = BigInt(Date.now()) * 1_000_000n

interface Refusals {
  left: number
  /** Called at each. */
  also?: () => Promise<unknown>
}

/** Counts batches, and refuses those that hold a measurement called `refused`. */
function gateOf(batches: number[], refusals: Refusals) {
  return definePlugin({
    id: 'gate',
    summary: 'Looks at writes',
    stability: 'stable',
    setup(svc) {
      svc.ingest.admit(async (batch) => {
        batches.push(batch.rows)
        if (refusals.left > 0) {
          refusals.left--
          await refusals.also?.()
          throw new SvcError('BACKPRESSURE', 'no room yet')
        }
        if (batch.tables.some(({ measurement, rows }) => measurement?.name === 'refused' && rows > 0)) throw new SvcError('OVERLOADED', 'no room')
      })
    },
  })
}

async function setUp(t: Test, options: StartOptions = {}) {
  const batches: number[] = []
  const refusals: Refusals = { left: 0 }
  const { node, port } = await start({ ...options, plugins: [gateOf(batches, refusals)] })
  const client = new TestClient(port)
  t.teardown(async () => {
    client.close()
    await node.stop()
  })
  const send = (messages: Message[], metadata?: Record<string, string>): Promise<Message> => {
    const { stream, answer } = client.streamWrite(metadata === undefined ? {} : { metadata })
    for (const message of messages) stream.write(message)
    stream.end()
    return answer
  }
  const values = async (measurement: string): Promise<number[]> =>
    (await client.query({ measurement, format: 'ROWS' })).flatMap(({ rows }) => rows.map((row: Message) => row.fields[0].value.float64))
  return { node, port, client, batches, refusals, send, values }
}

const serialize = (value: Message): Buffer => (packageDefinition['svc.Service'] as ServiceDefinition).StreamWrite.requestSerialize(value)
const errorOf = (answer: Promise<unknown>): Promise<ServiceError> =>
  answer.then(
    () => Promise.reject(new Error('it was answered')),
    (error) => error,
  )
const at = (i: number, measurement = 'm') => point(measurement, NOW + BigInt(i), {}, { v: i })
const message = (from: number, count: number, dedup_key = '') => ({ points: Array.from({ length: count }, (_, i) => at(from + i)), dedup_key })
const upTo = (n: number) => Array.from({ length: n }, (_, i) => i)

t.test('many messages become few batches', async (t) => {
  const { send, batches, values } = await setUp(t, { section: { stream_batch_size: 1000, stream_batch_interval_ms: 60_000 } })
  t.same(await send(Array.from({ length: 350 }, (_, i) => message(i * 10, 10))), { total_written: '3500', batch_written: '500' })
  t.same(batches, [1000, 1000, 1000, 500])
  t.same(await values('m'), upTo(3500))
  t.same(await send([]), { total_written: '0', batch_written: '0' })
})

t.test('bytes end a batch as well', async (t) => {
  const { send, batches } = await setUp(t, { section: { stream_batch_bytes: 1024, stream_batch_interval_ms: 60_000 } })
  await send(Array.from({ length: 100 }, (_, i) => message(i * 10, 10)))
  t.ok(batches.length > 10)
})

t.test('points wait for others no longer than the interval', async (t) => {
  const { client, values } = await setUp(t, { section: { stream_batch_interval_ms: 20 } })
  const { stream, answer } = client.streamWrite()
  stream.write(message(0, 3))
  for (let tries = 0; ; tries++) {
    const seen = await values('m').catch(() => [])
    if (seen.length === 3) break
    if (tries > 500) throw new Error('the points were not written')
    await sleep(5)
  }
  stream.end()
  t.match(await answer, { total_written: '3' })
})

t.test('a key is written once', async (t) => {
  const { send, values } = await setUp(t, { section: { stream_batch_interval_ms: 60_000 } })
  const keyed = (i: number) => message(i * 10, 10, `k${i}`)
  t.match(await send([keyed(0), keyed(1), keyed(1), keyed(2), keyed(0)]), { total_written: '30' })
  t.match(await send([keyed(2), keyed(3)]), { total_written: '10' })
  t.same(await values('m'), upTo(40))
  t.match(await errorOf(send([message(0, 1, 'k'.repeat(256))])), { code: 3, details: /messages\[0\]: .*dedup_key/ })
})

t.test('keys that are ignored', async (t) => {
  const { send } = await setUp(t, { config: { server: { dedup_window_secs: 0 } } })
  t.match(await send([message(0, 1, 'k'), message(0, 1, 'k')]), { total_written: '2' })
})

t.test('the key of a write that failed is free again', async (t) => {
  const { send, values } = await setUp(t)
  const failed = await errorOf(send([{ points: [at(0, 'refused')], dedup_key: 'k' }]))
  t.match(failed, { code: 14, details: /no room/ })
  t.match(await send([message(0, 1, 'k')]), { total_written: '1' })
  // Its points are refused, so that the key may come again with others.
  await errorOf(send([{ points: [point('m', NOW, {}, { v: 'text' })], dedup_key: 'q' }]))
  t.match(await send([message(1, 1, 'q')]), { total_written: '1' })
  t.same(await values('m'), [0, 1])
})

t.test('the key of a write that took too long is under way until the storage is done: a repeat is not stored beside it', async (t) => {
  const { client, node, send } = await setUp(t, { storage: 'memory', config: { server: { write_timeout_secs: 1 } } })
  const { storage } = node
  const write = storage.write.bind(storage)
  const under: PromiseWithResolvers<void>[] = []
  storage.write = async (...given) => {
    under.push(Promise.withResolvers())
    await under.at(-1)?.promise
    return write(...given)
  }
  // Without a time: each that is stored has one of its own.
  const request = (measurement: string) => ({ points: [point(measurement, 0, {}, { v: 1 })], dedup_key: measurement })
  const ways = {
    unary: () => client.call('Write', request('unary')),
    stream: () => send([request('stream')]),
  }
  const late = await Promise.all(Object.values(ways).map((way) => errorOf(way())))
  t.same(
    late.map(({ code }) => code),
    [4, 4],
  )
  const repeats = Object.values(ways).map((way) => way())
  await sleep(50)
  t.equal(under.length, 2, 'the storage has each once')
  for (const each of under) each.resolve()
  t.match(await Promise.all(repeats), [{ duplicate: true }, { total_written: '0' }])
  t.equal(under.length, 2)
})

t.test('a key under way in another stream is waited for', async (t) => {
  const { client, send } = await setUp(t, { section: { stream_batch_interval_ms: 50 } })
  const { stream, answer } = client.streamWrite()
  stream.write({ points: [at(0), at(0, 'refused')], dedup_key: 'k' })
  await sleep(20)
  // The first one fails, so the second one is not left out.
  t.match(await send([message(0, 1, 'k')]), { total_written: '1' })
  t.match(await errorOf(answer), { code: 14 })
  stream.destroy()
})

t.test('a stream waits for room, and loses nothing', async (t) => {
  const section = { stream_batch_size: 100, stream_batch_interval_ms: 60_000, backpressure_wait_secs: 1 }
  const { send, values, refusals, batches } = await setUp(t, { section })
  refusals.left = 3
  t.match(await send(Array.from({ length: 30 }, (_, i) => message(i * 10, 10, `k${i}`))), { total_written: '300', batch_written: '100' })
  t.same(await values('m'), upTo(300))
  t.equal(batches.length, 6)
  refusals.left = 1000
  t.match(await errorOf(send([message(300, 10, 'late')])), { code: 14, details: /no room yet/ })
  refusals.left = 0
  t.match(await send([message(300, 10, 'late')]), { total_written: '10' })
})

t.test('points that are refused when they are tried again are counted, and their key is free', async (t) => {
  const { client, send, refusals, values } = await setUp(t, { section: { stream_batch_interval_ms: 60_000 } })
  refusals.left = 1
  refusals.also = () => client.call('Write', { points: [point('m', NOW, {}, { other: 1n })] })
  const of = (field: string, i: number) => point('m', NOW + BigInt(i), {}, { [field]: i })
  // Of so many measurements a batch keeps no column, and so the decoder sees the type that the field has got.
  const many = Array.from({ length: 100 }, (_, i) => at(i, `m${i}`))
  const messages = [{ points: [...many, of('v', 1)] }, { points: [of('v', 2), of('other', 3), of('other', 4)], dedup_key: 'k' }]
  t.match(await errorOf(send(messages)), { code: 3, details: /partial write: 102 points written, 2 rejected; first: messages\[1\]\.points\[1\]: .*"other"/ })
  t.match(await send([{ points: [of('v', 5)], dedup_key: 'k' }]), { total_written: '1' })
  t.same(await values('m'), [null, 1, 2, 5])
})

t.test('an error ends the stream; what came before it is written and counted', async (t) => {
  const { send, values } = await setUp(t, { section: { stream_batch_size: 4, stream_batch_interval_ms: 60_000 } })
  const bad = { points: [at(10), point('m', NOW + 11n, {}, { v: {} })] }
  const partial = await errorOf(send([message(0, 3), message(3, 3), bad, message(20, 3)]))
  t.match(partial, { code: 3, details: /partial write: 7 points written, 1 rejected; first: messages\[2\]\.points\[1\]: .*"v"/ })
  t.same(await values('m'), [0, 1, 2, 3, 4, 5, 10])
})

t.test('a message that is none', async (t) => {
  const { client, values } = await setUp(t, { section: { stream_batch_interval_ms: 60_000 } })
  const { promise, resolve } = Promise.withResolvers<ServiceError>()
  const raw = (value: Buffer) => value
  const stream = client.service.makeClientStreamRequest('/svc.Service/StreamWrite', raw, raw, (error: ServiceError) => resolve(error))
  // A point at 1 ns needs backfill, which the stream has not; the server's own time is fine.
  stream.write(Buffer.from([0x0a, 0x13, 0x0a, 1, 109, 0x1a, 14, 0x0a, 1, 118, 0x12, 9, 0x09, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f]))
  stream.write(Buffer.from([0x0a, 0xff]))
  const error = await promise
  t.match(error, { code: 3, details: /messages\[1\]: .*protobuf.*; of the stream 1 point was written before/ })
  t.same(await values('m'), [1])
})

t.test('backfill by metadata', async (t) => {
  const { send, values } = await setUp(t)
  await send([message(0, 1)])
  const old = { points: [point('m', NOW - 30n * 86_400_000_000_000n, {}, { v: 2 })] }
  t.match(await errorOf(send([old])), { code: 3, details: /backfill/ })
  t.match(await send([old], { 'x-backfill': 'true' }), { total_written: '1' })
  t.match(await errorOf(send([old], { 'x-backfill': 'yes' })), { code: 3, details: /cannot use metadata x-backfill "yes"/ })
  t.same(await values('m'), [2, 0])
})

t.test('a stream whose client goes away leaves nothing behind', async (t) => {
  const { values, send, node, port } = await setUp(t, { section: { stream_batch_interval_ms: 60_000 } })
  // Not a cancel: both grpc-js and node:http2 say that the messages are complete before they cancel a call.
  const session = connect(`http://127.0.0.1:${port}`)
  const stream = session.request({ ':method': 'POST', ':path': '/svc.Service/StreamWrite', 'content-type': 'application/grpc' })
  stream.on('error', () => {})
  const bytes = serialize(message(0, 3, 'k'))
  const head = Buffer.alloc(5)
  head.writeUInt32BE(bytes.length, 1)
  stream.write(Buffer.concat([head, bytes]))
  const running = async () => /svc_grpc_calls_running (\d+)/.exec((await node.inject('/metrics')).body)?.[1]
  while ((await running()) !== '1') await sleep(5)
  await sleep(50)
  session.destroy()
  while ((await running()) !== '0') await sleep(5)
  t.match(await send([message(0, 3, 'k')]), { total_written: '3' }, 'its key is free')
  t.same(await values('m'), [0, 1, 2])
})
