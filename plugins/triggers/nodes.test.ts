/** Nodes that share their state, each with points of its own: each judges its own, from where it is itself, by the memory that all of them have. */
import { seeded } from 'svcdb/lib/random'
import { boot, SharedState } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { until } from '../../test/support/until.ts'
import { asked, type ShownSignal, type TriggerNode } from './testing.ts'
import { FakeWebhooks, webhooksPlugin } from './testing-webhooks.ts'

const SEED = Number(process.env.SVC_SEED ?? Date.now() % 1_000_000)
const ROUNDS = Number(process.env.SVC_STEPS ?? 20)
const base = Math.floor(Date.now() / 1000) - 3600
const at = (seconds: number): string => `${BigInt(base + seconds) * 1_000_000_000n}`

async function peers(t: Test, count = 2): Promise<{ nodes: TriggerNode[]; shared: SharedState }> {
  const shared = new SharedState()
  const nodes: TriggerNode[] = []
  for (let i = 0; i < count; i++) {
    const node = await boot({ plugins: ['line_protocol', 'triggers'], config: { triggers: {} }, storage: await shared.engine(() => true, true) })
    t.teardown(() => node.stop())
    nodes.push(asked(node))
  }
  return { nodes, shared }
}

const listed = async (node: TriggerNode, name: string): Promise<{ enabled: boolean } | undefined> =>
  ((await node.run('SHOW TRIGGERS')).body.triggers as { name: string; enabled: boolean }[]).find((each) => each.name === name)
const hears = (node: TriggerNode, name: string, enabled = true): Promise<true> =>
  until(`${name} is ${enabled ? 'enabled' : 'disabled'}`, async () => (await listed(node, name))?.enabled === enabled)
/** Runs statements on one node, and waits until the others have heard of them. */
async function made(queries: readonly string[], node: TriggerNode, others: readonly TriggerNode[]): Promise<void> {
  for (const query of queries) {
    const { status, body } = await node.run(query)
    if (status !== 200) throw new Error(body.message)
    for (const other of others) await hears(other, query.split(' ')[2])
  }
}
const summary = (signals: readonly ShownSignal[]): string[] =>
  signals.map(({ trigger_name, tags, timestamp, value }) => `${trigger_name} ${tags.host} ${Math.round(timestamp / 1e9) - base} ${value}`)
const sequences = (signals: readonly ShownSignal[]): number[] => signals.map(({ metadata }) => metadata.sequence)

t.test('each node judges what is written to it from when it knows of a trigger on, and nothing older', async (t) => {
  const { nodes } = await peers(t)
  const [a, b] = nodes
  await b.write([`cpu,host=old v=99 ${at(1)}`])
  await made(["CREATE TRIGGER hot ON cpu WHEN v > 90 COOLDOWN INTERVAL '0s'"], a, [b])
  await a.write(`cpu,host=a v=95 ${at(2)}`)
  t.same(summary(await a.settled(1)), ['hot a 2 95'])
  await b.write(`cpu,host=b v=96 ${at(3)}`)
  t.same(summary(await b.settled(2)), ['hot a 2 95', 'hot b 3 96'], 'points of before do not fire')
  await a.write(`cpu,host=a v=97 ${at(4)}`)
  const all = await a.settled(3)
  t.same(summary(all), ['hot a 2 95', 'hot b 3 96', 'hot a 4 97'])
  t.same(sequences(all), [0, 1, 2])
  for (const { node } of nodes) t.match((await node.inject('/metrics')).body, /^svc_trigger_gaps_total 0$/m, 'nothing is missing in its own log')
})

t.test('a trigger that is disabled and enabled on one node is so on the other, and judges nothing of between', async (t) => {
  const { nodes } = await peers(t)
  const [a, b] = nodes
  await made(["CREATE TRIGGER hot ON cpu WHEN v > 90 COOLDOWN INTERVAL '0s'"], a, [b])
  t.equal((await b.run('ALTER TRIGGER hot DISABLE')).status, 200)
  await hears(a, 'hot', false)
  for (const node of nodes) await node.write(`cpu,host=between v=99 ${at(1)}`)
  t.equal((await a.run('ALTER TRIGGER hot ENABLE')).status, 200)
  await hears(b, 'hot')
  await b.write(`cpu,host=b v=99 ${at(2)}`)
  await b.settled(1)
  await a.write(`cpu,host=a v=99 ${at(3)}`)
  t.same(summary(await a.settled(2)), ['hot b 2 99', 'hot a 3 99'])
})

t.test('cooldowns and composites are of all nodes', async (t) => {
  const { nodes } = await peers(t)
  const [a, b] = nodes
  const queries = [
    "CREATE TRIGGER hot ON cpu WHEN v > 90 COOLDOWN INTERVAL '60s'",
    "CREATE TRIGGER slow ON web WHEN ms > 1 COOLDOWN INTERVAL '1s'",
    "CREATE TRIGGER storm ON SIGNALS (hot, slow) WITHIN INTERVAL '1m' BY (host) COOLDOWN INTERVAL '5m'",
  ]
  await made(queries, a, [b])
  await a.write(`cpu,host=a v=95 ${at(100)}`)
  await a.settled(1)
  // The next that the other node commits makes it see what was committed beside it.
  await b.write([`cpu,host=a v=96 ${at(130)}`, `cpu,host=b v=96 ${at(100)}`])
  t.same(summary(await b.settled(2)), ['hot a 100 95', 'hot b 100 96'], 'silent by what fired on the other node')
  await b.write(`web,host=a ms=5 ${at(140)}`)
  t.same(summary(await b.settled(4)).slice(2), ['slow a 140 5', 'storm a 140 2'], 'one member fired here, the other there')
  await a.write([`cpu,host=a v=95 ${at(170)}`])
  t.same(summary(await a.settled(5)).slice(4), ['hot a 170 95'], 'the composite is silent for its cooldown on the other node, too')
})

t.test(`both take writes at once: each point fires once (seed ${SEED})`, async (t) => {
  const random = seeded(SEED)
  const { nodes } = await peers(t, 3)
  await made(["CREATE TRIGGER hot ON cpu WHEN v > 50 COOLDOWN INTERVAL '0s'"], nodes[0], nodes.slice(1))
  const expected: string[] = []
  for (let round = 0; round < ROUNDS; round++)
    await Promise.all(
      nodes.map((node, i) => {
        const values = Array.from({ length: 1 + Math.floor(random() * 20) }, () => Math.floor(random() * 100))
        const lines = values.map((v, n) => `cpu,host=h${i} v=${v} ${at(round * 20 + n)}`)
        expected.push(...values.flatMap((v, n) => (v > 50 ? [`hot h${i} ${round * 20 + n} ${v}`] : [])))
        return node.write(lines)
      }),
    )
  await until('all have fired', async () => (await nodes[0].signals()).length >= expected.length)
  const all = await nodes[2].settled(expected.length)
  t.same(summary(all).sort(), expected.sort())
  t.same(
    sequences(all),
    all.map((_, i) => i),
    'numbered without holes',
  )
})

t.test('a node that starts leaves the endpoints of a trigger that another one makes meanwhile', async (t) => {
  const shared = new SharedState()
  const service = new FakeWebhooks()
  const joined = async () => {
    const plugins = ['line_protocol', 'triggers', webhooksPlugin(service)]
    const node = await boot({ plugins, config: { triggers: {} }, storage: await shared.engine(() => true, true) })
    t.teardown(() => node.stop())
    return asked(node)
  }
  const a = await joined()
  service.endpoints.set('default/triggers/left:0', 'https://a.example')
  const listed = service.list.bind(service)
  service.list = async () => {
    service.list = listed
    t.equal((await a.run("CREATE TRIGGER hot ON cpu WHEN v > 90 DELIVER webhook('https://a.example/x')")).status, 200)
    return listed()
  }
  await joined()
  t.same([...service.endpoints.values()], ['https://a.example/x'], 'and removes what no trigger uses')
})
