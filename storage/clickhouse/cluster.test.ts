/** The cluster's form of tables and statements, on the one server of a cluster that is there: of its shard the other replica is always away. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { AggregateRequest } from 'svcdb/lib/columns'
import { boot } from 'svcdb/testkit'
import t from 'tap'
import { NO_CHDB, startChdb, withState } from '../../test/support/clickhouse/clickhouse.ts'
import { jobModule } from '../conformance/context.ts'
import { testContext } from '../conformance/index.ts'
import type { AggregateAnswer } from '../conformance/jobs/aggregates.ts'
import { f64, HOUR, lines, NOW, NOW_MS, str, type TestPoint, write } from '../conformance/points.ts'
import { ClickHouseEngine } from './engine.ts'
import { type Forwarding, proxyTo } from './testing/proxy.ts'

const point = (value: number, measurement = 'cpu', host = 'a', time = NOW): TestPoint => ({
  measurement,
  tags: { host },
  time,
  fields: { [measurement.startsWith('m') ? 'value' : 'v']: f64(value) },
})
const row = (value: number, host = 'a', time = NOW): string => `{"host":"${host}"} ${time} v=float64:${value}`

if (NO_CHDB !== undefined) t.test('a cluster', { skip: NO_CHDB }, async () => {})
else {
  const server = await startChdb('main')
  t.teardown(() => server.stop())
  let made = 0
  const prefix = (): string => `c${process.pid}_${made++}`
  const begin = async (
    name: string,
    url = server.url,
    config: Record<string, unknown> = {},
    now = () => NOW_MS,
    more: object = {},
  ): Promise<ClickHouseEngine> => {
    const engine = new ClickHouseEngine(testContext({ ...config, clickhouse: { url, prefix: name, cluster: 'main', ...more } }, now))
    await engine.open()
    return engine
  }

  t.test('points are written, read, deleted, dropped and retained while a server is away', async (t) => {
    const clock = { ms: NOW_MS }
    const name = prefix()
    const engine = await begin(name, server.url, { retention_secs: 5 * 86_400 }, () => clock.ms)
    t.teardown(() => engine.close())
    await write(engine, [point(1), point(2, 'cpu', 'b'), point(3, 'm1'), { ...point(4, 'm1', 'b'), fields: { value: f64(4), text: str('x') } }])
    await write(engine, [point(5)])
    t.same(await lines(engine, { measurement: 'cpu' }), [row(5), row(2, 'b')])
    t.same(await lines(engine, { measurement: 'm1' }), [`{"host":"a"} ${NOW} value=float64:3`, `{"host":"b"} ${NOW} text=string:"x" value=float64:4`])
    const folder = mkdtempSync(join(tmpdir(), 'svc-cluster-'))
    for (const measurement of ['cpu', 'm1'])
      t.match(await engine.export({ namespace: 'default', measurement, path: join(folder, `${measurement}.parquet`), maxBytes: 0 }), { rows: 2 })
    rmSync(folder, { recursive: true })
    const usage = await engine.usage('default')
    t.match(usage, { series: 4, measurements: 2 })
    t.ok(usage.bytes > 0)
    const other = await begin(name, server.url, { retention_secs: 5 * 86_400 }, () => clock.ms)
    t.teardown(() => other.close())
    t.same(await lines(other, { measurement: 'cpu' }), [row(5), row(2, 'b')])
    await other.delete({ namespace: 'default', measurement: 'cpu', matchers: [{ tag: 'host', op: '=', value: 'b' }] })
    t.same(await lines(engine, { measurement: 'cpu' }), [row(5)])
    await engine.drop('default', 'm1', { final: true })
    t.same(
      (await other.measurements('default')).map((one) => one.name),
      ['cpu'],
    )
    clock.ms += 8 * 86_400_000
    const later = NOW + 8n * 24n * HOUR
    await write(engine, [point(6, 'cpu', 'c', later)])
    await engine.maintain()
    t.same(await lines(other, { measurement: 'cpu' }), [row(6, 'c', later)])
    t.match(await engine.usage('default'), { series: 1, measurements: 1 })
  })

  t.test('an insert that comes late, on each shard, does not take the place of a later one', async (t) => {
    const late: (() => void)[] = []
    let isKept = false
    const proxy = await proxyTo(server.url, (statement, forward) => {
      if (!isKept || !/^INSERT INTO \S+\.m_/.test(statement)) return forward()
      isKept = false
      late.push(() => forward({ lost: true }))
    })
    const engine = await begin(prefix(), proxy.url, {}, undefined, { write_timeout_secs: 1, insert_quorum: 0 })
    t.teardown(async () => {
      await engine.close()
      proxy.close()
    })
    await write(engine, [point(1)])
    isKept = true
    await t.rejects(write(engine, [point(2)]), { code: 'WRITE_TIMEOUT' })
    t.match(await write(engine, [point(3)]), { written: 1 })
    for (const go of late) go()
    await new Promise((resolve) => setTimeout(resolve, 100))
    t.same(await lines(engine, { measurement: 'cpu' }), [row(3)])
  })

  t.test('PromQL and SQL', async (t) => {
    const engine = new ClickHouseEngine(testContext({ clickhouse: { ...server.section, prefix: prefix(), cluster: 'main' } }, Date.now))
    const node = await boot({ plugins: ['line_protocol', 'promql', 'sql'], storage: withState(engine) })
    t.teardown(() => node.stop())
    const now = Math.floor(Date.now() / 1000)
    const samples = Array.from({ length: 120 }, (_, i) => ['a', 'b'].map((host, k) => `hits,host=${host} value=${i * (k + 1)} ${now - 119 + i}000000000`))
    const written = await node.inject({ method: 'POST', url: '/write', payload: [...samples.flat(), `cpu,host=a usage=1.5 ${now}000000000`].join('\n') })
    t.equal(written.statusCode, 204)
    const value = async (query: string) =>
      (await node.inject({ method: 'GET', url: `/api/v1/query?time=${now}&query=${encodeURIComponent(query)}` }))
        .json()
        .data.result.map((one: { value: [number, string] }) => one.value[1])
    t.same(await value('round(sum(rate(hits[1m])), 0.001)'), ['3'])
    t.same(await value('cpu_usage'), ['1.5'])
    const windows = { first: now * 1000 - 30_000, interval: 10_000, count: 4, range: 60_000 }
    const request: AggregateRequest = {
      ...{ namespace: '', measurement: 'hits', field: 'value', matchers: [{ tag: 'host', op: '!=', value: 'c' }], windows },
      ...{ window: 'rate', group: 'sum', tags: ['host'], without: false, maxCells: 100 },
    }
    const { found, expected } = await engine.run<AggregateAnswer>(jobModule('aggregates'), request).result
    t.equal(expected.length, 2)
    t.same(found, expected)
    const query = "SELECT time_bucket('1 month', _time, 'Europe/Berlin') IS NOT NULL AS t, host, max(value) AS top FROM hits GROUP BY 1, 2 ORDER BY 2"
    t.match((await node.inject({ method: 'POST', url: '/api/v1/svc/sql', payload: { query } })).json(), {
      rows: [
        [true, 'a', 119],
        [true, 'b', 238],
      ],
    })
  })

  t.test('series are not given back where rows may be on servers that are away', async (t) => {
    for (const [insert_quorum, series] of [
      [1, 2],
      ['auto', 1],
    ] as const) {
      const clock = { ms: NOW_MS }
      const engine = await begin(prefix(), server.url, { retention_secs: 86_400 }, () => clock.ms, { insert_quorum })
      t.teardown(() => engine.close())
      await write(engine, [point(1)])
      clock.ms += 4 * 86_400_000
      await write(engine, [point(2, 'cpu', 'b', NOW + 96n * HOUR)])
      if (insert_quorum === 1) await t.rejects(engine.maintain(), { code: 'OVERLOADED', message: /^cannot give series back: / })
      else await engine.maintain()
      t.equal((await engine.usage('default')).series, series)
      t.same(await lines(engine, { measurement: 'cpu' }), [row(2, 'b', NOW + 96n * HOUR)])
    }
  })

  t.test('the topology says nothing of the tables of a server that is away', async (t) => {
    const engine = await begin(prefix())
    t.teardown(() => engine.close())
    const { name, shards } = await engine.topology()
    t.equal(name, 'main')
    t.match(shards, [
      {
        number: 1,
        replicas: [
          { addr: '127.0.0.1:9000', local: true, tables: 0, readonly_tables: 0, delay_secs: 0 },
          { addr: '127.0.0.1:1', local: false },
        ],
      },
    ])
    for (const key of ['tables', 'readonly_tables', 'delay_secs']) t.notOk(key in shards[0].replicas[1], key)
  })

  t.test('tables that are there are not defined again; those that are not wait for no server that is away', async (t) => {
    const asked: { statement: string; settings: URLSearchParams }[] = []
    const proxy = await proxyTo(server.url, (statement, forward, from) => {
      asked.push({ statement, settings: new URL(from.url ?? '', 'http://localhost').searchParams })
      forward()
    })
    t.teardown(() => proxy.close())
    const name = prefix()
    const defined = () => asked.filter(({ statement }) => statement.includes(' ON CLUSTER '))
    const engine = await begin(name, proxy.url)
    await write(engine, [point(1), point(2, 'm1')])
    await engine.close()
    t.ok(defined().length > 5)
    for (const { statement, settings } of defined()) {
      t.equal(settings.get('distributed_ddl_output_mode'), 'null_status_on_timeout', statement)
      t.ok(Number(settings.get('distributed_ddl_task_timeout')) <= 10, statement)
    }
    asked.length = 0
    const next = await begin(name, proxy.url)
    await write(next, [point(1, 'cpu', 'b'), point(2, 'm1', 'b')])
    t.equal((await lines(next, { measurement: 'cpu' })).length, 2)
    t.same(
      defined().map(({ statement }) => statement),
      [],
    )
    await write(next, [{ ...point(1), fields: { v: f64(1), more: f64(2) } }])
    t.same(
      defined().map(({ statement }) => /^\w+ \w+/.exec(statement)?.[0]),
      ['ALTER TABLE', 'ALTER TABLE'],
    )
    await next.close()
  })

  t.test('a delete that goes on when its time is over is not said to be done', async (t) => {
    const asked: URLSearchParams[] = []
    let lost = false
    const proxy = await proxyTo(server.url, (statement, forward: (options?: Forwarding) => void, from, to) => {
      if (!/^DELETE FROM \S+\.m_/.test(statement)) return forward()
      asked.push(new URL(from.url ?? '', 'http://localhost').searchParams)
      if (lost) to.end()
      else forward()
    })
    t.teardown(() => proxy.close())
    const engine = await begin(prefix(), proxy.url)
    t.teardown(() => engine.close())
    await write(engine, [point(1), point(2, 'cpu', 'a', NOW - HOUR)])
    const remove = (end: bigint) => engine.delete({ namespace: 'default', measurement: 'cpu', end })
    await remove(NOW)
    t.same(await lines(engine, { measurement: 'cpu' }), [row(1)])
    lost = true
    await t.rejects(remove(NOW + 1n), { code: 'WRITE_TIMEOUT', message: /^cannot delete rows of measurement "cpu": / })
    t.same(
      asked.map((settings) => settings.get('distributed_ddl_task_timeout')),
      ['25', '25'],
    )
  })

  t.test('a definition that no server has carried out in time is no success', async (t) => {
    const lost = /^(CREATE TABLE IF NOT EXISTS|ALTER TABLE) \S+\.m_\d+/
    // An answer as of a statement that is still to be done.
    const proxy = await proxyTo(server.url, (statement, forward: (options?: Forwarding) => void, _, to) => (lost.test(statement) ? void to.end() : forward()))
    t.teardown(() => proxy.close())
    const engine = await begin(prefix(), proxy.url, {}, () => NOW_MS, { write_timeout_secs: 2 })
    t.teardown(() => engine.close())
    await t.rejects(write(engine, [point(1)]), { code: 'OVERLOADED', message: /^cannot define / })
  })
}
