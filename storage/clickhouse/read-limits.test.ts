/** Every statement that reads, for whatever, is bounded in ClickHouse: it cannot write, takes no more memory and time than it may, and ends with who asked. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { boot } from 'svcdb/testkit'
import t from 'tap'
import { NO_CLICKHOUSE, startClickHouse } from '../../test/support/clickhouse/clickhouse.ts'
import { testContext } from '../conformance/index.ts'
import { ClickHouseEngine } from './engine.ts'
import { proxyTo } from './testing/proxy.ts'

const LIMITS = [/ SETTINGS .*\bmax_memory_usage = 50000000\b/, /[?&]readonly=2\b/, /[?&]cancel_http_readonly_queries_on_client_close=1\b/]
const executionTime = (statement: string): string | undefined => /\bmax_execution_time = (\d+), timeout_overflow_mode = 'throw'/.exec(statement)?.[1]

t.test('statements that read', { skip: NO_CLICKHOUSE ?? false }, async (t) => {
  const server = await startClickHouse()
  const asked: string[] = []
  const proxy = await proxyTo(server.url, (statement, forward, { url }) => {
    if (/^\s*(SELECT|WITH)\b/.test(statement)) asked.push(`${statement} ${url}`)
    forward()
  })
  const clickhouse = { ...server.section, url: proxy.url, prefix: `l${process.pid}`, query_memory: 50_000_000, write_timeout_secs: 17 }
  const engine = new ClickHouseEngine(testContext({ clickhouse, retention_secs: 86_400 }, Date.now))
  const node = await boot({
    plugins: ['line_protocol', 'promql', 'sql'],
    storage: engine,
    config: { server: { prom_query_timeout_secs: 7, sql_query_timeout_secs: 9 } },
  })
  t.teardown(async () => {
    await node.stop()
    proxy.close()
    await server.stop()
  })
  const seen = async (what: string, secs: string, work: () => Promise<unknown>): Promise<void> => {
    asked.length = 0
    await work()
    t.ok(asked.length > 0, what)
    for (const limit of LIMITS)
      t.same(
        asked.filter((statement) => !limit.test(statement)),
        [],
        what,
      )
    t.same(
      asked.filter((statement) => !['17', secs].includes(executionTime(statement) ?? '')),
      [],
      what,
    )
    t.ok(
      asked.some((statement) => executionTime(statement) === secs),
      `${what}: ${secs} s`,
    )
  }
  const now = Math.floor(Date.now() / 1000)
  const get = async (url: string) => t.equal((await node.inject({ method: 'GET', url })).statusCode, 200, url)
  await seen('a write', '17', () =>
    node.inject({ method: 'POST', url: '/write', payload: `hits,host=a value=1 ${now}000000000\ncpu,host=b usage=2 ${now}000000000` }),
  )
  await seen('PromQL', '7', () => get(`/api/v1/query?time=${now}&query=${encodeURIComponent('sum by (host) (rate(hits[1m])) or cpu_usage{host=~"b.*"}')}`))
  await seen('series', '7', () => get(`/api/v1/series?match[]=hits&start=${now - 60}&end=${now}`))
  await seen('SQL', '9', async () => {
    const answer = await node.inject({ method: 'POST', url: '/api/v1/svc/sql', payload: { query: 'SELECT host, max(value) FROM hits GROUP BY host' } })
    t.equal(answer.statusCode, 200)
  })
  await seen('measurements', '17', () => engine.measurements(''))
  await seen('a scan', '4', async () => {
    for await (const _ of engine.scan({ namespace: '', measurement: 'cpu' }, { timeoutMs: 4000 }));
  })
  await seen('an export', '4', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'svc-limits-'))
    for (const measurement of ['cpu', 'hits'])
      await engine.export({ namespace: '', measurement, path: join(folder, `${measurement}.parquet`), maxBytes: 0 }, { timeoutMs: 4000 })
    rmSync(folder, { recursive: true })
  })
  await seen('usage', '17', () => engine.usage(''))
  await seen('a delete', '17', () => engine.delete({ namespace: '', measurement: 'cpu' }))
  await seen('maintenance', '17', () => engine.maintain())
})
