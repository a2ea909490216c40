/** A node that could not read the catalog for long appends where the others are, though nobody remembers the token of its insert any more. */
import t from 'tap'
import { NO_CHDB, startChdb } from '../../test/support/clickhouse/clickhouse.ts'
import { testContext } from '../conformance/index.ts'
import { f64, NOW, NOW_MS, type TestPoint, write } from '../conformance/points.ts'
import { Client } from './client.ts'
import { sectionOf } from './config.ts'
import { ClickHouseEngine } from './engine.ts'
import { proxyTo } from './testing/proxy.ts'

const point = (measurement: string): TestPoint => ({ measurement, tags: { host: 'a' }, time: NOW, fields: { v: f64(1) } })

t.test('after a long partition', { skip: NO_CHDB ?? false }, async (t) => {
  const server = await startChdb()
  const prefix = `a${process.pid}`
  const clock = { ms: NOW_MS }
  let away = false
  const proxy = await proxyTo(server.url, (statement, forward, from) => {
    if (away && statement.includes('.catalog ')) from.socket.destroy()
    else forward()
  })
  const begin = async (url: string): Promise<ClickHouseEngine> => {
    const engine = new ClickHouseEngine(testContext({ clickhouse: { url, prefix } }, () => clock.ms))
    await engine.open()
    return engine
  }
  const [a, b] = [await begin(server.url), await begin(proxy.url)]
  const client = new Client(sectionOf({ clickhouse: { url: server.url } }))
  t.teardown(async () => {
    await client.close()
    await a.close()
    await b.close()
    proxy.close()
    await server.stop()
  })
  await write(a, [point('first')])
  await b.measurements('default')
  // As after ten thousand appends.
  await client.command(`ALTER TABLE ${prefix}.catalog MODIFY SETTING non_replicated_deduplication_window = 1`)
  away = true
  for (let i = 0; i < 4; i++) await write(a, [point(`of_a_${i}`)])
  clock.ms += 60_000
  away = false
  t.match(await write(b, [point('of_b')]), { written: 1, rejected: 0 })
  const names = ['first', 'of_a_0', 'of_a_1', 'of_a_2', 'of_a_3', 'of_b']
  for (const engine of [a, b])
    t.same(
      (await engine.measurements('default')).map(({ name }) => name),
      names,
    )
  const counted: bigint[] = []
  for await (const { columns } of client.blocks(`SELECT toUInt64(uniqExact(append)), toUInt64(uniqExact(sequence)) FROM ${prefix}.catalog`))
    counted.push(...columns.map(({ bytes }) => new BigUint64Array(bytes.buffer)[0]))
  t.same(counted, [6n, 6n], 'each append has a sequence of its own')
})
