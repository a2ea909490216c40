/** Bytes that wait for ClickHouse: how many may, and that no namespace keeps the others out. */
import { MetricsRegistry } from 'svcdb/testkit'
import t from 'tap'
import { NO_CLICKHOUSE, startClickHouse } from '../../test/support/clickhouse/clickhouse.ts'
import { testContext } from '../conformance/index.ts'
import { f64, NOW, NOW_MS, type TestPoint, write } from '../conformance/points.ts'
import { ClickHouseEngine } from './engine.ts'
import { Held, proxyTo } from './testing/proxy.ts'
import { WaitingBytes } from './waiting.ts'

t.test('as much waits as may, and is let in again once it is stored', async (t) => {
  const waiting = new WaitingBytes(1000)
  waiting.add('', 999)
  waiting.requireRoom('')
  waiting.add('', 1)
  t.throws(() => waiting.requireRoom(''), { code: 'BACKPRESSURE', message: /: 1000 bytes wait for ClickHouse, clickhouse.max_waiting_bytes is 1000;/ })
  waiting.add('', -1)
  waiting.requireRoom('')
  t.equal(waiting.total, 999)
})

t.test('a namespace is refused before the others: alone at three quarters, beside others at three times what is left', async (t) => {
  const waiting = new WaitingBytes(1000)
  waiting.add('a', 750)
  waiting.requireRoom('a')
  waiting.add('a', 1)
  t.throws(() => waiting.requireRoom('a'), { code: 'BACKPRESSURE', message: /namespace "a" are 751 of 751 bytes that wait .* the rest is left to others/ })
  waiting.requireRoom('b')
  waiting.add('b', 200)
  t.throws(() => waiting.requireRoom('b'), { message: /namespace "b" are 200 of 951 bytes/ })
  waiting.requireRoom('c')
  waiting.add('a', -751)
  waiting.requireRoom('a')
  waiting.requireRoom('b')
  waiting.add('b', -200)
  t.equal(waiting.total, 0)
})

t.test('fields that later rows lack are filled up at the end of a block, which counts no more by that', { skip: NO_CLICKHOUSE ?? false }, async (t) => {
  const server = await startClickHouse()
  const held = new Held()
  const proxy = await proxyTo(server.url, (statement, forward) => held.pass(statement, forward))
  const registry = new MetricsRegistry()
  const clickhouse = { ...server.section, url: proxy.url, prefix: `w${process.pid}` }
  const engine = new ClickHouseEngine({ ...testContext({ clickhouse }, () => NOW_MS), metrics: registry.child('storage') })
  await engine.open()
  t.teardown(async () => {
    held.release()
    await engine.close()
    proxy.close()
    await server.stop()
  })
  const waiting = async () => Number(/^svc_clickhouse_waiting_bytes (.+)$/m.exec(await registry.registry.metrics())?.[1])
  const both = { a: f64(1), b: f64(1) }
  const rows = (fields: TestPoint['fields'], from: number, count: number): TestPoint[] =>
    Array.from({ length: count }, (_, i) => ({ measurement: 'm', time: NOW + BigInt(from + i), fields }))
  held.next(/^INSERT INTO \S+\.m_/)
  const first = write(engine, rows(both, 0, 1))
  await held.reached
  // All join the block that waits, in their turns; those are over when the last write, of another table, is stored.
  const second = write(engine, rows(both, 1, 1))
  const third = write(engine, rows({ a: f64(1) }, 2, 1000))
  await write(engine, [{ measurement: 'other', time: NOW, fields: { v: f64(1) } }])
  t.ok((await waiting()) > 0)
  held.release()
  t.match(await Promise.all([first, second, third]), [{ written: 1 }, { written: 1 }, { written: 1000 }])
  t.equal(await waiting(), 0)
})
