import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises'
import { zstdCompressSync } from 'node:zlib'
import { SvcError } from 'svcdb/lib/errors'
import { decodeLz4, storeLz4 } from 'svcdb/lib/lz4'
import { seeded } from 'svcdb/lib/random'
import { encodeSnappy } from 'svcdb/lib/snappy'
import { boot, type TestNode } from 'svcdb/testkit'
import t from 'tap'
import { eventually } from '../../test/support/until.ts'
import { decompressGzip, decompressSnappy, GZIP, isTooLarge, LZ4, SNAPPY, ZSTD } from './codecs.ts'
import { GroupOffsets, Settled } from './offsets.ts'
import { timeOf } from './record-time.ts'
import { FakeKafka, listed, rowsOf, start } from './testing.ts'

/** Its writes fail as long as `fails` says so. */
function failing(node: TestNode, fails: () => boolean): void {
  const { storage } = node
  const write = storage.write.bind(storage)
  storage.write = async (batch, how) => {
    if (fails()) throw new SvcError('STORAGE_FULL', 'full')
    return write(batch, how)
  }
}

t.test('records become points, and are committed', async (t) => {
  const kafka = new FakeKafka(2)
  kafka.add(0, { value: `cpu,host=a v=1 ${Date.now()}000000` })
  kafka.add(0, { value: 'cpu v=2', timestamp: String(Date.now() - 777) })
  kafka.add(1, { value: null })
  kafka.add(1, { value: '' })
  kafka.add(1, { value: 'cpu v=3', headers: { at: Buffer.from('2026-01-02T03:04:05.000000006Z') } })
  const node = await start(t, kafka, { tags_from_topic: ['plant.+machine'], time_header: 'at', backfill: true, group_id: 'g' })
  await eventually(() => kafka.committed[0] === 2 && kafka.committed[1] === 3)
  const rows = (await rowsOf(node)).map(({ tags, fields, time }) => [fields.v as number, tags, fields.v === 3 && time] as const).sort(([a], [b]) => a - b)
  t.same(rows, [
    [1, { host: 'a', machine: 'press' }, false],
    [2, { machine: 'press' }, false],
    [3, { machine: 'press' }, 1_767_323_045_000_000_006n],
  ])
  t.match(kafka.members[0].options, { groupId: 'g', topics: ['plant.press'], begin: 'earliest' })
  t.match(await listed(node), [
    { name: 'kafka-default', connector_type: 'kafka', status: 'Running', metrics: { messages_total: 3, points_total: 3, decode_errors: 0, lag: 0 } },
  ])
  const text = (await node.inject('/metrics')).body
  t.match(text, /svc_connector_up\{connector="kafka-default",type="kafka"\} 1/)
  t.match(text, /svc_kafka_messages_consumed_total 5/)
  t.match(text, /svc_kafka_empty_records_total 2/)
  t.match(text, /svc_kafka_partition_lag\{connector="kafka-default",topic="plant.press",partition="1"\} 0/)
})

t.test('JSON of a topic that is mapped', async (t) => {
  const kafka = new FakeKafka(1)
  kafka.add(0, { value: JSON.stringify({ fields: { value: 1 } }) })
  const node = await start(t, kafka, { format: 'json', topic_measurement_map: { 'plant.+': 'machines' } })
  await eventually(() => kafka.committed[0] === 1)
  t.match(await rowsOf(node), [{ measurement: 'machines', fields: { value: 1 } }])
})

t.test('what cannot be stored is kept whole, and holds up nobody', async (t) => {
  const bodies = ['cpu v=1\nnonsense\ncpu,host=b v=2', 'nothing of it', `cpu,host=c v=3 # ${'x'.repeat(2000)}`]
  for (const topic of [undefined, 'dead']) {
    const kafka = new FakeKafka(1)
    for (const value of [...bodies, 'cpu,host=d v=4']) kafka.add(0, { value, key: Buffer.from('k') })
    const node = await start(t, kafka, { storage: 'embedded', max_message_bytes: 1024, ...(topic === undefined ? {} : { dead_letter_topic: topic }) })
    await eventually(() => kafka.committed[0] === 4)
    t.same((await rowsOf(node)).map(({ fields }) => fields.v).sort(), [1, 2, 4])
    const letters =
      topic === undefined
        ? (await readFile(join(node.dataDir, 'dead-letters', 'kafka-default.jsonl'), 'utf8'))
            .trim()
            .split('\n')
            .map((line) => JSON.parse(line))
            .map(({ topic: place, code, body }) => [place, code, Buffer.from(body, 'base64').toString()])
        : kafka.sent.map(({ record: { headers, value } }) => [headers['svc-source'], headers['svc-code'], `${value}`])
    t.same(letters, [
      ['plant.press/0@0', 'PARTIAL_WRITE', bodies[0]],
      ['plant.press/0@1', 'INVALID_POINT', bodies[1]],
      ['plant.press/0@2', 'PAYLOAD_TOO_LARGE', bodies[2]],
    ])
    t.match((await node.inject('/metrics')).body, /svc_kafka_deserialization_errors_total 3/)
  }
})

t.test('a batch that cannot be read is a dead letter without a body, and is not read again', async (t) => {
  for (const topic of [undefined, 'dead']) {
    const kafka = new FakeKafka(1)
    kafka.add(0, { value: null, unread: { bytes: 77, why: 'cannot read the 3 records from offset 10 on' } })
    kafka.add(0, { value: 'cpu v=1' })
    const node = await start(t, kafka, { storage: 'embedded', ...(topic === undefined ? {} : { dead_letter_topic: topic }) })
    await eventually(() => kafka.committed[0] === 2)
    t.equal((await rowsOf(node)).length, 1)
    t.match(await listed(node), [{ metrics: { messages_total: 2, decode_errors: 1 } }])
    if (topic !== undefined) {
      t.match(kafka.sent, [
        { record: { value: null, headers: { 'svc-source': 'plant.press/0@0', 'svc-code': 'PAYLOAD_TOO_LARGE', 'svc-error': /the 3 records/ } } },
      ])
      continue
    }
    const letter = JSON.parse(await readFile(join(node.dataDir, 'dead-letters', 'kafka-default.jsonl'), 'utf8'))
    t.match(letter, { topic: 'plant.press/0@0', code: 'PAYLOAD_TOO_LARGE', error: /the 3 records/, bytes: 77, body: '' })
    const answer = await node.inject({ method: 'POST', url: '/api/v1/admin/connectors/kafka-default/dead-letters/replay' })
    t.match(answer.json(), { messages: 1, failed: 1 })
  }
})

t.test('a full disk: nothing is committed, no more is taken than there is room for, and it goes on', async (t) => {
  const kafka = new FakeKafka(3)
  const now = BigInt(Date.now()) * 1_000_000n
  let full = true
  const node = await start(t, kafka, { max_in_flight: 10 })
  failing(node, () => full)
  for (let i = 0; i < 300; i++) kafka.add(i % 3, { value: `cpu v=${i} ${now + BigInt(i)}` })
  await eventually(async () => ((await listed(node))[0].metrics.messages_total ?? 0) >= 8)
  for (let i = 0; i < 200; i++) await turn()
  const [{ metrics, status }] = await listed(node)
  t.ok((metrics.messages_total ?? 0) <= 10)
  t.equal(status, 'Running')
  t.same(kafka.committed, [0, 0, 0])
  t.equal(metrics.lag, 300)
  full = false
  await eventually(() => kafka.committed.every((offset) => offset === 100))
  t.equal((await rowsOf(node)).length, 300)
})

t.test('a partition that goes while the disk is full is not committed, not even when there is room again', async (t) => {
  const kafka = new FakeKafka(1)
  const now = BigInt(Date.now()) * 1_000_000n
  let full = true
  const node = await start(t, kafka)
  failing(node, () => full)
  for (let i = 0; i < 20; i++) kafka.add(0, { value: `cpu v=${i} ${now + BigInt(i)}` })
  await eventually(async () => ((await listed(node))[0].metrics.messages_total ?? 0) > 0)
  const [member] = kafka.members
  member.kill()
  full = false
  await eventually(async () => (await rowsOf(node)).length > 0)
  for (let i = 0; i < 100; i++) await turn()
  t.same(kafka.committed, [0])
  t.equal((await listed(node))[0].metrics.lag, 20 - 0, 'it does not know yet')
  member.lose('connect ECONNREFUSED', 'reconnecting')
  t.match(await listed(node), [{ status: 'Reconnecting', metrics: { lag: null } }], 'nobody knows')
  t.notMatch((await node.inject('/metrics')).body, /^svc_kafka_(consumer|partition)_lag\{/m)
})

t.test('a lag is known when the ends of all partitions are', async (t) => {
  const kafka = new FakeKafka(2)
  const node = await start(t, kafka)
  await eventually(async () => (await listed(node))[0].metrics.lag === 0)
  t.match((await node.inject('/metrics')).body, /^svc_kafka_consumer_lag\{connector="kafka-default"\} 0$/m)
  const offsets = new GroupOffsets()
  t.equal(offsets.lag, null, 'no member')
  offsets.join(1, [])
  t.equal(offsets.lag, 0, 'a member that was given none')
  const places = [0, 1].map((partition) => ({ topic: 't', partition, offset: 5 }))
  offsets.join(2, places)
  t.same([offsets.lag, offsets.lags()], [null, []])
  offsets.reaches({ topic: 't', partition: 0, end: 8 })
  t.same([offsets.lag, offsets.lags()], [null, [{ topic: 't', partition: 0, lag: 3 }]])
  offsets.reaches({ topic: 't', partition: 1, end: 5 })
  t.equal(offsets.lag, 3)
  offsets.leave()
  t.equal(offsets.lag, null)
})

t.test('only what is settled is committed, in the membership that it is of', async (t) => {
  const offsets = new GroupOffsets()
  const at = (offset: number) => ({ topic: 't', partition: 0, offset })
  offsets.join(1, [at(50)])
  offsets.begins(1, at(80))
  t.same(offsets.due(), [], 'records between may be on their way')
  t.ok(offsets.settled(1, at(60)))
  t.same(offsets.due(), [at(60)])
  offsets.committed(1, [at(60)])
  t.ok(offsets.settled(1, at(55)))
  t.same(offsets.due(), [], 'it does not go back')
  offsets.join(2, [at(60)])
  t.notOk(offsets.settled(1, at(90)), 'of a membership that is over')
  t.same(offsets.due(), [])
  offsets.begins(1, at(0))
  t.same(offsets.due(), [])
  offsets.committed(1, [at(90)])
  t.ok(offsets.settled(2, at(70)))
  t.same(offsets.due(), [at(70)])
  offsets.begins(2, at(5))
  t.same(offsets.due(), [at(5)], 'a partition that was made anew goes on from there')
})

t.test('states', async (t) => {
  const kafka = new FakeKafka(1)
  const node = await start(t, kafka)
  await eventually(() => kafka.members.length === 1)
  await eventually(async () => (await listed(node))[0].status === 'Idle')
  const [member] = kafka.members
  member.lose('no such topic', 'failed')
  t.match(await listed(node), [{ status: { failed: 'no such topic' } }])
  t.match((await node.inject('/metrics')).body, /svc_connector_up\{connector="kafka-default",type="kafka"\} 0/)
  t.equal((await node.inject('/ready')).statusCode, 200)
  await kafka.rebalance()
  t.match(await listed(node), [{ status: 'Idle' }])
  kafka.add(0, { value: 'cpu v=1' })
  await eventually(async () => (await listed(node))[0].status === 'Running')
  await node.stop()
  t.same(kafka.committed, [1], 'a stop settles and commits')
  t.equal(kafka.members.length, 0, 'and leaves the group')
})

const SEED = Number(process.env.SVC_SEED ?? Math.floor(Math.random() * 2 ** 31))
for (let round = 0; round < Number(process.env.SVC_SEEDS ?? 6); round++) {
  t.test(`two nodes of a group, rebalances, fences, a disk that is full now and then: SVC_SEED=${SEED + round}`, async (t) => {
    const random = seeded(SEED + round)
    const kafka = new FakeKafka(4)
    const produced: number[] = [0, 0, 0, 0]
    const epoch = BigInt(Date.now()) * 1_000_000n
    let full = false
    const nodes: TestNode[] = []
    const stored = async (): Promise<Set<number>> =>
      new Set((await Promise.all(nodes.map((node) => rowsOf(node)))).flat().map(({ fields }) => fields.v as number))
    const beyond: string[] = []
    kafka.check = async (offsets) => {
      const all = await stored()
      for (const { partition, offset } of offsets)
        for (let i = 0; i < offset; i++)
          if (!all.has(partition * 1000 + i)) beyond.push(`offset ${offset} of ${partition} is committed, and ${i} is not stored`)
      if (random() < 0.1) throw new Error('the coordinator is away')
    }
    for (let i = 0; i < 2; i++) {
      const node = await start(t, kafka, { max_in_flight: 1 + Math.floor(random() * 20) })
      failing(node, () => full && random() < 0.8)
      nodes.push(node)
    }
    await eventually(() => kafka.members.length === 2)
    for (let step = 0; step < 60; step++) {
      const what = random()
      if (what < 0.7) {
        const partition = Math.floor(random() * 4)
        for (let n = Math.floor(random() * 10); n > 0; n--) {
          const i = produced[partition]++
          kafka.add(partition, { value: `cpu,p=${partition} v=${partition * 1000 + i} ${epoch + BigInt(i)}` })
        }
      } else if (what < 0.8) full = !full
      else await kafka.rebalance(full ? false : random() < 0.7)
      await sleep(random() * 3)
    }
    full = false
    for (let tries = 0; !kafka.committed.every((offset, i) => offset === produced[i]); tries++) {
      await sleep(5)
      // What failed to be committed is so with the next records, or with the next look at the lag.
      if (tries % 50 === 49) await kafka.rebalance()
      if (tries > 4000) break
    }
    t.same(beyond, [])
    t.same(kafka.committed, produced)
    const all = await stored()
    t.equal(
      all.size,
      produced.reduce((sum, n) => sum + n, 0),
    )
  })
}

t.test('offsets: due is what is settled without a gap, of the generation that is', (t) => {
  const settled = new Settled([5, 6, 9], 12)
  t.equal(settled.next, 5)
  settled.settle(1)
  t.equal(settled.next, 5)
  settled.settle(0)
  t.equal(settled.next, 9)
  settled.giveBack(2)
  settled.settle(2)
  t.equal(settled.next, 9)
  const all = new Settled([5], 8)
  all.settle(0)
  t.equal(all.next, 8, 'behind what is no record')
  t.equal(new Settled([], 3).next, 3)
  const offsets = new GroupOffsets()
  const place = { topic: 't', partition: 0 }
  offsets.join(1, [{ ...place, offset: 5 }])
  t.same(offsets.due(), [])
  t.ok(offsets.settled(1, { ...place, offset: 9 }))
  t.same(offsets.due(), [{ ...place, offset: 9 }])
  offsets.reaches({ ...place, end: 12 })
  t.same(offsets.lags(), [{ ...place, lag: 7 }])
  offsets.committed(1, [{ ...place, offset: 9 }])
  t.same([offsets.due(), offsets.lags()], [[], [{ ...place, lag: 3 }]])
  offsets.join(2, [{ topic: 't', partition: 1, offset: 0 }])
  t.notOk(offsets.settled(1, { ...place, offset: 10 }), 'of a generation that is over')
  t.notOk(offsets.settled(2, { ...place, offset: 10 }), "another's")
  t.same(offsets.due(), [])
  t.end()
})

t.test('a topic that was made anew is committed from its begin on', async (t) => {
  const kafka = new FakeKafka(1)
  const node = await start(t, kafka)
  for (let i = 0; i < 20; i++) kafka.add(0, { value: `cpu,n=${i} v=1` })
  await eventually(() => kafka.committed[0] === 20)
  kafka.partitions[0].length = 0
  kafka.members[0].startOver(0)
  for (let i = 20; i < 25; i++) kafka.add(0, { value: `cpu,n=${i} v=1` })
  await eventually(() => kafka.committed[0] === 5)
  t.match(await listed(node), [{ metrics: { lag: 0 } }])
  t.equal((await rowsOf(node)).length, 25)
})

/** Blocks of snappy, framed as the library for Java does. */
async function framed(buffer: Buffer, size: number): Promise<Buffer> {
  const blocks: Uint8Array[] = [Buffer.from('82534e41505059000000000100000001', 'hex')]
  for (let at = 0; at < buffer.length; at += size) {
    const block = await encodeSnappy(buffer.subarray(at, at + size))
    const length = Buffer.alloc(4)
    length.writeUInt32BE(block.length)
    blocks.push(length, block)
  }
  return Buffer.concat(blocks)
}

t.test('codecs', async (t) => {
  const random = seeded(SEED)
  const bodies = [Buffer.alloc(0), Buffer.from('a'), Buffer.alloc(100_000, 'abcdefg'), randomBytes(70_000), Buffer.from('x'.repeat(20) + 'y'.repeat(300))]
  for (let i = 0; i < 20; i++) bodies.push(Buffer.from(Array.from({ length: random() * 5000 }, () => 97 + Math.floor(random() ** 3 * 26))))
  for (const buffer of bodies) {
    for (const codec of [GZIP, SNAPPY, LZ4, ZSTD]) t.ok((await codec.decompress(await codec.compress({ buffer }))).equals(buffer))
    t.ok((await decompressSnappy(await framed(buffer, 32_768))).equals(buffer))
  }
  const buffer = Buffer.alloc(2000)
  for (const decompress of [
    async () => decompressGzip(await GZIP.compress({ buffer }), 1999),
    async () => decompressSnappy(await SNAPPY.compress({ buffer }), 1999),
    async () => decompressSnappy(await framed(buffer, 1000), 1999),
    async () => decodeLz4(storeLz4(buffer), 1999),
    async () => ZSTD.decompress(zstdCompressSync(Buffer.alloc(257 * 1024 * 1024))),
  ])
    t.ok((await decompress().catch(isTooLarge)) === true)
  t.equal(await GZIP.decompress(Buffer.from('nonsense')).catch(isTooLarge), false)
})

t.test('times of records', (t) => {
  const record = { offset: '0', key: null, value: null, timestamp: '1700000000123' }
  const of = (at?: string) => timeOf({ ...record, headers: at === undefined ? {} : { at: Buffer.from(at) } }, 'at')
  t.equal(of(), 1_700_000_000_123_000_000n)
  t.equal(of('42'), 42n)
  t.equal(of('2023-11-14T22:13:20.5Z'), 1_700_000_000_500_000_000n)
  t.equal(of('2023-11-14T23:13:20+01:00'), 1_700_000_000_000_000_000n)
  t.throws(() => of('noon'), { code: 'INVALID_POINT', message: /header "at" as a time: "noon"/ })
  t.throws(() => of('9'.repeat(19)), { code: 'INVALID_POINT' })
  t.equal(timeOf({ ...record, timestamp: '-1', headers: {} }, undefined), 0n)
  t.end()
})

t.test('a producer that sends nanoseconds as the timestamp: points without a time are refused, and none is stored at another', async (t) => {
  const kafka = new FakeKafka(1)
  const node = await start(t, kafka, { backfill: true })
  const [now, timestamp] = [BigInt(Date.now()) * 1_000_000n, String(Date.now() * 1e6)]
  kafka.add(0, { value: 'cpu v=1', timestamp })
  kafka.add(0, { value: `cpu v=2 ${now}`, timestamp })
  await eventually(() => kafka.committed[0] === 2)
  t.match(await rowsOf(node), [{ time: now, fields: { v: 2 } }])
  t.match(await listed(node), [{ metrics: { messages_total: 2, decode_errors: 1 } }])
})

t.test('configurations that cannot be', async (t) => {
  const base = { brokers: 'b:9092', topics: ['t'] }
  for (const [kafka, error] of [
    [{}, /it has no connector and no sink; add kafka\.brokers and kafka\.topics/],
    [{ topics: ['t'] }, /kafka\.topics without kafka\.brokers/],
    [{ brokers: 'b:1' }, /it has no topics/],
    [{ ...base, brokers: 'b:1, c' }, /broker "c" is no host:port/],
    [{ ...base, brokers: 'me:hunter2@b:1' }, /broker "…@b:1" is no host:port/],
    [{ ...base, format: 'xml' }, /cannot read format "xml" of kafka-default: the plugins of this node read json, line_protocol/],
    [{ ...base, security_protocol: 'TLS' }, /security_protocol/],
    [{ ...base, security_protocol: 'SASL_SSL' }, /SASL_SSL needs sasl_mechanism: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512/],
    [{ ...base, security_protocol: 'SASL_SSL', sasl_mechanism: 'PLAIN' }, /needs credential_file, or sasl_username and sasl_password/],
    [{ ...base, security_protocol: 'SASL_SSL', sasl_mechanism: 'GSSAPI' }, /sasl_mechanism/],
    [
      { ...base, security_protocol: 'SASL_SSL', sasl_mechanism: 'PLAIN', credential_file: 'f', sasl_username: 'u' },
      /credential_file has username and password/,
    ],
    [{ ...base, sasl_mechanism: 'PLAIN' }, /sasl_mechanism has no use with security_protocol PLAINTEXT/],
    [{ ...base, ca_cert: 'c.pem' }, /ca_cert has no use with security_protocol PLAINTEXT/],
    [{ ...base, security_protocol: 'SSL', client_cert: 'c.pem' }, /client_cert and client_key belong together/],
    [{ ...base, auto_offset_reset: 'newest' }, /auto_offset_reset/],
    [{ ...base, auto_offset_reset: '2026-99-01T00:00:00Z' }, /"2026-99-01T00:00:00Z" is no time/],
    [{ ...base, dead_letter_topic: 't' }, /dead_letter_topic "t" is one of its topics/],
    [{ ...base, tags_from_topic: ['a.#.b'] }, /"#" is a level of its own, and the last one/],
    [{ ...base, topic_map: {} }, /topic_map/],
    [{ connector: [{ name: 'x', topics: ['t'] }] }, /kafka\.connector "x": it has no brokers/],
    [
      {
        connector: [
          { name: 'x', ...base },
          { name: 'x', ...base },
        ],
      },
      /cannot name two connectors "x"/,
    ],
  ] as const)
    await t.rejects(boot({ plugins: ['kafka', 'native', 'line_protocol'], config: { kafka } }), { message: error }, JSON.stringify(kafka))
  await t.rejects(
    boot({
      plugins: ['kafka', 'mqtt', 'sparkplug_b'],
      config: { kafka: { ...base, format: 'sparkplug_b' }, mqtt: { broker: 'b', topics: ['t'], format: 'sparkplug_b' } },
    }),
    {
      message: /format "sparkplug_b" of kafka-default: its messages mean something only with those before them/,
    },
  )
  await t.rejects(boot({ plugins: ['kafka', 'otlp'], config: { kafka: { ...base, format: 'otlp', tags_from_topic: ['+a'] } } }), {
    message: /points of format "otlp" name their measurements and tags/,
  })
})

t.test('the log has a sample of what cannot be stored, and says how much it has left out', async (t) => {
  const logged: string[] = []
  const kafka = new FakeKafka(1)
  const node = await start(t, kafka, { log: (line) => void (line.includes('dead letters') && logged.push(line)) })
  for (let i = 0; i < 500; i++) kafka.add(0, { value: 'nonsense' })
  await eventually(async () => (await listed(node))[0].metrics.decode_errors === 500)
  await sleep(1000)
  kafka.add(0, { value: 'nonsense' })
  await eventually(async () => (await listed(node))[0].metrics.decode_errors === 501)
  t.ok(logged.length < 60, `${logged.length} lines for 501 records`)
  t.ok(logged.some((line) => /"more":\d+/.test(line)))
})

t.test('brokers that are away: the node is ready, and says so', async (t) => {
  const node = await boot({ plugins: ['kafka', 'line_protocol'], config: { kafka: { brokers: '127.0.0.1:1', topics: ['t'], reconnect_ms: 100 } } })
  t.teardown(() => node.stop())
  t.equal((await node.inject('/ready')).statusCode, 200)
  await eventually(async () => (await listed(node))[0].status === 'Reconnecting')
  t.match((await node.inject('/metrics')).body, /svc_connector_up\{connector="kafka-default",type="kafka"\} 0/)
})
