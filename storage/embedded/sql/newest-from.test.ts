/** Where the scan of a query for newest rows begins that is part of a statement. */
import t from 'tap'
import { MAX_TIME, MIN_TIME } from './host.ts'
import type { NewestPlan } from './lane/newest.ts'
import { CPU, CPU_ROWS, type TestHost, testHost } from './testing/host.ts'

/** Of the last row of each host. */
const NEWEST = 1_704_067_200_000_000_000n + 119n * 60_000_000_000n
const PER_HOST = 'SELECT hostname, max(_time) AS at, arg_max(usage_user, _time) AS used FROM cpu GROUP BY hostname'

async function knowing(t: { teardown(end: () => void): unknown }, from: bigint | undefined = NEWEST): Promise<TestHost & { plans: NewestPlan[] }> {
  const host = await testHost([[CPU, CPU_ROWS]])
  t.teardown(() => host.close())
  const plans: NewestPlan[] = []
  return Object.assign(host, {
    plans,
    newestFrom: async (plan: NewestPlan) => {
      plans.push(plan)
      return from
    },
  })
}

/** Different ones: rows and tags of a query may be asked for apart. */
const times = ({ requests }: TestHost): unknown => Array.from(new Set(requests.map(({ time }) => time.join(' '))), (time) => time.split(' ').map(BigInt))

t.test('the scan of a subquery begins with the oldest of the newest rows', async (t) => {
  const host = await knowing(t)
  const same: [text: string, rows: unknown[][]][] = [
    [`SELECT count(*), sum(used) FROM (${PER_HOST}) x`, [[2n, 238]]],
    [`WITH x AS (${PER_HOST}) SELECT used FROM x WHERE hostname = 'a'`, [[119]]],
    [`SELECT (SELECT max(used) FROM (${PER_HOST}) x)`, [[119]]],
    [`SELECT 1 AS one WHERE 119 IN (SELECT used FROM (${PER_HOST}) x)`, [[1]]],
    ['SELECT count(*) FROM (SELECT hostname, max(_time), arg_max(procs, _time) FROM cpu GROUP BY hostname)', [[2n]]],
    ['SELECT count(*) FROM (SELECT DISTINCT ON (hostname, region) hostname, region, usage_idle FROM cpu ORDER BY hostname, region, _time DESC) x', [[2n]]],
    ['SELECT sum(procs) FROM (SELECT procs FROM cpu LATEST ON _time PARTITION BY hostname, region) x', [[238n]]],
    ["SELECT used FROM (SELECT arg_max(usage_user, _time) AS used FROM cpu WHERE region = 'eu' AND _time > '2024-01-01' GROUP BY hostname) x", [[119]]],
  ]
  for (const [text, rows] of same) {
    t.same((await host.query(text)).rows, rows, text)
    t.same(times(host), [[NEWEST, MAX_TIME]], text)
  }
})

t.test('a range that begins later stays', async (t) => {
  const host = await knowing(t, 5n)
  const from = 1_704_067_200_000_000_000n
  await host.query(`SELECT * FROM (SELECT max(_time) FROM cpu WHERE _time >= make_timestamp_ns(${from}) GROUP BY hostname) x`)
  t.same(times(host), [[from, MAX_TIME]])
})

t.test('each query of a statement by itself', async (t) => {
  const host = await knowing(t)
  const { rows } = await host.query(`SELECT n, used FROM (SELECT hostname, count(*) AS n FROM cpu GROUP BY hostname) a JOIN (${PER_HOST}) b USING (hostname)`)
  t.same(rows, [
    [120n, 119],
    [120n, 119],
  ])
  t.same(times(host), [
    [MIN_TIME, MAX_TIME],
    [NEWEST, MAX_TIME],
  ])
})

t.test('others are read as a whole', async (t) => {
  const host = await knowing(t)
  const whole = [
    'SELECT * FROM (SELECT hostname, max(_time), count(*) FROM cpu GROUP BY hostname) x',
    'SELECT * FROM (SELECT hostname, max(_time), max(usage_user) FROM cpu GROUP BY hostname) x',
    'SELECT * FROM (SELECT hostname, arg_max(usage_user, _time) FROM cpu WHERE procs < 5 GROUP BY hostname) x',
    'SELECT * FROM (SELECT hostname, arg_max(usage_user, _time) FROM cpu GROUP BY hostname HAVING count(*) > 3) x',
    'SELECT * FROM (SELECT hostname, min(_time) FROM cpu GROUP BY hostname) x',
    'SELECT * FROM (SELECT hostname, arg_max(price, _time) FROM cpu GROUP BY hostname) x',
    "SELECT (SELECT arg_max(usage_user, _time) FROM cpu WHERE hostname = o.h GROUP BY hostname) FROM (VALUES ('a')) o(h)",
  ]
  for (const text of whole) {
    await host.query(text)
    t.same(times(host), [[MIN_TIME, MAX_TIME]], text)
  }
  t.same(host.plans, [])
})

t.test('a common table expression goes before the measurement of its name', async (t) => {
  const host = await knowing(t)
  const { rows } = await host.query(
    'WITH cpu AS (SELECT _time, hostname, procs AS usage_user FROM cpu WHERE procs < 7) SELECT used FROM (SELECT hostname, arg_max(usage_user, _time) AS used FROM cpu GROUP BY hostname) x',
  )
  t.same(rows, [[6n], [6n]])
  t.same(times(host), [[MIN_TIME, MAX_TIME]])
})

t.test('where it is not known the scan is whole, and of many queries few are asked for', async (t) => {
  const host = await testHost([[CPU, CPU_ROWS]])
  t.teardown(() => host.close())
  await host.query(`SELECT count(*) FROM (${PER_HOST}) x`)
  t.same(times(host), [[MIN_TIME, MAX_TIME]])
  const known = await knowing(t)
  await known.query(Array.from({ length: 20 }, () => `SELECT count(*) FROM (${PER_HOST}) x`).join(' UNION ALL '))
  t.equal(known.plans.length, 8)
  t.same(times(known), [
    [NEWEST, MAX_TIME],
    [MIN_TIME, MAX_TIME],
  ])
})
