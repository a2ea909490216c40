/**
 * Apache Kafka, 3.9 and 4: compression, tombstones, where a group begins, TLS and SASL, two servers of one group; and numbered points while broker and server
 * are killed. `SVC_INTEROP_POINTS` sets how many (default 20,000), `SVC_SEED` repeats a run.
 */
import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { CompressionTypes, Kafka, logLevel, type Message, type Producer } from 'kafkajs'
import { seeded } from '../../kernel/lib/random/index.ts'
import { disturb, FaultyLink } from '../support/faulty-link.ts'
import { freePort } from '../support/free-port.ts'
import { type RunningServer, runServer } from '../support/server.ts'
import { ROOT } from '../support/tree.ts'
import { until } from '../support/until.ts'
import { KAFKA_CERTIFICATES, KAFKA_VERSIONS, type KafkaBroker, noKafka, startKafka } from './kafka-broker.ts'
import { client, execute, lackingPython, PYTHON } from './program.ts'
import { connectors, sql } from './served.ts'

const POINTS = Number(process.env.SVC_INTEROP_POINTS ?? 20_000)
const SEED = Number(process.env.SVC_SEED ?? Math.floor(Math.random() * 2 ** 31))
const [OLD, NEW] = KAFKA_VERSIONS

let folder = ''
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'svc-kafka-test-'))
})
after(() => rm(folder, { recursive: true, force: true }))

async function server(name: string, section: string, options: { dataDir?: string; keepData?: boolean } = {}): Promise<RunningServer> {
  const file = join(folder, `${name}.toml`)
  await writeFile(file, `plugins = ["line_protocol", "native", "sql", "kafka"]\n[server]\nsql_max_rows = 1000000\n[database]\nwarm_up_ms = 0\n${section}`)
  return runServer(file, { keepData: options.keepData === true, ...(options.dataDir === undefined ? {} : { env: { SVC_DATA_DIR: options.dataDir } }) })
}

const count = async (url: string, measurement: string): Promise<number> => Number((await sql(url, `SELECT count(*) FROM ${measurement}`))[0]?.[0] ?? 0)

async function sender(broker: KafkaBroker): Promise<Producer> {
  const kafka = new Kafka({ brokers: [broker.address()], logLevel: logLevel.NOTHING, clientId: 'sender', retry: { retries: 30, maxRetryTime: 1000 } })
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  return producer
}

const section = (broker: KafkaBroker, topics: string[], more = ''): string =>
  `[kafka]\nbrokers = "${broker.address()}"\ntopics = ${JSON.stringify(topics)}\nreconnect_ms = 200\nsession_timeout_ms = 6000\nfetch_wait_ms = 100\n${more}`

for (const version of KAFKA_VERSIONS) {
  test(`Kafka ${version}: each compression, tombstones, bad records, lag`, { skip: noKafka(version), timeout: 300_000 }, async (t) => {
    const broker = await startKafka(version)
    t.after(() => broker.stop())
    await broker.createTopic('plant.press', 3)
    await broker.createTopic('plant.bad')
    const svc = await server(
      'each',
      section(broker, ['plant.press'], 'auto_offset_reset = "earliest"\ntags_from_topic = ["plant.+machine"]\ndead_letter_topic = "plant.bad"'),
    )
    t.after(() => svc.stop())
    const producer = await sender(broker)
    t.after(() => producer.disconnect())
    const names = ['none', 'gzip', 'snappy', 'lz4', 'zstd']
    const now = Date.now()
    // By Kafka's own client, which compresses as most do.
    for (const [i, name] of names.entries()) {
      const lines = Array.from({ length: 500 }, (_, n) => `c_${name},n=${n} v=${n},w="${'x'.repeat(i * 40)}" ${BigInt(now) * 1_000_000n + BigInt(n)}`)
      await broker.produce('plant.press', lines, { listener: 'plaintext', settings: { 'compression.type': name, 'linger.ms': '50' } })
    }
    const messages: Message[] = [
      { value: null, key: 'gone' },
      { value: '' },
      { key: 'k', value: 'half v=1\nnonsense\nhalf,n=2 v=2' },
      { value: 'nothing of it' },
      { value: 'timed v=5', timestamp: String(now - 1234) },
    ]
    await producer.send({ topic: 'plant.press', messages, compression: CompressionTypes.None })
    await until('the last has come', async () => (await count(svc.url, 'timed')) === 1)
    for (const name of names)
      assert.deepEqual(await sql(svc.url, `SELECT count(*), count(DISTINCT v), min(machine) FROM c_${name}`), [[500, 500, 'press']], name)
    assert.equal(await count(svc.url, 'half'), 2)
    assert.deepEqual(
      (await sql(svc.url, 'SELECT epoch_ms(_time) FROM timed')).map(([ms]) => Number(ms)),
      [now - 1234],
      'a point without a time has that of its record',
    )
    await until('the lag is gone', async () => (await connectors(svc.url))[0].metrics.lag === 0)
    const [{ metrics }] = await connectors(svc.url)
    assert.deepEqual([metrics.messages_total, metrics.decode_errors], [names.length * 500 + 3, 2])
    // They may come from different partitions, and so in any order.
    const dead = (await broker.consume('plant.bad')).sort((a, b) => (`${a.key}` < `${b.key}` ? -1 : 1))
    assert.deepEqual(
      dead.map(({ key, value, headers }) => [key === null ? null : `${key}`, `${value}`, headers['svc-code']]),
      [
        ['k', 'half v=1\nnonsense\nhalf,n=2 v=2', 'PARTIAL_WRITE'],
        [null, 'nothing of it', 'INVALID_POINT'],
      ],
    )
    const text = await (await fetch(`${svc.url}/metrics`)).text()
    assert.match(text, /svc_kafka_messages_consumed_total 2505/)
    assert.match(text, /svc_kafka_empty_records_total 2/)
    assert.match(text, /svc_kafka_deserialization_errors_total 2/)
    assert.match(text, /svc_kafka_consumer_lag\{connector="kafka-default"\} 0/)
    assert.match(text, /svc_kafka_partition_lag\{connector="kafka-default",topic="plant.press",partition="2"\} 0/)
    // Twice: what has failed again is in the topic anew, and what was read is not read again.
    for (const round of [1, 2]) {
      const replayed = await fetch(`${svc.url}/api/v1/admin/connectors/kafka-default/dead-letters/replay`, { method: 'POST' })
      assert.deepEqual(await replayed.json(), { messages: 2, failed: 2 }, `replay ${round}`)
    }
    assert.equal((await broker.consume('plant.bad')).length, 6)
    assert.doesNotMatch(svc.output(), /Warning/)
  })
}

test('a batch of very many records', { skip: noKafka(NEW), timeout: 300_000 }, async (t) => {
  const broker = await startKafka(NEW)
  t.after(() => broker.stop())
  await broker.createTopic('many')
  const lines = Array.from({ length: 200_000 }, (_, i) => `m v=${i} ${1_000_000_000 + i}`)
  const settings = { 'batch.size': '16000000', 'linger.ms': '10000', 'compression.type': 'zstd', 'max.request.size': '16000000', 'buffer.memory': '64000000' }
  await broker.produce('many', lines, { listener: 'plaintext', settings })
  const svc = await server('many', section(broker, ['many'], 'auto_offset_reset = "earliest"\nbackfill = true'))
  t.after(() => svc.stop())
  await until('all are there', async () => (await count(svc.url, 'm')) === lines.length).catch(async (error) => {
    throw new Error(`${error}: ${JSON.stringify(await connectors(svc.url))}\n${svc.output()}`)
  })
})

test('a bad record that is too large for the topic of dead letters holds up nobody', { skip: noKafka(NEW), timeout: 300_000 }, async (t) => {
  const broker = await startKafka(NEW)
  t.after(() => broker.stop())
  for (const topic of ['large', 'large.bad']) await broker.createTopic(topic)
  const svc = await server('large', section(broker, ['large'], 'auto_offset_reset = "earliest"\ndead_letter_topic = "large.bad"'))
  t.after(() => svc.stop())
  const producer = await sender(broker)
  t.after(() => producer.disconnect())
  // Compressed it is small.
  await producer.send({ topic: 'large', messages: [{ value: `nonsense ${'x'.repeat(3_000_000)}` }], compression: CompressionTypes.GZIP })
  await producer.send({ topic: 'large', messages: [{ value: 'nonsense' }, { value: `large v=1 ${Date.now()}000000` }] })
  await until('the one behind it has come', async () => (await count(svc.url, 'large')) === 1)
  await until('the lag is gone', async () => (await connectors(svc.url))[0].metrics.lag === 0)
  assert.deepEqual(
    (await broker.consume('large.bad')).map(({ value }) => `${value}`),
    ['nonsense'],
  )
  const replayed = await fetch(`${svc.url}/api/v1/admin/connectors/kafka-default/dead-letters/replay`, { method: 'POST' })
  assert.deepEqual(await replayed.json(), { messages: 2, failed: 2 })
})

test('a fetch that decompresses to much comes in parts', { skip: noKafka(NEW), timeout: 300_000 }, async (t) => {
  const broker = await startKafka(NEW)
  t.after(() => broker.stop())
  await broker.createTopic('bombs', 2)
  const producer = await sender(broker)
  t.after(() => producer.disconnect())
  for (let i = 0; i < 8; i++)
    await producer.send({ topic: 'bombs', messages: [{ value: Buffer.alloc(40_000_000), partition: i % 2 }], compression: CompressionTypes.GZIP })
  // More than a batch may have.
  const most = Array.from({ length: 7 }, () => ({ value: Buffer.alloc(40_000_000), partition: 0 }))
  await producer.send({ topic: 'bombs', messages: most, compression: CompressionTypes.GZIP })
  for (const partition of [0, 1]) await producer.send({ topic: 'bombs', messages: [{ value: `bombs,p=${partition} v=1 ${Date.now()}000000`, partition }] })
  const svc = await server('bombs', section(broker, ['bombs'], 'auto_offset_reset = "earliest"'))
  t.after(() => svc.stop())
  await until('those behind them have come', async () => (await count(svc.url, 'bombs')) === 2)
  await until('the lag is gone', async () => (await connectors(svc.url))[0].metrics.lag === 0)
  assert.equal((await connectors(svc.url))[0].metrics.decode_errors, 9, 'each came once, and the one of seven as one')
})

test('TLS and SASL', { skip: noKafka(NEW), timeout: 300_000 }, async (t) => {
  const broker = await startKafka(NEW)
  t.after(() => broker.stop())
  await broker.createTopic('secret')
  const credentials = join(folder, 'credentials.json')
  await writeFile(credentials, JSON.stringify({ username: 'svc', password: 'secret' }))
  const own = 'sasl_username = "svc"\nsasl_password = "secret"\n'
  const ca = `ca_cert = "${KAFKA_CERTIFICATES.ca}"\n`
  const ways: [name: string, listener: 'ssl' | 'sasl_plaintext' | 'sasl_ssl', keys: string][] = [
    ['tls', 'ssl', ca],
    ['mtls', 'ssl', `${ca}client_cert = "${KAFKA_CERTIFICATES.clientCertificate}"\nclient_key = "${KAFKA_CERTIFICATES.clientKey}"\n`],
    ['plain', 'sasl_plaintext', `sasl_mechanism = "PLAIN"\n${own}`],
    ['scram256', 'sasl_plaintext', `sasl_mechanism = "SCRAM-SHA-256"\n${own}`],
    ['scram512', 'sasl_ssl', `sasl_mechanism = "SCRAM-SHA-512"\n${ca}credential_file = "${credentials}"\n`],
    ['misled', 'sasl_plaintext', 'sasl_mechanism = "SCRAM-SHA-512"\nsasl_username = "svc"\nsasl_password = "not-it-at-all"\n'],
    ['stranger', 'ssl', ''],
  ]
  const sections = ways.map(
    ([name, listener, keys]) => `[[kafka.connector]]
name = "${name}"
brokers = "${broker.address(listener)}"
security_protocol = "${listener.toUpperCase()}"
topics = ["secret"]
topic_measurement_map = { "secret" = "m_${name}" }
format = "json"
auto_offset_reset = "earliest"
reconnect_ms = 500
${keys}
`,
  )
  const svc = await server('secured', sections.join(''))
  t.after(() => svc.stop())
  await broker.produce('secret', [JSON.stringify({ fields: { value: 1 } })])
  const right = ways.slice(0, 5).map(([name]) => name)
  for (const name of right) await until(`the record by ${name}`, async () => (await count(svc.url, `m_${name}`)) === 1)
  await until('the others are refused', async () => (await connectors(svc.url)).slice(5).every(({ status }) => typeof status === 'object'))
  const states = (await connectors(svc.url)).slice(5).map(({ status }) => JSON.stringify(status))
  assert.match(states[0], /failed.*[Aa]uthentication/)
  assert.match(states[1], /failed.*(certificate|self.signed|issuer)/)
  assert.doesNotMatch(svc.output(), /not-it-at-all/)
})

test('librdkafka: each compression, a transaction and an aborted one, and no lag is left', {
  skip: noKafka(NEW) || lackingPython('librdkafka'),
  timeout: 300_000,
}, async (t) => {
  const broker = await startKafka(NEW)
  t.after(() => broker.stop())
  await broker.createTopic('plant', 2)
  const svc = await server('librdkafka', section(broker, ['plant'], 'auto_offset_reset = "earliest"'))
  t.after(() => svc.stop())
  const { code, stderr } = await execute(PYTHON, [client('kafka_librdkafka.py'), broker.address(), 'plant'])
  assert.equal(code, 0, stderr)
  const names = ['none', 'gzip', 'snappy', 'lz4', 'zstd']
  await until('the last has come', async () => (await count(svc.url, 'committed')) === 100)
  for (const name of names) assert.deepEqual(await sql(svc.url, `SELECT count(*), count(DISTINCT v) FROM c_${name}`), [[500, 500]], name)
  await until('the group is behind the markers, and what was aborted', async () => (await connectors(svc.url))[0].metrics.lag === 0)
  // The ends of partitions are asked for every ten seconds.
  await sleep(11_000)
  const [{ metrics }] = await connectors(svc.url)
  assert.deepEqual([metrics.lag, metrics.messages_total, metrics.decode_errors], [0, 2600, 0])
  assert.equal(await count(svc.url, 'aborted'), 0)
})

test('where a group begins: latest, earliest, a time; a topic that is not there', { skip: noKafka(NEW), timeout: 300_000 }, async (t) => {
  const broker = await startKafka(NEW)
  t.after(() => broker.stop())
  await broker.createTopic('t', 2)
  const producer = await sender(broker)
  t.after(() => producer.disconnect())
  const now = Date.now()
  const send = (n: number, ms: number) =>
    producer.send({ topic: 't', messages: [{ value: JSON.stringify({ fields: { n } }), partition: n % 2, timestamp: String(ms) }] })
  for (let n = 0; n < 10; n++) await send(n, now - 100_000 + n * 10_000)
  const connector = (name: string, reset: string) =>
    `[[kafka.connector]]\nname = "${name}"\nbrokers = "${broker.address()}"\ntopics = ["t"]\ntopic_measurement_map = { t = "${name}" }\nformat = "json"\nauto_offset_reset = "${reset}"\nreconnect_ms = 300\nsession_timeout_ms = 6000\n`
  const sections = [connector('earliest', 'earliest'), connector('newest', 'latest'), connector('timed', new Date(now - 45_000).toISOString())].join('')
  const svc = await server(
    'begin',
    `${sections}[[kafka.connector]]\nname = "none"\nbrokers = "${broker.address()}"\ntopics = ["missing"]\nreconnect_ms = 300\n`,
    { keepData: true },
  )
  await until('three are up', async () => (await connectors(svc.url)).slice(0, 3).every(({ status }) => status === 'Idle' || status === 'Running'))
  await until('what was there', async () => (await count(svc.url, 'earliest')) === 10 && (await count(svc.url, 'timed')) === 4)
  await until('the fourth says that there is no topic', async () =>
    /failed.*no such topic.*missing/.test(JSON.stringify((await connectors(svc.url))[3].status)),
  )
  // Where a group begins is kept from the first moment on: what comes while the server is away is not passed over.
  process.kill(svc.pid, 'SIGKILL')
  for (let n = 10; n < 14; n++) await send(n, now + n)
  const again = await server('begin', sections, { dataDir: svc.dataDir, keepData: true })
  t.after(async () => {
    await again.stop()
    await rm(svc.dataDir, { recursive: true, force: true })
  })
  const values = async (name: string): Promise<number[]> => (await sql(again.url, `SELECT n FROM ${name} ORDER BY n`)).map(([n]) => Number(n))
  const come = async (): Promise<boolean> =>
    (await values('newest')).length >= 4 && (await values('timed')).length >= 8 && (await values('earliest')).length >= 14
  await until('what came meanwhile', come).catch(async (error) => {
    throw new Error(`${error}: ${JSON.stringify(await connectors(again.url))} ${again.output()}`)
  })
  assert.deepEqual(await values('newest'), [10, 11, 12, 13])
  assert.deepEqual(await values('timed'), [6, 7, 8, 9, 10, 11, 12, 13])
  assert.deepEqual(await values('earliest'), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13])
})

test('two servers of a group: each partition is one of the two, and nothing is lost when one goes and comes', {
  skip: noKafka(NEW),
  timeout: 300_000,
}, async (t) => {
  const broker = await startKafka(NEW)
  t.after(() => broker.stop())
  await broker.createTopic('shared', 6)
  const producer = await sender(broker)
  t.after(() => producer.disconnect())
  const keys = section(broker, ['shared'], 'group_id = "both"\nauto_offset_reset = "earliest"')
  const one = await server('one', keys)
  let two = await server('two', keys, { keepData: true })
  const { dataDir } = two
  t.after(async () => {
    await Promise.all([one.stop(), two.stop()])
    await rm(dataDir, { recursive: true, force: true })
  })
  const start = BigInt(Date.now()) * 1_000_000n
  let sent = 0
  let sending = true
  const send = (async () => {
    while (sending) {
      const messages = Array.from({ length: 60 }, (_, i) => ({ partition: i % 6, value: `m,p=${i % 6} v=${sent + i} ${start + BigInt(sent + i)}` }))
      await producer.send({ topic: 'shared', messages })
      sent += messages.length
      await sleep(20)
    }
  })()
  const lagged = async ({ url }: RunningServer): Promise<string[]> =>
    [...(await (await fetch(`${url}/metrics`)).text()).matchAll(/kafka_partition_lag\{.*partition="(\d)"\}/g)].map(([, partition]) => partition)
  const shared = async (): Promise<boolean> => {
    const both = [...(await lagged(one)), ...(await lagged(two))]
    return both.length === 6 && new Set(both).size === 6 && (await lagged(one)).length === 3
  }
  await until('each has three partitions', shared)
  await two.stop()
  await until('one has all', async () => (await lagged(one)).length === 6)
  two = await server('two', keys, { dataDir, keepData: true })
  await until('each has three partitions again', shared)
  process.kill(two.pid, 'SIGKILL')
  await until('one has all of what was killed', async () => (await lagged(one)).length === 6)
  two = await server('two', keys, { dataDir, keepData: true })
  await until('and again', shared)
  sending = false
  await send
  const values = async ({ url }: RunningServer): Promise<number[]> => (await sql(url, 'SELECT v FROM m')).map(([v]) => Number(v))
  let of: number[][] = []
  await until('all are there', async () => {
    of = await Promise.all([values(one), values(two)])
    return new Set(of.flat()).size === sent
  }).catch(async (error) => {
    const states = await Promise.all([one, two].map(({ url }) => connectors(url)))
    throw new Error(`${error}: ${new Set(of.flat()).size} of ${sent} are; ${JSON.stringify(states)}`)
  })
  const twice = of[0].length + of[1].length - sent
  console.log(`# ${sent} points, ${of[0].length} and ${of[1].length} by either, ${twice} by both`)
  assert.ok(of[0].length > 0 && of[1].length > 0)
})

for (const version of [OLD, NEW]) {
  test(`Kafka ${version}: numbered points while broker, server and the link between them fail: SVC_SEED=${SEED}`, {
    skip: noKafka(version),
    timeout: 1_800_000,
  }, async (t) => {
    const random = seeded(SEED)
    // The server alone comes by the link: brokers tell their clients where to connect to, by listener.
    const linked = await freePort()
    const broker = await startKafka(version, { advertised: { sasl_plaintext: linked } })
    t.after(() => broker.stop())
    const link = await FaultyLink.to(broker.port('sasl_plaintext'), linked)
    t.after(() => link.close())
    await broker.createTopic('loop', 4)
    const sasl = 'security_protocol = "SASL_PLAINTEXT"\nsasl_mechanism = "PLAIN"\nsasl_username = "svc"\nsasl_password = "secret"'
    const keys = section(broker, ['loop'], `group_id = "loop"\nauto_offset_reset = "earliest"\n${sasl}`).replace(broker.address(), `127.0.0.1:${linked}`)
    let svc = await server('loop', keys, { keepData: true })
    const { dataDir } = svc
    t.after(async () => {
      await svc.stop()
      await rm(dataDir, { recursive: true, force: true })
    })
    const producer = await sender(broker)
    t.after(() => producer.disconnect())
    const start = BigInt(Date.now()) * 1_000_000n
    const BATCH = 20
    const types = [CompressionTypes.None, CompressionTypes.GZIP]
    let sent = 0
    let failure: unknown
    const sending = (async () => {
      while (sent < POINTS) {
        const from = sent
        const messages = Array.from({ length: 50 }, (_, i) => {
          const first = from + i * BATCH
          const lines = Array.from(
            { length: Math.max(0, Math.min(BATCH, POINTS - first)) },
            (_, k) => `m,s=${(first + k) % 100} v=${first + k} ${start + BigInt(first + k)}`,
          )
          return { partition: i % 4, value: lines.join('\n') }
        }).filter(({ value }) => value !== '')
        await producer.send({ topic: 'loop', messages, compression: types[(from / 1000) % 2] })
        sent = Math.min(POINTS, from + 50 * BATCH)
        // So that there is something to be killed in.
        await sleep(POINTS > 100_000 ? 100 : 300)
      }
    })().catch((error) => {
      failure = error
      sent = POINTS
    })
    const kills = { svc: 0, broker: 0, link: {} as Record<string, number> }
    while (sent < POINTS) {
      await sleep(1000 + random() * 2000)
      const chosen = random()
      if (chosen < 0.4) {
        const fault = await disturb(link, random, 1500, sleep)
        kills.link[fault] = (kills.link[fault] ?? 0) + 1
      } else if (chosen < 0.8) {
        kills.svc++
        process.kill(svc.pid, 'SIGKILL')
        await sleep(random() * 300)
        svc = await server('loop', keys, { dataDir, keepData: true })
      } else {
        kills.broker++
        await broker.restart()
      }
    }
    await sending
    assert.equal(failure, undefined)
    // What waits at the broker is still coming.
    for (let before = -1, stored = 0, still = 0; stored < POINTS && still < 120; await sleep(500)) {
      stored = await count(svc.url, 'm')
      still = stored === before ? still + 1 : 0
      before = stored
    }
    const [[points, different, sum, wrong]] = await sql(
      svc.url,
      `SELECT count(*), count(DISTINCT v), sum(v), count(*) FILTER (WHERE epoch_ns(_time) - ${start} <> v OR s::BIGINT <> v % 100) FROM m`,
    )
    console.log(
      `# Kafka ${version}: ${POINTS} points, ${kills.svc} kills of the server, ${kills.broker} of the broker, faults of the link: ${JSON.stringify(kills.link)}`,
    )
    assert.deepEqual([points, different, sum, wrong].map(Number), [POINTS, POINTS, (POINTS * (POINTS - 1)) / 2, 0])
    await until('the lag is gone', async () => (await connectors(svc.url))[0].metrics.lag === 0)
  })
}

test('examples/kafka, as its README has it', { skip: noKafka(NEW), timeout: 300_000 }, async (t) => {
  const broker = await startKafka(NEW)
  t.after(() => broker.stop())
  for (const topic of ['plant.press', 'plant.oven', 'plant.dead', 'meters']) await broker.createTopic(topic)
  const file = join(folder, 'example.toml')
  // Its broker is on a port of its own.
  await writeFile(file, (await readFile(join(ROOT, 'examples/kafka/svc.toml'), 'utf8')).replaceAll('127.0.0.1:9092', broker.address()))
  const svc = await runServer(file)
  t.after(() => svc.stop())
  const readme = await readFile(join(ROOT, 'examples/kafka/README.md'), 'utf8')
  const [, lines] = /printf '(.*)\\n' \|.*plant\.press/.exec(readme) as RegExpExecArray
  const [, json] = /echo '(.*)' \|.*meters/.exec(readme) as RegExpExecArray
  await broker.produce('plant.press', lines.split('\\n'))
  await broker.produce('meters', [json])
  const queries = [...readme.matchAll(/"query": "([^"]*)"/g)].map(([, query]) => query)
  const want = [[['press', 'a', 21.5]], [['m1', 12.25]]]
  for (const [i, query] of queries.entries()) await until(query, async () => JSON.stringify(await sql(svc.url, query)) === JSON.stringify(want[i]))
  await until('no lag', async () => (await connectors(svc.url)).every(({ metrics }) => metrics.lag === 0))
  assert.deepEqual(
    (await connectors(svc.url)).map(({ metrics }) => metrics.decode_errors),
    [1, 0],
  )
  assert.deepEqual(
    (await broker.consume('plant.dead')).map(({ value }) => `${value}`),
    ['nonsense'],
  )
})
