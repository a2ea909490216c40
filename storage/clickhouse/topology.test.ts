import t from 'tap'
import { NO_CLICKHOUSE, startClickHouse } from '../../test/support/clickhouse/clickhouse.ts'
import { testContext } from '../conformance/index.ts'
import { ClickHouseEngine } from './engine.ts'
import { topologyOf } from './topology.ts'

const block = (rows: string[][]) => ({
  rows: rows.length,
  columns: (rows[0] ?? []).map((_, column) => ({ name: 'c', type: 'String', bytes: new Uint8Array(0), texts: rows.map((row) => Buffer.from(row[column])) })),
})

t.test('a cluster of two shards', async (t) => {
  const asked: string[] = []
  const client = {
    async *blocks(statement: string) {
      asked.push(statement)
      // The third is away; the second has none of this prefix.
      if (statement.includes('system.one')) yield block([['1'], ['2']])
      else if (statement.includes('system.replicas')) yield block([['1', '12', '1', '30']])
      else {
        yield block([
          ['1', 'a', '10.0.0.1:9000', '1', '0'],
          ['1', 'b', '10.0.0.2:9000', '0', '3'],
        ])
        yield block([
          ['2', 'c', '10.0.0.3:9000', '0', '0'],
          // One server may be a replica of several shards.
          ['2', 'a', '10.0.0.1:9000', '1', '0'],
        ])
      }
    },
  }
  t.same(await topologyOf(client, { prefix: 'svc', cluster: 'main' }), {
    name: 'main',
    shards: [
      {
        number: 1,
        replicas: [
          { host: 'a', addr: '10.0.0.1:9000', local: true, errors: 0, tables: 12, readonly_tables: 1, delay_secs: 30 },
          { host: 'b', addr: '10.0.0.2:9000', local: false, errors: 3, tables: 0, readonly_tables: 0, delay_secs: 0 },
        ],
      },
      {
        number: 2,
        replicas: [
          { host: 'c', addr: '10.0.0.3:9000', local: false, errors: 0 },
          { host: 'a', addr: '10.0.0.1:9000', local: true, errors: 0, tables: 12, readonly_tables: 1, delay_secs: 30 },
        ],
      },
    ],
  })
  t.match(asked[1], /FROM clusterAllReplicas\('main', system\.replicas\) WHERE database = 'svc' OR startsWith\(database, 'svc_'\)/)
  t.match(asked[2], /FROM system\.clusters WHERE cluster = 'main'/)
})

t.test('what a real server says', { skip: NO_CLICKHOUSE ?? false }, async (t) => {
  const server = await startClickHouse()
  t.teardown(() => server.stop())
  const engine = new ClickHouseEngine(testContext({ clickhouse: { ...server.section, prefix: `n${process.pid}_topology` } }, Date.now))
  await engine.open()
  t.teardown(() => engine.close())
  t.match(await engine.topology(), { name: '', shards: [{ number: 1, replicas: [{ local: true, errors: 0, tables: 0, readonly_tables: 0, delay_secs: 0 }] }] })
  t.not((await engine.topology()).shards[0].replicas[0].host, '')
  const named = new ClickHouseEngine(testContext({ clickhouse: { ...server.section, prefix: `n${process.pid}_none` } }, Date.now))
  t.throws(() => named.topology(), { code: 'DATABASE_CLOSED' })
})
