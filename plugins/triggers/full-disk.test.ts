/** A disk without room for the state of triggers: statements are answered all the same, a node stops and starts, and what was left is taken away when there is room. */
import type { StateStore, StorageEngine } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { boot, ManualClock, SharedState } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { until } from '../../test/support/until.ts'
import { asked } from './testing.ts'
import { FakeWebhooks, webhooksPlugin } from './testing-webhooks.ts'

const now = BigInt(Math.floor(Date.now() / 1000)) * 1_000_000_000n
/** Between two looks for what was left. */
const REST_MS = 10_000

interface Disk {
  /** Nothing is written; `puts`: what is deleted makes room for itself. */
  full: 'no' | 'puts' | 'all'
  /** Transactions that were refused. */
  refused: number
}

async function engineOn(shared: SharedState, disk: Disk): Promise<StorageEngine> {
  const engine = await shared.engine()
  const stateOf = engine.state.bind(engine)
  engine.state = (owner: string): StateStore => {
    const state = stateOf(owner)
    if (owner !== 'triggers') return state
    const refuse = (): never => {
      disk.refused++
      throw new SvcError('STORAGE_FULL', 'no space left on the data volume')
    }
    return {
      ...state,
      transaction: (body) =>
        state.transaction((tx) =>
          body({
            ...tx,
            put: (key, value) => (disk.full === 'no' ? tx.put(key, value) : refuse()),
            delete: (key) => (disk.full === 'all' ? refuse() : tx.delete(key)),
          }),
        ),
    }
  }
  return engine
}

async function open(t: Test, { shared, disk, service }: { shared: SharedState; disk: Disk; service: FakeWebhooks }, clock?: ManualClock) {
  const node = await boot({
    ...{ plugins: ['line_protocol', 'triggers', webhooksPlugin(service)], config: { triggers: {} } },
    ...(clock === undefined ? {} : { clock }),
    storage: await engineOn(shared, disk),
  })
  t.teardown(() => node.stop())
  return asked(node)
}

t.test('DROP does not wait for signals that wait for room', async (t) => {
  const shared = new SharedState()
  const disk: Disk = { full: 'no', refused: 0 }
  const service = new FakeWebhooks()
  const { node, run, write, signals, settled } = await open(t, { shared, disk, service })
  for (const name of ['gone', 'stays']) await run(`CREATE TRIGGER ${name} ON m WHEN v > 1 DELIVER webhook('https://a.example/${name}') COOLDOWN INTERVAL '0s'`)
  await write(`m,host=a v=5 ${now}`)
  await settled(2)
  disk.full = 'puts'
  await write(`m,host=b v=5 ${now}`)
  await until('a commit finds no room', () => disk.refused > 0)
  t.match(await run('DROP TRIGGER gone'), { status: 200 })
  t.same([...service.endpoints.values()], ['https://a.example/stays'])
  disk.full = 'no'
  await settled(3)
  t.same((await signals()).map(({ trigger_name, tags }) => `${trigger_name} ${tags.host}`).sort(), ['gone a', 'stays a', 'stays b'])
  const { id } = (await shared.of('triggers').get<{ id: string }>('trigger//stays')) as { id: string }
  const cooldowns = (await shared.of('triggers').list({ prefix: 'cooldown/' })).map(({ key }) => key)
  t.ok(cooldowns.length > 0 && cooldowns.every((key) => key.includes(id)), `no cooldown is left of the trigger that is gone: ${cooldowns}`)
  disk.full = 'puts'
  disk.refused = 0
  await write(`m,host=c v=5 ${now}`)
  await until('a commit finds no room again', () => disk.refused > 0)
  const began = performance.now()
  await node.stop()
  t.ok(performance.now() - began < 10_000, 'a stop does not wait for room')
})

t.test('what is left of a trigger that is gone is taken away when there is room', async (t) => {
  const disk: Disk = { full: 'no', refused: 0 }
  const service = new FakeWebhooks()
  const clock = new ManualClock(Date.now())
  const { run } = await open(t, { shared: new SharedState(), disk, service }, clock)
  const remove = service.remove.bind(service)
  await run("CREATE TRIGGER gone ON m WHEN v > 1 DELIVER webhook('https://a.example/gone')")
  service.remove = async () => {
    throw new SvcError('STORAGE_FULL', 'no space left on the data volume')
  }
  t.match(await run('DROP TRIGGER gone'), { status: 200 }, 'it is gone: that is what is answered')
  disk.full = 'all'
  t.match(await run("CREATE TRIGGER never ON m WHEN v > 1 DELIVER webhook('https://a.example/never')"), { status: 507 })
  t.same((await run('SHOW TRIGGERS')).body, { triggers: [] })
  t.equal(service.endpoints.size, 2)
  disk.full = 'no'
  service.remove = remove
  await until('the endpoints are removed', async () => {
    await clock.advance(REST_MS)
    return service.endpoints.size === 0
  })
})

t.test('a node starts on a full disk, whatever is left of triggers that are gone', async (t) => {
  const shared = new SharedState()
  const disk: Disk = { full: 'no', refused: 0 }
  const service = new FakeWebhooks()
  const clock = new ManualClock(Date.now())
  const first = await open(t, { shared, disk, service }, clock)
  await first.run("CREATE TRIGGER stays ON m WHEN v > 1 DELIVER webhook('https://a.example/stays')")
  await first.run('ALTER TRIGGER stays DISABLE')
  await first.node.stop()
  // As a kill within DROP leaves it.
  await shared.of('triggers').transaction((tx) => tx.put('cooldown//gone/x', []))
  service.endpoints.set('default/triggers/gone:0', 'https://a.example/gone')
  const remove = service.remove.bind(service)
  service.remove = async () => {
    throw new SvcError('STORAGE_FULL', 'no space left on the data volume')
  }
  disk.full = 'all'
  const second = await open(t, { shared, disk, service }, clock)
  t.match((await second.run('SHOW TRIGGERS')).body, { triggers: [{ name: 'stays', enabled: false }] })
  disk.full = 'no'
  service.remove = remove
  await until('what is left is taken away', async () => {
    await clock.advance(REST_MS)
    return service.endpoints.size === 1 && (await shared.of('triggers').list({ prefix: 'cooldown/' })).length === 0
  })
})
