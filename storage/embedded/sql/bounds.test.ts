/** Which statements run on an engine thread, and which are refused for their size. */
import t from 'tap'
import { DEFAULT_LIMITS } from '../sql-limits.ts'
import { parse } from './ast.ts'
import { isBounded } from './bounds.ts'
import { checkText, checkTree } from './limits.ts'
import { expandFunctions } from './plugin-functions/expand.ts'
import { runnerOn } from './statement.ts'
import { CPU, CPU_ROWS, testHost } from './testing/host.ts'

const host = await testHost([[CPU, CPU_ROWS]])
t.after(() => host.close())

const bounded = async (query: string): Promise<boolean> => {
  const { tree } = await parse(host, query)
  await expandFunctions(tree, host.functions!, DEFAULT_LIMITS, (text) => parse(host, text))
  return isBounded(tree, checkTree(tree, DEFAULT_LIMITS))
}

t.test('statements of dashboards are bounded by the rows they read', async (t) => {
  for (const query of [
    'SELECT 1',
    'SELECT * FROM cpu WHERE hostname = ? ORDER BY _time DESC LIMIT 10',
    "SELECT time_bucket('5m', _time) AS t, hostname, avg(usage_user), max(usage_idle) FROM cpu WHERE _time > now() - INTERVAL '1 hour' GROUP BY 1, 2 ORDER BY 1",
    'SELECT DISTINCT ON (hostname) hostname, last(usage_user, _time), count(DISTINCT region) FROM cpu GROUP BY hostname HAVING count(*) > 3',
    'SELECT a.hostname, b.usage_user FROM cpu a JOIN cpu b ON a.hostname = b.hostname AND a._time = b._time',
    'SELECT * FROM cpu a JOIN cpu b USING (hostname, _time)',
    "SELECT upper(hostname) || ':' || region, round(usage_user / procs * 100, 2) FROM cpu WHERE hostname LIKE 'web%' AND region ~ '^eu'",
    'SELECT lag(usage_user) OVER (PARTITION BY hostname ORDER BY _time), since_last(usage_user) OVER (ORDER BY _time) FROM cpu',
    'WITH a AS (SELECT hostname, avg(usage_user) u FROM cpu GROUP BY 1) SELECT * FROM a WHERE u > (SELECT avg(u) FROM a)',
    'SELECT i FROM range(1000) r(i)',
    `SELECT ${Array.from({ length: 60 }, (_, i) => `sum(usage_user) / nullif(sum(procs), ${i}) AS a${i}`).join(', ')} FROM cpu`,
    'WITH a AS (SELECT hostname, sum(usage_user) / nullif(sum(procs), 0) AS u, coalesce(max(usage_idle), 0) AS i FROM cpu GROUP BY 1) SELECT hostname, CASE WHEN u > i THEN u ELSE i END AS w, nullif(u, 0) * 100 AS p FROM a WHERE u > 3',
    `SELECT ${Array.from({ length: 20 }, (_, i) => `strftime(_time + INTERVAL ${i} HOUR, '%Y-%m-%d %H:%M')`).join(', ')} FROM cpu`,
    `SELECT ${Array.from({ length: 20 }, (_, i) => `avg(usage_user) OVER (ORDER BY _time ROWS ${i} PRECEDING)`).join(', ')} FROM cpu`,
    `SELECT position('a' IN hostname), strpos(hostname, '${'a'.repeat(256)}'), instr(hostname, 'b') FROM cpu WHERE contains(hostname, 'c') AND hostname LIKE '%${'a'.repeat(254)}%'`,
    'SELECT max(usage_user, 100), arg_min(hostname, usage_user, 3) FROM cpu',
    `SELECT ${Array.from({ length: 4 }, () => 'TRY(CAST(hostname AS INTEGER))').join(', ')} FROM cpu`,
    `SELECT * FROM cpu WHERE hostname IN (${Array.from({ length: 1000 }, (_, i) => `'h${i}'`).join(', ')})`,
  ])
    t.equal(await bounded(query), true, query)
})

t.test('what has no bound but itself is not', async (t) => {
  for (const query of [
    `SELECT procs AS a0, ${Array.from({ length: 9 }, (_, i) => `a${i} + a${i} AS a${i + 1}`).join(', ')} FROM cpu`,
    `SELECT ${'- '.repeat(65)}procs FROM cpu`,
    // Each doubles what it is of: DuckDB's macros, by themselves and through aliases, and what a condition outside is moved into.
    `SELECT count(*) FROM cpu WHERE ${'nullif('.repeat(16)}procs${', 0)'.repeat(16)} > 3`,
    `SELECT ${'round_even('.repeat(9)}usage_user${', 0)'.repeat(9)} FROM cpu`,
    `SELECT nullif(1, 0) AS a0, ${Array.from({ length: 14 }, (_, i) => `nullif(a${i}, 1) AS a${i + 1}`).join(', ')} FROM cpu`,
    `SELECT a FROM ${'(SELECT coalesce(a, a) AS a FROM '.repeat(16)}(SELECT procs AS a FROM cpu)${')'.repeat(16)} WHERE a > 3`,
    `WITH c0 AS (SELECT procs AS a FROM cpu), ${Array.from({ length: 16 }, (_, i) => `c${i + 1} AS (SELECT CASE WHEN a = 1 THEN NULL ELSE a END AS a FROM c${i})`).join(', ')} SELECT a FROM c16 WHERE a > 3`,
    `SELECT * FROM cpu WHERE ${Array.from({ length: 33 }, (_, i) => `procs = usage_user + ${i}`).join(' AND ')}`,
    `SELECT ${Array.from({ length: 9 }, () => '*').join(', ')} FROM cpu`,
    `SELECT * FROM cpu WHERE ${Array.from({ length: 5 }, () => `hostname ~ '${'[\\pL]'.repeat(45)}'`).join(' OR ')}`,
    'SELECT len(range(1000000000))',
    "SELECT repeat('x', 1000000000)",
    'SELECT [range(1000000) FOR x IN range(1000)]',
    "SELECT lpad('x', 2000000000, 'y')",
    "SELECT printf('%2000000000d', 1)",
    "SELECT bitstring('1', 2000000000)",
    'SELECT map(range(5000000), range(5000000))',
    'SELECT list(usage_user) FROM cpu',
    "SELECT string_agg(hostname, ',') FROM cpu",
    'SELECT quantile_cont(usage_user, 0.9) FROM cpu',
    'SELECT first(usage_user ORDER BY _time) FROM cpu',
    'SELECT count(DISTINCT hostname) OVER () FROM cpu',
    "SELECT levenshtein(repeat('a', 100000), 'b')",
    'SELECT list_transform([1], x -> x + 1)',
    'SELECT * FROM cpu a, cpu b',
    'SELECT * FROM cpu a CROSS JOIN cpu b',
    'SELECT * FROM cpu a JOIN cpu b ON a.usage_user < b.usage_user',
    'SELECT * FROM range(1000000000)',
    "SELECT * FROM generate_series(TIMESTAMP '2024-01-01', TIMESTAMP '2025-01-01', INTERVAL 1 SECOND)",
    'WITH RECURSIVE r AS (SELECT 1 i UNION ALL SELECT i + 1 FROM r) SELECT * FROM r',
    'SELECT hostname || hostname || hostname || hostname || hostname || hostname FROM cpu',
    // Of each of these DuckDB holds a text for each row of a chunk, and counts none of them.
    `SELECT ${Array.from({ length: 9 }, (_, i) => `length(left(hostname, ${i}))`).join(', ')} FROM cpu`,
    `SELECT ${Array.from({ length: 9 }, (_, i) => `regexp_extract(hostname, 'h${i}')`).join(', ')} FROM cpu`,
    `SELECT ${Array.from({ length: 9 }, (_, i) => `lag(hostname, ${i}) OVER (ORDER BY _time)`).join(', ')} FROM cpu`,
    `SELECT ${Array.from({ length: 5 }, (_, i) => `upper(hostname), max(hostname) OVER (ORDER BY _time ROWS ${i} PRECEDING)`).join(', ')} FROM cpu`,
    `SELECT ${Array.from({ length: 9 }, () => `strftime(_time, '${'%c'.repeat(100)}')`).join(', ')} FROM cpu`,
    "SELECT * FROM cpu WHERE hostname LIKE '%a_a_a%'",
    // Of a long text in a long text each place is compared, up to the last letter.
    'SELECT strpos(hostname, region) FROM cpu',
    'SELECT instr(hostname, region) FROM cpu',
    'SELECT position(region IN hostname) FROM cpu',
    `SELECT instr(hostname, '${'a'.repeat(257)}') FROM cpu`,
    `SELECT * FROM cpu WHERE contains(hostname, '${'a'.repeat(257)}')`,
    `SELECT * FROM cpu WHERE hostname LIKE '%${'a'.repeat(256)}%'`,
    `SELECT * FROM cpu WHERE hostname ILIKE '%${'a'.repeat(256)}%'`,
    // Each doubles what is computed of those within it.
    `SELECT ${'TRY(CAST(coalesce(CAST('.repeat(5)}hostname${" AS VARCHAR), 'a') AS INTEGER))".repeat(5)} FROM cpu`,
    `SELECT TRY(CAST(hostname AS INTEGER)) AS a0, ${Array.from({ length: 4 }, (_, i) => `TRY(CAST(coalesce(CAST(a${i} AS VARCHAR), 'a') AS INTEGER)) AS a${i + 1}`).join(', ')} FROM cpu`,
    // Room for so many values for each group.
    'SELECT hostname, max(usage_user, 101) FROM cpu GROUP BY hostname',
    'SELECT hostname, arg_min(usage_user, procs, 999999) FROM cpu GROUP BY hostname',
    'SELECT min(usage_user, 999999) OVER (PARTITION BY hostname) FROM cpu',
    // Makes a list of each text.
    "SELECT split_part(hostname, '', 1) FROM cpu",
    'SELECT * FROM cpu WHERE hostname LIKE region',
    'SELECT regexp_matches(hostname, region) FROM cpu',
    'SELECT running(usage_user) OVER (ORDER BY _time) FROM cpu',
    'SELECT newest(usage_user, _time) FROM cpu',
    'SELECT usage_user / procs / procs / procs / procs FROM cpu',
    'SELECT max(COLUMNS(*)) FROM cpu',
    "SELECT CAST('[1]' AS INTEGER[])",
    `SELECT ${'1 = 1 AND '.repeat(2000)} 1 = 1`,
    'SELECT sum(usage_user) FROM cpu GROUP BY CUBE (hostname, region, procs, price, usage_idle)',
  ])
    t.equal(await bounded(query), false, query)
})

t.test('an answer with texts in many more columns than are read is made apart, for DuckDB copies each of them', async (t) => {
  const own = await testHost([[CPU, CPU_ROWS]])
  t.teardown(() => own.close())
  let apart = 0
  own.apart = () => {
    apart++
    return { host: own, runner: runnerOn(own.connection) }
  }
  const columns = (count: number, one: string): string => Array.from({ length: count }, (_, i) => `${one} AS c${i}`).join(', ')
  const ran = async (query: string): Promise<boolean> => {
    apart = 0
    const { rows } = await own.query(query)
    t.ok(rows.length > 0)
    return apart > 0
  }
  t.equal(await ran(`SELECT ${columns(9, 'hostname')} FROM cpu`), false, 'eight more')
  t.equal(await ran(`SELECT ${columns(10, 'hostname')} FROM cpu`), true, 'nine more')
  t.equal(await ran(`SELECT ${columns(10, 'hostname')}, region FROM cpu`), true)
  t.equal(await ran(`SELECT ${columns(100, 'usage_user')}, * FROM cpu`), false, 'numbers')
})

t.test('what is too large is refused with the limit and its key', async (t) => {
  const refused = async (query: string, limits = DEFAULT_LIMITS) => {
    checkText(query, limits)
    checkTree((await parse(host, query)).tree, limits)
  }
  await t.rejects(refused(`SELECT '${'é'.repeat(70_000)}'`), { code: 'SQL_ERROR', message: /140009 bytes: at most 131072 .* sql_max_text_bytes/ })
  await t.rejects(refused(`SELECT ${'1 + '.repeat(300)} 1`), { code: 'SQL_ERROR', message: /more than 256 levels.* sql_max_depth/ })
  await t.rejects(refused(`SELECT 1 ${'INTERSECT SELECT 1 '.repeat(300)}`), { code: 'SQL_ERROR', message: /more than 256 levels/ })
  await t.rejects(refused(`SELECT 1 ${'UNION ALL SELECT 1 '.repeat(6000)}`), { code: 'SQL_ERROR', message: /more than 20000 parts.* sql_max_nodes/ })
  const twice = Array.from({ length: 30 }, (_, i) => `c${i + 1} AS (SELECT * FROM c${i}, c${i})`)
  await t.rejects(refused(`WITH c0 AS (SELECT 1), ${twice.join(', ')} SELECT * FROM c30`), { code: 'SQL_ERROR', message: /written out/ })
  await refused(`WITH c0 AS (SELECT 1), ${twice.slice(0, 5).join(', ')} SELECT * FROM c5`)
  await t.rejects(host.query(`SELECT ${'1 + '.repeat(300)} 1`), { message: /levels deep/ }, 'also when it is run')
  await t.rejects(refused('SELECT 1, 2', { ...DEFAULT_LIMITS, nodes: 2 }), { message: /more than 2 parts/ })
})
