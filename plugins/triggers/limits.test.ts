/** Limits of the configuration: each bounds what it says, and is named where it refuses. */
import { setTimeout as sleep } from 'node:timers/promises'
import { ManualClock } from 'svcdb/testkit'
import t from 'tap'
import { Channels } from './channels.ts'
import { keysOf, type Ring } from './keys.ts'
import { Share } from './share.ts'
import { start } from './testing.ts'
import { root } from './testing-root.ts'
import { as, tenants } from './testing-tenants.ts'

const now = BigInt(Math.floor(Date.now() / 1000)) * 1_000_000_000n

t.setTimeout(300_000)

t.test('max_triggers counts those of all namespaces', async (t) => {
  const { run } = await start(t, { plugins: [tenants], config: { server: { multi_tenancy: true }, triggers: { max_triggers: 2 } } })
  const create = (name: string, tenant: string) => run(`CREATE TRIGGER ${name} ON m WHEN v > 1`, as(tenant))
  t.equal((await create('a', 'acme')).status, 200)
  t.equal((await create('a', 'other')).status, 200)
  t.match(await create('b', 'third'), {
    status: 429,
    body: { code: 'RATE_LIMITED', error: /the server has 2 already; drop one, or raise triggers\.max_triggers$/ },
  })
  t.equal((await run('DROP TRIGGER a', as('acme'))).status, 200)
  t.equal((await create('b', 'third')).status, 200)
})

t.test('a smaller signal_store_capacity is come to in steps, and answers have no more at once', async (t) => {
  const { node, run, write, signals } = await start(t, { config: { triggers: { signal_store_capacity: 100 } } })
  const state = node.storage.state('triggers')
  const keys = keysOf('')
  await state.transaction((tx) => {
    tx.put(keys.ring, { version: 1, first: 0, next: 5000 } satisfies Ring)
    for (let i = 0; i < 5000; i++) tx.put(keys.signal(i), { tags: {}, timestamp: '0', metadata: { sequence: i } })
  })
  await run("CREATE TRIGGER a ON m WHEN v > 1 COOLDOWN INTERVAL '0s'")
  const kept: number[] = []
  for (let i = 1; i <= 5; i++) {
    await write(`m v=2 ${now + BigInt(i)}`)
    while ((await state.get<Ring>(keys.ring))?.next !== 5000 + i) await sleep(5)
    kept.push((await state.list({ prefix: keys.signals })).length)
    t.equal((await signals()).length, 100)
  }
  t.same(kept, [4000, 3000, 2000, 1000, 100])
})

t.test('max_annotations', async (t) => {
  const { node, run, write, settled } = await start(t, { config: { triggers: { max_annotations: 3 } } })
  await run("CREATE TRIGGER a ON m WHEN v > 1 COOLDOWN INTERVAL '0s'")
  await write([1, 2, 3, 4, 5].map((v) => `m v=${v + 1} ${now + BigInt(v) * 1_000_000n}`))
  await write(`_alerts v=1 ${now}`)
  await settled(5)
  const count = async (query = '') => (await node.inject(`/api/v1/annotations${query}`)).json().length
  t.equal(await count(), 3)
  t.equal(await count('?limit=2'), 2)
  t.equal(await count('?limit=1000'), 3, 'a caller gets no more')
})

t.test('max_cooldowns is shared by namespaces with triggers', async (t) => {
  const { node, run, write, settled } = await start(t, {
    plugins: [tenants, root],
    config: { server: { multi_tenancy: true }, triggers: { max_cooldowns: 20 } },
  })
  for (const tenant of ['acme', 'other']) t.equal((await run('CREATE TRIGGER a ON m WHEN v > 1', as(tenant))).status, 200)
  const lines = Array.from({ length: 30 }, (_, i) => `m,host=h${i} v=5 ${now + BigInt(i)}`)
  for (const tenant of ['acme', 'other']) {
    await write(lines, as(tenant))
    t.equal((await settled(30, as(tenant))).length, 30, 'all fire')
  }
  t.match(
    (await node.inject({ url: '/metrics', headers: { authorization: 'Bearer root' } })).body,
    /^svc_trigger_cooldown_entries 20$/m,
    'ten of each are remembered',
  )
  // What was forgotten can cost a late signal, and makes no second one.
  await write([...lines, `m,host=h40 v=5 ${now + 5n}`, `m,host=h41 v=5 ${now + 40n}`], as('acme'))
  const again = (await settled(31, as('acme'))).slice(30)
  t.same(
    again.map(({ tags }) => tags.host),
    ['h41'],
  )
})

t.test('processor_share: over time conditions take no more of the thread', async (t) => {
  const clock = new ManualClock()
  let took = 0
  const share = new Share(0.25, clock, (seconds) => {
    took += seconds
  })
  const began = clock.monotonic()
  let done = false
  const work = function* (): Generator<void, number, void> {
    for (let i = 0; i < 200; i++) {
      for (const until = performance.now() + 1; performance.now() < until; );
      yield
    }
    return 1
  }
  const running = share
    .run(work(), () => false)
    .then((result) => {
      done = true
      return result
    })
  // The clock goes on only where somebody waits for it.
  while (!done) {
    await clock.advance(1)
    await sleep(0)
  }
  t.equal(await running, 1)
  const passed = clock.monotonic() - began
  t.ok(took >= 0.2, `${took} s of work`)
  // What may be taken at once after a pause is 20 ms.
  t.ok(passed >= (took * 1000 - 20 - 10) / 0.25, `${Math.round(took * 1000)} ms of work in ${passed} ms`)
})

t.test('drain_secs: a stop waits for lines of the log, and no longer than that', async (t) => {
  const channels = (log: () => void) =>
    new Channels({
      id: 'triggers',
      log: { info: log } as never,
      metrics: new Proxy({}, { get: () => ({ inc() {}, observe() {} }) }) as never,
      clock: new ManualClock(),
      logQueueSize: 1000,
      webhooks: () => undefined,
      sink: () => undefined,
      auditLog: () => undefined,
    })
  const trigger = { id: 'a', name: 'a', delivery: [{ kind: 'log' }] }
  const tenant = { namespace: '', byId: new Map([['a', trigger]]) } as never
  const signals = Array.from({ length: 500 }, (_, i) => ({
    event_id: `${i}`,
    trigger_id: 'a',
    trigger_name: 'a',
    tags: {},
    timestamp: '1',
    metadata: {},
  })) as never
  let lines = 0
  const own = channels(() => lines++)
  await own.handOver(tenant, signals)
  t.equal(own.depth.log, 500)
  await own.drained(60_000)
  t.equal(lines, 500, 'all are written')
  const none = channels(() => {
    for (const end = performance.now() + 1; performance.now() < end; );
  })
  await none.handOver(tenant, signals)
  await none.drained(0)
  t.ok(none.depth.log > 0, 'nobody waited')
})
