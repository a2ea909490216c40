/** Names of topics, which measurements a sink takes, and sections that are refused. */
import { seeded } from 'svcdb/lib/random'
import { boot, temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { measurementFilter } from './measurements.ts'
import { TopicNames } from './topics.ts'

const PARTS = ['a', 'b', '_', '__', '.', '-', '2d', '5f', 'x', '\u00fc', ' ', '/', 'gap', '-gap', '\ud83d\ude00', '\ud800']

t.test('topics are legal, and no two measurements share one, also where brokers see no difference', async (t) => {
  const seed = Number(process.env.SVC_SEED ?? 1)
  const random = seeded(seed)
  const word = (): string => Array.from({ length: 1 + Math.floor(random() * 4) }, () => PARTS[Math.floor(random() * PARTS.length)]).join('')
  for (const template of [
    'svc.{namespace}.{measurement}',
    '{measurement}',
    '{measurement}.{namespace}',
    'x{measurement}y',
    '{namespace}_{measurement}',
    '_{measurement}',
  ]) {
    const seen = new Map<string, string>()
    for (let i = 0; i < 3000; i++) {
      const namespace = template.includes('{namespace}') ? ['default', 'a', 'a_b', 'a-b', '5f'][Math.floor(random() * 5)] : 'default'
      const measurement = i % 7 === 0 ? word().repeat(80) : word()
      // Half of a pair is no character of its own in UTF-8.
      if (!measurement.isWellFormed()) continue
      const topic = new TopicNames(template, namespace).of(measurement)
      if (!/^[A-Za-z0-9._-]{1,249}$/.test(topic) || topic === '.' || topic === '..' || topic.startsWith('__'))
        t.fail(`seed ${seed}: ${topic} of ${measurement}`)
      const same = topic.replaceAll('.', '_')
      const what = JSON.stringify([namespace, measurement])
      if ((seen.get(same) ?? what) !== what) t.fail(`seed ${seed}: ${what} and ${seen.get(same)} share ${topic}`)
      seen.set(same, what)
      const gap = new TopicNames(template, namespace).ofGaps
      if (gap === topic) t.fail(`seed ${seed}: ${what} has the topic of gaps`)
    }
    t.ok(seen.size > 500, template)
  }
  const one = new TopicNames('all', 'default')
  t.equal(one.of('m'), 'all')
  t.equal(one.ofGaps, 'all')
  t.equal(new TopicNames('{measurement}', 'default').of('__consumer_offsets'), '-5f_consumer_offsets')
})

t.test('templates that are none', async (t) => {
  for (const [template, message] of [
    ['a b', /characters that topics cannot have/],
    ['{other}', /characters that topics cannot have/],
    ['{measurement}{namespace}', /needs a "\."/],
    ['{measurement}-{namespace}', /needs a "\."/],
    ['{measurement}.{measurement}', /twice/],
    ['..', /no name that Kafka allows/],
  ] as const)
    t.throws(() => new TopicNames(template, 'default'), { message }, template)
})

t.test('names and patterns of measurements', async (t) => {
  const wanted = measurementFilter(['cpu', 'disk_*', '?', '*a*b', ''])
  for (const name of ['cpu', 'disk_', 'disk_io', 'x', 'ab', 'xaxb', 'aab']) t.ok(wanted(name), name)
  for (const name of ['cpus', 'disk', 'xy', 'abc', 'ba']) t.notOk(wanted(name), name)
  t.ok(measurementFilter([])('any'))
  // Would not end in this life if it went back to every star.
  t.notOk(measurementFilter([`${'*a'.repeat(200)}b`])('a'.repeat(20_000)))
})

t.test('sections that are refused', async (t) => {
  const access = { brokers: '127.0.0.1:1' }
  const sink = { ...access, name: 'one', topic: 'out' }
  for (const [kafka, message] of [
    [{ sink: [{ ...access, name: 'one' }] }, /kafka\.sink "one": it needs topic or topic_template/],
    [{ sink: [{ ...sink, topic_template: 'x.{measurement}' }] }, /one of them/],
    [{ sink: [{ name: 'one', topic: 'out' }] }, /it has no brokers/],
    [{ sink: [sink, sink] }, /cannot name two connectors "one"/],
    [{ sink: [{ ...sink, sasl_username: 'x' }] }, /sasl_username has no use/],
    [{ ...access, topics: ['in', 'out'], sink: [sink] }, /kafka-default consumes "out"/],
    [
      { ...access, topics: ['svc.default.cpu'], sink: [{ ...access, name: 'one', topic_template: 'svc.{namespace}.{measurement}' }] },
      /consumes "svc\.default\.cpu"/,
    ],
    [{}, /no connector and no sink/],
  ] as const)
    await t.rejects(boot({ plugins: ['line_protocol', 'kafka'], config: { kafka } as never }), { message })
})

t.test('a node with a sink and brokers that are away starts, lists it, and stops', async (t) => {
  const node = await boot({ plugins: ['line_protocol', 'kafka'], config: { kafka: { sink: [{ name: 'one', topic: 'out', brokers: '127.0.0.1:1' }] } } })
  let status: unknown
  for (const end = Date.now() + 10_000; status !== 'Reconnecting' && Date.now() < end; await new Promise((resolve) => setTimeout(resolve, 20)))
    status = (await node.inject('/api/v1/connectors')).json().items[0].status
  t.match((await node.inject('/api/v1/connectors')).json().items, [
    { name: 'one', connector_type: 'kafka_sink', status: 'Reconnecting', metrics: { messages_total: 0 } },
  ])
  t.match((await node.inject('/metrics')).body, /svc_connector_up\{connector="one",type="kafka_sink"\} 0/)
  t.same(await node.stop(), [])
})

t.test('an engine that tells no changes is refused at the start', async (t) => {
  const forward = { upstream: [{ name: 'one', url: 'http://127.0.0.1:9' }] }
  const kafka = { sink: [{ name: 'one', topic: 'out', brokers: '127.0.0.1:1' }] }
  const message = /cannot start kafka\.sink "one": the storage engine of this node tells no changes; leave the sinks out/
  await t.rejects(
    boot({ plugins: ['line_protocol', 'kafka'], storage: 'forward', config: { kafka, database: { forward, data_dir: temporaryFolder(t) } } as never }),
    {
      message,
    },
  )
})
