/** Nodes that share their state, each with points of its own: each computes its own, and none writes over how far another has come. */
import { boot, SharedState, type TestNode } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { becomes } from './testing.ts'

const HOUR = 3_600_000_000_000n
/** 2024-01-01T00:00:00Z */
const T0 = 1_704_067_200_000_000_000n

async function peer(t: Test, shared: SharedState, told = true): Promise<TestNode> {
  const node = await boot({
    plugins: ['native', 'line_protocol', 'rollups'],
    storage: await shared.engine(() => true, told),
    config: { rollups: { interval_ms: 10 } },
  })
  t.teardown(() => node.stop())
  return node
}

async function write(node: TestNode, host: string, hour: number, value: number): Promise<void> {
  const payload = `cpu,host=${host} usage=${value} ${T0 + BigInt(hour) * HOUR}`
  const answer = await node.inject({ method: 'POST', url: '/write?backfill=true', headers: { 'content-type': 'text/plain' }, payload })
  if (answer.statusCode !== 204) throw new Error(answer.body)
}

async function rows(node: TestNode): Promise<string[]> {
  const out: string[] = []
  try {
    for await (const { tags, times, columns } of node.storage.scan({ namespace: '', measurement: 'cpu_1h' }))
      for (let i = 0; i < times.length; i++) out.push(`${tags.host} ${(times[i] - T0) / HOUR} ${columns[0].values[i]}`)
  } catch (error) {
    if ((error as { code: string }).code !== 'NOT_FOUND') throw error
  }
  return out.sort()
}

const names = async (node: TestNode): Promise<string[]> => (await node.inject('/api/v1/rollups')).json().items.map(({ name }: { name: string }) => name)
const materialised = async (node: TestNode): Promise<string | undefined> => /"materialised_until":(\d+)/.exec((await node.inject('/api/v1/rollups')).body)?.[1]

t.test('each node computes what is written to it, and a node that stops takes back nothing of another', async (t) => {
  const shared = new SharedState()
  const [a, b] = [await peer(t, shared), await peer(t, shared)]
  for (const hour of [0, 1, 5]) {
    await write(a, 'a', hour, 1)
    await write(b, 'b', hour + 10, 2)
  }
  const payload = { name: 'hourly', source_measurement: 'cpu', target_measurement: 'cpu_1h', every: '1h', aggregations: ['sum'] }
  t.equal((await a.inject({ method: 'POST', url: '/api/v1/rollups', payload })).statusCode, 201)
  await becomes(t, () => names(b), ['hourly'], 'the other hears of it')
  await write(a, 'a', 2000, 1)
  await write(b, 'b', 4000, 2)
  await becomes(t, () => rows(a), ['a 0 1', 'a 1 1', 'a 5 1'], 'its own')
  await becomes(t, () => rows(b), ['b 10 2', 'b 11 2', 'b 15 2'], 'and its own')
  const [ofA, ofB] = [await materialised(a), await materialised(b)]
  t.not(ofA, ofB, 'they have come to different times')
  await write(b, 'b', 11, 7)
  await becomes(t, () => rows(b), ['b 10 2', 'b 11 7', 'b 15 2'], 'computed again where it has changed')
  const kept = async (time: string | undefined) => JSON.stringify(await shared.of('rollups').list()).includes(`"until":"${time}"`)
  await becomes(t, () => kept(ofA), true, 'how far one has come is kept')
  await becomes(t, () => kept(ofB), true, 'and the other')
  await b.stop()
  t.ok(await kept(ofA), 'what another keeps stays')
  t.ok(await kept(ofB), 'for when it comes back')
  await write(a, 'a', 1, 5)
  await becomes(t, () => rows(a), ['a 0 1', 'a 1 5', 'a 5 1'], 'the other goes on')
  t.equal((await a.inject({ method: 'DELETE', url: '/api/v1/rollups/hourly' })).statusCode, 204)
  const c = await peer(t, shared)
  t.same(await names(c), [])
  t.equal((await c.inject({ method: 'POST', url: '/api/v1/rollups', payload })).statusCode, 201, 'the name is free again')
  await becomes(t, () => names(a), ['hourly'], 'as another rollup')
  await becomes(t, () => materialised(a), ofA, 'which begins anew')
})

for (const [name, second] of [
  ['whose targets are the same', { source_measurement: 'mem', target_measurement: 'one' }],
  ['that are computed from each other', { source_measurement: 'one', target_measurement: 'cpu' }],
] as const)
  t.test(`of two rollups ${name}, made on two nodes at one time, there is one`, async (t) => {
    const shared = new SharedState()
    // They hear of each other later.
    const [a, b] = await Promise.all([0, 1].map(() => peer(t, shared, false)))
    const create = (node: TestNode, payload: object) => node.inject({ method: 'POST', url: '/api/v1/rollups', payload })
    const common = { every: '1h', aggregations: ['sum'] }
    t.equal((await create(a, { name: 'first', source_measurement: 'cpu', target_measurement: 'one', ...common })).statusCode, 201)
    const refused = await create(b, { name: 'second', ...second, ...common })
    t.match([refused.statusCode, refused.json().error], [second.target_measurement === 'one' ? 409 : 400, /"first"|computed from itself/])
    t.same(await names(b), [], 'nothing of it stays')
    t.equal((await shared.of('rollups').list({ prefix: 'defined/' })).length, 1)
    t.equal((await create(b, { name: 'third', source_measurement: 'mem', target_measurement: 'mem_1h', ...common })).statusCode, 201, 'others are made')
  })
