/** A rollup that is deleted while a pass brings its buckets into the target. */
import { boot } from 'svcdb/testkit'
import t from 'tap'
import { becomes } from './testing.ts'

const HOUR = 3_600_000_000_000n
/** 2024-01-01T00:00:00Z */
const T0 = 1_704_067_200_000_000_000n

t.setTimeout(300_000)

const aWhile = () => new Promise((resolve) => setTimeout(resolve, 300))

t.test('nothing more is taken from the target of a deleted rollup, and the next of its name begins when the pass has ended', async (t) => {
  const one = await boot({
    ...{ plugins: ['native', 'line_protocol', 'rollups'], storage: 'memory' },
    config: { rollups: { interval_ms: 10 }, database: { ooo_shard_tolerance: 2 } },
  })
  t.teardown(() => one.stop())
  const remove = one.storage.delete.bind(one.storage)
  const held = Promise.withResolvers<void>()
  let deletes = 0
  one.storage.delete = async (request) => {
    if (request.measurement === 'cpu_1h' && ++deletes === 1) await held.promise
    return remove(request)
  }
  const write = async (points: [host: string, hours: number, value: number][]) => {
    const payload = points.map(([host, hours, value]) => `cpu,host=${host} usage=${value} ${T0 + BigInt(hours) * HOUR}`).join('\n')
    const answer = await one.inject({ method: 'POST', url: '/write?backfill=true', headers: { 'content-type': 'text/plain' }, payload })
    t.equal(answer.statusCode, 204)
  }
  const create = async () => {
    const payload = { name: 'hourly', source_measurement: 'cpu', target_measurement: 'cpu_1h', every: '1h', aggregations: ['sum'] }
    t.equal((await one.inject({ method: 'POST', url: '/api/v1/rollups', payload })).statusCode, 201)
  }
  const rows = async () => {
    const out: string[] = []
    for await (const { tags, times, columns } of one.storage.scan({ namespace: '', measurement: 'cpu_1h' }))
      for (const [i, time] of times.entries()) out.push(`${tags.host} ${(time - T0) / HOUR} ${columns[0].values[i]}`)
    return out.sort()
  }
  await write([...[0, 1, 2].map((hour): [string, number, number] => ['a', hour, 1]), ['b', 1, 1], ['b', 9, 1]])
  await create()
  await becomes(t, rows, ['a 0 1', 'a 1 1', 'a 2 1', 'b 1 1'], 'computed')

  // Two whole times go, and the row between them.
  await remove({ namespace: '', measurement: 'cpu', matchers: [{ tag: 'host', op: '=', value: 'a' }], start: T0, end: T0 + 3n * HOUR })
  await becomes(t, async () => deletes, 1, 'its repair takes away the first')
  let answered = false
  const deleted = one.inject({ method: 'DELETE', url: '/api/v1/rollups/hourly' }).finally(() => {
    answered = true
  })
  await becomes(t, async () => (await one.inject('/api/v1/rollups')).json().total, 0, 'it is gone')
  await write([0, 1, 2].map((hour) => ['a', hour, 2]))
  await create()
  const refreshed = one.inject({ method: 'POST', url: `/api/v1/rollups/hourly/refresh?start=${T0}&end=${T0 + 3n * HOUR}` })
  await aWhile()
  t.equal(answered, false, 'who deletes it hears so when the target is left alone')
  held.resolve()
  t.equal((await deleted).statusCode, 204)
  t.equal((await refreshed).statusCode, 200)
  const wanted = ['a 0 2', 'a 1 2', 'a 2 2', 'b 1 1']
  await becomes(t, rows, wanted, 'those of the second')
  await aWhile()
  t.same(await rows(), wanted, 'they stay')
  t.equal(deletes, 1, 'the former has taken away no more')
})
