/** Channels: the log, and the service that delivers webhooks, here one that keeps what it is given. */
import type { Plugin } from 'svcdb'
import { ManualClock, temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { Channels } from './channels.ts'
import { start, type TriggerNode } from './testing.ts'
import { FakeWebhooks, webhooksPlugin } from './testing-webhooks.ts'

const now = BigInt(Math.floor(Date.now() / 1000)) * 1_000_000_000n

t.setTimeout(300_000)
t.test('signals are handed to webhooks, with an id that stays', async (t) => {
  const service = new FakeWebhooks()
  service.endpoints.set('default/triggers/left:0', 'https://a.example')
  const { node, run, write, settled } = await start(t, { plugins: [webhooksPlugin(service)] })
  t.same([...service.endpoints], [], 'what no trigger uses is removed at the start')
  t.match(await run("CREATE TRIGGER a ON m WHEN v > 1 DELIVER webhook('http://a.example')"), { status: 400, body: { code: 'BAD_REQUEST' } })
  t.equal((await run("CREATE TRIGGER a ON m WHEN v > 1 DELIVER log, webhook('https://a.example/x') COOLDOWN INTERVAL '0s'")).status, 200)
  t.same([...service.endpoints.values()], ['https://a.example/x'])
  service.failures = 2
  await write([`m,host=a v=5 ${now}`, `m,host=a v=0 ${now + 1n}`, `m,host=a v=7 ${now + 5n}`])
  const signals = await settled(2)
  for (let i = 0; i < 3000 && service.deliveries.size < 2; i++) await new Promise((resolve) => setTimeout(resolve, 20))
  t.same([...service.deliveries.keys()].sort(), signals.map(({ event_id }) => event_id).sort(), 'a store without room is waited for')
  const [first] = service.deliveries.values()
  t.match(first.event, { source: 'svc:trigger/a', type: 'io.svc.signal.fired', time: Number(now / 1_000_000n) })
  const { body } = await node.inject('/api/v1/signals')
  t.ok(body.startsWith(`[${JSON.stringify(first.event.data)}`), 'the data is the signal, with all digits of its time')
  service.listeners[0]({ endpoint: first.endpoint, id: first.event.id, result: 'delivered', seconds: 0.5 })
  service.listeners[0]({ endpoint: first.endpoint, id: first.event.id, result: 'dropped', seconds: 0.5 })
  service.listeners[0]({ endpoint: first.endpoint, id: first.event.id, result: 'retried', seconds: 0.5 })
  const metrics = (await node.inject('/metrics')).body
  for (const line of [
    'svc_signal_delivery_queued_total{channel="webhook"} 2',
    'svc_signal_delivery_queued_total{channel="log"} 2',
    'svc_signal_delivery_total{channel="log"} 2',
    'svc_signal_delivery_total{channel="webhook"} 1',
    'svc_signal_delivery_dropped_total{channel="webhook"} 1',
    'svc_signal_delivery_failed_total{channel="webhook"} 1',
    'svc_signals_fired_total 2',
  ])
    t.ok(metrics.includes(line), line)
  await run('DROP TRIGGER a')
  t.same([...service.endpoints], [])
})

t.test('without the plugin there are no webhooks', async (t) => {
  const { run } = await start(t)
  t.match(await run("CREATE TRIGGER a ON m WHEN v > 1 DELIVER webhook('https://a.example/x')"), {
    status: 400,
    body: { error: /plugin webhooks is not selected/ },
  })
  t.same((await run('SHOW TRIGGERS')).body, { triggers: [] })
})

t.test('the log has signals, and the oldest are dropped when there are too many', async (t) => {
  const lines: string[] = []
  const { node, run, write, settled } = await start(t, { log: (line) => lines.push(line), config: { triggers: { log_queue_size: 10 } } })
  await run("CREATE TRIGGER a ON m WHEN v > 1 DELIVER log COOLDOWN INTERVAL '0s'")
  await write(Array.from({ length: 100 }, (_, i) => `m v=5 ${now + BigInt(i)}`))
  await settled(100)
  const logged = lines.filter((line) => line.includes('trigger a has fired'))
  t.equal(logged.length, 10)
  const { signal } = JSON.parse(logged[9])
  t.match(signal, { trigger_name: 'a', value: 5 })
  t.match(signal.timestamp, new RegExp(`^${String(now).slice(0, -3)}`), 'with all digits of its time')
  t.ok((await node.inject('/metrics')).body.includes('svc_signal_delivery_dropped_total{channel="log"} 90'))
})

t.test('signals of one namespace for the log do not push out those of another', async (t) => {
  const logged: string[] = []
  let dropped = 0
  const channels = new Channels({
    id: 'triggers',
    log: { info: ({ signal }: { signal: { event_id: string } }) => void logged.push(signal.event_id) } as never,
    metrics: new Proxy({}, { get: (_, name) => ({ inc: () => name === 'dropped' && dropped++, observe() {} }) }) as never,
    clock: new ManualClock(),
    logQueueSize: 10,
    webhooks: () => undefined,
    sink: () => undefined,
    auditLog: () => undefined,
  })
  const handOver = (namespace: string, count: number) => {
    const tenant = { namespace, byId: new Map([['a', { id: 'a', name: 'a', delivery: [{ kind: 'log' }] }]]) }
    const event = (i: number) => ({ event_id: `${namespace} ${i}`, trigger_id: 'a', trigger_name: 'a', tags: {}, timestamp: '1', metadata: {} })
    return channels.handOver(tenant as never, Array.from({ length: count }, (_, i) => event(i)) as never)
  }
  // In one turn of the event loop: none is written meanwhile.
  await Promise.all([handOver('quiet', 2), handOver('noisy', 50), handOver('quiet', 1)])
  await channels.drained(60_000)
  t.same(logged, ['quiet 0', 'quiet 1', ...Array.from({ length: 7 }, (_, i) => `noisy ${i + 43}`), 'quiet 0'])
  t.equal(dropped, 43)
})

t.test('the ring keeps the newest, and evictions are counted', async (t) => {
  const { node, run, write, settled } = await start(t, { config: { triggers: { signal_store_capacity: 20 } } })
  await run("CREATE TRIGGER a ON m WHEN v > 1 COOLDOWN INTERVAL '0s'")
  for (let i = 0; i < 60; i++) await write(`m v=${i + 2} ${now + BigInt(i)}`)
  let found = await settled(20)
  for (let i = 0; i < 100 && found.at(-1)?.value !== 61; i++) found = await settled(20)
  t.same(
    found.map(({ value }) => value),
    Array.from({ length: 20 }, (_, i) => 42 + i),
  )
  const [, evicted] = /svc_signal_evicted_total (\d+)/.exec((await node.inject('/metrics')).body) ?? []
  t.ok(Number(evicted) >= 39, evicted)
  t.ok((await node.storage.state('triggers').list({ prefix: 'signal/' })).length <= 22)
})

t.test('severities follow from the value, by thresholds of the configuration', async (t) => {
  const { run, write, settled } = await start(t, { config: { triggers: { warning_value: 10, critical_value: 20 } } })
  await run("CREATE TRIGGER a ON m WHEN v > 1 COOLDOWN INTERVAL '0s'")
  await write([`m v=9 ${now}`, `m v=10 ${now + 1n}`, `m v=20 ${now + 2n}`])
  t.same(
    (await settled(3)).map(({ severity }) => severity),
    ['info', 'warning', 'critical'],
  )
})

t.test('what waits for a service that fails while the last trigger is disabled is handed over when it is enabled', async (t) => {
  const service = new FakeWebhooks()
  const { run, write, settled } = await start(t, { plugins: [webhooksPlugin(service)] })
  t.equal((await run("CREATE TRIGGER hot ON m WHEN v > 1 DELIVER webhook('https://a.example') COOLDOWN INTERVAL '0s'")).status, 200)
  service.failures = Number.POSITIVE_INFINITY
  await write(`m v=2 ${now}`)
  const [signal] = await settled(1)
  t.equal((await run('ALTER TRIGGER hot DISABLE')).status, 200)
  t.equal(service.deliveries.size, 0)
  service.failures = 0
  t.equal((await run('ALTER TRIGGER hot ENABLE')).status, 200)
  for (const until = performance.now() + 20_000; service.deliveries.size === 0 && performance.now() < until; )
    await new Promise((resolve) => setTimeout(resolve, 10))
  t.same([...service.deliveries.keys()], [signal.event_id])
})

t.test('a start without the plugin says that what fires is not delivered', async (t) => {
  const dataDir = temporaryFolder(t)
  const warned = async (plugins: Plugin[], body: (node: TriggerNode) => Promise<unknown> = async () => {}) => {
    const said: object[] = []
    const log = (line: string): void => {
      const entry = JSON.parse(line) as { msg: string; triggers?: number }
      if (entry.msg.includes('webhooks is not selected')) said.push({ triggers: entry.triggers })
    }
    const { node, ...rest } = await start(t, { plugins, storage: 'embedded', dataDir, log })
    await body({ node, ...rest })
    await node.stop()
    return said
  }
  t.same(
    await warned([webhooksPlugin(new FakeWebhooks())], async ({ run }) => {
      await run("CREATE TRIGGER a ON m WHEN v > 1 DELIVER webhook('https://a.example')")
      await run('CREATE TRIGGER b ON m WHEN v > 1 DELIVER log')
    }),
    [],
  )
  t.same(await warned([]), [{ triggers: 1 }])
})

t.test('what waits for a channel is shown, that for webhooks as their service has it', async (t) => {
  const webhooks = { allow_private_targets: true, drain_secs: 0, signing_secrets: [`whsec_${Buffer.alloc(24, 1).toString('base64')}`] }
  const { node, run, write, settled } = await start(t, { plugins: ['webhooks'], config: { webhooks } })
  // Nobody listens there.
  t.equal((await run("CREATE TRIGGER a ON m WHEN v > 1 DELIVER log, webhook('https://127.0.0.1:1/x') COOLDOWN INTERVAL '0s'")).status, 200)
  const depth = async () => (await node.inject('/metrics')).body.split('\n').filter((line) => line.startsWith('svc_signal_delivery_queue_depth'))
  t.same(await depth(), ['svc_signal_delivery_queue_depth{channel="log"} 0', 'svc_signal_delivery_queue_depth{channel="webhook"} 0'])
  await write([1, 2, 3].map((i) => `m,host=h${i} v=5 ${now}`))
  await settled(3)
  for (const until = performance.now() + 20_000; !(await depth())[1].endsWith(' 3') && performance.now() < until; )
    await new Promise((resolve) => setTimeout(resolve, 10))
  t.same(await depth(), ['svc_signal_delivery_queue_depth{channel="log"} 0', 'svc_signal_delivery_queue_depth{channel="webhook"} 3'])
})
