/** A node writes to series while another gives them back: a point that was acknowledged is seen, whichever of their statements comes first. */
import t, { type Test } from 'tap'
import { NO_CLICKHOUSE, startClickHouse } from '../../test/support/clickhouse/clickhouse.ts'
import { testContext } from '../conformance/index.ts'
import { f64, HOUR, lines, NOW, NOW_MS, type TestPoint, write } from '../conformance/points.ts'
import { ClickHouseEngine } from './engine.ts'
import { Held, proxyTo } from './testing/proxy.ts'

const point = (value: number, host = 'a', time = NOW): TestPoint => ({ measurement: 'cpu', tags: { host }, time, fields: { v: f64(value) } })
const row = (value: number, host = 'a', time = NOW): string => `{"host":"${host}"} ${time} v=float64:${value}`

if (NO_CLICKHOUSE !== undefined) t.test('series that nodes give back', { skip: NO_CLICKHOUSE }, async () => {})
else {
  const server = await startClickHouse()
  t.teardown(() => server.stop())
  let made = 0
  const nodesOf = async (t: Test, config: Record<string, unknown> = {}) => {
    const held = new Held()
    const proxy = await proxyTo(server.url, (statement, forward) => held.pass(statement, forward))
    const prefix = `r${process.pid}_${made++}`
    const clock = { ms: NOW_MS }
    const begin = async (url: string): Promise<ClickHouseEngine> => {
      const engine = new ClickHouseEngine(testContext({ ...config, clickhouse: { ...server.section, url, prefix } }, () => clock.ms))
      await engine.open()
      return engine
    }
    const nodes = { held, clock, slow: await begin(proxy.url), other: await begin(server.url) }
    t.teardown(async () => {
      held.release()
      await nodes.slow.close()
      await nodes.other.close()
      proxy.close()
    })
    return nodes
  }
  const remove = (engine: ClickHouseEngine) => engine.delete({ namespace: 'default', measurement: 'cpu' })
  // Another namespace is asked for: one that is written to waits for its writes.
  const hear = (engine: ClickHouseEngine) => engine.measurements('another')

  for (const [what, statement, heard] of [
    ['before it announces that', /^INSERT INTO \S+\.catalog /, false],
    ['before it takes them away', /^DELETE FROM \S+\.series /, true],
  ] as const)
    t.test(`retention finds series without rows, and another node writes to them ${what}`, async (t) => {
      const { held, slow, other, clock } = await nodesOf(t, { retention_secs: 4 * 3600 })
      await write(slow, [point(1), point(1, 'b')])
      await write(other, [point(2), point(2, 'b')])
      clock.ms += 48 * 3_600_000
      const later = NOW + 48n * HOUR
      await write(other, [point(3, 'b', later)])
      await write(slow, [point(3, 'b', later)])
      held.next(statement)
      const maintaining = slow.maintain()
      await held.reached
      if (heard) await hear(other)
      t.match(await write(other, [point(4, 'a', later)]), { written: 1, rejected: 0 })
      held.release()
      await maintaining
      t.same(await lines(other, { measurement: 'cpu' }), [row(4, 'a', later), row(3, 'b', later)])
      await other.maintain()
      t.same(await lines(slow, { measurement: 'cpu' }), [row(4, 'a', later), row(3, 'b', later)])
    })

  for (const [when, statement, answer] of [
    ['are stored while a count is under way', /^SELECT life, toUInt64\(uniqExact\(series\)\)/, false],
    ['are counted before their writer hears that they are stored', /^INSERT INTO \S+\.series /, true],
  ] as const)
    t.test(`series that ${when} are counted once`, async (t) => {
      const { held, slow } = await nodesOf(t, { max_series_cardinality: 3 })
      await write(slow, [point(1)])
      const steps = [() => slow.maintain(), () => write(slow, [point(1, 'b')])]
      if (answer) steps.reverse()
      held.next(statement, answer)
      const first = steps[0]()
      await held.reached
      await steps[1]()
      held.release()
      await first
      t.match(await write(slow, [point(1, 'c')]), { written: 1, rejected: 0 })
      await slow.maintain()
      t.match(await write(slow, [point(1, 'd')]), { written: 0, rejections: [{ code: 'CARDINALITY_EXCEEDED' }] })
    })

  t.test('a measurement is emptied, and another node writes to its series before they are taken away', async (t) => {
    const { held, slow, other } = await nodesOf(t)
    await write(other, [point(1)])
    held.next(/^DELETE FROM \S+\.series /)
    const removing = remove(slow)
    await held.reached
    await hear(other)
    t.match(await write(other, [point(2)]), { written: 1, rejected: 0 })
    held.release()
    await removing
    t.same(await lines(other, { measurement: 'cpu' }), [row(2)])
  })

  t.test('a measurement that a node hears the drop of while it stores series: the write is to come again', async (t) => {
    const { held, slow, other } = await nodesOf(t)
    const another: TestPoint = { ...point(1), measurement: 'mem' }
    await write(other, [point(1), another])
    await hear(slow)
    held.next(/^INSERT INTO \S+\.series /, true)
    const writing = write(slow, [point(2, 'b'), { ...another, tags: { host: 'b' } }])
    await held.reached
    await other.drop('default', 'cpu', { final: true })
    await hear(slow)
    held.release()
    await t.rejects(writing, { code: 'BACKPRESSURE' })
    t.match(await write(slow, [point(2, 'b'), { ...another, tags: { host: 'b' } }]), { written: 2, rejected: 0 })
    t.same(await lines(other, { measurement: 'cpu' }), [row(2, 'b')])
    t.equal((await lines(other, { measurement: 'mem' })).length, 2)
  })

  for (const [what, statement] of [
    ['looks for it', /^SELECT .*series.* FROM \S+\.series WHERE life = \d+ AND series IN /],
    ['stores it', /^INSERT INTO \S+\.series /],
  ] as const)
    t.test(`a node hears of a series that is given back while it ${what}`, async (t) => {
      const { held, slow, other } = await nodesOf(t)
      await write(other, [what === 'looks for it' ? point(1) : point(1, 'b')])
      await hear(slow)
      held.next(statement, true)
      const writing = write(slow, [point(2)])
      await held.reached
      await remove(other)
      await hear(slow)
      held.release()
      t.match(await writing, { written: 1, rejected: 0 })
      t.same(await lines(other, { measurement: 'cpu' }), [row(2)])
      await remove(other)
      t.match(await write(slow, [point(3)]), { written: 1, rejected: 0 })
      t.same(await lines(other, { measurement: 'cpu' }), [row(3)])
    })
}
