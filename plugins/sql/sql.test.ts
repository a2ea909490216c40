import { connect } from 'node:net'
import { boot, type TestNode } from 'svcdb/testkit'
import t from 'tap'
import { until } from '../../test/support/until.ts'
import line from '../line_protocol/index.ts'
import plugin from './index.ts'

let node: TestNode
t.before(async () => {
  node = await boot({ plugins: [plugin, line], storage: 'embedded', config: { server: { sql_max_rows: 500, sql_query_timeout_secs: 60 } } })
  const now = BigInt(Date.now()) * 1_000_000n
  base = now - (now % 3_600_000_000_000n) - 3_600_000_000_000n
  const lines = Array.from(
    { length: 600 },
    (_, i) =>
      `cpu,host=h${i % 3},region=eu user=${i % 10},idle=${i}i,big=${9007199254740993n + BigInt(i)}u,ok=${i % 2 === 0},note="n${i}",price=1.25d ${base + BigInt(i) * 1_000_000_000n}`,
  )
  const written = await node.inject({ method: 'POST', url: '/write', payload: lines.join('\n'), headers: { 'content-type': 'text/plain' } })
  if (written.statusCode !== 204) throw new Error(written.body)
})
t.after(() => node.stop())

let base = 0n
const post = (payload: unknown, headers: Record<string, string> = {}) =>
  node.inject({
    method: 'POST',
    url: '/api/v1/svc/sql',
    payload: typeof payload === 'string' ? payload : JSON.stringify(payload),
    headers: { 'content-type': 'application/json', ...headers },
  })
const sql = async (query: string) => {
  const answer = await post({ query })
  if (answer.statusCode !== 200) throw new Error(`${answer.statusCode} ${answer.body}`)
  return answer
}
const metric = async (name: string): Promise<number> => Number(new RegExp(`^${name} (.*)$`, 'm').exec((await node.inject('/metrics')).body)?.[1] ?? 0)

t.test('the shape of an answer, values exact', async (t) => {
  const answer = await sql(`SELECT _time, host, "user", idle, big, ok, note, price FROM cpu WHERE _time = ${base}`)
  t.match(answer.headers['content-type'], /^application\/json/)
  t.equal(
    answer.body,
    `{"columns":[{"name":"_time","data_type":"Timestamp(ns)"},{"name":"host","data_type":"Utf8"},{"name":"user","data_type":"Float64"},{"name":"idle","data_type":"Int64"},` +
      `{"name":"big","data_type":"UInt64"},{"name":"ok","data_type":"Boolean"},{"name":"note","data_type":"Utf8"},{"name":"price","data_type":"decimal(38, 2)"}],` +
      `"rows":[[${base},"h0",0,0,9007199254740993,true,"n0","1.25"]],"row_count":1,"truncated":false}`,
  )
  t.same((await sql('SELECT 1 WHERE false')).json(), { columns: [{ name: '1', data_type: 'Int32' }], rows: [], row_count: 0, truncated: false })
  const kinds = (
    await sql(
      `SELECT [1.5::DOUBLE, 'nan'::DOUBLE], {'a': 1}, map {'k': 1}, interval '1 day', '\\x41'::BLOB, NULL, DATE '1970-01-02', 1.50, TIMESTAMP '1970-01-01 00:00:01'`,
    )
  ).json()
  t.same(kinds.rows, [[[1.5, null], { a: 1 }, [{ key: 'k', value: 1 }], { months: 0, days: 1, nanoseconds: 0 }, 'QQ==', null, 1, '1.50', 1_000_000]])
})

t.test('structs have all of their members, and times with a zone their offset', async (t) => {
  const { columns, rows } = (
    await sql(`SELECT row(1, 'x') AS r, [(host, idle), NULL] AS l, map {('a', 1): row(2.5::DOUBLE)} AS m, {'__proto__': 1, 'a': 'b'} AS p,
        '12:34:56.5+02'::TIMETZ AS t, ['12:34:56-03:30'::TIMETZ] AS ts FROM cpu WHERE _time = ${base}`)
  ).json()
  t.same(rows, [
    [
      { 1: 1, 2: 'x' },
      [{ 1: 'h0', 2: 0 }, null],
      [{ key: { 1: 'a', 2: 1 }, value: { 1: 2.5 } }],
      JSON.parse('{"__proto__":1,"a":"b"}'),
      '12:34:56.5+02',
      ['12:34:56-03:30'],
    ],
  ])
  t.same(
    columns.map(({ data_type }: { data_type: string }) => data_type),
    [
      'Struct("1": Int32, "2": Utf8)',
      'List(Struct("1": Utf8, "2": Int64))',
      'Map(Struct("1": Utf8, "2": Int32), Struct("1": Float64))',
      'Struct("__proto__": Int32, "a": Utf8)',
      'Utf8',
      'List(Utf8)',
    ],
  )
})

t.test('by GET, and as CSV', async (t) => {
  const get = (query: Record<string, string>, headers: Record<string, string> = {}) =>
    node.inject({ url: `/api/v1/svc/sql?${new URLSearchParams(query)}`, headers })
  t.same((await get({ q: 'SELECT 1 AS a' })).json().rows, [[1]])
  t.equal((await get({ q: 'SELECT 1 AS a', format: 'csv' })).body, 'a\r\n1\r\n')
  const csv = await get(
    {
      q: `SELECT * FROM (VALUES (1, 'plain', 1.5::DOUBLE, 1.250::DECIMAL(5, 3), true, [1, 2], TIMESTAMP_NS '1970-01-01 00:00:00.000000005'),
        (NULL, '', 'nan'::DOUBLE, NULL, false, [], NULL), (3, 'a,"b"' || chr(13) || chr(10) || 'c', '-inf'::DOUBLE, -0.5, NULL, NULL, NULL)) v("n,m", s, f, d, b, l, t)`,
    },
    { accept: 'text/csv, */*' },
  )
  t.equal(csv.headers['content-type'], 'text/csv; charset=utf-8; header=present')
  t.equal(csv.body, '"n,m",s,f,d,b,l,t\r\n1,plain,1.5,1.250,true,"[1,2]",5\r\n,"",NaN,,false,[],\r\n3,"a,""b""\r\nc",-Infinity,-0.500,,,\r\n')
  const posted = await post({ query: "SELECT '\\x41'::BLOB AS b, interval '1 day' AS i WHERE true" }, { accept: 'text/csv' })
  t.equal(posted.body, 'b,i\r\nQQ==,"{""months"":0,""days"":1,""nanoseconds"":0}"\r\n')
  t.equal((await get({ q: 'SELECT 1 AS a WHERE false', format: 'csv' })).body, 'a\r\n')
  for (const accept of ['*/*', 'application/json, text/csv', 'text/html'])
    t.match((await get({ q: 'SELECT 1' }, { accept })).headers['content-type'], /^application\/json/, accept)
  t.match((await get({ q: 'SELECT 1', format: 'json' }, { accept: 'text/csv' })).headers['content-type'], /^application\/json/)
  const cut = await get({ q: 'SELECT * FROM range(501)', format: 'csv' })
  t.match([cut.statusCode, cut.json()], [400, { code: 'SQL_ERROR', error: /more than 500 rows/ }])
  t.equal((await get({ q: 'SELECT * FROM range(500)', format: 'csv' })).body.split('\r\n').length, 502)
  t.match((await get({ q: 'SELEC 1', format: 'csv' })).json(), { code: 'SQL_ERROR' })
  for (const query of [{}, { q: '' }, { q: 'SELECT 1', format: 'xml' }, { q: 'SELECT 1', x: '1' }] as Record<string, string>[])
    t.ok([400, 422].includes((await get(query)).statusCode), JSON.stringify(query))
})

t.test('groups, buckets and analytic functions over stored points', async (t) => {
  const grouped = (
    await sql(`SELECT time_bucket('5m', _time) AS t, host, count(*), avg("user") FROM cpu WHERE _time >= ${base} GROUP BY 1, 2 ORDER BY 1, 2`)
  ).json()
  t.equal(grouped.row_count, 6)
  t.same(
    grouped.rows.map((row: unknown[]) => row.slice(1, 3)),
    ['h0', 'h1', 'h2', 'h0', 'h1', 'h2'].map((host) => [host, 100]),
  )
  const last = (await sql('SELECT host, last(idle, _time), rate(idle, _time) FROM cpu GROUP BY host ORDER BY host')).json()
  t.same(last.rows, [
    ['h0', 597, 1],
    ['h1', 598, 1],
    ['h2', 599, 1],
  ])
  const days = (await sql(`SELECT time_bucket('1d', _time, 'Europe/Berlin'), count(*) FROM cpu GROUP BY 1 ORDER BY 1`)).json()
  t.equal(
    days.rows.reduce((sum: number, row: number[]) => sum + row[1], 0),
    600,
  )
  const plan = (await sql(`EXPLAIN SELECT * FROM cpu WHERE _time >= ${base} AND host = 'h1'`)).json()
  t.match(plan.rows[0][1], `time=[${base}..9223372036854775807]`)
  t.notMatch(JSON.stringify(plan), /parquet|svc_source/)
  t.match((await sql('SHOW TABLES')).json().rows, [['cpu']])
  t.same((await sql(`SELECT count(*) FROM cpu WHERE host IN ('h1', 'nope') OR region = 'us'`)).json().rows, [[200]])
  for (const [condition, same] of [
    ["host ~ 'h[12]'", "host IN ('h1', 'h2')"],
    ["regexp_matches(host, '2$') AND region <> 'x'", "host = 'h2'"],
    ["host ~ 'h' AND host = 'h1'", "host = 'none'"],
    ["host LIKE 'h%' AND regexp_matches(host, '[1-9]') AND host IN ('h0', 'h1')", "host = 'h1'"],
  ])
    t.same(
      (await sql(`SELECT count(*), max(idle) FROM cpu WHERE ${condition}`)).body,
      (await sql(`SELECT count(*), max(idle) FROM cpu WHERE ${same}`)).body,
      condition,
    )
  t.match((await sql("EXPLAIN SELECT max(idle) FROM cpu WHERE host ~ 'h[12]'")).body, /Samples/)
})

t.test('a bucket that has the name of the time is what it is ordered by', async (t) => {
  const hour = [[Number(base), 600]]
  for (const bucket of ["date_trunc('year', _time)", "time_bucket('2h', _time, '', '2024-01-01')", 'CAST(_time AS DATE)']) {
    const named = `SELECT ${bucket} AS _time, count(*) FROM cpu WHERE region LIKE '%e%u%' GROUP BY`
    const wanted = (await sql(`${named} 1 ORDER BY 1`)).json().rows
    for (const group of ['1', 'ALL', bucket]) t.same((await sql(`${named} ${group} ORDER BY ${bucket}`)).json().rows, wanted, `${bucket}, ${group}`)
  }
  t.same((await sql('SELECT -idle AS idle FROM cpu WHERE idle < 3 ORDER BY -idle')).json().rows, [[-2], [-1], [0]])
  t.same(
    (await sql(`SELECT make_timestamp_ns(${base}) AS _time, count(*) FROM cpu GROUP BY date_trunc('year', _time) ORDER BY date_trunc('year', _time)`)).json()
      .rows,
    hour,
  )
})

t.test('after a flush the same answers come from segments', async (t) => {
  const query = `SELECT host, max(_time), sum(idle), min(note), count(ok) FROM cpu GROUP BY host ORDER BY host DESC`
  const before = (await sql(query)).body
  await node.storage.flush()
  t.equal((await sql(query)).body, before)
  const plan = JSON.stringify((await sql(`EXPLAIN ANALYZE ${query}`)).json())
  t.match(plan, /Scan: cpu/)
  t.notMatch(plan, /svc-test|segments|shard_|parquet\b/)
})

t.test('what a column with a subquery is called says nothing of files', async (t) => {
  await node.storage.flush()
  for (const item of [
    '(SELECT max(idle) FROM cpu)',
    'EXISTS (SELECT 1 FROM cpu)',
    '1 IN (SELECT idle FROM cpu)',
    'count(*) FILTER (WHERE (SELECT max(idle) FROM cpu) > 1)',
    "{'a': (SELECT max(idle) FROM cpu)}",
    'array(SELECT idle FROM cpu LIMIT 1)',
  ]) {
    const { body } = await sql(`SELECT ${item}`)
    t.match(JSON.parse(body).columns[0].name, /subquery/, item)
    t.notMatch(body, /svc|segments|shard_|parquet|_series/, item)
    t.notMatch((await sql(`DESCRIBE SELECT ${item}`)).body, /svc|segments|shard_|parquet|_series/, item)
  }
})

t.test('no name makes the node read a file or a catalogue', async (t) => {
  await node.storage.flush()
  const segments = `${node.dataDir}/segments`
  for (const name of [`${segments}/*/*.parquet`, `${segments}/**`, 'duckdb_tables', 'sqlite_master', 'pragma_database_list']) {
    const folded = name.replace('k', '\u212a').replace('*', '[1-9\u212a]*')
    const plain = folded.replaceAll('\u212a', 'k')
    for (const query of [
      `WITH RECURSIVE "${name}" AS (SELECT * FROM "${name}" UNION ALL SELECT * FROM "${name}" WHERE false) SELECT * FROM "${name}"`,
      ...(plain === folded ? [] : [`WITH "${folded}" AS (SELECT 1) SELECT * FROM "${plain}"`]),
      `SELECT * FROM "${name}"`,
      `DESCRIBE SELECT * FROM "${name}"`,
    ]) {
      const answer = await post({ query })
      t.equal(answer.statusCode, 400, query)
      t.match(answer.json(), { code: 'SQL_ERROR', error: /there is none of that name/ }, query)
    }
  }
  t.same((await sql('WITH "sqlite_master" AS (SELECT max(idle) AS m FROM cpu) SELECT m FROM "SQLITE_MASTER"')).json().rows, [[599]])
  t.equal(await metric('svc_sql_refused_plans_total'), 0, 'the last guard had nothing to do')
})

t.test('sql_max_rows cuts, says so and counts it', async (t) => {
  const cut = (await sql('SELECT idle FROM cpu ORDER BY idle')).json()
  t.equal(cut.row_count, 500)
  t.equal(cut.rows.length, 500)
  t.equal(cut.truncated, true)
  t.equal((await sql('SELECT idle FROM cpu LIMIT 500')).json().truncated, false, 'exactly the ceiling is whole')
  t.equal(await metric('svc_sql_results_truncated_total'), 1)
  t.ok((await metric('svc_sql_queries_total')) > 5)
})

t.test('bad requests', async (t) => {
  for (const [payload, status, code] of [
    ['{', 400, 'BAD_REQUEST'],
    [{}, 422, 'INVALID_BODY'],
    [{ query: 5 }, 422, 'INVALID_BODY'],
    [{ query: 'SELECT 1', limit: 5 }, 422, 'INVALID_BODY'],
    [{ query: 'SELEC 1' }, 400, 'SQL_ERROR'],
    [{ query: 'SELECT * FROM nope' }, 400, 'SQL_ERROR'],
    [{ query: 'DROP TABLE cpu' }, 400, 'SQL_ERROR'],
    [{ query: `SELECT * FROM read_text('/etc/passwd')` }, 400, 'SQL_ERROR'],
    [{ query: 'SELECT idle / (idle - idle) FROM cpu' }, 400, 'SQL_ERROR'],
    [{ query: 'SELECT note::INTEGER FROM cpu' }, 400, 'SQL_ERROR'],
    [{ query: `SELECT time_bucket('1d', _time, 'Nope/Zone') FROM cpu` }, 400, 'SQL_ERROR'],
    [{ query: `SELECT date_trunc('eon', _time) FROM cpu` }, 400, 'SQL_ERROR'],
  ] as const) {
    const answer = await post(payload)
    t.equal(answer.statusCode, status, `${JSON.stringify(payload)}: ${answer.body}`)
    t.equal(answer.json().code, code)
  }
  t.equal((await post('SELECT 1', { 'content-type': 'text/plain' })).statusCode, 415)
  // What the column of times is called in InfluxDB and QuestDB.
  for (const name of ['time', 'timestamp'])
    t.match((await post({ query: `SELECT ${name}, idle FROM cpu` })).json().error, /not found.*; the time of a point is the column _time$/s)
  t.notMatch((await post({ query: 'SELECT nope FROM cpu' })).json().error, /_time$/)
})

t.test('tags may be named as what every object has', async (t) => {
  const lines = ['named,host=a v=1', 'named,host=b,constructor=x,toString=y,__proto__=z v=2'].join('\n')
  const written = await node.inject({ method: 'POST', url: '/write', payload: lines, headers: { 'content-type': 'text/plain' } })
  t.equal(written.statusCode, 204, written.body)
  const select = `SELECT upper(host), "constructor", "toString", "__proto__", v FROM named`
  t.same((await sql(`${select} WHERE host = 'a'`)).json().rows, [['A', null, null, null, 1]])
  t.same((await sql(`${select} WHERE host = 'b'`)).json().rows, [['B', 'x', 'y', 'z', 2]])
})

const HEAVY = 'SELECT sum(a.i * b.i % 7) FROM range(10000000) a(i), range(10000000) b(i)'

t.test('a query that takes too long is stopped and names the setting', async (t) => {
  const hasty = await boot({ plugins: [plugin], storage: 'embedded', config: { server: { sql_query_timeout_secs: 2 } } })
  t.teardown(() => hasty.stop())
  const ask = (query: string) => hasty.inject({ method: 'POST', url: '/api/v1/svc/sql', payload: { query } })
  const answer = await ask(HEAVY)
  t.equal(answer.statusCode, 504, answer.body)
  t.equal(answer.json().code, 'QUERY_TIMEOUT')
  t.match(answer.json().error, /sql_query_timeout_secs/)
  await until('the engine goes on', async () => (await ask('SELECT 1')).body.includes('[[1]]'))
})

t.test('a caller who leaves stops the query', async (t) => {
  const { port, hostname } = new URL(node.url)
  const body = JSON.stringify({ query: HEAVY })
  const socket = connect(Number(port), hostname)
  socket.write(`POST /api/v1/svc/sql HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`)
  await new Promise((resolve) => setTimeout(resolve, 200))
  socket.destroy()
  t.same((await sql('SELECT count(*) FROM cpu')).json().rows, [[600]])
})

t.end()
