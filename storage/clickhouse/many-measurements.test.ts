/** Statements that name measurements stay below what ClickHouse parses (max_query_size), however many a namespace has. */
import t from 'tap'
import { NO_CLICKHOUSE, startClickHouse } from '../../test/support/clickhouse/clickhouse.ts'
import { testContext } from '../conformance/index.ts'
import { f64, NOW, NOW_MS, write } from '../conformance/points.ts'
import { fieldEvents } from './admission.ts'
import { CatalogLog } from './catalog-log.ts'
import { Client } from './client.ts'
import { sectionOf } from './config.ts'
import { ClickHouseEngine } from './engine.ts'

const MEASUREMENTS = 30_000

t.test('thirty thousand measurements of one table', { skip: NO_CLICKHOUSE ?? false }, async (t) => {
  const server = await startClickHouse()
  const clickhouse = { ...server.section, prefix: `y${process.pid}`, write_timeout_secs: 60 }
  const client = new Client(sectionOf({ clickhouse }))
  const log = new CatalogLog(
    client,
    { prefix: clickhouse.prefix, cluster: undefined },
    () => NOW_MS,
    () => {},
  )
  await log.open()
  const events = Array.from({ length: MEASUREMENTS }, (_, i) => fieldEvents('default', `m${i}`, undefined, [{ name: 'value', type: 'float64' }])).flat()
  await log.append(() => events)
  const engine = new ClickHouseEngine(testContext({ maintenance_interval_secs: 86_400, clickhouse }, () => NOW_MS))
  await engine.open()
  t.teardown(async () => {
    await engine.close()
    await client.close()
    await server.stop()
  })
  const last = `m${MEASUREMENTS - 1}`
  t.match(await write(engine, [{ measurement: last, time: NOW, fields: { value: f64(1) } }]), { written: 1, rejected: 0 })
  const { bytes, ...counts } = await engine.usage('default')
  t.same(counts, { series: 1, measurements: MEASUREMENTS })
  t.ok(bytes > 0, `${bytes} bytes`)
})
