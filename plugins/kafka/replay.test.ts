/** Dead letters that are read again, out of the file and out of a topic. */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { SvcError } from 'svcdb/lib/errors'
import t, { type Test } from 'tap'
import { eventually } from '../../test/support/until.ts'
import { type KafkaLibrary, RecordRefused } from './client.ts'
import { FakeKafka, rowsOf, start } from './testing.ts'

const DEAD = 'dead'

/** Brokers with the topic to consume and, in partitions of its own, one for dead letters. */
function brokers(): { kafka: FakeKafka; dead: FakeKafka } {
  const [kafka, dead] = [new FakeKafka(1), new FakeKafka(2)]
  const { consumer } = kafka.library
  const library: KafkaLibrary = {
    consumer: (options, events) => (options.topics[0] === DEAD ? dead.library.consumer : consumer)(options, events),
    producer: () => ({
      send: async (_, { key, value, headers }) => dead.add(dead.partitions[0].length % 2, { key, value: String(value), headers, timestamp: '5' }),
      stop: async () => {},
    }),
  }
  return { kafka: Object.assign(kafka, { library }), dead }
}

async function node(t: Test, kafka: FakeKafka, more: object) {
  const started = await start(t, kafka, { storage: 'embedded', ...more })
  const { storage } = started
  const write = storage.write.bind(storage)
  const state: { broken: SvcError | undefined } = { broken: new SvcError('SCHEMA_ERROR', 'not yet') }
  storage.write = async (batch, how) => {
    if (state.broken !== undefined) throw state.broken
    return write(batch, how)
  }
  const replay = async () => {
    const answer = await started.inject({ method: 'POST', url: '/api/v1/admin/connectors/kafka-default/dead-letters/replay' })
    return { status: answer.statusCode, ...answer.json() }
  }
  return { node: started, state, replay, rows: () => rowsOf(started) }
}

for (const topic of [undefined, DEAD]) {
  t.test(`dead letters of ${topic === undefined ? 'the file' : 'a topic'} are read again when their cause is mended`, async (t) => {
    const { kafka, dead } = brokers()
    const { node: started, state, replay, rows } = await node(t, kafka, topic === undefined ? {} : { dead_letter_topic: topic })
    const now = Date.now()
    for (let i = 0; i < 60; i++)
      kafka.add(0, { value: i % 20 === 7 ? `nonsense ${i}` : `cpu,n=${i} v=${i}${i % 2 === 0 ? '' : ` ${now}000001`}`, timestamp: String(now - i) })
    await eventually(() => kafka.committed[0] === 60)
    t.same(await rows(), [])
    t.match(await replay(), { status: 200, messages: 60, failed: 60 }, 'before it is mended they are letters again, of the same times')
    state.broken = undefined
    const [first, second] = await Promise.all([replay(), replay()])
    t.match(first, { status: 200, messages: 60, failed: 3 })
    t.match(second, { status: 409, code: 'CONFLICT' })
    const found = await rows()
    t.equal(found.length, 57)
    for (const { tags, time } of found)
      if (Number(tags.n) % 2 === 0) t.equal(time, BigInt(now - Number(tags.n)) * 1_000_000n, 'those without a time have that of their record')
      else t.equal(time, BigInt(`${now}000001`))
    t.match(await replay(), { status: 200, messages: 3, failed: 3 }, 'what cannot be read is kept, and nothing is read twice')
    t.equal((await rows()).length, 57)
    if (topic === undefined) t.same(await readdir(join(started.dataDir, 'dead-letters')), ['kafka-default.jsonl'])
    else {
      t.equal(dead.members.length, 0, 'the group of the replay is left')
      t.equal(dead.partitions.flat().length, 126)
    }
  })
}

t.test('a replay of a topic that fails on its way goes on where it was', async (t) => {
  const { kafka, dead } = brokers()
  const { state, replay, rows } = await node(t, kafka, { dead_letter_topic: DEAD })
  for (let i = 0; i < 40; i++) kafka.add(0, { value: `cpu,n=${i} v=${i}` })
  await eventually(() => kafka.committed[0] === 40)
  state.broken = undefined
  let commits = 0
  dead.check = async () => {
    if (++commits > 2) throw new Error('the broker is gone')
  }
  t.match(await replay(), { status: 503, code: 'OVERLOADED', error: /cannot read the topic of dead letters: the broker is gone/ })
  dead.check = async () => {}
  t.match(await replay(), { status: 200, failed: 0 })
  t.equal((await rows()).length, 40, 'what was stored before it failed is the same points again')
  t.match(await replay(), { status: 200, messages: 0 })
})

t.test('a topic of dead letters without any, and records that somebody else has put there', async (t) => {
  const { kafka, dead } = brokers()
  const { replay, rows, state } = await node(t, kafka, { dead_letter_topic: DEAD })
  state.broken = undefined
  t.match(await replay(), { status: 200, messages: 0, failed: 0 })
  dead.add(0, { value: 'cpu v=1' })
  dead.add(0, { value: null })
  dead.add(1, { value: 'cpu v=2', headers: { 'svc-source': 'plant.press/0@7', 'svc-code': 'SCHEMA_ERROR' }, timestamp: String(Date.now()) })
  t.match(await replay(), { status: 200, messages: 1, failed: 0 })
  t.match(await rows(), [{ measurement: 'cpu', fields: { v: 2 } }])
})

t.test('a record that brokers never take as a dead letter is kept in the file, holds up nobody, and is read again', async (t) => {
  const { kafka, dead } = brokers()
  const producer = kafka.library.producer({} as never)
  const send = producer.send.bind(producer)
  producer.send = async (topic, record) => {
    if ((record.value as Buffer).length > 1000)
      throw new RecordRefused('The request included a message larger than the max message size the server will accept')
    return send(topic, record)
  }
  Object.assign(kafka.library, { producer: () => producer })
  const { node: started, replay, rows, state } = await node(t, kafka, { dead_letter_topic: DEAD })
  state.broken = undefined
  const large = `${'x'.repeat(2000)} v=1 later`
  kafka.add(0, { value: 'nonsense' })
  kafka.add(0, { value: large })
  kafka.add(0, { value: `cpu v=1 ${Date.now()}000000` })
  await eventually(() => kafka.committed[0] === 3)
  t.equal((await rows()).length, 1)
  t.equal(dead.partitions.flat().length, 1)
  const path = join(started.dataDir, 'dead-letters', 'kafka-default.jsonl')
  const letter = JSON.parse(await readFile(path, 'utf8'))
  t.same([letter.topic, letter.code, Buffer.from(letter.body, 'base64').toString()], ['plant.press/0@1', 'INVALID_POINT', large])
  t.match(await replay(), { status: 200, messages: 2, failed: 2 })
  t.equal((await readFile(path, 'utf8')).trim().split('\n').length, 1, 'it is there again, once')
})
