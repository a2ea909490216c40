/** Brokers that say what no broker should, over sockets. What comes by other ways is stored all the same. */
import { setTimeout as sleep } from 'node:timers/promises'
import { boot, type TestNode } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { eventually } from '../../test/support/until.ts'
import { listed, rowsOf } from './testing.ts'
import {
  API,
  array,
  batchOf,
  begins,
  emptyBatchOf,
  fetched,
  int16,
  int32,
  int64,
  markerOf,
  type RawBroker,
  type Request,
  rawBroker,
  reply,
  TOPIC,
  text,
} from './testing-raw-broker.ts'

async function start(t: Test, { port }: RawBroker, more: object = {}, log?: (line: string) => void): Promise<TestNode> {
  const node = await boot({
    ...(log !== undefined && { log }),
    plugins: ['kafka', 'line_protocol'],
    config: {
      kafka: {
        brokers: `127.0.0.1:${port}`,
        topics: [TOPIC],
        auto_offset_reset: 'earliest',
        format: 'line_protocol',
        reconnect_ms: 100,
        fetch_wait_ms: 100,
        ...more,
      },
    },
  })
  t.teardown(() => node.stop())
  return node
}

const statusOf = async (node: TestNode) => (await listed(node))[0].status

async function writes(t: Test, node: TestNode): Promise<void> {
  const { statusCode } = await node.inject({ method: 'POST', url: '/write', payload: 'own v=1', headers: { 'content-type': 'text/plain' } })
  t.equal(statusCode, 204, 'other inputs go on')
}

t.test('a broker as it should be', { timeout: 60_000 }, async (t) => {
  const broker = await rawBroker(t)
  broker.batches.set(0n, batchOf('cpu,n=1 v=1', 0n)).set(1n, batchOf('cpu,n=2 v=2', 1n))
  broker.end = 2n
  const node = await start(t, broker)
  await eventually(() => broker.committed === 2n)
  t.equal((await rowsOf(node)).length, 2)
  t.equal(await statusOf(node), 'Running')
})

t.test('what no consumer is given is committed too: markers of transactions, and batches that compaction has emptied', { timeout: 60_000 }, async (t) => {
  const broker = await rawBroker(t)
  broker.batches
    .set(0n, markerOf(0n))
    .set(1n, Buffer.concat([batchOf('cpu v=1', 1n), markerOf(2n)]))
    .set(3n, emptyBatchOf(3n, 4))
    .set(7n, markerOf(7n))
  broker.end = 8n
  const node = await start(t, broker)
  await eventually(() => broker.committed === 8n)
  t.equal((await rowsOf(node)).length, 1)
  t.match(await listed(node), [{ metrics: { messages_total: 1, lag: 0 } }])
})

t.test('where records that the group had not read are gone, it goes on with the oldest, and says so', { timeout: 60_000 }, async (t) => {
  const OUT_OF_RANGE = 1
  const broker = await rawBroker(t, ({ api, offset, body }) => {
    if (api === API.fetch && offset < 10n) return fetched(Buffer.alloc(0), -1n, OUT_OF_RANGE)
    if (api === API.listOffsets && body.includes(int64(-2n))) return begins(10n)
    return undefined
  })
  broker.committed = 5n
  broker.batches.set(10n, batchOf('cpu,n=10 v=1', 10n)).set(11n, batchOf('cpu,n=11 v=1', 11n))
  broker.end = 12n
  const lines: string[] = []
  const node = await start(t, broker, { auto_offset_reset: 'latest' }, (line) => lines.push(line))
  await eventually(() => broker.committed === 12n)
  t.equal((await rowsOf(node)).length, 2)
  t.match(lines.join('\n'), /the next record of plant\/0 .*no longer has/)
})

t.test('a topic that is made anew while the server runs is read from its begin, whatever the group begins with', { timeout: 60_000 }, async (t) => {
  const UNKNOWN_MEMBER = 25
  let anew = false
  const broker = await rawBroker(t, ({ api }) => {
    if (!anew || api !== API.fetch) return undefined
    anew = false
    return fetched(Buffer.alloc(0), -1n, UNKNOWN_MEMBER)
  })
  broker.end = 7n
  const node = await start(t, broker, { auto_offset_reset: 'latest' })
  await eventually(() => broker.committed === 7n)
  // What a broker knows of a topic goes with it.
  broker.committed = -1n
  broker.batches.set(0n, batchOf('cpu,n=1 v=1', 0n))
  broker.end = 1n
  anew = true
  await eventually(() => broker.committed === 1n)
  t.equal((await rowsOf(node)).length, 1)
})

t.test('a commit that is answered when the topic was made anew meanwhile is of the former one', { timeout: 60_000 }, async (t) => {
  const OUT_OF_RANGE = 1
  let held: Request | undefined
  const broker = await rawBroker(t, (request, { end }) => {
    if (request.api === API.commit && end === 7n) {
      held = request
      return null
    }
    return request.api === API.fetch && request.offset > end ? fetched(Buffer.alloc(0), -1n, OUT_OF_RANGE) : undefined
  })
  broker.committed = 6n
  broker.batches.set(6n, batchOf('cpu,n=0 v=1', 6n))
  broker.end = 7n
  const node = await start(t, broker)
  await eventually(() => held !== undefined)
  broker.batches.clear()
  broker.batches.set(0n, batchOf('cpu,n=1 v=1', 0n))
  broker.end = 1n
  await eventually(async () => (await rowsOf(node)).length === 2)
  broker.committed = 7n
  reply(held!, array(Buffer.concat([text(TOPIC), array(Buffer.concat([int32(0), int16(0)]))])))
  await eventually(() => broker.committed === 1n)
  t.equal((await rowsOf(node)).length, 2)
})

/** @param bad whether it is time for what is wrong. */
const once = (api: number, what: (request: Request, broker: RawBroker) => Buffer | null) => {
  let bad = 3
  return (request: Request, broker: RawBroker) => (request.api === api && bad-- > 0 ? what(request, broker) : undefined)
}
const raw = (bytes: Buffer) => (request: Request) => {
  request.socket.write(bytes)
  return null
}

for (const [what, hook, says] of [
  ['an answer of no bytes', once(API.metadata, raw(int32(0))), /cannot read what the broker answers: a length in it is wrong; is there a Kafka broker/],
  [
    'an answer of two bytes',
    once(API.metadata, raw(Buffer.concat([int32(2), int16(7)]))),
    /cannot read what the broker answers: a length in it is wrong; is there a Kafka broker/,
  ],
  ['an answer of -1 bytes', once(API.metadata, raw(int32(-1))), /an answer has -1 bytes; is there a Kafka broker/],
  ['an answer of -16 bytes', once(API.metadata, raw(Buffer.concat([int32(-16), Buffer.alloc(100)]))), /an answer has -16 bytes/],
  [
    'HTTP',
    once(API.metadata, raw(Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n'))),
    /an answer of 1213486160 bytes from the broker: .*raise kafka.max_response_bytes/,
  ],
  [
    'brokers whose names have a negative length',
    // Such that each is read where the one before was.
    once(API.metadata, () => Buffer.concat([int32(2_000_000_000), int32(1), int16(-12), Buffer.alloc(4), Buffer.alloc(2), Buffer.alloc(100)])),
    /a length in it is wrong/,
  ],
  ['two thousand million brokers', once(API.metadata, () => int32(2_000_000_000)), /a length in it is wrong/],
  [
    'five thousand brokers, each of which leads a partition',
    once(API.metadata, (_, { port }) => {
      const numbers = Array.from({ length: 5000 }, (_, i) => i)
      const brokers = numbers.map((i) => Buffer.concat([int32(i), text('127.0.0.1'), int32(port), int16(-1)]))
      const partitions = numbers.map((i) => Buffer.concat([int16(0), int32(i), int32(i), array(int32(i)), array(int32(i))]))
      return Buffer.concat([array(...brokers), int32(0), array(Buffer.concat([int16(0), text(TOPIC), Buffer.from([0]), array(...partitions)]))])
    }),
    /it has 5000 brokers, and 1000 at most are connected to/,
  ],
  ['-5 brokers', once(API.metadata, () => int32(-5)), /array length/],
  ['fetches of -2 topics', once(API.fetch, () => Buffer.concat([int32(0), int32(-2)])), /array length/],
  [
    'a topic of a negative length',
    once(API.fetch, () => Buffer.concat([int32(0), array(Buffer.concat([int16(-9), Buffer.alloc(40)]))])),
    /a length in it is wrong/,
  ],
  ['bytes that are no batch', once(API.fetch, (_, { end }) => fetched(Buffer.alloc(80, 2), end)), /./],
  ['a batch of less than its magic', once(API.fetch, (_, { end }) => fetched(Buffer.alloc(5), end)), /./],
  [
    'half an answer',
    once(API.fetch, (request) => {
      request.socket.end(Buffer.concat([int32(1000), int32(request.id), Buffer.alloc(20)]))
      return null
    }),
    /a member of the consumer group/,
  ],
] as const) {
  t.test(what, { timeout: 60_000 }, async (t) => {
    const broker = await rawBroker(t, hook)
    broker.batches.set(0n, batchOf('cpu v=1', 0n))
    broker.end = 1n
    const lines: string[] = []
    const node = await boot({
      plugins: ['kafka', 'line_protocol'],
      log: (line) => lines.push(line),
      config: {
        kafka: { brokers: `127.0.0.1:${broker.port}`, topics: [TOPIC], auto_offset_reset: 'earliest', format: 'line_protocol', reconnect_ms: 100 },
      },
    })
    t.teardown(() => node.stop())
    await writes(t, node)
    await eventually(() => broker.committed === 1n)
    t.match(lines.join('\n'), says)
    t.equal((await rowsOf(node)).filter(({ measurement }) => measurement === 'cpu').length, 1)
    await writes(t, node)
  })
}

t.test('an answer that says it has a gibibyte costs no memory', { timeout: 60_000 }, async (t) => {
  let sent = 0
  let over = 0
  const broker = await rawBroker(t, ({ api, socket }) => {
    if (api !== API.fetch || over > 0) return undefined
    socket.write(int32(2 ** 30))
    const megabyte = Buffer.alloc(2 ** 20)
    const more = (): void => {
      if (socket.destroyed || sent >= 2 ** 10) return void over++
      sent++
      socket.write(megabyte, more)
    }
    more()
    return null
  })
  broker.batches.set(0n, batchOf('cpu v=1', 0n))
  broker.end = 1n
  const node = await start(t, broker)
  await eventually(() => broker.committed === 1n)
  t.ok(sent < 20, `${sent} MiB went out`)
  await writes(t, node)
})

for (const [what, offset, end] of [
  ['an offset that no number has', 2n ** 62n, 1n],
  ['a negative offset', -7n, 1n],
  ['an end before the begin', 0n, -5n],
  ['an end that is never reached', 0n, 2n ** 62n],
] as const) {
  t.test(`a broker that lies: ${what}`, { timeout: 60_000 }, async (t) => {
    const broker = await rawBroker(t, (request, { requests }) =>
      request.api === API.fetch && (requests.get(API.fetch) ?? 0) < 5 ? fetched(batchOf('cpu v=1', offset), end) : undefined,
    )
    broker.end = 1n
    broker.batches.set(0n, batchOf('true v=1', 0n))
    const node = await start(t, broker)
    await eventually(() => (broker.requests.get(API.fetch) ?? 0) > 10)
    await writes(t, node)
    const { lag } = (await listed(node))[0].metrics
    t.ok(lag === null || lag >= 0, `${lag}`)
    t.match((await node.inject('/metrics')).statusCode, 200)
    // It has said of none that was not settled that it was.
    t.ok(broker.committed <= (offset > 0n ? offset + 2048n : 1n), `${broker.committed}`)
  })
}

t.test('a broker that answers fetches at once, with nothing, is not asked without a pause', { timeout: 60_000 }, async (t) => {
  let hasty = true
  const broker = await rawBroker(t, ({ api }) => (api === API.fetch && hasty ? fetched(Buffer.alloc(0), 0n) : undefined))
  const node = await start(t, broker, { fetch_wait_ms: 50 })
  const fetches = () => broker.requests.get(API.fetch) ?? 0
  await eventually(() => fetches() > 20)
  const before = fetches()
  await sleep(1000)
  t.ok(fetches() - before < 100, `${fetches() - before} fetches`)
  await writes(t, node)
  broker.batches.set(0n, batchOf('cpu v=1', 0n))
  broker.end = 1n
  hasty = false
  await eventually(() => broker.committed === 1n)
})
