import t from 'tap'
import { AGGREGATES, OPERATORS, SCALARS, WINDOWS } from './functions.ts'
import { prepareSql } from './prepare.ts'
import { CPU, CPU_ROWS, type TestHost, testHost } from './testing/host.ts'

let host: TestHost
t.before(async () => {
  host = await testHost([
    [CPU, CPU_ROWS],
    [{ name: 'Mixed', columns: [{ name: '_time', role: 'time' }] }, 'SELECT make_timestamp_ns(1) AS _time'],
    [{ name: 'twin', columns: [{ name: '_time', role: 'time' }] }, 'SELECT make_timestamp_ns(1) AS _time'],
    [{ name: 'TWIN', columns: [{ name: '_time', role: 'time' }] }, 'SELECT make_timestamp_ns(1) AS _time WHERE FALSE'],
    [{ name: 'a "b".c', columns: [{ name: '_time', role: 'time' }] }, 'SELECT make_timestamp_ns(1) AS _time'],
  ])
})
t.after(() => host.close())

const refused = (sql: string, pattern: RegExp = /./) =>
  t.test(`refuses ${sql.slice(0, 90)}`, (t) => t.rejects(host.query(sql), { code: 'SQL_ERROR', message: pattern }))

// Files, network, settings, variables, the catalogue, other queries.
for (const sql of [
  `SELECT * FROM read_parquet('/etc/passwd')`,
  `SELECT * FROM read_csv('/etc/passwd')`,
  `SELECT * FROM read_csv_auto('/etc/passwd')`,
  `SELECT * FROM read_json('x')`,
  `SELECT * FROM read_text('/etc/passwd')`,
  `SELECT * FROM read_blob('/etc/passwd')`,
  `SELECT * FROM main.read_text('/etc/passwd')`,
  `SELECT * FROM system.main.read_text('/etc/passwd')`,
  `SELECT * FROM glob('/*')`,
  `SELECT * FROM parquet_metadata('x')`,
  `SELECT * FROM parquet_schema('x')`,
  `SELECT * FROM sniff_csv('/etc/passwd')`,
  `SELECT * FROM '/etc/passwd.csv'`,
  `SELECT * FROM "/data/segments/1.parquet"`,
  `FROM 'https://example.com/a.parquet'`,
  `SELECT * FROM cpu, LATERAL read_text(hostname)`,
  `SELECT * FROM cpu, read_text('/etc/passwd')`,
  `SELECT (SELECT content FROM read_text('/etc/passwd'))`,
  `WITH x AS (SELECT * FROM read_text('/etc/passwd')) SELECT * FROM x`,
  `SELECT 1 UNION SELECT size FROM read_text('/etc/passwd')`,
  `SELECT * FROM cpu WHERE EXISTS (FROM read_text('x'))`,
  `SELECT count(*) FILTER (WHERE (SELECT true FROM read_text('x'))) FROM cpu`,
  `SELECT 1 ORDER BY (SELECT 1 FROM read_text('x'))`,
  `SELECT 1 LIMIT (SELECT 1 FROM read_text('x'))`,
  `SELECT sum(1) OVER (ORDER BY (SELECT 1 FROM read_text('x')))`,
  `SELECT list_transform([1], lambda x: (SELECT 1 FROM read_text('x')))`,
  `SELECT * REPLACE ((SELECT 1 FROM read_text('x')) AS procs) FROM cpu`,
  `SELECT * FROM cpu a JOIN cpu b ON (SELECT true FROM read_text('x'))`,
  `SELECT * FROM (VALUES ((SELECT 1 FROM read_text('x')))) v(a)`,
  `SELECT DISTINCT ON ((SELECT 1 FROM read_text('x'))) 1`,
  `SELECT time_bucket('1h', (SELECT now() FROM read_text('x')))`,
  `SELECT spread((SELECT 1 FROM read_text('x'))) FROM cpu`,
  `SELECT from_mean((SELECT 1 FROM read_text('x'))) OVER () FROM cpu`,
  `SELECT 'x' COLLATE "nocase;drop"`,
  `SELECT * FROM query('SELECT 1')`,
  `SELECT * FROM query_table('cpu')`,
  `SELECT * FROM query_table(['cpu'])`,
  `SELECT * FROM duckdb_settings()`,
  `SELECT * FROM duckdb_tables()`,
  `SELECT * FROM duckdb_secrets()`,
  `SELECT * FROM duckdb_functions`,
  `SELECT * FROM pragma_table_info('cpu')`,
  `SELECT * FROM pragma_database_list`,
  `SELECT * FROM pg_catalog.pg_tables`,
  `SELECT * FROM pg_tables`,
  `SELECT * FROM sqlite_master`,
  `SELECT * FROM __m0`,
  `SELECT * FROM main.__m0`,
  `SELECT * FROM memory.main.__m0`,
  `SELECT * FROM memory.cpu`,
  `SELECT * FROM information_schema.character_sets`,
  `SELECT * FROM information_schema.key_column_usage`,
  `SELECT * FROM system.information_schema.tables`,
  `SELECT * FROM svc_source('0')`,
  `SELECT * FROM seq_scan('__m0')`,
  `SELECT * FROM repeat_row(1, num_rows = 3)`,
  `SELECT * FROM checkpoint()`,
  `SELECT * FROM json_execute_serialized_sql('{}')`,
  `SELECT * FROM test_all_types()`,
  `SELECT getenv('HOME')`,
  `SELECT main.getenv('HOME')`,
  `SELECT current_setting('threads')`,
  `SELECT getvariable('x')`,
  `SELECT nextval('s')`,
  `SELECT currval('s')`,
  `SELECT current_query()`,
  `SELECT current_schemas(true)`,
  `SELECT pg_get_viewdef(1)`,
  `SELECT pg_sleep(1)`,
  `SELECT sleep_ms(1)`,
  `SELECT setseed(0.5)`,
  `SELECT txid_current()`,
  `SELECT write_log('x')`,
  `SELECT error('x')`,
  `SELECT json_serialize_sql('SELECT 1')`,
  `SELECT json_deserialize_sql('{}')`,
  `SELECT create_sort_key(1, 'ASC')`,
  `SELECT in_search_path('a', 'b')`,
  `SELECT __svc_fn_spread([1.0])`,
  `SELECT __svc_bucket(1, '{}')`,
  `SELECT ('HOME').getenv()`,
  `SELECT hostname.getenv() FROM cpu`,
  `SELECT s.f(1)`,
  `SELECT list_aggregate([1], 'getenv')`,
  `SELECT list_aggregate([1], hostname) FROM cpu`,
  `SELECT list_aggr([1], 'su' || 'm')`,
  `SELECT 'x'::nosuchtype`,
  `SELECT x::ENUM('a') FROM (SELECT 'a' AS x)`,
]) {
  refused(sql)
}

// Clauses of queries that DuckDB's parser does not have are not taken for other statements.
refused('SELECT procs FROM cpu WHERE procs BETWEEN SYMMETRIC 9 AND 1', /^cannot parse the query: not supported: /)
refused("SELECT hostname SIMILAR TO 'a' ESCAPE 'b' FROM cpu", /^cannot parse the query: not supported: Custom escape in SIMILAR TO/)
// Habits of other dialects are told what is written here.
refused(
  'SELECT procs FROM cpu WHERE _time > now() - 1h',
  /^cannot parse the query: syntax error at or near "h" \(character 46\); a duration is INTERVAL '1 hour'/,
)
refused('SELECT time_bucket(15m, _time) FROM cpu', /"m" \(character 22\); a duration is INTERVAL '1 hour', in time_bucket '1h'$/)
refused(
  'SELECT procs FROM cpu SAMPLE BY h',
  /^cannot parse the query: syntax error at or near "BY" \(character 30\); SAMPLE BY 5m is GROUP BY time_bucket\('5m', _time\) here$/,
)
refused('SELECT procs FROM cpu LATEST BY hostname', /near "BY" \(character 30\); LATEST BY a is LATEST ON _time PARTITION BY a here$/)
refused('SELECT procs FROM cpu WHERE procs BY h', /near "BY" \(character 35\)$/)
refused('SELECT procs FROM cpu LATEST ON timestamp PARTITION BY hostname', /[^.]; the time of a point is the column _time$/)
refused("SELECT procs FROM cpu WHERE _time > '1796101440s'", /'1796101440s' to INT64; a time is written as '2026-01-31T00:00:00Z', a number without quotes$/)
refused('SHOW TAG KEYS FROM cpu', /"KEYS" \(character 10\); DESCRIBE cpu has the tags and fields, SHOW TABLES the measurements$/)
refused('SHOW TAG VALUES FROM cpu WITH KEY = "hostname"', /"VALUES" \(character 10\); SELECT DISTINCT hostname FROM cpu has the values of a tag$/)
refused('SHOW TAG VALUES WITH KEY = hostname', /; SELECT DISTINCT hostname FROM <measurement> has the values of a tag$/)
refused('SHOW TAG VALUES', /; SELECT DISTINCT <tag> FROM <measurement> has the values of a tag$/)
refused('SELECT procs FROM cpu WHERE hostname =~ /^a/', /^cannot parse the query: .*; a regular expression is regexp_matches\(hostname, 'pattern'\) here$/)
refused('SELECT procs FROM cpu WHERE hostname !~ /^a/ AND procs > 1', /; a regular expression is regexp_matches\(hostname, 'pattern'\) here$/)
refused('SELECT avg(procs) FROM cpu GROUP BY hostname FILL(null)', /; buckets without points are those of a generate_series, joined by LEFT JOIN$/)
refused('SHOW FIELD KEYS', /DESCRIBE <measurement> has the tags and fields/)
refused('from(bucket: "x") |> range(start: -1h)', /\(character \d+\); this is Flux, and what is answered is SQL$/)
refused('SELECT procs FROM telegraf.autogen.cpu', /"telegraf\.autogen\.cpu": there are no other databases here; write "cpu" alone$/)
refused("SELECT procs FROM cpu WHERE _time > '2026-13-01'", /'2026-13-01'.*; a time is written as '2026-01-31T00:00:00Z', a number without quotes$/)
refused('SELECT /* /* */ */ procs FROM cpu SAMPLE BY h', /^cannot parse the query: syntax error at or near "BY"$/)
refused('SELECT cpu.time FROM cpu', /the time of a point is the column _time$/)
refused('SELECT procs FROM cpu WHERE hostname = "a"', /"a" not found in FROM clause; DESCRIBE lists .* text is written in single quotes$/)
refused(
  'DROP TABLE cpu',
  /^cannot run this statement: only queries are allowed.*; a measurement is dropped by DELETE \/api\/v1\/measurements\/<name>, points by POST /,
)
refused('\n delete FROM cpu', /; a measurement is dropped by DELETE /)
refused('CREATE TABLE disk (used DOUBLE)', /; data is written by the write API, which makes measurements too$/)

// Names that DuckDB knows, or reads as a file, where a caller could have them taken for a CTE's: __m0 is a table that is no measurement.
const KELVIN = '\u212a'
for (const name of ['__m0', 'duckdb_tables', 'duckdb_views', 'sqlite_master', 'pragma_database_list', 'pg_tables', '/etc/passwd.csv', '/tmp/*/*.parquet']) {
  refused(
    `WITH RECURSIVE "${name}" AS (SELECT * FROM "${name}" UNION ALL SELECT * FROM "${name}" WHERE false) SELECT * FROM "${name}"`,
    /there is none of that name/,
  )
  refused(`WITH RECURSIVE a AS (SELECT 1 UNION ALL SELECT (SELECT count(*) FROM "${name}") FROM a) SELECT * FROM a`, /there is none of that name/)
  refused(`WITH "${name}" AS (SELECT * FROM "${name}") SELECT * FROM "${name}"`, /there is none of that name/)
  refused(`WITH a AS (SELECT * FROM "${name}"), "${name}" AS (SELECT 1) SELECT * FROM a`, /there is none of that name/)
  refused(`SELECT * FROM (WITH "${name}" AS (SELECT 1) SELECT 1) x, "${name}"`, /there is none of that name/)
}
for (const [cte, name] of [
  [`duc${KELVIN}db_tables`, 'duckdb_tables'],
  ['duckdb_tables', `duc${KELVIN}db_tables`],
  [`DUC${KELVIN}DB_TABLES`, 'duckdb_tables'],
  [`/tmp/[1-9${KELVIN}].parquet`, '/tmp/[1-9k].parquet'],
]) {
  refused(`WITH "${cte}" AS (SELECT 1) SELECT * FROM "${name}"`, /there is none of that name/)
  refused(`SELECT "${name}".* FROM (SELECT 1) AS "${cte}"`)
}

// Statements that are no queries, and more than one.
for (const sql of [
  'DROP TABLE cpu',
  'INSERT INTO cpu VALUES (1)',
  'DELETE FROM cpu',
  'UPDATE cpu SET procs = 1',
  'CREATE TABLE x AS SELECT 1',
  'CREATE MACRO f() AS 1',
  `COPY cpu TO '/tmp/x'`,
  `COPY (SELECT 1) TO '/tmp/x'`,
  `ATTACH 'x.db'`,
  'SET threads = 1',
  'RESET threads',
  'PRAGMA database_list',
  'CALL pragma_version()',
  'PREPARE p AS SELECT 1',
  'EXECUTE p',
  'INSTALL httpfs',
  'LOAD httpfs',
  'BEGIN',
  'VACUUM',
  'CHECKPOINT',
  `EXPORT DATABASE '/tmp/x'`,
  'USE main',
  'SELECT 1; SELECT 2',
  'SELECT 1; DROP TABLE __m0',
  'SHOW TABLES; DROP TABLE __m0',
  'DESCRIBE cpu; DROP TABLE __m0',
  'EXPLAIN DROP TABLE __m0',
  'EXPLAIN ANALYZE DELETE FROM __m0',
  `EXPLAIN ANALYZE COPY cpu TO '/tmp/x'`,
  'EXPLAIN /* */ ANALYZE -- x\n DROP TABLE __m0',
  'EXPLAIN EXPLAIN SELECT 1',
  'DESCRIBE DROP TABLE cpu',
  `DESCRIBE SELECT * FROM read_text('x')`,
  `DESCRIBE 'file.parquet'`,
  'SHOW ALL TABLES',
  'SHOW DATABASES',
  'SHOW threads',
  'SUMMARIZE cpu',
  'SUMMARIZE SELECT 1',
  'FROM (SUMMARIZE cpu)',
  'FROM (SHOW ALL TABLES)',
  'FROM (DESCRIBE cpu)',
  'PIVOT cpu ON hostname',
  "SELECT * FROM cpu PIVOT (max(procs) FOR hostname IN ('a'))",
  'SELECT * FROM cpu UNPIVOT (a FOR b IN (procs))',
  'WITH x AS (DELETE FROM cpu RETURNING *) SELECT * FROM x',
  'SELECT * FROM cpu AT (VERSION => 1)',
  'SELECT * FROM cpu TABLESAMPLE 10%',
  'SELECT $1',
  'SELECT ?',
  '',
  ';',
  '-- nothing',
  'SELECT 1 \0',
  `SELECT '${'x'.repeat(1 << 20)}'`,
  'nonsense',
]) {
  refused(sql)
}

refused('SELECT * FROM nope', /there is none of that name in namespace "default"; SHOW TABLES/)
refused('SELECT * FROM Twin', /differ from it in case only/)
refused('SELECT nope FROM cpu', /nope/)

t.test('a failure names neither the rewritten statement nor internals', async (t) => {
  for (const sql of [
    'SELECT nope FROM cpu',
    `SELECT max(usage_user) + 'x'::INT FROM cpu`,
    'SELECT hostname FROM cpu GROUP BY procs',
    `SELECT newest(hostname, 'x') FROM cpu`,
  ]) {
    const error = await host.query(sql).catch((e: Error) => e)
    t.ok(error instanceof Error, sql)
    t.notMatch((error as Error).message, /__m0|__svc|LINE 1|epoch_ns\(_time\) BETWEEN/, sql)
  }
})

t.test('what is allowed is answered', async (t) => {
  const first = async (sql: string) => (await host.query(sql)).rows[0]?.[0]
  t.equal(await first('SELECT count(*) FROM cpu'), 240n)
  t.equal(await first('SELECT count(*) FROM main.cpu WHERE main.cpu.procs >= 0'), 240n)
  t.equal(await first('SELECT count(*) FROM CPU'), 240n, 'any case, when only one measurement has the name')
  t.equal(await first('SELECT count(*) FROM mixed'), 1n)
  t.equal(await first('SELECT count(*) FROM twin'), 1n, 'the exact name first')
  t.equal(await first('SELECT count(*) FROM TWIN'), 0n)
  t.equal(await first('SELECT count(*) FROM "a ""b"".c"'), 1n)
  t.equal(await first('WITH cpu AS (SELECT 1 AS x) SELECT count(*) FROM cpu'), 1n, 'a CTE hides a measurement')
  t.equal(await first('WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT sum(i)::INT FROM n'), 5 * 3)
  t.equal(await first('WITH RECURSIVE mixed AS (SELECT count(*) AS n FROM mixed UNION ALL SELECT n + 1 FROM mixed WHERE n < 3) SELECT max(n) FROM mixed'), 3n)
  t.equal(
    await first(
      'WITH RECURSIVE a AS (WITH b AS (SELECT 1 AS n) SELECT n FROM b UNION SELECT n FROM (SELECT n + 1 AS n FROM A) WHERE n < 4) SELECT max(n) FROM a',
    ),
    3,
  )
  t.equal(await first('WITH a AS (SELECT 1 AS n), b AS (WITH A AS (SELECT n + 1 AS n FROM a) SELECT n FROM a) SELECT b.n * 10 + A.n FROM a, b'), 21)
  t.equal(await first('WITH "sqlite_master" AS (SELECT 7) SELECT * FROM "SQLITE_Master"'), 7, 'a CTE may have any name')
  t.equal(await first('WITH cte_2 AS (SELECT 1 AS n), cte_1 AS (SELECT 2 AS n) SELECT cte_1.n * 10 + cte_2.n FROM cte_1, cte_2'), 21)
  t.equal(await first('VALUES (42)'), 42)
  t.equal(await first('TABLE mixed'), 1n)
  t.equal(await first('FROM mixed'), 1n)
  t.equal(await first('SELECT sum(i)::INT FROM range(4) r(i)'), 6)
  t.equal(await first('SELECT max(u) FROM (SELECT unnest([1, 2, 3]) u)'), 3)
  t.equal(await first('SELECT 1;'), 1)
  t.same((await host.query('SELECT approx_percentile(procs, 0.5) FROM cpu')).columns, ['approx_percentile(procs, 0.5)'])
  t.equal(await first(`/* a 'comment" */ SELECT 'it''s; -- fine'`), `it's; -- fine`)
  t.equal(await first('SELECT count(*) FROM cpu a JOIN cpu b USING (_time, hostname)'), 240n)
  t.equal(await first('SELECT count(*) FROM cpu a ASOF JOIN cpu b ON a.hostname = b.hostname AND a._time >= b._time'), 240n)
  t.equal(await first(`SELECT list_aggregate([1, 2], 'sum')::INT`), 3)
  t.same(await first('SELECT list_transform([1, 2], lambda x, i: x + i)'), [2n, 4n])
  t.same(await first('SELECT [x * 2 for x in [1, 2, 3] if x > 1]'), [4, 6])
  t.same((await host.query("SELECT COLUMNS(lambda c: c LIKE 'usage%') FROM cpu LIMIT 1")).columns, ['usage_user', 'usage_idle'])
  t.same((await host.query('SELECT * EXCLUDE (price, procs) RENAME (hostname AS h) FROM cpu LIMIT 1')).columns, [
    '_time',
    'h',
    'region',
    'usage_user',
    'usage_idle',
  ])
  t.same((await host.query('SELECT c FROM cpu c LIMIT 1')).types[0].startsWith('Struct('), true, 'a whole row')
  t.equal(await first(`SELECT '{"a": 7}'::JSON -> 'a'`), '7')
  t.equal(await first('SELECT count(*) FROM (SELECT hostname, region FROM cpu GROUP BY ROLLUP (hostname, region))'), 5n)
  t.equal(await first('SELECT count(*) FROM (SELECT 1 UNION SELECT 1 UNION ALL SELECT 1)'), 2n)
  t.equal(await first('SELECT 3 IN (SELECT procs FROM cpu)'), 1)
  t.equal(await first('SELECT EXISTS (FROM cpu c WHERE c.procs > (SELECT avg(d.procs) FROM cpu d WHERE d.hostname = c.hostname))'), 1)
})

t.test('SHOW, DESCRIBE and information_schema list the measurements of the namespace and nothing else', async (t) => {
  const names = ['Mixed', 'TWIN', 'a "b".c', 'cpu', 'twin']
  t.same((await host.query('SHOW TABLES')).rows.flat(), names)
  t.same((await host.query('show tables ;')).rows.flat(), names)
  t.same((await host.query('SELECT table_name FROM information_schema.tables ORDER BY 1')).rows.flat(), names)
  const columns = (await host.query('SHOW COLUMNS FROM cpu')).rows
  t.same(columns[0], ['_time', 'TIMESTAMP_NS', 'NO', 'timestamp'])
  t.same(columns[1], ['hostname', 'VARCHAR', 'YES', 'tag'])
  t.same(columns.at(-1), ['price', 'DECIMAL(38,4)', 'YES', 'field'])
  t.same((await host.query('DESCRIBE cpu')).rows, columns)
  t.same((await host.query('DESCRIBE "cpu"')).rows, columns)
  t.same((await host.query('DESCRIBE SELECT procs, usage_user / 2 AS half FROM cpu')).rows, [
    ['procs', 'BIGINT', 'YES'],
    ['half', 'DOUBLE', 'YES'],
  ])
  t.same((await host.query(`SELECT column_name FROM information_schema.columns WHERE table_name = 'cpu' AND role = 'tag'`)).rows.flat(), ['hostname', 'region'])
  t.same((await host.query('SELECT schema_name FROM information_schema.schemata')).rows, [['main']])
})

t.test('what tools ask about the server and the session are constants of svc', async (t) => {
  const one = async (expression: string) => (await host.query(`SELECT ${expression} AS x`)).rows[0][0]
  t.match(await one('version()'), /^svc \d+\.\d+\.\d+/)
  t.equal(await one('pg_catalog.version()'), await one('version()'))
  for (const schema of ['current_schema()', 'current_schema', 'CURRENT_SCHEMA()', 'main.current_schema()']) t.equal(await one(schema), 'main')
  for (const catalog of ['current_database()', 'current_catalog']) t.equal(await one(catalog), 'default', 'the catalog of the namespace')
  for (const user of ['current_user', 'user', 'session_user', 'current_role', 'current_user()']) t.equal(await one(user), 'svc')
  t.equal(await one("current_setting('TimeZone')"), 'UTC')
  t.equal(await one("current_setting('search_path')"), await one('current_schema()'))
  t.same((await host.query("SELECT version(), current_user, current_setting('timezone')")).columns, [
    'version()',
    'current_user',
    "current_setting('timezone')",
  ])
  t.same((await host.query("SELECT u.current_user FROM (SELECT 'x' AS current_user) u")).rows, [['x']], 'a column goes first')
  for (const sql of [
    `SELECT current_setting('memory_limit')`,
    `SELECT current_setting('data_directory')`,
    'SELECT current_setting(hostname) FROM cpu',
    'SELECT current_setting()',
  ]) {
    await t.rejects(host.query(sql), { code: 'SQL_ERROR', message: /current_setting|setting "/ }, sql)
  }
  await t.rejects(host.query('SELECT other.version()'), { code: 'SQL_ERROR' })
})

t.test('the schema by the names that tools have for it', async (t) => {
  const wanted = (await host.query('SELECT count(*), max(procs) FROM cpu')).rows
  for (const name of ['main.cpu', '"main"."cpu"', 'public.cpu', '"default"."cpu"', '"default"."main"."cpu"', '"default"."public"."cpu"', 'PUBLIC.cpu']) {
    t.same((await host.query(`SELECT count(*), max(procs) FROM ${name}`)).rows, wanted, name)
  }
  t.same((await host.query('SELECT count(*), max(public.cpu.procs) FROM public.cpu')).rows, wanted)
  t.same((await host.query('SELECT count("default"."cpu"."procs"), max(cpu.procs) FROM "default"."cpu"')).rows, wanted)
  t.same((await host.query("SELECT public.a.b FROM (SELECT {'b': 7} AS a) public")).rows, [[7]], 'an alias that is called like the schema goes before it')
  t.same((await host.query('SHOW COLUMNS FROM public.cpu')).rows, (await host.query('SHOW COLUMNS FROM cpu')).rows)
  await t.rejects(host.query('SELECT * FROM other.cpu'), { code: 'SQL_ERROR', message: /there is no such schema/ })
})

t.test('another namespace has its own measurements', async (t) => {
  await t.rejects(prepareSql(host, 'other', 'SELECT * FROM cpu'), { code: 'SQL_ERROR', message: /namespace "other"/ })
  await t.rejects(prepareSql(host, 'other', 'DESCRIBE cpu'), { code: 'SQL_ERROR' })
  t.notMatch((await prepareSql(host, 'other', 'SHOW TABLES')).sql, /cpu/)
  t.notMatch((await prepareSql(host, 'other', 'SELECT * FROM information_schema.columns')).sql, /hostname/)
})

t.test('every function on the list exists in this DuckDB', async (t) => {
  const reader = await host.connection.runAndReadAll('SELECT DISTINCT lower(function_name) FROM duckdb_functions()')
  const known = new Set(reader.getRows().map((row) => row[0]))
  for (const name of ['rank_dense', 'unnest', 'nullif', 'count_star']) known.add(name) // the parser's own
  const missing = [...SCALARS, ...AGGREGATES, ...WINDOWS, ...OPERATORS].filter((name) => !known.has(name))
  t.same(missing, [])
})
