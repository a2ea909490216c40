/** An insert that ClickHouse has not answered in time may be stored later. A write that is acknowledged after it keeps its values, and so does a delete. */
import { setTimeout } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { NO_CLICKHOUSE, startClickHouse } from '../../test/support/clickhouse/clickhouse.ts'
import { testContext } from '../conformance/index.ts'
import { f64, HOUR, lines, NOW, NOW_MS, type TestPoint, write as writeNew } from '../conformance/points.ts'
import { ClickHouseEngine } from './engine.ts'
import { proxyTo } from './testing/proxy.ts'
import { ask } from './testing/sql.ts'

const DAY = 24n * HOUR
const MIDNIGHT = NOW - (NOW % DAY)
/** In several days, and where they end. */
const TIMES = [-DAY, -DAY + 1n, NOW - 30n * HOUR, MIDNIGHT - 1n, MIDNIGHT, NOW]
const write = (engine: ClickHouseEngine, points: TestPoint[]) => writeNew(engine, points, { backfill: true })
const INSERT = /^INSERT INTO \S+\.(narrow|m_\d+) /

if (NO_CLICKHOUSE !== undefined) t.test('inserts that come late', { skip: NO_CLICKHOUSE }, async () => {})
else {
  const server = await startClickHouse()
  t.teardown(() => server.stop())
  let made = 0
  const begin = async (t: Test) => {
    /** What is kept from the server until it is let go. */
    const late: (() => void)[] = []
    const keep = { wanted: (_: string): boolean => false, answers: false }
    const proxy = await proxyTo(server.url, (statement, forward) => {
      if (!keep.wanted(statement)) return forward()
      if (keep.answers) return forward({ until: new Promise<void>((resolve) => late.push(resolve)) })
      late.push(() => forward({ lost: true }))
    })
    const prefix = `l${process.pid}_${made++}`
    const engine = new ClickHouseEngine(testContext({ clickhouse: { ...server.section, url: proxy.url, prefix, write_timeout_secs: 2 } }, () => NOW_MS))
    await engine.open()
    t.teardown(async () => {
      keep.wanted = () => false
      await engine.close()
      proxy.close()
    })
    return { engine, late, keep }
  }
  const once = (pattern: RegExp) => {
    let over = false
    return (statement: string) => !over && (over = pattern.test(statement))
  }
  const released = async (late: (() => void)[]): Promise<void> => {
    for (const go of late.splice(0)) go()
    // The server runs one statement after the other: the next that is asked comes behind them.
    await setTimeout(100)
  }

  for (const [kind, field] of [
    ['the shared table', 'value'],
    ["a measurement's own table", 'v'],
  ] as const) {
    const points = (value: number): TestPoint[] => TIMES.map((time) => ({ measurement: 'cpu', tags: { host: 'a' }, time, fields: { [field]: f64(value) } }))
    const rows = (value: number): string[] => TIMES.map((time) => `{"host":"a"} ${time} ${field}=float64:${value}`)
    const all = (engine: ClickHouseEngine): Promise<string[]> => lines(engine, { measurement: 'cpu' })
    const count = async (engine: ClickHouseEngine): Promise<unknown> => (await ask(engine, 'SELECT count(*) AS n FROM cpu')).rows

    t.test(`${kind}: a later write keeps its values`, async (t) => {
      const { engine, late, keep } = await begin(t)
      await write(engine, points(1))
      keep.wanted = once(INSERT)
      await t.rejects(write(engine, points(2)), { code: 'WRITE_TIMEOUT' })
      t.match(await write(engine, points(3)), { written: TIMES.length, rejected: 0 })
      await released(late)
      t.same(await all(engine), rows(3))
      t.same(await count(engine), [[BigInt(TIMES.length)]])
    })

    t.test(`${kind}: what was stored without an answer stays`, async (t) => {
      const { engine, keep } = await begin(t)
      keep.answers = true
      keep.wanted = once(INSERT)
      await t.rejects(write(engine, points(2)), { code: 'WRITE_TIMEOUT' })
      await write(engine, [{ ...points(0)[0], tags: { host: 'b' } }])
      t.same((await all(engine)).slice(0, TIMES.length), rows(2))
    })

    t.test(`${kind}: no row of nobody is seen where the insert never comes`, async (t) => {
      const { engine, keep } = await begin(t)
      await write(engine, points(1).slice(0, 1))
      keep.wanted = once(INSERT)
      await t.rejects(write(engine, points(2)), { code: 'WRITE_TIMEOUT' })
      await write(engine, points(3).slice(0, 1))
      t.same(await all(engine), rows(3).slice(0, 1))
      t.same(await count(engine), [[1n]])
      t.match(await engine.usage('default'), { series: 1, measurements: 1 })
    })

    t.test(`${kind}: a delete takes it along`, async (t) => {
      const { engine, late, keep } = await begin(t)
      await write(engine, points(1))
      keep.wanted = once(INSERT)
      await t.rejects(write(engine, points(2)), { code: 'WRITE_TIMEOUT' })
      const remove = () => engine.delete({ namespace: 'default', measurement: 'cpu', start: TIMES[0], end: NOW + HOUR })
      // On a busy machine it takes as long as it may.
      await remove().catch(remove)
      await released(late)
      t.same(await all(engine), [])
    })

    t.test(`${kind}: while nobody knows what became of it, others wait no longer than a write may, and are not stored later`, async (t) => {
      const { engine, late, keep } = await begin(t)
      await write(engine, points(1))
      keep.wanted = (statement) => INSERT.test(statement)
      await t.rejects(write(engine, points(2)), { code: 'WRITE_TIMEOUT' })
      await t.rejects(write(engine, points(4)), { code: 'OVERLOADED', message: /nothing of these rows was stored/ })
      await t.rejects(engine.delete({ namespace: 'default', measurement: 'cpu' }), { code: 'OVERLOADED', message: /nothing has changed/ })
      keep.wanted = () => false
      // A question whether it is certain by now is under way, and has its time.
      const again = () => write(engine, points(3))
      t.match(await again().catch(again), { written: TIMES.length })
      await released(late)
      t.same(await all(engine), rows(3))
    })
  }

  t.test('a measurement whose table has gone meanwhile does not hold up anything', async (t) => {
    const { engine, keep } = await begin(t)
    const point = (measurement: string, value: number): TestPoint => ({ measurement, tags: { host: 'a' }, time: NOW, fields: { v: f64(value) } })
    await write(engine, [point('cpu', 1)])
    keep.wanted = (statement) => INSERT.test(statement)
    await t.rejects(write(engine, [point('cpu', 2)]), { code: 'WRITE_TIMEOUT' })
    await engine.drop('default', 'cpu', { final: true })
    keep.wanted = () => false
    t.match(await write(engine, [point('cpu', 3)]), { written: 1 })
    t.same(await lines(engine, { measurement: 'cpu' }), [`{"host":"a"} ${NOW} v=float64:3`])
  })
}
