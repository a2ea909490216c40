/** Limits of the configuration: each bounds what it says, and is named where it refuses. */
import type { Clock } from 'svcdb'
import { boot, systemClock, type TestNode } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { becomes } from './testing.ts'

const HOUR = 3_600_000_000_000n
/** 2024-01-01T00:00:00Z */
const T0 = 1_704_067_200_000_000_000n

t.setTimeout(300_000)

async function start(t: Test, rollups: object, database: object = {}, clock: Clock = systemClock): Promise<TestNode> {
  const config = { rollups: { interval_ms: 10, ...rollups }, database: { ooo_shard_tolerance: 2, ...database } }
  const node = await boot({ plugins: ['native', 'line_protocol', 'rollups'], config, clock })
  t.teardown(() => node.stop())
  return node
}

async function write(node: TestNode, lines: readonly string[], backfill = true): Promise<void> {
  const request = { method: 'POST', url: `/write?backfill=${backfill}`, headers: { 'content-type': 'text/plain' }, payload: lines.join('\n') } as const
  const answer = await node.inject(request)
  if (answer.statusCode !== 204) throw new Error(answer.body)
}

const line = (host: string, hour: number, value = 1): string => `cpu,host=${host} v=${value} ${T0 + BigInt(hour) * HOUR}`

async function create(node: TestNode, name: string, source = 'cpu'): Promise<[number, string | undefined]> {
  const payload = { name, source_measurement: source, target_measurement: `${name}_1h`, every: '1h', aggregations: ['sum'] }
  const answer = await node.inject({ method: 'POST', url: '/api/v1/rollups', payload })
  return [answer.statusCode, answer.json().error]
}

async function rows(node: TestNode, measurement: string): Promise<string[]> {
  const out: string[] = []
  if (!(await node.storage.measurements('')).some(({ name }) => name === measurement)) return out
  for await (const { tags, times } of node.storage.scan({ namespace: '', measurement }))
    for (const time of times) out.push(`${tags.host} ${(time - T0) / HOUR}`)
  return out.sort()
}

const first = async (node: TestNode): Promise<{ status: string; last_error: string | null; pending_repairs: unknown[] }> =>
  (await node.inject('/api/v1/rollups')).json().items[0]

t.test('max_rollups and max_rollups_per_measurement', async (t) => {
  const node = await start(t, { max_rollups: 3, max_rollups_per_measurement: 2 })
  t.equal((await create(node, 'a'))[0], 201)
  t.equal((await create(node, 'b'))[0], 201)
  t.match(await create(node, 'c'), [429, /2 aggregate "cpu", and rollups\.max_rollups_per_measurement is as many; delete one/])
  t.equal((await create(node, 'c', 'mem'))[0], 201)
  t.match(await create(node, 'd', 'disk'), [429, /the server has 3, and rollups\.max_rollups is as many; delete one/])
  t.equal((await node.inject({ method: 'DELETE', url: '/api/v1/rollups/a' })).statusCode, 204)
  t.equal((await create(node, 'd'))[0], 201, 'there is room again')
})

t.test('max_tiers', async (t) => {
  const node = await start(t, { max_tiers: 3 })
  t.equal((await create(node, 'a'))[0], 201)
  t.equal((await create(node, 'b', 'a_1h'))[0], 201)
  t.equal((await create(node, 'd', 'c_1h'))[0], 201, 'its source is computed by nobody yet')
  t.match(await create(node, 'c', 'b_1h'), [429, /more than 3 would rest on one another, and rollups\.max_tiers is as many/], 'that would be between them')
  t.equal((await create(node, 'e', 'b_1h'))[0], 201)
  t.match(await create(node, 'f', 'e_1h'), [429, /rollups\.max_tiers/])
})

t.test('max_query_rows', async (t) => {
  const node = await start(t, { max_query_rows: 3 })
  await write(
    node,
    [0, 1, 2, 3, 4].map((hour) => line('a', hour)),
  )
  t.equal((await create(node, 'a'))[0], 201)
  const view = async (query = '') => (await node.inject(`/api/v1/rollups/a/query${query}`)).json()
  t.equal((await view()).rows.length, 3)
  t.equal((await view('?limit=2')).rows.length, 2)
  t.equal((await view('?limit=5')).rows.length, 3, 'a caller gets no more')
})

t.test('max_slice_bytes counts texts', async (t) => {
  const node = await start(t, { max_slice_bytes: 1_000_000 })
  const text = 'x'.repeat(60_000)
  const one = (host: number, hour: number): string => `cpu,host=${host} v="${text}" ${T0 + BigInt(hour) * HOUR}`
  await write(
    node,
    Array.from({ length: 20 }, (_, i) => one(i % 2, i >> 1)),
  )
  await write(node, [line('a', 40).replace('v=', 'w=')])
  const payload = { name: 'last', source_measurement: 'cpu', target_measurement: 'last_1h', every: '1h', aggregations: ['last'] }
  t.equal((await node.inject({ method: 'POST', url: '/api/v1/rollups', payload })).statusCode, 201)
  await becomes(t, async () => (await rows(node, 'last_1h')).length, 20, 'slice by slice')
  await write(
    node,
    Array.from({ length: 20 }, (_, i) => one(i, 3)),
  )
  const failed = async () => /one bucket takes more than rollups.max_slice_bytes of 1000000/.test(String((await first(node)).last_error))
  await becomes(t, failed, true, 'a bucket that is too large is said to be')
})

t.test('a parked rollup is tried again after parked_retry_secs', async (t) => {
  const node = await start(t, { park_after_failures: 1, parked_retry_secs: 1, max_series_per_rollup: 1 })
  t.equal((await create(node, 'a'))[0], 201)
  await write(node, [line('a', 0), line('b', 0), line('a', 9)])
  await becomes(t, async () => (await first(node)).status, 'parked', 'it fails')
  await node.storage.delete({ namespace: '', measurement: 'cpu', matchers: [{ tag: 'host', op: '=', value: 'b' }] })
  await becomes(t, async () => (await first(node)).status, 'active', 'and goes on when its cause is gone')
  await becomes(t, () => rows(node, 'a_1h'), ['a 0'], 'with what it has missed')
})

t.test('a rollup that has failed is tried again in time though the clock was set back', async (t) => {
  let ahead = 86_400_000
  const clock = { ...systemClock, now: () => Date.now() + ahead, nowNanos: () => BigInt(Date.now() + ahead) * 1_000_000n }
  const node = await start(t, { park_after_failures: 1, parked_retry_secs: 1, max_series_per_rollup: 1 }, {}, clock)
  t.equal((await create(node, 'a'))[0], 201)
  await write(node, [line('a', 0), line('b', 0), line('a', 9)])
  await becomes(t, async () => (await first(node)).status, 'parked', 'it fails')
  ahead = 0
  await node.storage.delete({ namespace: '', measurement: 'cpu', matchers: [{ tag: 'host', op: '=', value: 'b' }] })
  await becomes(t, () => rows(node, 'a_1h'), ['a 0'], 'a second later, by a clock that nobody sets')
})

t.test('raw data is not kept for a rollup for longer than max_hold_secs, and the rollup gives it up', async (t) => {
  const limits = { max_hold_secs: 36_000, park_after_failures: 1, parked_retry_secs: 1, max_series_per_rollup: 1 }
  const node = await start(t, limits, { retention_secs: 7200, retention: { a_1h: 0 } })
  t.equal((await create(node, 'a'))[0], 201)
  await write(node, [line('a', 0), line('b', 0)], false)
  await write(node, [line('a', 8), line('a', 9)], false)
  await becomes(t, async () => (await first(node)).status, 'parked', 'two series are one too many')
  t.same(await rows(node, 'cpu'), ['a 0', 'a 8', 'a 9', 'b 0'], 'raw data waits, though it is older than its retention')
  await write(node, [line('a', 40)], false)
  await becomes(t, async () => (await rows(node, 'cpu')).includes('a 0'), false, 'but not for ever')
  await becomes(t, async () => (await first(node)).status, 'active', 'the rollup goes on behind it')
  await write(node, [line('a', 41), line('a', 46)], false)
  await becomes(t, async () => (await rows(node, 'a_1h')).slice(-2), ['a 40', 'a 41'], 'and computes what comes')
  t.notOk((await rows(node, 'a_1h')).includes('a 0'), 'what was given up has no bucket')
  t.same((await first(node)).pending_repairs, [])
})

t.test('a page of the listing is what was asked for, of all that there are', async (t) => {
  const node = await start(t, {})
  await write(node, [line('a', 0)])
  for (const name of ['a', 'b', 'c', 'd']) t.equal((await create(node, name))[0], 201)
  const page = async (query: string) => {
    const { items, ...more } = (await node.inject(`/api/v1/rollups?${query}`)).json()
    return [items.map(({ name }: { name: string }) => name), more]
  }
  t.same(await page('offset=2&limit=1'), [['c'], { total: 4, offset: 2, limit: 1 }])
  t.same(await page('offset=3&limit=2'), [['d'], { total: 4, offset: 3, limit: 2 }])
  t.same(await page('offset=4&limit=2'), [[], { total: 4, offset: 4, limit: 2 }])
})
