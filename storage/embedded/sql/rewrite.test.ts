import t from 'tap'
import { MAX_TIME, MIN_TIME } from './host.ts'
import { prepareSql } from './prepare.ts'
import { CPU, CPU_ROWS, type TestHost, testHost } from './testing/host.ts'

let host: TestHost
t.before(async () => {
  host = await testHost([[CPU, CPU_ROWS]])
})
t.after(() => host.close())

const START = 1_704_067_200_000_000_000n // 2024-01-01T00:00:00Z
const MINUTE = 60_000_000_000n
const FULL = [MIN_TIME, MAX_TIME]

async function scans(where: string, from = 'cpu'): Promise<unknown[]> {
  return (await prepareSql(host, 'default', `SELECT count(*) FROM ${from} WHERE ${where}`)).scans.map((scan) => scan.time)
}

const at = (text: string): string => `timestamp '${text}'`

t.test('predicates on _time reach the scan', async (t) => {
  const from = (lo: bigint): bigint[] => [lo, MAX_TIME]
  const to = (hi: bigint): bigint[] => [MIN_TIME, hi]
  const now = host.clock
  for (const [where, range] of [
    ['_time >= 5', from(5n)],
    ['_time > 5', from(6n)],
    ['_time < 5', to(4n)],
    ['5 >= _time', to(5n)],
    ['5 < _time', from(6n)],
    ['_time = 5', [5n, 5n]],
    ['_time = -5', [-5n, -5n]],
    ['_time BETWEEN 5 AND 9', [5n, 9n]],
    ['_time IN (5, 9, 7)', [5n, 9n]],
    ['_time > 5 AND _time < 9 AND procs = 1', [6n, 8n]],
    ['_time > 9 AND _time < 5', [1n, 0n]],
    ['_time = 5 OR _time BETWEEN 7 AND 8', [5n, 8n]],
    ['(_time = 5 AND procs = 1) OR (procs = 2 AND _time < 3)', [MIN_TIME, 5n]],
    ['_time >= 9223372036854775807', [MAX_TIME, MAX_TIME]],
    ['_time > 9223372036854775807', [1n, 0n]],
    ['_time >= -9223372036854775808', FULL],
    ['_time >= 99999999999999999999', [1n, 0n]],
    [`_time >= ${at('2024-01-01T00:00:00Z')}`, from(START)],
    [`_time >= ${at('2024-01-01T02:00:00+02:00')}`, from(START)],
    [`_time >= ${at('2023-12-31T18:30:00-05:30')}`, from(START)],
    [`_time >= ${at('2024-01-01T00:00:00.000000001Z')}`, from(START + 1n)],
    [`_time >= ${at('2024-01-01 00:00:00')}`, from(START)],
    [`_time >= '2024-01-01'`, from(START)],
    [`_time >= '2024-01-01T00:00:00.5Z'`, from(START + 500_000_000n)],
    [`_time >= DATE '2024-01-01'`, from(START)],
    [`_time >= TIMESTAMPTZ '2024-01-01 01:00:00+01'`, from(START)],
    [`_time < '1969-12-31T23:59:59.999999999Z'`, to(-2n)],
    [`_time > now() - INTERVAL '1 hour'`, from(now - 60n * MINUTE + 1n)],
    ['_time + INTERVAL 1 DAY > 5', from(6n - 1440n * MINUTE)],
    ["INTERVAL '1 day' + _time <= 5", to(5n - 1440n * MINUTE)],
    ["_time - INTERVAL '2' HOUR BETWEEN 5 AND 9", [5n + 120n * MINUTE, 9n + 120n * MINUTE]],
    ["date_trunc('hour', _time) = '2024-01-01T00:00:00Z'", [START, START + 60n * MINUTE - 1n]],
    ["date_trunc('minute', _time) > 5", from(6n)],
    ["date_trunc('minute', _time) < 5", to(4n + MINUTE - 1n)],
    ["_time::DATE = DATE '2024-01-01'", [START, START + 1440n * MINUTE - 1n]],
    ["_time::DATE = '2024-01-01'", [START, START + 1440n * MINUTE - 1n]],
    [`now() BETWEEN _time AND _time + INTERVAL '1 hour'`, [now - 60n * MINUTE, now]],
    [`_time > now() - INTERVAL 90 MINUTE`, from(now - 90n * MINUTE + 1n)],
    [`_time > now() - INTERVAL '1 day 2 hours'`, from(now - 26n * 60n * MINUTE + 1n)],
    [`_time > current_timestamp - INTERVAL '1 month'`, from(1_764_547_200_000_000_000n + 1n)], // 2025-12-01
    [`_time <= current_date`, to(now)],
    ['_time > to_timestamp(1704067200)', from(START + 1n)],
    ['_time > to_timestamp(1704067200 - 60)', from(START - MINUTE + 1n)],
    ['_time <= to_timestamp(1704067200.25)', to(START + 250_000_000n)],
    ['_time >= to_timestamp(-1)', from(-1_000_000_000n)],
    [`cpu._time > 5`, from(6n)],
    [`"_TIME" > 5`, from(6n)],
  ] as const) {
    t.same(await scans(where), [range], where)
  }
})

t.test('what cannot be sure restricts nothing', async (t) => {
  for (const where of [
    'NOT (_time > 5 AND procs = 1)',
    '_time <> 5',
    '_time > 5 OR procs = 1',
    '(_time > 5) = (procs = 1)',
    '_time NOT IN (5, 6)',
    '_time NOT BETWEEN 5 AND 9',
    '_time IS DISTINCT FROM 5',
    'CASE WHEN procs = 1 THEN _time > 5 ELSE true END',
    '_time > now() - (procs * INTERVAL 1 DAY)',
    '_time + INTERVAL 1 MONTH > 5',
    '_time > to_timestamp(procs)',
    '_time > to_timestamp(1704067200.123456789)',
    '_time + to_days(procs::INTEGER) > 5',
    "_time::DATE > '2024-01-01T05:00:00'",
    "_time::VARCHAR > '2024'",
    "strftime(_time, '%Y') = '2024'",
    'EXISTS (SELECT 1 WHERE cpu._time > 5)',
    '_time > (SELECT max(_time) - INTERVAL 1 DAY FROM cpu)',
  ]) {
    const ranges = await scans(where).catch((error: Error) => {
      throw new Error(`${where}: ${error.message}`)
    })
    for (const range of ranges) t.same(range, FULL, where)
  }
})

t.test('joins, aliases, subqueries and CTEs restrict the scan they mean', async (t) => {
  const ranges = async (sql: string) => (await prepareSql(host, 'default', sql)).scans.map((scan) => scan.time)
  const after = [6n, MAX_TIME]
  t.same(await ranges('SELECT 1 FROM cpu a, cpu b WHERE a._time > 5'), [after, FULL])
  t.same(await ranges('SELECT 1 FROM cpu a, cpu b WHERE _time > 5'), [FULL, FULL], 'ambiguous')
  t.same(await ranges('SELECT 1 FROM cpu a JOIN cpu b ON a._time > 5 AND b._time = 7'), [after, [7n, 7n]])
  t.same(await ranges('SELECT 1 FROM cpu a LEFT JOIN cpu b ON a._time > 5 AND b._time = 7'), [FULL, [7n, 7n]], 'ON of a left join leaves the left side whole')
  t.same(await ranges('SELECT 1 FROM cpu a RIGHT JOIN cpu b ON a._time > 5 AND b._time = 7'), [after, FULL])
  t.same(await ranges('SELECT 1 FROM cpu a FULL JOIN cpu b ON a._time > 5 AND b._time = 7'), [FULL, FULL])
  t.same(await ranges('SELECT 1 FROM cpu a ANTI JOIN cpu b ON a._time > 5 AND b._time = 7'), [FULL, [7n, 7n]])
  t.same(await ranges('SELECT 1 FROM cpu a JOIN cpu b USING (_time) WHERE _time > 5'), [after, after])
  t.same(await ranges('SELECT 1 FROM cpu a LEFT JOIN cpu b USING (_time) WHERE _time > 5'), [FULL, FULL])
  t.same(
    await ranges('SELECT 1 FROM cpu a ASOF JOIN cpu b ON a._time >= b._time WHERE a._time > 5 AND b._time > 5'),
    [after, FULL],
    'an ASOF partner is chosen from all rows',
  )
  t.same(await ranges('SELECT 1 FROM cpu a POSITIONAL JOIN cpu b WHERE a._time > 5'), [FULL, FULL])
  t.same(await ranges('SELECT 1 FROM cpu AS c(_time, x) WHERE x > 5'), [FULL], 'renamed columns')
  t.same(await ranges('SELECT 1 FROM cpu AS c(x) WHERE x > 5'), [after], 'a renamed time is still the time')
  t.same(await ranges('SELECT 1 FROM (SELECT * FROM cpu WHERE _time > 5) c WHERE c._time < 9'), [after])
  t.same(await ranges('WITH c AS (SELECT * FROM cpu) SELECT 1 FROM c WHERE _time > 5'), [FULL])
  t.same(await ranges('SELECT (SELECT max(b.procs) FROM cpu b WHERE a._time > 5) FROM cpu a'), [FULL, FULL], 'an outer column')
  t.same(await ranges('SELECT 1 FROM cpu WHERE list_filter([1], lambda _time: _time > 5) = [1]'), [FULL], 'a lambda parameter')
  t.same(await ranges('SELECT max(procs) FROM cpu GROUP BY hostname HAVING max(_time) > 5'), [FULL])
  t.same(await ranges('SELECT procs AS _time FROM cpu ORDER BY _time > 5'), [FULL])
})

t.test('a statement with LATEST ON is described as others are', async (t) => {
  const { rows } = await host.query('DESCRIBE SELECT hostname, procs FROM cpu LATEST ON _time PARTITION BY hostname')
  t.same(rows, [
    ['hostname', 'VARCHAR', 'YES'],
    ['procs', 'BIGINT', 'YES'],
  ])
})

t.test('LATEST ON takes a time, and no other column', async (t) => {
  const latest = (time: string, from = 'cpu'): Promise<{ rows: unknown[][] }> =>
    host.query(`SELECT hostname, _time FROM ${from} WHERE procs >= 0 LATEST ON ${time} PARTITION BY hostname ORDER BY hostname`)
  const { rows } = await host.query('SELECT hostname, max(_time) FROM cpu GROUP BY hostname ORDER BY hostname')
  t.ok(rows.length > 1)
  for (const time of ['_time', 'cpu._time', '"_time"', '_TIME']) t.same((await latest(time)).rows, rows, time)
  t.same((await latest('t', `(SELECT *, date_trunc('second', _time) AS t FROM cpu) c`)).rows, rows, 'a time of a subquery')
  for (const column of ['usage_user', 'procs', 'price', 'region', 'cpu.usage_user']) {
    await t.rejects(
      latest(column),
      { code: 'SQL_ERROR', message: `cannot find the latest rows by "${column}": it is not a time; write LATEST ON _time` },
      column,
    )
  }
  await t.rejects(latest('_time, usage_user'), { code: 'SQL_ERROR' })
})

t.test('left join with a condition on the nullable side answers as without pruning', async (t) => {
  const sql = (where: string) =>
    `SELECT count(*) FROM (SELECT * FROM cpu WHERE hostname = 'a') a LEFT JOIN cpu b ON b.hostname = 'b' AND a.procs = b.procs WHERE ${where}`
  const pruned = await host.query(sql(`b._time >= ${START + 100n * MINUTE}`))
  const whole = await host.query(sql(`epoch_ns(b._time) >= ${START + 100n * MINUTE}`))
  t.same(pruned.rows, whole.rows)
  t.same(pruned.rows, [[20n]])
})

t.test('comparisons are exact in nanoseconds, in range or out of it', async (t) => {
  const count = async (where: string) => (await host.query(`SELECT count(*) FROM cpu WHERE ${where}`)).rows[0][0]
  t.equal(await count(`_time = ${START}`), 2n)
  t.equal(await count(`_time = ${START + 1n}`), 0n)
  t.equal(await count(`_time >= ${at('2024-01-01T00:00:00.000000001Z')}`), 238n)
  t.equal(await count(`_time > -9223372036854775808 AND _time < 9223372036854775807`), 240n)
  t.equal(await count('_time < 99999999999999999999'), 240n)
  t.equal(await count(`_time IN (${START}, ${START + MINUTE}, 99999999999999999999)`), 4n)
  t.equal(await count(`NOT (_time > ${START})`), 2n)
  t.equal(await count(`CASE WHEN _time > ${START} THEN false ELSE true END`), 2n)
  t.equal(await count(`_time < now() - INTERVAL '1 year'`), 240n)
  const later = await host.query(`WITH c AS (SELECT _time AS t FROM cpu) SELECT count(*) FROM c WHERE t >= ${START + MINUTE} AND t <> '2024-01-01T00:01:00Z'`)
  t.same(later.rows, [[236n]], 'the time under another name')
})

t.test('only the columns that are used are read; tag conditions are handed on', async (t) => {
  const scan = async (sql: string) => (await prepareSql(host, 'default', sql)).scans[0]
  const columns = async (sql: string) => (await scan(sql)).columns.join(' ')
  t.equal(await columns('SELECT count(*) FROM cpu'), '_time')
  t.equal(await columns('SELECT max(procs) FROM cpu'), 'procs')
  t.equal(await columns("SELECT max(c.procs) FROM cpu c WHERE c.region = 'eu'"), 'procs', 'the scan itself holds only rows of that region')
  t.equal(await columns("SELECT max(c.procs) FROM cpu c WHERE c.region <> 'eu' AND _time > now()"), 'region procs')
  t.equal(await columns('SELECT max(PROCS) FROM cpu'), 'procs')
  t.equal(await columns('SELECT * FROM cpu'), CPU.columns.map((c) => c.name).join(' '))
  t.equal(await columns('SELECT c.* FROM cpu c'), CPU.columns.map((c) => c.name).join(' '))
  t.equal(await columns('SELECT 1 FROM cpu a JOIN cpu b USING (hostname)'), 'hostname')
  t.equal(await columns('SELECT (SELECT cpu.price) FROM cpu'), 'price')
  const tags = async (where: string) => (await scan(`SELECT 1 FROM cpu WHERE ${where}`)).tags
  t.same(await tags(`hostname = 'a'`), [{ tag: 'hostname', values: ['a'] }])
  t.same(await tags(`'a' = cpu.hostname AND region IN ('x', 'y')`), [
    { tag: 'hostname', values: ['a'] },
    { tag: 'region', values: ['x', 'y'] },
  ])
  t.same(await tags(`hostname = 'a' OR hostname = 'b'`), [{ tag: 'hostname', values: ['a', 'b'] }])
  t.same(await tags(`hostname = 'a' OR region = 'b'`), [])
  t.same(await tags(`hostname = ''`), [])
  t.same(await tags(`NOT hostname = 'a'`), [])
  t.same(await tags(`hostname = region`), [])
  const enums = async (sql: string) => (await scan(sql)).enumTags
  t.same(await enums('SELECT hostname, count(*) FROM cpu GROUP BY hostname'), ['hostname'])
  t.same(await enums('SELECT hostname AS h, region FROM cpu GROUP BY 1, h, region'), ['hostname', 'region'])
  t.same(await enums('SELECT hostname, typeof(hostname) FROM cpu GROUP BY ALL'), [])
  t.same(await enums('SELECT hostname, list(hostname) FROM cpu GROUP BY 1'), [])
  t.same(await enums('SELECT hostname FROM cpu'), [])
})

t.test('a rewritten expression keeps its name', async (t) => {
  const names = async (sql: string) => (await host.query(sql)).columns
  t.same(await names(`SELECT time_bucket('1h', _time), procs / 2, procs / (procs + 1), max(usage_user) FROM cpu GROUP BY ALL LIMIT 1`), [
    `time_bucket('1h', _time)`,
    '(procs / 2)',
    'procs / (procs + 1)',
    'max(usage_user)',
  ])
})

t.test('division: integers and decimals refuse a zero, floats do not', async (t) => {
  const value = async (sql: string) => (await host.query(`SELECT ${sql}`)).rows[0][0]
  const zero = { code: 'SQL_ERROR', message: /division by zero/ }
  for (const sql of [
    '1 / 0',
    '1 // 0',
    '1 % 0',
    'mod(1, 0)',
    'divide(1, 0)',
    '1.5 / 0',
    '1 / 0.0',
    '1.5 % 0',
    '1::BIGINT / (2 - 2)',
    '1 / (SELECT 0)',
    '0 / 0',
  ]) {
    await t.rejects(host.query(`SELECT ${sql}`), zero, sql)
  }
  for (const sql of [
    'procs / (procs - procs)',
    'procs % (procs - procs)',
    'price / (price - price)',
    '1 / procs',
    'sum(procs) / count(*) FILTER (WHERE procs > 1000)',
    'procs // (procs - 5)',
  ]) {
    await t.rejects(host.query(`SELECT ${sql} FROM cpu`), zero, sql)
  }
  t.equal(await value('1e0 / 0'), Number.POSITIVE_INFINITY)
  t.ok(Number.isNaN(await value('0e0 / 0e0')))
  t.equal(await value('CAST(1 AS DOUBLE) / 0.0'), Number.POSITIVE_INFINITY)
  t.equal(await value('(SELECT 1e0) / (SELECT 0)'), Number.POSITIVE_INFINITY, 'a type only the binder knows')
  t.equal(await value(`'' || 'x'`), 'x')
  t.equal(await value('NULL / 0'), null)
  t.equal(await value('7 / 2'), 3.5)
  t.equal(await value('7 // 2'), 3)
  t.equal(await value('CASE WHEN false THEN 1 / 0 ELSE 2 END'), 2)
  t.equal((await host.query('SELECT sum(usage_user / (usage_user - usage_user)) FROM cpu')).rows.length, 1)
  t.equal((await host.query('SELECT typeof(1.5), typeof(usage_user * price) FROM cpu LIMIT 1')).rows[0].join(), 'DECIMAL(2,1),DOUBLE')
  await t.rejects(host.query(`SELECT 'abc'::INTEGER`), { code: 'SQL_ERROR', message: /abc/ })
  await t.rejects(host.query(`SELECT date_trunc('fortnight', _time) FROM cpu`), { code: 'SQL_ERROR', message: /fortnight/ })
  await t.rejects(host.query(`SELECT timezone('Mars/Base', now())`), { code: 'SQL_ERROR', message: /Mars\/Base/ })
})

t.test('EXPLAIN names the scan with its range', async (t) => {
  const { columns, rows } = await host.query(`EXPLAIN SELECT max(procs) FROM cpu WHERE _time BETWEEN 5 AND 9 AND hostname = 'a'`)
  t.same(columns, ['plan_type', 'plan'])
  t.same(rows[0], ['scan', 'Scan: cpu time=[5..9] columns=[procs] hostname in [a]'])
  t.match((await host.query('EXPLAIN SELECT * FROM cpu')).rows[0][1], /time=\[-9223372036854775808\.\.9223372036854775807\]/)
  t.match((await host.query('explain analyze SELECT count(*) FROM cpu')).rows, [['scan'], ['analyzed_plan']])
})

t.test('a signal stops a statement', async (t) => {
  const { openSql } = await import('./open.ts')
  const abort = new AbortController()
  const cursor = openSql(host, { namespace: 'default', query: 'SELECT sum(a.i * b.i) FROM range(1000000) a(i), range(1000000) b(i)' }, abort.signal)
  setTimeout(() => abort.abort(), 50)
  await t.rejects(
    (async () => {
      for await (const _ of await cursor);
    })(),
    { code: 'QUERY_TIMEOUT' },
  )
})

t.test('rows are grouped by series before their tags are joined, where that cannot change the answer', async (t) => {
  const early = async (sql: string): Promise<boolean> => / AS p JOIN /.test((await prepareSql(host, 'default', sql)).sql)
  for (const sql of [
    "SELECT time_bucket('1h', _time) AS t, hostname, avg(usage_user) FROM cpu WHERE _time < now() GROUP BY 1, 2 ORDER BY 1, 2",
    'SELECT hostname, max(_time), arg_max(usage_user, _time), last(usage_user, _time) FROM cpu GROUP BY hostname ORDER BY hostname',
    "SELECT region, count(*) FROM cpu WHERE hostname = 'a' AND procs > 1 GROUP BY ALL",
    'SELECT hostname AS h, sum(price) FROM cpu GROUP BY h ORDER BY h DESC LIMIT 2',
  ]) {
    t.ok(await early(sql), sql)
  }
  for (const sql of [
    'SELECT hostname, avg(procs) FROM cpu GROUP BY hostname',
    'SELECT hostname, count(DISTINCT procs) FROM cpu GROUP BY hostname',
    'SELECT hostname, sum(procs) FILTER (WHERE procs > 1) FROM cpu GROUP BY hostname',
    "SELECT hostname, max(hostname || 'x') FROM cpu GROUP BY hostname",
    'SELECT upper(hostname) AS u, max(procs) FROM cpu GROUP BY u',
    "SELECT hostname, max(procs) FROM cpu WHERE procs < 5 OR hostname = 'a' GROUP BY hostname",
    'SELECT hostname, procs, max(_time) FROM cpu GROUP BY hostname, procs',
    'SELECT hostname, max(procs) FROM cpu GROUP BY hostname HAVING max(procs) > 1',
    'SELECT hostname, max(procs) FROM cpu GROUP BY hostname ORDER BY max(procs)',
    'SELECT max(procs) FROM cpu',
    'SELECT a.hostname, max(a.procs) FROM cpu a JOIN cpu b USING (hostname) GROUP BY a.hostname',
    // Aggregates of the time that do not combine: GROUP BY ALL would take them for keys.
    'SELECT region, max(_time) - min(_time) FROM cpu GROUP BY ALL',
    'SELECT region, count(DISTINCT _time) FROM cpu GROUP BY ALL',
    'SELECT region, max(_time) FILTER (WHERE _time > now()) FROM cpu GROUP BY ALL',
    'SELECT region, spread(epoch(_time)) FROM cpu GROUP BY ALL',
    'SELECT region, middle(epoch(_time)) FROM cpu GROUP BY ALL',
  ]) {
    t.notOk(await early(sql), sql)
  }
})

t.test('a group of several series is one row, whatever is asked of its times', async (t) => {
  const series = await testHost([
    [CPU, `SELECT * REPLACE ('eu' AS region, _time + (hostname = 'b')::INTEGER * INTERVAL '1 second' AS _time) FROM (${CPU_ROWS})`],
  ])
  t.teardown(() => series.close())
  const { rows } = await series.query(
    'SELECT region, epoch_ns(max(_time)) - epoch_ns(min(_time)) AS span, count(DISTINCT _time) AS times FROM cpu GROUP BY ALL',
  )
  t.same(rows, [['eu', 119n * 60_000_000_000n + 1_000_000_000n, 240n]])
})
