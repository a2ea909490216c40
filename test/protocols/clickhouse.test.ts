/** The rules that hold whichever protocol points come in by, with the points in ClickHouse. */
import { boot, type TestNode } from 'svcdb/testkit'
import t from 'tap'
import { ClickHouseEngine } from '../../storage/clickhouse/engine.ts'
import { testContext } from '../../storage/conformance/context.ts'
import { lines } from '../../storage/conformance/points.ts'
import { NO_CLICKHOUSE, startClickHouse, withState } from '../support/clickhouse/clickhouse.ts'
import { flightSql, grpc } from './grpc-protocols.ts'
import { lineProtocol, native, otlp, remoteWrite } from './http-protocols.ts'
import type { Protocol, Sample } from './protocol.ts'

const PROTOCOLS: Protocol[] = [native, lineProtocol, remoteWrite(1), remoteWrite(2), otlp, grpc, flightSql]
const PLUGINS = ['native', 'line_protocol', 'remote_write', 'otlp', 'grpc', 'flight_sql', 'promql']
const HOUR = 3_600_000
const now = Math.floor(Date.now() / 1000) * 1000
const addr = '127.0.0.1:0'
const sample = (host: string, ms = now, value = 1): Sample => ({ host, ms, value })
const count = async (node: TestNode, measurement = 'm'): Promise<number> => (await lines(node.storage, { namespace: '', measurement })).length

t.test('protocols', { skip: NO_CLICKHOUSE ?? false }, async (t) => {
  const server = await startClickHouse()
  t.teardown(() => server.stop())
  for (const [i, protocol] of PROTOCOLS.entries())
    await t.test(protocol.name, async (t) => {
      const clickhouse = { ...server.section, prefix: `p${process.pid}_${i}` }
      const storage = withState(new ClickHouseEngine(testContext({ max_series_cardinality: 6, clickhouse }, Date.now)))
      const node = await boot({ plugins: PLUGINS, storage, config: { grpc: { addr }, flight_sql: { addr } } })
      try {
        t.match(await protocol.write(node, 'm', [sample('a'), sample('b', now - 1000, 2.5)]), { ok: true })
        const { result } = (await node.inject(`/api/v1/query?query=m&time=${now / 1000}`)).json().data
        t.same(result.map(({ metric, value }: { metric: { host: string }; value: string[] }) => [metric.host, value[1]]).sort(), [
          ['a', '1'],
          ['b', '2.5'],
        ])
        t.match(await protocol.write(node, 'm', [sample('a', now, 7)]), { ok: true })
        t.equal(await count(node), 2, 'the last write of a point wins')
        const late = await protocol.write(node, 'm', [sample('a', now + 1), sample('a', now - 100 * HOUR)])
        t.match(late, { ok: false, rejected: 1, text: /window.*backfill/s }, 'a point outside the window')
        t.match(await protocol.write(node, 'm', [sample('a', now - 100 * HOUR)], true), { ok: true }, 'backfill admits it')
        t.match(await protocol.write(node, 'm', [sample('a', now + 1000 * HOUR), sample('a', now + 2)]), { ok: false, rejected: 1, text: /future/ })
        t.equal(await count(node), 5, 'the good ones are stored')
        await node.storage.declareField('', 'typed', { name: 'value', type: 'string' })
        t.match(await protocol.write(node, 'typed', [sample('a')]), { ok: false, text: /string/ }, 'a field of another type')
        t.equal(await count(node, 'typed'), 0)
        const hosts = ['c', 'd', 'e', 'f', 'g', 'h'].map((host) => sample(host, now + 3))
        t.match(await protocol.write(node, 'm', hosts), { ok: false, rejected: 2, text: /max_series_cardinality/ }, 'more series than allowed')
        t.equal(await count(node), 9, 'those there is room for are stored')
      } finally {
        await node.stop()
      }
    })
})
