/** Old rows on a volume of their own: moved by ClickHouse, read as before, also where the tables were there before the keys. */
import t from 'tap'
import { NO_CHDB, startChdb } from '../../test/support/clickhouse/clickhouse.ts'
import { until } from '../../test/support/until.ts'
import { testContext } from '../conformance/index.ts'
import { f64, HOUR, lines, NOW, NOW_MS, write } from '../conformance/points.ts'
import { Client } from './client.ts'
import { check, explain, sectionOf } from './config.ts'
import { ClickHouseEngine } from './engine.ts'
import { texts } from './topology.ts'

const DAY = 24n * HOUR
/** ClickHouse goes by its own clock. */
const AGE_SECS = Math.ceil((Date.now() - NOW_MS) / 1000) + 5 * 86_400
const TABLES = ['m_%', 'narrow']

t.test('keys that say nothing together are refused', async (t) => {
  t.throws(() => check({ clickhouse: { cold_after_secs: 60 } }), { code: 'CONFIG_ERROR', message: /cold_after_secs: it needs storage_policy and cold_volume/ })
  t.throws(() => check({ clickhouse: { cold_after_secs: 60, storage_policy: 'tiers' } }), { code: 'CONFIG_ERROR' })
  check({ clickhouse: { cold_after_secs: 60, storage_policy: 'tiers', cold_volume: 'cold' } })
  const [where] = explain({ clickhouse: { cold_after_secs: 60, storage_policy: 'tiers', cold_volume: 'cold' } })
  t.match(where, /with storage policy "tiers"; rows older than 60 s are on volume "cold"$/)
})

if (NO_CHDB !== undefined) t.test('policies', { skip: NO_CHDB }, async () => {})
else {
  const server = await startChdb()
  const client = new Client(sectionOf({ clickhouse: server.section }))
  t.teardown(async () => {
    await client.close()
    await server.stop()
  })
  const names = async (statement: string): Promise<string[]> => (await texts(client, statement)).flat()
  let made = 0
  const begin = async (prefix: string, keys: Record<string, unknown>): Promise<ClickHouseEngine> => {
    const clickhouse = { url: server.url, prefix, ...keys }
    const engine = new ClickHouseEngine(testContext({ ooo_shard_tolerance: 10_000, maintenance_interval_secs: 86_400, clickhouse }, () => NOW_MS))
    await engine.open()
    return engine
  }
  const rowsByDisk = (prefix: string, like: string) =>
    names(
      `SELECT concat(disk_name, ' ', toString(sum(rows))) FROM system.parts WHERE active AND database = '${prefix}_n_default' AND table LIKE '${like}' GROUP BY disk_name ORDER BY disk_name`,
    )
  const points = [0n, 2n, 10n, 30n].flatMap((days) =>
    ['metric', 'other'].map((measurement) => ({
      measurement,
      tags: { host: 'a' },
      time: NOW - days * DAY,
      fields: { [measurement === 'metric' ? 'value' : 'v']: f64(Number(days)) },
    })),
  )

  t.test('old rows move, and are read where they are', async (t) => {
    const prefix = `p${process.pid}_${made++}`
    const plain = await begin(prefix, {})
    await write(plain, points)
    const before = await Promise.all(['metric', 'other'].map((measurement) => lines(plain, { measurement })))
    await plain.maintain()
    for (const table of TABLES) t.same(await rowsByDisk(prefix, table), ['default 4'])
    await plain.close()

    const tiered = await begin(prefix, { storage_policy: 'tiers', cold_volume: 'cold', cold_after_secs: AGE_SECS })
    await tiered.maintain()
    for (const table of TABLES) await until(`rows of ${table} move`, async () => (await rowsByDisk(prefix, table)).join() === 'cold 2,default 2')
    await write(tiered, [{ measurement: 'metric', tags: { host: 'b' }, time: NOW - 20n * DAY, fields: { value: f64(1) } }])
    await until('a late row follows', async () => (await rowsByDisk(prefix, 'narrow')).join() === 'cold 3,default 2')
    await tiered.delete({ namespace: 'default', measurement: 'metric', matchers: [{ tag: 'host', op: '=', value: 'b' }] })
    t.same(await Promise.all(['metric', 'other'].map((measurement) => lines(tiered, { measurement }))), before)

    const altered = `SELECT command FROM system.mutations WHERE database = '${prefix}_n_default' AND command LIKE '%TTL%'`
    const told = await names(altered)
    await tiered.maintain()
    t.same(await names(altered), told, 'tables are told once')
    await tiered.close()

    const without = await begin(prefix, {})
    await without.maintain()
    t.same(await names(`SELECT name FROM system.tables WHERE database = '${prefix}_n_default' AND engine_full LIKE '%VOLUME%'`), [])
    t.same(await Promise.all(['metric', 'other'].map((measurement) => lines(without, { measurement }))), before)
    await without.close()
  })

  t.test('a policy or a volume that is not there', async (t) => {
    const prefix = `p${process.pid}_${made++}`
    await t.rejects(begin(prefix, { storage_policy: 'none' }), { code: 'CONFIG_ERROR', message: /storage_policy "none": ClickHouse has none/ })
    const wrong = { storage_policy: 'tiers', cold_volume: 'ice', cold_after_secs: 60 }
    await t.rejects(begin(prefix, wrong), { code: 'CONFIG_ERROR', message: /cold_volume "ice": the policy "tiers" has "default", "cold"/ })
  })
}
