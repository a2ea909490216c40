/** A column whose rows were refused for its type is not put into the block that others share. */
import t from 'tap'
import { NO_CLICKHOUSE, startClickHouse } from '../../test/support/clickhouse/clickhouse.ts'
import { testContext } from '../conformance/index.ts'
import { dec, f64, lines, NOW, NOW_MS, type TestPoint, type TestValue, write } from '../conformance/points.ts'
import { ClickHouseEngine } from './engine.ts'

t.test('values of a type that another node has not given the field', { skip: NO_CLICKHOUSE ?? false }, async (t) => {
  const server = await startClickHouse()
  const config = { clickhouse: { ...server.section, prefix: `k${process.pid}` } }
  const begin = async (): Promise<ClickHouseEngine> => {
    const engine = new ClickHouseEngine(testContext(config, () => NOW_MS))
    await engine.open()
    return engine
  }
  const [one, other] = [await begin(), await begin()]
  t.teardown(async () => {
    await one.close()
    await other.close()
    await server.stop()
  })
  const point = (at: bigint, fields: Record<string, TestValue>): TestPoint => ({ measurement: 'cpu', time: NOW + at, fields })
  await write(one, [point(0n, { v: f64(0), w: f64(0) })])
  // The other node has not read of the field yet when it fills its batch.
  const results = await Promise.all([
    write(other, [point(1n, { v: dec('1.5'), w: f64(1) }), point(2n, { w: f64(2) })]),
    write(other, [point(3n, { v: f64(3), w: f64(3) })]),
  ])
  t.match(results, [{ written: 1, rejections: [{ code: 'SCHEMA_ERROR' }] }, { written: 1 }])
  t.same(await lines(one, { measurement: 'cpu' }), [
    `{} ${NOW} v=float64:0 w=float64:0`,
    `{} ${NOW + 2n} w=float64:2`,
    `{} ${NOW + 3n} v=float64:3 w=float64:3`,
  ])
})
