/** Tables that somebody drops beneath a running node: those of points are made again, and a catalog that has gone is said to be. */
import t, { type Test } from 'tap'
import { NO_CLICKHOUSE, startClickHouse } from '../../test/support/clickhouse/clickhouse.ts'
import { testContext } from '../conformance/index.ts'
import { f64, lines, NOW, NOW_MS, str, type TestPoint, write } from '../conformance/points.ts'
import { Client } from './client.ts'
import { sectionOf } from './config.ts'
import { ClickHouseEngine } from './engine.ts'
import { ask } from './testing/sql.ts'

const points: TestPoint[] = [
  { measurement: 'cpu', tags: { host: 'a' }, time: NOW, fields: { v: f64(1), text: str('x') } },
  { measurement: 'up', tags: { host: 'a' }, time: NOW, fields: { value: f64(1) } },
]
const own = `{"host":"a"} ${NOW} text=string:"x" v=float64:1`
const narrow = `{"host":"a"} ${NOW} value=float64:1`
const GONE = { code: 'OVERLOADED', message: /a table that svc made is not there/, headers: { 'retry-after': '1' } }

if (NO_CLICKHOUSE !== undefined) t.test('tables that have gone', { skip: NO_CLICKHOUSE }, async () => {})
else {
  const server = await startClickHouse()
  const admin = new Client(sectionOf({ clickhouse: server.section }))
  t.teardown(async () => {
    await admin.close()
    await server.stop()
  })
  let made = 0
  const begin = async (t: Test) => {
    const prefix = `g${process.pid}_${made++}`
    const engine = new ClickHouseEngine(testContext({ clickhouse: { ...server.section, prefix, write_timeout_secs: 2 } }, () => NOW_MS))
    await engine.open()
    t.teardown(() => engine.close())
    await write(engine, points)
    return { engine, prefix }
  }
  const settled = async (work: Promise<unknown>): Promise<unknown> =>
    work.then(
      () => undefined,
      (error: unknown) => error,
    )
  const life = async (prefix: string): Promise<string> => {
    for await (const { columns } of admin.blocks(`SELECT name FROM system.tables WHERE database = '${prefix}_n_default' AND name LIKE 'm\\_%'`))
      return Buffer.from(columns[0].texts?.[0] ?? []).toString()
    throw new Error('no table of its own')
  }

  for (const [what, statement] of [
    ['the shared table', async (prefix: string) => `DROP TABLE ${prefix}_n_default.narrow SYNC`],
    ["a measurement's own table", async (prefix: string) => `DROP TABLE ${prefix}_n_default.${await life(prefix)} SYNC`],
    ['the table of series', async (prefix: string) => `DROP TABLE ${prefix}_n_default.series SYNC`],
    ['the database of a namespace', async (prefix: string) => `DROP DATABASE ${prefix}_n_default SYNC`],
  ] as const) {
    t.test(`${what}, found by a write`, async (t) => {
      const { engine, prefix } = await begin(t)
      await admin.command(await statement(prefix))
      // Which series are stored a node knows without asking, so it finds that their table has gone when it counts.
      const error = await settled(what === 'the table of series' ? engine.maintain() : write(engine, points))
      t.match(error, GONE)
      t.match(await write(engine, points), { written: 2, rejected: 0 })
      t.same(await lines(engine, { measurement: 'cpu' }), [own])
      t.same(await lines(engine, { measurement: 'up' }), [narrow])
    })

    t.test(`${what}, found by a question`, async (t) => {
      const { engine, prefix } = await begin(t)
      await admin.command(await statement(prefix))
      const ways = [
        () => lines(engine, { measurement: 'cpu' }),
        () => lines(engine, { measurement: 'up' }),
        () => ask(engine, 'SELECT count(*) AS n FROM cpu JOIN up USING (host)'),
      ]
      const errors = await Promise.all(ways.map((way) => settled(way())))
      t.ok(errors.some((error) => error !== undefined))
      for (const error of errors) if (error !== undefined) t.match(error, GONE)
      t.match(await write(engine, points), { written: 2, rejected: 0 })
      t.same(await lines(engine, { measurement: 'cpu' }), [own])
      t.same(await lines(engine, { measurement: 'up' }), [narrow])
    })
  }

  t.test('the catalog: nothing is taken, and it is said why', async (t) => {
    const { engine, prefix } = await begin(t)
    await admin.command(`RENAME TABLE ${prefix}.catalog TO ${prefix}.away`)
    for (const _ of [1, 2]) {
      t.match(await settled(write(engine, points)), { code: 'OVERLOADED', message: /the catalog has gone: restore it/ })
      t.match(await settled(lines(engine, { measurement: 'cpu' })), { code: 'OVERLOADED', message: /the catalog has gone: restore it/ })
    }
    await admin.command(`RENAME TABLE ${prefix}.away TO ${prefix}.catalog`)
    t.match(await write(engine, points), { written: 2, rejected: 0 })
    t.same(await lines(engine, { measurement: 'cpu' }), [own])
  })
}
