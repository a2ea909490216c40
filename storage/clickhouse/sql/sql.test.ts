/**
 * Statements on the embedded engine and on ClickHouse: types, missing values and orders must be the same, or ClickHouse refuses by name what it has not.
 * SVC_SEED repeats a run, SVC_STATEMENTS makes it longer.
 */
import t from 'tap'
import { functions } from '../../../plugins/analytics/functions.ts'
import { NO_CLICKHOUSE, startClickHouse } from '../../../test/support/clickhouse/clickhouse.ts'
import { NOW } from '../../conformance/points.ts'
import { Random } from '../../conformance/random.ts'
import { type Answer, ask, type Both, differenceOf, openBoth } from '../testing/sql.ts'
import { TypedStatements } from '../testing/statements.ts'

const SEED = Number(process.env.SVC_SEED ?? 20_240_101)
const STATEMENTS = Number(process.env.SVC_STATEMENTS ?? 120)
const LACKS = /^cannot run this query on the storage engine "clickhouse": it has no /

const told = (value: unknown): string => JSON.stringify(value, (_, each) => (typeof each === 'bigint' ? String(each) : each)).slice(0, 800)

type Outcome = { answer: Answer } | { code: string; message: string }

const outcome = (asked: Promise<Answer>): Promise<Outcome> =>
  asked.then(
    (answer) => ({ answer }),
    (error: { code: string; message: string; stack: string }) => ({ code: error.code ?? error.stack, message: error.message }),
  )

if (NO_CLICKHOUSE !== undefined) t.test('SQL on ClickHouse', { skip: NO_CLICKHOUSE }, async () => {})
else {
  const server = await startClickHouse()
  const both: Both = await openBoth(
    server.section,
    `s${process.pid}`,
    functions.map((one) => ({ ...one, plugin: 'analytics' })),
  )
  t.teardown(async () => {
    await both.close()
    await server.stop()
  })

  t.test('what the documents name', async (t) => {
    for (const [query, unordered] of [
      ['SELECT * FROM cpu ORDER BY ALL'],
      ['SELECT * FROM "mixed ""x""" ORDER BY ALL'],
      ['SELECT * FROM hits', true],
      ['SHOW TABLES'],
      ['SHOW COLUMNS FROM cpu'],
      ['DESCRIBE "mixed ""x"""'],
      ['SELECT * FROM information_schema.columns ORDER BY ALL'],
      ['SELECT * FROM information_schema.tables ORDER BY ALL'],
      ['SELECT version(), current_schema(), 1, NULL'],
      ["SELECT time_bucket('1h', _time) t, host, avg(usage), max(idle), count(*), sum(price) FROM cpu GROUP BY 1, 2 ORDER BY 1, 2"],
      ["SELECT time_bucket('1d', _time, 'Europe/Berlin') t, count(*) FROM cpu GROUP BY 1 ORDER BY 1"],
      ["SELECT time_bucket('1mo', _time, 'America/New_York') t, count(*) FROM cpu GROUP BY ALL ORDER BY ALL"],
      ["SELECT time_bucket('6h', _time, 'Asia/Kolkata', '2024-01-01T03:00:00') t, host, count(*) FROM cpu GROUP BY ALL ORDER BY ALL"],
      ['SELECT host, last(usage, _time), first(usage, _time), arg_max(procs, usage) FROM cpu GROUP BY host ORDER BY 1'],
      ['SELECT * FROM hits LATEST ON _time PARTITION BY host ORDER BY ALL'],
      [
        'SELECT _time, host, diff(value) OVER w, pct_change(value) OVER w, rolling_mean(value, 3) OVER w FROM hits WINDOW w AS (PARTITION BY host, code ORDER BY _time) ORDER BY ALL',
      ],
      [
        'SELECT _time, rolling_std(value, 3) OVER w, rolling_corr(value, value * value, 4) OVER w, zscore(value) OVER w, correlation(value, value) OVER w FROM hits WINDOW w AS (PARTITION BY host ORDER BY _time) ORDER BY ALL',
      ],
      ['SELECT host, anomaly_score(value, 2.5) OVER (PARTITION BY host ORDER BY _time) FROM hits ORDER BY ALL'],
      [
        'SELECT procs, big, usage + 1, procs * 2, -procs, price * 2, price + 1.5, price / 3, procs / 2, procs // 7, procs % 7, big % 10, up AND procs > 3 FROM cpu ORDER BY ALL',
      ],
      ['SELECT host, rate(value, _time), irate(value, _time), forecast(value, _time, 3) FROM hits GROUP BY host ORDER BY 1'],
      ["SELECT host, rate(usage, _time) FROM cpu WHERE host = 'nope' GROUP BY ROLLUP(host)"],
      ['SELECT host, auto_forecast(value, _time, 3), multivariate_forecast(value, value + 1, _time, 2) FROM hits GROUP BY host ORDER BY 1'],
      [
        'SELECT _time, host, ewm(idle, 0.5) OVER (PARTITION BY host ORDER BY _time), cross_correlation(idle, usage, 1) OVER (PARTITION BY host ORDER BY _time) FROM cpu WHERE procs < 40 ORDER BY _time, host',
      ],
      [
        'SELECT _time, stl_trend(value, 4) OVER w, stl_seasonal(value, 4) OVER w, stl_residual(value, 4, true) OVER w FROM hits WINDOW w AS (PARTITION BY host ORDER BY _time) ORDER BY _time',
      ],
      ['SELECT DISTINCT ON (host) host, procs FROM cpu ORDER BY host, procs DESC'],
      ['SELECT count(*) FROM cpu WHERE procs NOT IN (1, 2, NULL)'],
      [
        'SELECT count(DISTINCT host), median(usage), quantile_cont(usage, 0.9), quantile_disc(procs, 0.3), stddev(usage), var_pop(idle), corr(usage, idle) FROM cpu',
      ],
      ["SELECT host, count(note), min(note), string_agg(note, ',' ORDER BY note), list(procs ORDER BY _time) FROM cpu GROUP BY host ORDER BY 1"],
      ['SELECT host, region, sum(procs) FROM cpu GROUP BY ROLLUP(host, region) ORDER BY ALL'],
      ['SELECT a.host, b.value FROM cpu a LEFT JOIN (SELECT * FROM hits WHERE value < 4) b ON a.host = b.host WHERE a.procs < 3 ORDER BY ALL'],
      ['SELECT host FROM cpu WHERE usage > (SELECT avg(usage) FROM cpu) AND host IN (SELECT host FROM hits) ORDER BY ALL'],
      ['WITH c AS (SELECT host, procs FROM cpu WHERE procs > 50) SELECT * FROM c UNION ALL SELECT host, 1 FROM c ORDER BY ALL'],
      [
        'SELECT host, procs, lead(procs, 2, -1) OVER w, sum(procs) OVER w, first_value(note) OVER w, ntile FROM (SELECT *, row_number() OVER (ORDER BY _time) AS ntile FROM cpu) WINDOW w AS (PARTITION BY host ORDER BY _time) ORDER BY ALL',
      ],
      ['SELECT host, procs FROM cpu QUALIFY row_number() OVER (PARTITION BY host ORDER BY _time DESC) = 1 ORDER BY 1'],
      [
        'SELECT procs::VARCHAR, usage::BIGINT, price::DOUBLE, usage::DECIMAL(10, 2), up::INTEGER, procs::BOOLEAN, _time::DATE, _time::TIMESTAMP FROM cpu ORDER BY ALL',
      ],
      ["SELECT _time + INTERVAL 1 day, _time - INTERVAL '2 hours', _time + INTERVAL 1 month, extract(dow FROM _time), epoch(_time) FROM cpu ORDER BY ALL"],
      ["SELECT count(*) FROM cpu WHERE _time >= '2023-12-31' AND _time < TIMESTAMP '2024-01-01 06:00:00'"],
      ["SELECT count(*), max(procs), sum(usage) FROM cpu WHERE host = 'nope'"],
      ["SELECT host, count(*) FROM cpu WHERE host ~ '.*[a-m].*' AND regexp_matches(region, '^(e|u).') GROUP BY host ORDER BY ALL"],
      ["SELECT host, count(*) FROM cpu WHERE regexp_matches(host, '\\\\|\\\\.|[0-9]$') GROUP BY host ORDER BY ALL"],
      ["SELECT host, procs FROM cpu WHERE host = 'it''s \\ \"q\" %_' AND host LIKE '%\\%' ORDER BY ALL"],
    ] as [string, true?][]) {
      const [expected, found] = await Promise.all([outcome(ask(both.embedded, query)), outcome(ask(both.clickhouse, query))])
      if ('answer' in expected && 'answer' in found) {
        const difference = differenceOf(expected.answer, found.answer, unordered !== true)
        if (difference !== undefined) t.fail(`${query}: ${difference}`)
      } else t.fail(`${query}: ${told([expected, found])}`)
    }
  })

  t.test('what is wrong is told alike', async (t) => {
    for (const query of [
      'SELECT nope FROM cpu',
      'SELECT * FROM nope',
      'SELECT procs % 0 FROM cpu',
      'SELECT 1; SELECT 2',
      "SELECT * FROM read_csv('/etc/passwd')",
      'SELECT * FROM system.tables',
      'SELECT host FROM cpu GROUP BY procs',
    ]) {
      const [expected, found] = await Promise.all([outcome(ask(both.embedded, query)), outcome(ask(both.clickhouse, query))])
      t.same(found, expected, query)
      t.match(found, { code: 'SQL_ERROR' }, query)
    }
    await t.rejects(ask(both.clickhouse, 'SELECT max(procs) + 9223372036854775800 FROM cpu'), { code: 'SQL_ERROR', message: /out of the range/ })
  })

  t.test('what ClickHouse has not is named', async (t) => {
    for (const [query, what] of [
      ["SELECT strftime(_time, '%Y') FROM cpu", /function "strftime" of \(.*VARCHAR\)/],
      ['SELECT rate(value, _time) * 2 FROM hits', /function "rate" but as a column of the answer/],
      ['SELECT ewm(value, 0.5) OVER (ORDER BY _time) FROM hits LIMIT 3', /LIMIT over a function of whole partitions \("ewm"\)/],
      ['SELECT entropy(procs) FROM cpu', /aggregate "entropy"/],
      ['SELECT a.procs, (SELECT max(value) FROM hits b WHERE b.host = a.host) FROM cpu a', /subqueries that refer to the query around them/],
      ["SELECT {'a': procs} FROM cpu", /function "struct_pack"/],
    ] as [string, RegExp][])
      await t.rejects(ask(both.clickhouse, query), { code: 'SQL_ERROR', message: what }, query)
  })

  t.test('parameters, text as bytes, another namespace, ends', async (t) => {
    const parameters = ['it\'s \\ "q" %_', { timestamp: NOW - 10n ** 9n * 86_400n }, 5n]
    const query = 'SELECT host, note, _time, procs FROM cpu WHERE host = ? AND _time > ? AND procs > ? ORDER BY ALL'
    for (const textBytes of [false, true]) {
      const [expected, found] = await Promise.all([both.embedded, both.clickhouse].map((engine) => ask(engine, query, { parameters, textBytes })))
      t.ok(expected.rows.length > 3)
      t.equal(differenceOf(expected, found, true), undefined)
    }
    await t.rejects(ask(both.clickhouse, 'SELECT * FROM cpu', { namespace: 'other' }), {
      code: 'SQL_ERROR',
      message: /there is none of that name in namespace "other"/,
    })
    t.same((await ask(both.clickhouse, 'SHOW TABLES', { namespace: 'other' })).rows, [])
  })

  t.test('by chance', async (t) => {
    t.comment(`SVC_SEED=${SEED}`)
    const statements = new TypedStatements(new Random(SEED))
    const counts = { answers: 0, errors: 0, lacking: 0 }
    for (let i = 0; i < STATEMENTS; i++) {
      const { text, ordered } = statements.statement()
      const [expected, found] = await Promise.all([outcome(ask(both.embedded, text)), outcome(ask(both.clickhouse, text))])
      if ('answer' in expected && 'answer' in found) {
        const difference = differenceOf(expected.answer, found.answer, ordered)
        if (difference !== undefined) t.fail(`${text}: ${difference}`)
        counts.answers++
      } else if ('message' in found && LACKS.test(found.message)) counts.lacking++
      else if ('message' in found && 'message' in expected && found.code === expected.code) counts.errors++
      else t.fail(`${text}: ${told([expected, found])}`)
    }
    t.ok(counts.answers > STATEMENTS * 0.85, JSON.stringify(counts))
  })
}
