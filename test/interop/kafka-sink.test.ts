/**
 * Sinks with real brokers: points go out as JSON and as line protocol, come in again at another node, and are the same; each compression; keys; what brokers
 * refuse; and numbered points while broker, server and the link between them fail. `SVC_INTEROP_POINTS` sets how many (default 20,000), `SVC_SEED` repeats a run.
 */
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { seeded } from '../../kernel/lib/random/index.ts'
import { disturb, FaultyLink } from '../support/faulty-link.ts'
import { freePort } from '../support/free-port.ts'
import { type RunningServer, runServer } from '../support/server.ts'
import { until } from '../support/until.ts'
import { KAFKA_CERTIFICATES, KAFKA_VERSIONS, type KafkaBroker, type KafkaMessage, noKafka, startKafka } from './kafka-broker.ts'
import { connectors, isUp, sql } from './served.ts'

const POINTS = Number(process.env.SVC_INTEROP_POINTS ?? 20_000)
/** What a faulty link has held up takes its time; a million points do. */
const SENT_LIMIT_MS = 600_000
const SEED = Number(process.env.SVC_SEED ?? Math.floor(Math.random() * 2 ** 31))

let folder = ''
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'svc-kafka-sink-'))
})
after(() => rm(folder, { recursive: true, force: true }))

async function server(name: string, sections: string, options: { dataDir?: string; keepData?: boolean } = {}): Promise<RunningServer> {
  const file = join(folder, `${name}.toml`)
  await writeFile(file, `plugins = ["line_protocol", "native", "sql", "kafka"]\n[database]\nwarm_up_ms = 0\n${sections}`)
  return runServer(file, { keepData: options.keepData === true, ...(options.dataDir === undefined ? {} : { env: { SVC_DATA_DIR: options.dataDir } }) })
}

async function write(url: string, lines: string): Promise<void> {
  const answer = await fetch(`${url}/write?backfill=true`, { method: 'POST', body: lines })
  assert.equal(answer.status, 204, await answer.text())
}

const sink = (name: string, brokers: string, more: string): string => `[[kafka.sink]]\nname = "${name}"\nbrokers = "${brokers}"\nreconnect_ms = 500\n${more}\n`

/** Of a partition, in the order of offsets. */
function byPartition(messages: readonly KafkaMessage[]): KafkaMessage[][] {
  const partitions = new Map<number, KafkaMessage[]>()
  for (const message of messages) partitions.set(message.partition, [...(partitions.get(message.partition) ?? []), message])
  return [...partitions.values()].map((all) => all.sort((a, b) => a.offset - b.offset))
}

for (const version of KAFKA_VERSIONS) {
  test(`Kafka ${version}: formats, compression, keys, topics`, { skip: noKafka(version), timeout: 300_000 }, async (t) => {
    const broker = await startKafka(version)
    t.after(() => broker.stop())
    const compressions = ['none', 'gzip', 'snappy', 'zstd']
    for (const compression of compressions) await broker.createTopic(compression, 3)
    const secured = `security_protocol = "SASL_SSL"\nsasl_mechanism = "SCRAM-SHA-512"\nsasl_username = "svc"\nsasl_password = "secret"\nca_cert = "${KAFKA_CERTIFICATES.ca}"\n`
    const from = await server(
      `from-${version}`,
      [
        ...compressions.map((compression) =>
          sink(compression, broker.address(), `topic = "${compression}"\ncompression = "${compression}"\nformat = "line_protocol"\nmeasurements = ["all*"]`),
        ),
        sink('each', broker.address('sasl_ssl').replace('127.0.0.1', 'localhost'), `${secured}topic_template = "svc.{namespace}.{measurement}"`),
      ].join(''),
    )
    t.after(() => from.stop())
    await until(`five sinks are up: ${from.output()}`, () => isUp(from.url))
    const to = await server(`to-${version}`, `[kafka]\nbrokers = "${broker.address()}"\ntopics = ["zstd"]\nauto_offset_reset = "earliest"\nbackfill = true\n`)
    t.after(() => to.stop())
    const lines = Array.from(
      { length: 1000 },
      (_, i) => `all,host=h${i % 7} i=${i}i,u=${i}u,f=${i / 8},b=${i % 2 === 0},s="a \\"${i}\\"",d=${i}.50d ${1_700_000_000_000_000_000n + BigInt(i)}`,
    )
    await write(from.url, lines.join('\n'))
    await write(from.url, 'other\\ one,x=y v=1 1700000000000000000')
    const answer = await fetch(`${from.url}/api/v1/delete`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ measurement: 'all', tags: { host: 'h6' } }),
    })
    assert.equal(answer.status, 200, await answer.text())
    const sent = async (): Promise<boolean> => (await connectors(from.url)).every(({ metrics }) => metrics.points_total >= 1000 && metrics.lag === 0)
    await until('all is sent', sent).catch(async (error) => {
      throw new Error(`${error.message}: ${JSON.stringify(await connectors(from.url))}\n${from.output()}`)
    })
    for (const compression of compressions) {
      const messages = await broker.consume(compression)
      const points = messages.filter(({ headers }) => headers['svc-event'] === undefined)
      assert.equal(points.length, 1000, compression)
      assert.ok(points.every(({ headers, value }) => `${value}`.endsWith(` ${headers['svc-time']}`) && /^[0-9a-f]{16}-/.test(headers['svc-position'])))
      const partitionOf = new Map<string, number>()
      for (const partition of byPartition(messages))
        for (const { key, partition: number } of partition) {
          assert.equal(partitionOf.get(`${key}`) ?? number, number, 'a series is in one partition')
          partitionOf.set(`${key}`, number)
        }
      const [deleted] = messages.filter(({ headers }) => headers['svc-event'] === 'series_deleted')
      assert.match(`${deleted.value}`, /^# \{"SeriesDeleted":\{"measurement":"all","tags":\{"host":"h6"\}/)
      assert.equal(`${deleted.key}`, 'all,host=h6')
    }
    const json = (await broker.consume('svc.default.all')).map(({ value }) => JSON.parse(`${value}`))
    assert.equal(json.filter(({ PointWritten }) => PointWritten !== undefined).length, 1000)
    assert.equal((await broker.consume('svc.default.other-20one')).length, 1)
    const query = `SELECT host, i, u, f, b, s, d, epoch_ns(_time) FROM "all" WHERE host <> 'h6' ORDER BY i`
    const all = await sql(from.url, query)
    await until('all has come', async () => (await sql(to.url, 'SELECT count(*) FROM "all"'))[0]?.[0] === 1000)
    assert.ok(all.length > 800)
    assert.deepEqual(await sql(to.url, query), all)
  })

  test(`Kafka ${version}: what is refused, and why`, { skip: noKafka(version), timeout: 300_000 }, async (t) => {
    const broker = await startKafka(version, { settings: { 'auto.create.topics.enable': false } })
    t.after(() => broker.stop())
    await broker.createTopic('small', 1, { 'max.message.bytes': 20_000 })
    const wrong = 'security_protocol = "SASL_PLAINTEXT"\nsasl_mechanism = "PLAIN"\nsasl_username = "svc"\nsasl_password = "wrong"\ntopic = "small"'
    const svc = await server(
      `refused-${version}`,
      [
        sink('small', broker.address(), 'topic = "small"'),
        sink('nowhere', broker.address(), 'topic = "nowhere"'),
        sink('wrong', broker.address('sasl_plaintext'), wrong),
      ].join(''),
    )
    t.after(() => svc.stop())
    await until('one is up', async () => (await connectors(svc.url))[0]?.status === 'Idle')
    await write(svc.url, `m s="${'x'.repeat(30_000)}" 1700000000000000000\nm v=1 1700000000000000001\nm v=2 1700000000000000002`)
    await until('those that fit are sent', async () => (await connectors(svc.url))[0]?.metrics.points_total === 2)
    assert.equal((await connectors(svc.url))[0]?.metrics.decode_errors, 1)
    assert.equal((await broker.consume('small')).length >= 2, true)
    await until('the others say why not', async () => {
      const [, nowhere, denied] = await connectors(svc.url)
      return typeof nowhere.status === 'object' && typeof denied.status === 'object'
    })
    const [, nowhere, denied] = await connectors(svc.url)
    assert.match(JSON.stringify(nowhere.status), /topic/)
    assert.match(JSON.stringify(denied.status), /[Aa]uthentication/)
    await broker.createTopic('nowhere', 1)
    await until('it goes on by itself', async () => (await connectors(svc.url))[1]?.metrics.points_total === 3)
  })

  test(`Kafka ${version}: numbered points while broker, server and the link between them fail: SVC_SEED=${SEED}`, {
    skip: noKafka(version),
    timeout: 1_800_000,
  }, async (t) => {
    const random = seeded(SEED)
    // The server alone comes by the link: brokers tell their clients where to connect to, by listener.
    const linked = await freePort()
    const broker: KafkaBroker = await startKafka(version, { advertised: { sasl_plaintext: linked } })
    t.after(() => broker.stop())
    const link = await FaultyLink.to(broker.port('sasl_plaintext'), linked)
    t.after(() => link.close())
    await broker.createTopic('loop', 3)
    const sasl = 'security_protocol = "SASL_PLAINTEXT"\nsasl_mechanism = "PLAIN"\nsasl_username = "svc"\nsasl_password = "secret"'
    const section = sink('loop', `127.0.0.1:${linked}`, `topic = "loop"\ncompression = "snappy"\n${sasl}`)
    let svc = await server(`loop-${version}`, section, { keepData: true })
    const { dataDir } = svc
    t.after(async () => {
      await svc.stop()
      await rm(dataDir, { recursive: true, force: true })
    })
    await until('the sink is up', () => isUp(svc.url))
    let next = 0
    let done = false
    const writing = (async () => {
      while (next < POINTS) {
        const end = Math.min(POINTS, next + 1 + Math.floor(random() * (POINTS > 100_000 ? 1000 : 200)))
        const lines: string[] = []
        for (let i = next; i < end; i++) lines.push(`m,n=${i % 10} v=${i} ${1_700_000_000_000_000_000n + BigInt(i)}`)
        try {
          await write(svc.url, lines.join('\n'))
          next = end
        } catch {
          await sleep(50) // it is being killed: the same points again
        }
        await sleep(random() * 20)
      }
      done = true
    })()
    const kills = { svc: 0, broker: 0, link: {} as Record<string, number> }
    while (!done || kills.svc < 3 || kills.broker < 2) {
      await sleep(300 + random() * 1500)
      const chosen = random()
      if (chosen < 0.4) {
        const fault = await disturb(link, random, 1500, sleep)
        kills.link[fault] = (kills.link[fault] ?? 0) + 1
      } else if (chosen < 0.8) {
        kills.svc++
        process.kill(svc.pid, 'SIGKILL')
        svc = await server(`loop-${version}`, section, { dataDir, keepData: true })
      } else {
        kills.broker++
        await broker.restart()
      }
    }
    await writing
    await until('all is sent', async () => (await isUp(svc.url)) && (await connectors(svc.url))[0]?.metrics.lag === 0, SENT_LIMIT_MS)
    // A batch may still be under way.
    await until(
      'nothing is under way',
      async () => /svc_kafka_sink_lag_seconds\{sink="loop"\} 0\n/.test(await (await fetch(`${svc.url}/metrics`)).text()),
      SENT_LIMIT_MS,
    )
    const seen = new Uint8Array(POINTS)
    const had = new Map<number, Uint8Array>()
    const newest = new Map<string, number>()
    let [messages, different] = [0, 0]
    const faults: string[] = []
    // A partition comes in the order of its offsets.
    await broker.consumeEach('loop', ({ partition, value, key }) => {
      messages++
      const { PointWritten: point } = JSON.parse(`${value}`)
      const v: number = point.fields.v.F64
      const series = `m,n=${v % 10}`
      const right = point.tags.n === String(v % 10) && `${key}` === series && `${value}`.includes(`"timestamp":${1_700_000_000_000_000_000n + BigInt(v)}`)
      if (!right || Object.keys(point.tags).length !== 1) faults.push(`${key}: ${value}`)
      different += 1 - seen[v]
      seen[v] = 1
      let before = had.get(partition)
      if (before === undefined) had.set(partition, (before = new Uint8Array(POINTS)))
      if (before[v] === 1) return
      before[v] = 1
      const place = `${partition} ${series}`
      if (v <= (newest.get(place) ?? -1)) faults.push(`${v} comes behind ${newest.get(place)}`)
      newest.set(place, v)
    })
    console.log(
      `# Kafka ${version}: ${POINTS} points, ${messages} messages, ${kills.svc} kills of the server, ${kills.broker} of the broker, faults of the link: ${JSON.stringify(kills.link)}`,
    )
    assert.deepEqual([different, faults.slice(0, 5)], [POINTS, []])
  })
}
