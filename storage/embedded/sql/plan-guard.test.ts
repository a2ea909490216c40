import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import { temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { sqlText } from '../duckdb/duckdb.ts'
import { openSql } from './open.ts'
import { guardPlan, type PlanBounds } from './plan-guard.ts'
import { CPU, CPU_ROWS, testHost } from './testing/host.ts'

t.test('a plan that reads what is not its own is refused, counted, and says nothing of it', async (t) => {
  const dir = temporaryFolder(t)
  mkdirSync(join(dir, 'segments'))
  const file = (n: number): string => join(dir, 'segments', `${n}.parquet`)
  const instance = await DuckDBInstance.create(':memory:')
  const connection = await instance.connect()
  await connection.run("SET explain_output = 'all'")
  t.teardown(() => {
    connection.closeSync()
    instance.closeSync()
  })
  for (const n of [1, 2]) await connection.run(`COPY (SELECT ${n} AS v FROM range(10)) TO ${sqlText(file(n))}`)
  await connection.run('CREATE TABLE hidden_rows AS SELECT 1 AS v')
  const reasons: string[] = []
  const bounds: PlanBounds = {
    source: 'svc_source',
    isFile: (path) => path === file(1),
    isSource: (call) => call === "svc_source('7')",
    refused: (reason) => reasons.push(reason),
  }
  const read = (n: number): string => `(SELECT v FROM read_parquet([${sqlText(file(n))}], hive_partitioning = false))`
  for (const sql of [
    `SELECT max(v) FROM ${read(1)} a`,
    `SELECT a.v, b.r FROM ${read(1)} a JOIN range(4) b(r) ON a.v = b.r WHERE a.v IN (SELECT unnest([1, 2])) ORDER BY 1`,
    `WITH RECURSIVE c AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM c WHERE n < 3) SELECT * FROM c, (VALUES (1)) v`,
    `SELECT o.v, (SELECT sum(i.v) FROM ${read(1)} i WHERE i.v < o.v) FROM ${read(1)} o`,
    `SELECT * FROM ${read(1)} a POSITIONAL JOIN ${read(1)} b`,
    "SELECT 'read_parquet(1), svc_source(2)' AS x",
  ]) {
    await guardPlan(sql, bounds, connection)
    await guardPlan(sql, bounds, connection)
    t.same(reasons.splice(0), [], sql)
  }
  for (const [sql, reason] of [
    [`SELECT * FROM ${read(2)} a`, `file ${file(2)}`],
    [`SELECT * FROM ${read(1)} a WHERE EXISTS (FROM ${read(2)} b)`, `file ${file(2)}`],
    [`SELECT * FROM ${sqlText(file(1))}`, 'scan PARQUET_SCAN'],
    [`SELECT * FROM "${join(dir, 'segments', '*.parquet')}"`, 'scan PARQUET_SCAN'],
    [`SELECT min(v) FROM "${file(2)}"`, 'scan PARQUET_SCAN'],
    [`SELECT v FROM "${file(2)}" WHERE false`, 'scan PARQUET_SCAN'],
    [`SELECT 1 WHERE 1 IN (SELECT v FROM "${file(2)}")`, 'scan PARQUET_SCAN'],
    [`SELECT * FROM read_parquet(${sqlText(file(1))})`, 'call of read_parquet that is no list of files'],
    [`SELECT * FROM parquet_scan(${sqlText(file(1))})`, 'scan PARQUET_SCAN'],
    ["SELECT * FROM svc_source('8')", "call svc_source('8')"],
    ["SELECT * FROM svc_source('7' || '')", "call svc_source('7' || '')"],
    ['SELECT * FROM duckdb_tables', 'scan DUCKDB_TABLES'],
    ['SELECT * FROM sqlite_master', /^scan DUCKDB_/],
    ['SELECT * FROM information_schema.tables', /^scan DUCKDB_/],
    ['SELECT * FROM hidden_rows', 'scan SEQ_SCAN memory.main.hidden_rows'],
    [`SELECT * FROM glob('${dir}/*')`, 'scan GLOB'],
    [`SELECT (SELECT max(v) FROM hidden_rows) + v FROM ${read(1)} a`, 'scan SEQ_SCAN memory.main.hidden_rows'],
    ['WITH RECURSIVE c AS (SELECT v FROM hidden_rows UNION ALL SELECT v + 1 FROM c WHERE v < 3) SELECT * FROM c', 'scan SEQ_SCAN memory.main.hidden_rows'],
  ] as const) {
    const error = await guardPlan(sql, bounds, connection).catch((error: Error) => error)
    t.match(error, { code: 'SQL_ERROR', message: /its plan is not one that is allowed here/ }, sql)
    t.match(reasons.splice(0), [reason], sql)
    t.notMatch((error as Error).message, /parquet|hidden|DUCKDB|svc_source/)
  }
})

t.test('a statement is not run, nor described, when a relation of its host reads more than it may', async (t) => {
  const host = await testHost([
    [CPU, CPU_ROWS],
    [{ name: 'other', columns: [{ name: '_time', role: 'time' }] }, 'SELECT make_timestamp_ns(1) AS _time'],
  ])
  t.teardown(() => host.close())
  host.bounds = { ...host.bounds, tables: new Set(['memory.main.__m0']) }
  t.equal((await host.query('SELECT procs FROM cpu LIMIT 1')).rows.length, 1)
  for (const query of [
    'SELECT * FROM other',
    'SELECT procs FROM cpu WHERE EXISTS (FROM other)',
    'EXPLAIN SELECT * FROM other',
    'EXPLAIN ANALYZE SELECT * FROM other',
    'DESCRIBE SELECT * FROM other',
    'SELECT *, $1 FROM other',
  ]) {
    await t.rejects(openSql(host, { namespace: 'default', query }), { code: 'SQL_ERROR', message: /its plan is not one/ }, query)
    t.same(host.refusals.splice(0), ['scan SEQ_SCAN memory.main.__m1'], query)
  }
})
