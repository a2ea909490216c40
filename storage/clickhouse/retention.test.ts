/** What retention leaves in ClickHouse: days that no measurement keeps are gone from the disk, without a delete; of others what is kept is left. */
import t from 'tap'
import { NO_CHDB, startChdb } from '../../test/support/clickhouse/clickhouse.ts'
import { testContext } from '../conformance/index.ts'
import { f64, HOUR, lines, NOW, NOW_MS, type TestPoint, write } from '../conformance/points.ts'
import { Client } from './client.ts'
import { sectionOf } from './config.ts'
import { ClickHouseEngine } from './engine.ts'
import { proxyTo } from './testing/proxy.ts'

const DAY = 24n * HOUR
const DAY_MS = 86_400_000
const today = NOW / DAY
/** A metric has a place in the shared table, a measurement with another field a table of its own. */
const point = (measurement: string, day: bigint, host = 'a'): TestPoint => ({
  measurement,
  tags: { host },
  time: NOW + day * DAY,
  fields: { [measurement.startsWith('m') ? 'value' : 'v']: f64(1) },
})
const row = (measurement: string, day: bigint, host = 'a'): string =>
  `{"host":"${host}"} ${NOW + day * DAY} ${measurement.startsWith('m') ? 'value' : 'v'}=float64:1`

if (NO_CHDB !== undefined) t.test('retention', { skip: NO_CHDB }, async () => {})
else {
  const server = await startChdb()
  const client = new Client(sectionOf({ clickhouse: server.section }))
  t.teardown(async () => {
    await client.close()
    await server.stop()
  })
  const texts = async (statement: string): Promise<string[]> => {
    const found: string[] = []
    for await (const { rows, columns } of client.blocks(statement))
      for (let i = 0; i < rows; i++) found.push(Buffer.from(columns[0].texts?.[i] ?? []).toString())
    return found
  }
  let made = 0
  const begin = async (config: Record<string, unknown>) => {
    const prefix = `e${process.pid}_${made++}`
    const asked: string[] = []
    const proxy = await proxyTo(server.url, (statement, forward) => {
      asked.push(statement)
      forward()
    })
    const clock = { ms: NOW_MS }
    const engine = new ClickHouseEngine(
      testContext({ ooo_shard_tolerance: 10_000, maintenance_interval_secs: 86_400, ...config, clickhouse: { url: proxy.url, prefix } }, () => clock.ms),
    )
    await engine.open()
    const database = `${prefix}_n_default`
    return {
      engine,
      asked,
      /** Sets the clock and writes elsewhere, so that the newest time held follows. */
      async advance(days: number): Promise<void> {
        clock.ms = NOW_MS + days * DAY_MS
        await write(engine, [{ ...point('clock', 0n), time: BigInt(clock.ms) * 1_000_000n }], { namespace: 'elsewhere' })
      },
      /** Days of a table's rows on the disk, from today, with how many rows are there. */
      async days(table: string): Promise<string[]> {
        const like = table === 'narrow' ? `= 'narrow'` : `LIKE 'm_%'`
        const day = `toString(toInt64(partition) - ${today})`
        return texts(
          `SELECT concat(${day}, ': ', toString(sum(rows))) FROM system.parts WHERE active AND rows > 0 AND database = '${database}' AND table ${like} GROUP BY partition ORDER BY toInt64(partition)`,
        )
      },
      mutations: () => texts(`SELECT concat(table, ' ', command) FROM system.mutations WHERE database = '${database}'`),
      async end(): Promise<void> {
        await engine.close()
        proxy.close()
      },
    }
  }

  t.test('days that nothing keeps are dropped, and nothing is deleted', async (t) => {
    const node = await begin({ retention_secs: 2 * 86_400 })
    const { engine } = node
    const days = [0n, 1n, 2n, 3n]
    await write(
      engine,
      ['cpu', 'm1', 'm2'].flatMap((name) => [...days.map((day) => point(name, day - 3n)), point(name, -3n, 'old')]),
    )
    for (const table of ['narrow', 'own']) t.same((await node.days(table)).length, 4)
    await engine.maintain()
    // The cutoff is noon, of the day before yesterday: the day is there, and its morning is not shown.
    for (const [table, rows] of [
      ['narrow', 2],
      ['own', 1],
    ] as const)
      t.same(
        await node.days(table),
        [-2, -1, 0].map((day) => `${day}: ${rows}`),
      )
    t.same((await engine.usage('default')).series, 3, 'series that had nothing else are given back')
    await node.advance(1)
    for (const name of ['cpu', 'm1'])
      t.same(
        await lines(engine, { measurement: name }),
        [-1n, 0n].map((day) => row(name, day)),
      )
    await engine.maintain()
    for (const table of ['narrow', 'own'])
      t.same(
        (await node.days(table)).map((day) => day.split(':')[0]),
        ['-1', '0'],
      )
    for (const name of ['cpu', 'm1'])
      t.same(
        await lines(engine, { measurement: name }),
        [-1n, 0n].map((day) => row(name, day)),
      )
    t.same(
      (await node.mutations()).filter((one) => !one.startsWith('series ')),
      [],
    )
    await node.end()
  })

  t.test('of a day that one metric keeps the others go, by one change of the table', async (t) => {
    const node = await begin({ retention_secs: 2 * 86_400, retention: { m_audit: 0, m_long: 6 * 86_400, m_brief: 86_400 } })
    const { engine } = node
    const names = ['m_audit', 'm_long', 'm_brief', 'm1', 'm2', 'm3']
    await write(
      engine,
      names.flatMap((name) => [point(name, -5n), point(name, 0n)]),
    )
    t.same(await node.days('narrow'), ['-5: 6', '0: 6'])
    const seen = async () => Object.fromEntries(await Promise.all(names.map(async (name) => [name, (await lines(engine, { measurement: name })).length])))
    const before = await seen()
    t.same(before, { m_audit: 2, m_long: 2, m_brief: 1, m1: 1, m2: 1, m3: 1 })
    for (let i = 0; i < 3; i++) await engine.maintain()
    await becomes(t, () => node.days('narrow'), ['-5: 2', '0: 6'])
    t.equal((await node.mutations()).filter((one) => one.startsWith('narrow ')).length, 1)
    t.same(await seen(), before)
    await node.advance(3)
    await engine.maintain()
    await becomes(t, () => node.days('narrow'), ['-5: 1', '0: 2'])
    t.same(await seen(), { m_audit: 2, m_long: 1, m_brief: 0, m1: 0, m2: 0, m3: 0 })
    await node.end()
  })

  t.test('a metric that can be restored keeps its days', async (t) => {
    const node = await begin({ retention_secs: 2 * 86_400, soft_delete_ttl_secs: 30 * 86_400 })
    const { engine } = node
    await write(engine, [point('m1', 0n), point('m2', 0n)])
    await engine.drop('default', 'm1')
    await node.advance(4)
    await engine.maintain()
    await becomes(t, () => node.days('narrow'), ['0: 1'])
    await engine.restore('default', 'm1')
    await engine.maintain()
    await becomes(t, () => node.days('narrow'), [])
    await node.end()
  })

  t.test('times before 1970', async (t) => {
    const node = await begin({ retention_secs: 3600 })
    const { engine } = node
    const times = [-3n * DAY, -2n * DAY, -2n * DAY + 1n, -1n, 0n, DAY - 1n]
    await write(
      engine,
      times.map((time) => ({ ...point('cpu', 0n), time })),
    )
    t.equal((await node.days('own')).length, 4)
    await write(engine, [{ ...point('cpu', 0n), time: DAY }])
    await engine.maintain()
    t.same((await lines(engine, { measurement: 'cpu' })).length, 2)
    t.same(
      (await node.days('own')).map((day) => Number(BigInt(day.split(':')[0]) + today)),
      [0, 1],
    )
    await node.end()
  })

  t.test('a pass that finds nothing new asks for no measurement', async (t) => {
    const node = await begin({ retention_secs: 2 * 86_400 })
    const { engine, asked } = node
    const names = ['cpu', 'io', ...Array.from({ length: 10 }, (_, i) => `m${i}`)]
    await write(
      engine,
      names.flatMap((name) => [point(name, -3n), point(name, -2n), point(name, 0n)]),
    )
    await engine.maintain()
    await engine.maintain()
    asked.length = 0
    await engine.maintain()
    t.ok(asked.length > 0)
    t.same(
      asked.filter((statement) => /^(DELETE|ALTER)|FROM \S+\.(narrow|m_\d+)\b/.test(statement)),
      [],
    )
    await node.end()
  })
}

/** Changes of tables end by themselves. */
async function becomes(t: { same(found: unknown, wanted: unknown): void }, ask: () => Promise<unknown>, wanted: unknown): Promise<void> {
  let found = await ask()
  for (let i = 0; i < 200 && JSON.stringify(found) !== JSON.stringify(wanted); i++) {
    await new Promise((resolve) => setTimeout(resolve, 50))
    found = await ask()
  }
  t.same(found, wanted)
}
