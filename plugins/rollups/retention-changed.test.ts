/** Rollups on a node whose retention is made longer, or taken away, between two starts. */
import { boot, type TestNode, temporaryFolder } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { becomes } from './testing.ts'

const HOUR = 3_600_000_000_000n
/** 2024-01-01T00:00:00Z */
const T0 = 1_704_067_200_000_000_000n

t.setTimeout(300_000)

/** @param interval_ms 0 = without the plugin. */
async function node(t: Test, dataDir: string, database: object, interval_ms = 10): Promise<TestNode> {
  const one = await boot({
    ...{ plugins: ['native', 'line_protocol', ...(interval_ms === 0 ? [] : ['rollups'])], storage: 'embedded', dataDir },
    config: { ...(interval_ms === 0 ? {} : { rollups: { interval_ms } }), database: { ooo_shard_tolerance: 2, ...database } },
  })
  t.teardown(() => one.stop())
  return one
}

async function write(one: TestNode, hours: number[]): Promise<void> {
  const payload = hours.map((hour) => `cpu usage=1 ${T0 + BigInt(hour * 3600) * 1_000_000_000n}`).join('\n')
  const answer = await one.inject({ method: 'POST', url: '/write?backfill=true', headers: { 'content-type': 'text/plain' }, payload })
  if (answer.statusCode !== 204) throw new Error(answer.body)
}

/** Hours of the rows that a measurement has. */
async function hours(one: TestNode, measurement: string): Promise<number[]> {
  const found: number[] = []
  for await (const { times } of one.storage.scan({ namespace: '', measurement })) for (const time of times) found.push(Number((time - T0) / HOUR))
  return found.sort((a, b) => a - b)
}

for (const retention of [{ retention_secs: 0 }, { retention_secs: 3600 * 1000 }])
  t.test(`what retention took is not computed again when it becomes ${retention.retention_secs} s`, async (t) => {
    const dataDir = temporaryFolder(t)
    const first = await node(t, dataDir, { retention_secs: 6 * 3600, retention: { cpu_1h: 0 }, maintenance_interval_secs: 1 })
    await write(first, [0, 1])
    const body = { name: 'hourly', source_measurement: 'cpu', target_measurement: 'cpu_1h', every: '1h', aggregations: ['sum', 'count'] }
    t.equal((await first.inject({ method: 'POST', url: '/api/v1/rollups', payload: body })).statusCode, 201)
    await write(first, [20])
    await becomes(t, () => hours(first, 'cpu_1h'), [0, 1], 'buckets')
    await becomes(t, () => hours(first, 'cpu'), [20], 'raw data is gone')
    await first.stop()
    const second = await node(t, dataDir, { ...retention, retention: { cpu_1h: 0 } })
    await second.storage.delete({ namespace: '', measurement: 'cpu', end: T0 + 3n * HOUR })
    await write(second, [1, 17, 25])
    await becomes(t, () => hours(second, 'cpu_1h'), [0, 1, 17, 20], 'buckets of which the raw data is gone stay')
  })

t.test('what retention took while the node ran without the plugin is not computed again', async (t) => {
  const dataDir = temporaryFolder(t)
  const kept = { retention_secs: 0, maintenance_interval_secs: 1 }
  const first = await node(t, dataDir, kept)
  await write(first, [0, 1])
  const body = (name: string) => ({ name, source_measurement: 'cpu', target_measurement: `cpu_${name}`, every: '1h', aggregations: ['sum', 'count'] })
  t.equal((await first.inject({ method: 'POST', url: '/api/v1/rollups', payload: body('1h') })).statusCode, 201)
  await write(first, [10])
  await becomes(t, () => hours(first, 'cpu_1h'), [0, 1], 'buckets')
  await first.stop()
  const second = await node(t, dataDir, { ...kept, retention_secs: 6 * 3600, retention: { cpu_1h: 0 } }, 0)
  await write(second, [20])
  await becomes(t, () => hours(second, 'cpu'), [20], 'retention has its way')
  await second.stop()
  const third = await node(t, dataDir, kept)
  await third.storage.delete({ namespace: '', measurement: 'cpu', end: T0 + 3n * HOUR })
  await write(third, [17, 25])
  await becomes(t, () => hours(third, 'cpu_1h'), [0, 1, 17, 20], 'buckets of which the raw data is gone stay')
  // One that is made now is computed from what there is now, and again when that changes, after a restart too.
  await write(third, [2])
  t.equal((await third.inject({ method: 'POST', url: '/api/v1/rollups', payload: body('new') })).statusCode, 201)
  await becomes(t, () => hours(third, 'cpu_new'), [2, 17, 20], 'of old times, too')
  await third.stop()
  const fourth = await node(t, dataDir, kept)
  await write(fourth, [3])
  await becomes(t, () => hours(fourth, 'cpu_new'), [2, 3, 17, 20], 'and later')
  t.same(await hours(fourth, 'cpu_1h'), [0, 1, 17, 20])
  await fourth.stop()
  // Retention takes more, once again without it.
  const fifth = await node(t, dataDir, { ...kept, retention_secs: 6 * 3600, retention: { cpu_1h: 0, cpu_new: 0 } }, 0)
  await write(fifth, [26])
  await becomes(t, () => hours(fifth, 'cpu'), [20, 25, 26], 'and again')
  await fifth.stop()
  const sixth = await node(t, dataDir, kept)
  await sixth.storage.delete({ namespace: '', measurement: 'cpu', end: T0 + 18n * HOUR })
  await write(sixth, [21, 40])
  await becomes(t, () => hours(sixth, 'cpu_new'), [2, 3, 17, 20, 21, 25, 26], 'buckets of what has gone since stay as well')
})

t.test('a late point that was not computed before its time went past retention is in its bucket', async (t) => {
  const dataDir = temporaryFolder(t)
  const database = { retention_secs: 6 * 3600, retention: { cpu_1h: 0 }, maintenance_interval_secs: 1 }
  const first = await node(t, dataDir, database)
  await write(first, [0, 1, 2])
  const body = { name: 'hourly', source_measurement: 'cpu', target_measurement: 'cpu_1h', every: '1h', aggregations: ['count'] }
  t.equal((await first.inject({ method: 'POST', url: '/api/v1/rollups', payload: body })).statusCode, 201)
  await write(first, [7.5])
  await becomes(t, () => hours(first, 'cpu_1h'), [0, 1, 2], 'buckets')
  await becomes(t, async () => (await hours(first, 'cpu')).length, 3, 'retention has taken the first')
  await first.stop()
  const second = await node(t, dataDir, database, 60_000)
  await write(second, [1.5])
  await write(second, [30])
  await second.stop()
  const third = await node(t, dataDir, database)
  await becomes(t, () => hours(third, 'cpu'), [30], 'retention has its way')
  const counts = async (): Promise<(number | bigint)[]> => {
    const found: (number | bigint)[] = []
    for await (const { columns } of third.storage.scan({ namespace: '', measurement: 'cpu_1h' })) found.push(...(columns[0].values as (number | bigint)[]))
    return found.map(Number)
  }
  await becomes(t, counts, [1, 2, 1, 1], 'the late one is counted')
})
