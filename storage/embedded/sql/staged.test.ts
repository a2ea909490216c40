/** Statements whose rows, handed out while they are made, would stop for good in DuckDB: they end, and answer in their order. */
import { boot } from 'svcdb/testkit'
import t from 'tap'
import type { Duck } from '../duckdb/duckdb.ts'
import { type Source, type UnionRequest, unionSql } from '../read/sources.ts'
import type { FieldDef } from '../threads/definitions.ts'
import { stalls } from './staged.ts'

t.test('unions of parts that are joined, grouped and compared with all', async (t) => {
  const node = await boot({
    plugins: ['sql', 'line_protocol'],
    storage: 'embedded',
    config: { server: { sql_query_timeout_secs: 50, sql_max_rows: 3_000_000 }, database: { query_threads: 1, query_parallelism: 1 } },
  })
  t.teardown(() => node.stop())
  const write = await node.inject({ method: 'POST', url: '/write', payload: 'm,h=a v=1\nm,h=b v=2\n' })
  t.equal(write.statusCode, 204, write.body)
  const ask = async (query: string): Promise<string[]> => {
    const { statusCode, body } = await node.inject({
      method: 'POST',
      url: '/api/v1/svc/sql',
      headers: { accept: 'text/csv' },
      payload: { query },
    })
    t.equal(statusCode, 200, `${query}: ${body.slice(0, 300)}`)
    return body.trim().split('\r\n')
  }
  const numbers = 'range(1000000) t(i)'
  const groups = `SELECT i, repeat('x', 50) AS x FROM ${numbers} GROUP BY i HAVING (count(*) + i) % 100 = 1`
  const few = 'WHERE t.i % 100 = 0'
  for (const from of [
    `${numbers} ANTI JOIN (SELECT i FROM ${numbers} GROUP BY i HAVING count(*) > 1) d USING (i) ${few}`,
    `${numbers} LEFT JOIN (SELECT i FROM range(10) s(i)) d USING (i) ${few}`,
    `${numbers} ${few} AND i > (SELECT count(*) FROM m)`,
  ]) {
    const lines = await ask(`SELECT i, repeat('y', 50) AS x FROM ${from} UNION ALL ${groups}`)
    t.ok(lines.length > 19_990, String(lines.length))
  }
  t.same(
    (await ask(`(SELECT i FROM ${numbers} ORDER BY i DESC LIMIT 3) UNION ALL SELECT 5 UNION ALL (SELECT i FROM range(3) t(i))`)).slice(1),
    ['999999', '999998', '999997', '5', '0', '1', '2'],
    'parts are in their order',
  )
  t.same(await ask("SELECT h, h, v, NULL AS n, [v] AS l FROM m WHERE h = 'a' UNION ALL SELECT 'x', 'y', 2, NULL, [] ORDER BY 1"), [
    'h,h,v,n,l',
    'a,a,1,,[1]',
    'x,y,2,,[]',
  ])
  t.equal((await ask("SELECT 'union' AS u")).at(-1), 'union')
})

t.test('rows that are merged, beside others that are joined with a list of series', (t) => {
  const segment = (file: string, dirty: boolean): Source => ({
    minTime: dirty ? 5n : 0n,
    maxTime: 10n,
    dirty: dirty ? [5n, 10n] : null,
    segment: { id: 1, file, columns: [] } as unknown as Source['segment'] & object,
    measurement: undefined,
    masks: [],
  })
  const duck = { addSource: () => "svc_source('1')" } as unknown as Duck
  const odd = (length: number): Int32Array => Int32Array.from({ length }, (_, i) => i * 2 + 1)
  const sqlOf = (isLate: boolean, more: Partial<UnionRequest> = {}): string =>
    unionSql({ duck, dataDir: '/d', sources: [segment('a', false), segment('b', isLate)], time: [0n, 10n], fields: [], calls: [], ...more }).sql
  t.equal(stalls(sqlOf(true, { series: odd(2000) })), true)
  t.equal(stalls(sqlOf(true, { series: odd(20) })), false)
  t.equal(stalls(sqlOf(true)), false)
  t.equal(stalls(sqlOf(false, { series: odd(2000) })), false)
  const text: FieldDef = { id: 1, name: 'line', column: 'line', type: 'string', scale: 0 }
  t.equal(stalls(sqlOf(true, { fields: [text], sparesTexts: true })), true, 'rows without duplicates pass by the merge')
  t.equal(stalls(sqlOf(true, { fields: [text] })), false)
  t.end()
})
