/**
 * Three tenants of one node by all protocols, in random order: writes, questions, definitions, streams that go on from another's place, tickets, handles and ids of
 * others. Nobody gets a word or a number of another, and in the end each has what it has written, and nothing else.
 * SVC_SEED repeats a run; SVC_STEPS makes it longer.
 */
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { CONNECTORS, type Connectors, definePlugin, type PointFormat, pointFormat } from 'svcdb'
import { seeded } from 'svcdb/lib/random'
import { boot, builtinPlugins } from 'svcdb/testkit'
import t from 'tap'
import { FlightClient } from '../../plugins/flight_sql/testing.ts'
import { TestClient } from '../../plugins/grpc/testing.ts'
import { configSchema, connectorsOf } from '../../plugins/kafka/config.ts'
import { KafkaConnector } from '../../plugins/kafka/connector.ts'
import { kafkaMetrics } from '../../plugins/kafka/metrics.ts'
import { FakeKafka } from '../../plugins/kafka/testing.ts'
import { broker } from '../../plugins/mqtt/testing.ts'
import { minimalConfig } from '../../scripts/minimal-config.ts'
import { lines } from '../../storage/conformance/points.ts'
import { LET_ALONE } from './sections.ts'
import { READS } from './tenant-isolation/reads.ts'
import { keys, LEDGER, leaksOf, numberOf, pick, TENANTS, type Tenant, type World } from './tenant-isolation/world.ts'
import { WRITES } from './tenant-isolation/writes.ts'

const SEED = Number(process.env.SVC_SEED ?? Date.now() % 1_000_000)
const STEPS = Number(process.env.SVC_STEPS ?? 1000)
t.setTimeout(1_800_000)
t.comment(`SVC_SEED=${SEED}`)

/** What each run has to have had of a tenant's own. */
const EXPECTED = [
  'gRPC Query',
  'gRPC ListMeasurements',
  'Flight SQL DoGet',
  'prepared statements',
  'change ROWS_WRITTEN',
  'event point_written',
  'the operator API',
]

/** Certificates need TLS; Kafka has brokers in memory here. */
const PLUGINS = builtinPlugins().filter((id) => !['mtls', 'kafka', 'cold_archive'].includes(id))

const kafka = new Map(TENANTS.map((tenant) => [tenant, new FakeKafka(1)]))

/** A connector for each tenant, to brokers of its own. */
const kafkaConnectors = definePlugin({
  id: 'kafka_in_memory',
  summary: 'Connectors to brokers in memory',
  stability: 'experimental',
  config: configSchema,
  requires: [CONNECTORS],
  includes: ['connectors'],
  capabilities: ['points'],
  setup(svc, config) {
    const connectors: KafkaConnector[] = []
    const metrics = kafkaMetrics(svc.metrics, () => connectors)
    for (const [i, own] of connectorsOf(config).entries()) {
      const connector = new KafkaConnector(svc, own, metrics, async () => (kafka.get(TENANTS[i]) as FakeKafka).library)
      svc.use<Connectors>(CONNECTORS).add(connector)
      svc.start(() => connector.start(svc.find<PointFormat>(pointFormat('json'))))
      svc.own(connector.name, ({ signal }) => connector.run(signal), { everywhere: true })
      svc.stop(() => connector.stop())
      connectors.push(connector)
    }
  },
})

t.test('tenants by all protocols', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'svc-tenant-isolation-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  await writeFile(join(folder, 'all.cedar'), 'permit (principal, action, resource);')
  // All operators call themselves the same as well.
  await writeFile(join(folder, 'tokens.json'), JSON.stringify(TENANTS.map(({ operator: token, mark: tenant }) => ({ token, actor: 'olaf', tenant }))))
  const mqtt = await broker(t)
  const least = await minimalConfig(PLUGINS)
  t.teardown(() => least.remove())
  const at = { broker: '127.0.0.1', port: mqtt.port }
  const log: string[] = []
  const node = await boot({
    plugins: [keys, kafkaConnectors, ...PLUGINS],
    storage: 'embedded',
    log: (line: string) => log.push(line),
    config: {
      ...least.config,
      ...LET_ALONE,
      server: { multi_tenancy: true },
      namespaces: { default_max_ingestion_rate: 0 },
      authorization: { policy_dir: folder },
      grpc: { addr: '127.0.0.1:0' },
      flight_sql: { addr: '127.0.0.1:0' },
      agent_plane: { tenants: TENANTS.map(({ mark }) => mark) },
      operator_api: { tokens_file: join(folder, 'tokens.json'), policy: join(folder, 'all.cedar') },
      mqtt: {
        connector: TENANTS.flatMap(({ mark, namespace }) => [
          { ...at, name: `${mark}-json`, namespace, topics: [`${mark}/j/#`], format: 'json', tags_from_topic: [`${mark}/j/+site/#`] },
          { ...at, name: `${mark}-line`, namespace, topics: [`${mark}/l/#`], format: 'line_protocol' },
          { ...at, name: `${mark}-edge`, namespace, topics: [`spBv1.0/${mark}/#`], format: 'sparkplug_b' },
        ]),
      },
      kafka_in_memory: {
        connector: TENANTS.map(({ mark, namespace }) => ({
          name: `${mark}-kafka`,
          namespace,
          brokers: 'b:1',
          topics: ['plant.press'],
          format: 'json',
          auto_offset_reset: 'earliest',
        })),
      },
    } as never,
  })
  const grpc = new TestClient(node.port('grpc'))
  const flight = new FlightClient(node.port('flight_sql'))
  t.teardown(async () => {
    for (const { streams, subscriptions } of TENANTS) {
      for (const each of streams) await each.close()
      for (const each of subscriptions) each.stream.cancel()
    }
    grpc.close()
    flight.close()
    await node.stop()
  })
  const random = seeded(SEED)
  let step = 'the begin'
  const leak = (tenant: Tenant, what: string, found: string[]): void => {
    if (found.length > 0) t.fail(`${step}: ${tenant.mark}: ${what}: ${found.join('; ')}`)
  }
  const counts = new Map<string, number>()
  const got = (what: string): void => void counts.set(what, (counts.get(what) ?? 0) + 1)
  const world: World = {
    node,
    grpc,
    flight,
    broker: mqtt,
    publisher: await mqtt.client(),
    kafka,
    random,
    places: [],
    positions: [],
    tickets: [],
    handles: [],
    ids: [],
    leak,
    got,
  }

  for (const tenant of TENANTS) {
    const { mark, namespace, user } = tenant
    const n = tenant.number()
    tenant.written.add(n)
    const rows = [`${LEDGER},owner=${mark},n=${n}`, `${mark}_m1,owner=${mark}`].map(
      (series) => `${series} value=${numberOf(tenant, n)},note="${mark} words ${n}"`,
    )
    const made = [
      await node.inject({ method: 'POST', url: '/api/v1/namespaces', payload: { name: namespace }, headers: { authorization: 'Bearer root' } }),
      await node.inject({ method: 'POST', url: '/write', payload: rows.join('\n'), headers: { ...user, 'content-type': 'text/plain' } }),
      await node.inject({
        method: 'POST',
        url: '/api/v1/triggers',
        payload: { query: `CREATE TRIGGER keep_${mark} ON ${LEDGER} WHEN value > 0` },
        headers: user,
      }),
      await node.inject({
        ...{ method: 'POST', url: '/api/v1/rollups', headers: user },
        payload: {
          name: `keep_${mark}`,
          source_measurement: LEDGER,
          target_measurement: `${mark}_1m`,
          every: '1m',
          aggregations: ['max'],
          group_by_tags: ['owner'],
        },
      }),
      await node.inject({
        ...{ method: 'POST', url: '/api/v1/analytics/derived', headers: user },
        payload: { name: `keep_${mark}`, query: `SELECT _time, owner, value FROM ${LEDGER} WHERE _time >= $1 AND _time < $2` },
      }),
    ]
    for (const { statusCode, body } of made) if (statusCode >= 300 && statusCode !== 409) throw new Error(`${statusCode} ${body}`)
  }

  const acts = Object.values({ ...WRITES, ...READS, write: WRITES.http, ask: READS.definitions, more: READS.definitions })
  for (let i = 0; i < STEPS; i++) {
    step = `step ${i}`
    const together = 1 + Math.floor(random() * 3)
    await Promise.all(
      Array.from({ length: together }, async () => {
        const tenant = pick(random, TENANTS)
        const act = pick(random, acts)
        await act(world, tenant)
      }),
    )
    if (i % 400 === 399) await node.storage.flush()
  }
  step = 'the end'
  t.comment(JSON.stringify(Object.fromEntries(counts)))
  for (const what of EXPECTED) t.ok((counts.get(what) ?? 0) > 0, `there was ${what}`)

  const rowsIn = async ({ namespace }: Tenant, measurement: string): Promise<string[]> => {
    const known = (await node.storage.measurements(namespace)).some(({ name }) => name === measurement)
    return known ? lines(node.storage, { namespace, measurement }) : []
  }
  for (const tenant of TENANTS) {
    const { mark, namespace, written, doubtful } = tenant
    const own = (row: string): number => Number(/\bn[=":, ]+"?(\d+)/.exec(row)?.[1])
    const missing = async (): Promise<number[]> => {
      const stored = new Set((await rowsIn(tenant, LEDGER)).map(own))
      return [...written].filter((n) => !stored.has(n))
    }
    for (let i = 0; i < 200 && (await missing()).length > 0; i++) await sleep(50)
    t.same(await missing(), [], `${mark} has what it has written`)
    t.same(
      (await rowsIn(tenant, LEDGER)).map(own).filter((n) => !written.has(n) && !doubtful.has(n)),
      [],
      `${mark} has nothing else`,
    )
    for (const { name } of await node.storage.measurements(namespace)) {
      const rows = await rowsIn(tenant, name)
      leak(tenant, `rows of ${name}`, leaksOf(tenant, `${name} ${rows.join('\n')}`))
    }
    t.match((await rowsIn(tenant, 'edge')).join('\n'), new RegExp(`${mark}_metric`), `${mark} has what its edge node has sent`)
    t.equal((await rowsIn(tenant, `${mark}_m1`)).length, 1, `${mark}_m1 is there`)
    const shown = async (url: string) => (await node.inject({ url, headers: tenant.user })).body
    for (const url of ['/api/v1/triggers', '/api/v1/rollups', '/api/v1/analytics/derived'])
      t.match(await shown(url), new RegExp(`keep_${mark}`), `${url} of ${mark}`)
    for (const each of tenant.streams) leak(tenant, 'the change stream', leaksOf(tenant, JSON.stringify(each.events)))
  }

  // Nobody has a namespace that it has not got.
  const listed = (await node.inject({ url: '/api/v1/namespaces', headers: { authorization: 'Bearer root' } })).body
  t.same([...new Set(listed.match(/\w+-corp/g))].sort(), TENANTS.map(({ namespace }) => namespace).sort(), listed)
  // Files of dead letters and exports are one tenant's each.
  for (const tenant of TENANTS) {
    const letters = await readdir(join(node.dataDir, 'dead-letters'))
    for (const file of letters.filter((name) => name.startsWith(tenant.mark))) {
      const text = await readFile(join(node.dataDir, 'dead-letters', file), 'utf8')
      const bodies = text
        .trim()
        .split('\n')
        .map((line) => Buffer.from(JSON.parse(line).body ?? '', 'base64').toString('latin1'))
      leak(tenant, `dead letters in ${file}`, leaksOf(tenant, bodies.join('\n')))
    }
  }
  // What goes wrong with one is logged as that one's.
  for (const line of log) {
    const { namespace } = JSON.parse(line) as { namespace?: string }
    const tenant = TENANTS.find((each) => each.namespace === namespace)
    if (tenant !== undefined) leak(tenant, 'the log', leaksOf(tenant, line))
  }
})
