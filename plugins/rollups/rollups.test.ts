import { boot, type TestNode } from 'svcdb/testkit'
import t, { type Test } from 'tap'

const HOUR = 3_600_000_000_000n
/** 2024-01-01T00:00:00Z */
const T0 = 1_704_067_200_000_000_000n

async function node(t: Test, { storage = 'memory', rollups = {}, database = {} } = {}): Promise<TestNode> {
  const one = await boot({
    plugins: ['native', 'line_protocol', 'rollups'],
    storage,
    config: { rollups: { interval_ms: 10, ...rollups }, database: { ooo_shard_tolerance: 2, ...database } },
  })
  t.teardown(() => one.stop())
  return one
}

async function write(one: TestNode, lines: string[], backfill = true): Promise<void> {
  const answer = await one.inject({ method: 'POST', url: `/write?backfill=${backfill}`, headers: { 'content-type': 'text/plain' }, payload: lines.join('\n') })
  if (answer.statusCode !== 204) throw new Error(answer.body)
}

const create = (one: TestNode, body: object) =>
  one.inject({
    method: 'POST',
    url: '/api/v1/rollups',
    payload: { name: 'hourly', source_measurement: 'cpu', target_measurement: 'cpu_1h', every: '1h', aggregations: ['avg', 'count'], ...body },
  })

async function rows(one: TestNode, measurement = 'cpu_1h'): Promise<string[]> {
  const out: string[] = []
  try {
    for await (const { tags, times, columns } of one.storage.scan({ namespace: '', measurement })) {
      for (let i = 0; i < times.length; i++) {
        const values = columns.filter(({ validity }) => validity === undefined || validity[i] === 1).map(({ name, values }) => `${name}=${values[i]}`)
        out.push(`${Object.values(tags)} ${(times[i] - T0) / HOUR} ${values}`)
      }
    }
  } catch (error) {
    if ((error as { code: string }).code !== 'NOT_FOUND') throw error
  }
  return out.sort()
}

async function until(t: Test, what: () => Promise<unknown>, wanted: unknown, name: string): Promise<void> {
  let found: unknown
  for (const end = Date.now() + 10_000; Date.now() < end; await new Promise((resolve) => setTimeout(resolve, 20))) {
    found = await what()
    if (JSON.stringify(found) === JSON.stringify(wanted)) break
  }
  t.same(found, wanted, name)
}

for (const storage of ['memory', 'embedded']) {
  t.test(`buckets are written when the live window has left them, and again when their data changes (${storage})`, async (t) => {
    const one = await node(t, { storage })
    const line = (host: string, minutes: number, value: number) => `cpu,host=${host} usage=${value} ${T0 + BigInt(minutes) * 60_000_000_000n}`
    await write(one, [line('a', 0, 1), line('a', 30, 3), line('b', 10, 7), line('a', 60, 5), line('a', 60 * 5, 9)])
    t.equal((await create(one, {})).statusCode, 201)
    await until(t, () => rows(one), ['a 0 usage_avg=2,usage_count=2', 'a 1 usage_avg=5,usage_count=1', 'b 0 usage_avg=7,usage_count=1'], 'up to the window')
    const listed = (await one.inject('/api/v1/rollups')).json()
    t.match(listed, {
      total: 1,
      items: [{ name: 'hourly', aggregations: ['Avg', 'Count'], timezone: null, origin: null, pending_repairs: [], status: 'active', last_error: null }],
    })
    t.match((await one.inject('/api/v1/rollups')).body, `"materialised_until":${T0 + 3n * HOUR}`)
    await write(one, [line('a', 45, 5)])
    await until(t, () => rows(one), ['a 0 usage_avg=3,usage_count=3', 'a 1 usage_avg=5,usage_count=1', 'b 0 usage_avg=7,usage_count=1'], 'a backfill')
    await one.storage.delete({ namespace: '', measurement: 'cpu', matchers: [{ tag: 'host', op: '=', value: 'b' }], start: T0, end: T0 + HOUR })
    await until(t, () => rows(one), ['a 0 usage_avg=3,usage_count=3', 'a 1 usage_avg=5,usage_count=1'], 'a delete')
    const view = (await one.inject('/api/v1/rollups/hourly/query')).json()
    t.same(
      view.rows.map((row: unknown[]) => row.slice(1)),
      [
        ['a', 3, 3],
        ['a', 5, 1],
        ['a', 9, 1],
      ],
    )
    t.equal((await one.inject({ method: 'DELETE', url: '/api/v1/rollups/hourly' })).statusCode, 204)
    t.equal((await one.inject({ method: 'DELETE', url: '/api/v1/rollups/hourly' })).statusCode, 404)
  })
}
