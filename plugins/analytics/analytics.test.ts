import { boot, type TestNode } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { namesOfOne } from './detect/detectors.ts'
import { iqrScores } from './detect/scores.ts'
import { stl } from './detect/stl.ts'
import { crossCorrelation, ewm, mahalanobis, rate } from './series.ts'

const VALUES = [3, 5, null, 4, 8, 1, 9, 2, 6, 7]

let node: TestNode
t.before(async () => {
  // As a node of before this plugin names its plugins.
  node = await boot({ plugins: ['line_protocol', 'sql'], storage: 'embedded' })
  const line = (measurement: string, host: string, v: number | null, w: number | null, i: number): string => {
    const fields = [...(v === null ? [] : [`v=${v}`]), ...(w === null ? [] : [`w=${w}`]), `n=${i}i`]
    return `${measurement},host=${host} ${fields.join(',')} ${1_700_000_000_000_000_000n + BigInt(i) * 60_000_000_000n}`
  }
  const m = (measurement: string, host: string, by: number): string[] =>
    VALUES.map((v, i) => line(measurement, host, v === null ? null : v * by, i === 3 ? null : (i * i) % 7, i))
  const many = Array.from({ length: 2500 }, (_, i) => line('many', 'a', 10 + 0.05 * i + 5 * Math.sin((2 * Math.PI * i) / 24), 0, i))
  const payload = [...m('m', 'a', 1), ...m('two', 'a', 1), ...m('two', 'b', 10), ...many].join('\n')
  const answer = await node.inject({ method: 'POST', url: '/write', payload })
  if (answer.statusCode !== 204) throw new Error(answer.body)
})
t.teardown(() => node.stop())

async function query(text: string): Promise<{ columns: { name: string; data_type: string }[]; rows: (number | null)[][] }> {
  const answer = await node.inject({ method: 'POST', url: '/api/v1/svc/sql', payload: { query: text } })
  if (answer.statusCode !== 200) throw Object.assign(new Error(answer.json().error), { code: answer.json().code })
  return answer.json()
}

const column = async (expression: string): Promise<(number | null)[]> =>
  (await query(`SELECT ${expression} OVER (PARTITION BY host ORDER BY _time) FROM m ORDER BY _time`)).rows.map((row) => row[0])
const near = (t: Test, found: (number | null)[], wanted: (number | null)[], what: string): void => {
  t.equal(found.length, wanted.length, what)
  const off = found.findIndex((v, i) => (v === null || Number.isNaN(v) ? wanted[i] !== null : wanted[i] === null || Math.abs(v - (wanted[i] as number)) > 1e-9))
  t.equal(off, -1, `${what}: row ${off} is ${found[off]}, wanted ${wanted[off]}`)
}
const present = VALUES.filter((v) => v !== null)
const mean = (xs: number[]): number => xs.reduce((a, b) => a + b, 0) / xs.length
const std = (xs: number[]): number => Math.sqrt(xs.reduce((sum, x) => sum + (x - mean(xs)) ** 2, 0) / (xs.length - 1))

t.test('differences skip missing samples', async (t) => {
  near(t, await column('diff(v)'), [null, 2, null, -1, 4, -7, 8, -7, 4, 1], 'diff')
  near(t, await column('diff(v, 2)'), [null, null, null, -3, 5, -11, 15, -15, 11, -3], 'diff of order 2')
  near(t, await column('diff(n, 1)'), [null, ...Array(9).fill(1)], 'diff of integers')
  near(t, await column('pct_change(v)'), [null, 2 / 3, null, -0.2, 1, -7 / 8, 8, -7 / 9, 2, 1 / 6], 'pct_change')
})

t.test('rolling windows count rows', async (t) => {
  const rolling = (f: (xs: number[]) => number, width: number, least: number): (number | null)[] =>
    VALUES.map((_, i) => {
      const xs = VALUES.slice(Math.max(0, i - width + 1), i + 1).filter((v) => v !== null)
      return xs.length < least ? null : f(xs)
    })
  near(t, await column('rolling_mean(v, 3)'), rolling(mean, 3, 1), 'rolling_mean')
  near(t, await column('rolling_std(v, 4)'), rolling(std, 4, 2), 'rolling_std')
  near(
    t,
    await column('rolling_std(v, 1)'),
    VALUES.map(() => null),
    'one value has no spread',
  )
  const same = await column('rolling_corr(v, v, 5)')
  near(
    t,
    same.slice(1),
    same.slice(1).map(() => 1),
    'correlation with itself',
  )
})

t.test('scores over the partition', async (t) => {
  const z = VALUES.map((v) => (v === null ? null : (v - mean(present)) / std(present)))
  near(t, await column('zscore(v)'), z, 'zscore')
  near(
    t,
    await column('anomaly_score(v, 2)'),
    z.map((v) => (v === null ? null : Math.abs(v) / 2)),
    'anomaly_score',
  )
  near(
    t,
    await column('anomaly_score(v, 2.5)'),
    z.map((v) => (v === null ? null : Math.abs(v) / 2.5)),
    'a decimal threshold',
  )
  near(
    t,
    await column('zscore(v * 0)'),
    VALUES.map((v) => (v === null ? null : 0)),
    'no spread: 0',
  )
  near(
    t,
    await column('correlation(v, -v)'),
    VALUES.map(() => -1),
    'correlation',
  )
  near(
    t,
    await column('multivariate_anomaly(v, v, 1)'),
    z.map((v) => (v === null ? null : Math.abs(v))),
    'a copy adds nothing',
  )
})

t.test('ewm, cross_correlation', async (t) => {
  let s = Number.NaN
  const wanted = VALUES.map((v) => (v === null ? null : (s = Number.isNaN(s) ? v : 0.3 * v + 0.7 * s)))
  near(t, await column('ewm(v, 0.3)'), wanted, 'ewm')
  const shifted = Float64Array.from([9, 9, 1, 5, 2, 8, 3])
  t.ok(Math.abs(crossCorrelation(shifted, Float64Array.from([1, 5, 2, 8, 3, 7, 7]), 2) - 1) < 1e-12, 'b leads by 2')
  near(
    t,
    await column('cross_correlation(n, n, 3)'),
    VALUES.map(() => 1),
    'cross_correlation',
  )
  near(
    t,
    await column('cross_correlation(v, v, -20)'),
    VALUES.map(() => null),
    'no pairs',
  )
  t.same(Array.from(ewm(Float64Array.from([Number.NaN, 1]), 0.5)), [Number.NaN, 1])
  t.ok(Math.abs(mahalanobis(1, 1, 0) - Math.SQRT2) < 1e-12)
  t.ok(mahalanobis(1, -1, 0.9) > mahalanobis(1, 1, 0.9))
})

t.test('partitions do not mix', async (t) => {
  const { rows } = await query(
    'SELECT host, _time, ewm(v, 0.5) OVER (PARTITION BY host ORDER BY _time), zscore(v) OVER (PARTITION BY host) FROM two ORDER BY host, _time',
  )
  const [a, b] = [rows.slice(0, 10), rows.slice(10)]
  near(
    t,
    b.map((row) => row[2] as number | null),
    a.map((row) => (row[2] === null ? null : (row[2] as number) * 10)),
    'ewm',
  )
  near(
    t,
    b.map((row) => row[3] as number | null),
    a.map((row) => row[3] as number | null),
    'zscore',
  )
})

t.test('STL takes a season and a trend apart', async (t) => {
  const n = 240
  const period = 24
  const season = (i: number): number => 5 * Math.sin((2 * Math.PI * i) / period)
  const clean = Float64Array.from({ length: n }, (_, i) => 10 + 0.05 * i + season(i))
  const parts = stl(clean, period, false)!
  for (let i = 0; i < n; i++) {
    if (Math.abs(parts.trend[i] - (10 + 0.05 * i)) > 0.05) t.fail(`trend at ${i}: ${parts.trend[i]}`)
    if (Math.abs(parts.seasonal[i] - season(i)) > 0.05) t.fail(`season at ${i}: ${parts.seasonal[i]}`)
    if (Math.abs(parts.trend[i] + parts.seasonal[i] + parts.residual[i] - clean[i]) > 1e-9) t.fail(`sum at ${i}`)
  }
  const spoilt = clean.slice()
  spoilt[100] += 50
  const [plain, robust] = [stl(spoilt, period, false)!, stl(spoilt, period, true)!]
  t.ok(Math.abs(robust.residual[100] - 50) < 1, 'robust leaves an outlier to the residual')
  t.ok(Math.abs(robust.residual[100] - 50) < Math.abs(plain.residual[100] - 50))
  const holes = clean.slice()
  holes[50] = Number.NaN
  t.ok(Number.isNaN(stl(holes, period, false)!.residual[50]), 'a missing sample has no residual')
  t.equal(stl(clean.slice(0, 40), period, false), undefined, 'fewer than two periods')
  const { rows } = await query(
    `SELECT v, stl_decompose(v, 24) OVER (ORDER BY _time) AS d, stl_trend(v, 24, true) OVER (ORDER BY _time) AS r, stl_residual(v, 24) OVER (ORDER BY _time) FROM many ORDER BY _time`,
  )
  const off = rows.findIndex(([v, d]) => {
    const { trend, seasonal, residual } = d as unknown as Record<string, number>
    return Math.abs(trend + seasonal + residual - (v as number)) > 1e-9
  })
  t.equal(off, -1)
  t.ok(Math.abs((rows[2000][2] as number) - 110) < 0.1)
  t.ok(Math.abs(rows[2000][3] as number) < 0.1)
})

t.test('first, last, rate and irate', async (t) => {
  t.same((await query('SELECT first(v, _time), last(v, _time), first(v, _time) FILTER (WHERE n > 1), last(n, -n) FROM m')).rows, [[3, 7, 4, 0n]])
  t.equal(
    rate(Float64Array.from([1, 3, 2, 6]), BigInt64Array.from([0n, 1_000_000_000n, 2_000_000_000n, 4_000_000_000n]), false),
    8 / 4,
    'a reset starts from 0',
  )
  t.equal(rate(Float64Array.from([1, 3, 2, 6]), BigInt64Array.from([0n, 1_000_000_000n, 2_000_000_000n, 4_000_000_000n]), true), 2)
  t.ok(Number.isNaN(rate(Float64Array.from([1]), BigInt64Array.from([0n]), false)))
  t.ok(Number.isNaN(rate(Float64Array.from([1, 2]), BigInt64Array.from([5n, 5n]), false)))
  // 3 5 4 8 1 9 2 6 7: up 2, reset 4, up 4, reset 1, up 8, reset 2, up 4, up 1 = 26 over 540 s
  const { rows } = await query('SELECT rate(v, _time), irate(v, _time), rate(v, _time) FILTER (WHERE n > 100) FROM m GROUP BY host')
  near(t, rows[0] as (number | null)[], [26 / 540, 1 / 60, null], 'rate')
  near(t, await column('rate(n, _time)'), [null, ...Array(9).fill(1 / 60)], 'rate with OVER')
  // A statement with a list in it runs in an engine process.
  const apart = await query('SELECT rate(v, _time), quantile_cont(v, 0.5), len(list(v)) FROM m GROUP BY host')
  t.equal(apart.columns[0].data_type, 'Float64')
  near(t, apart.rows[0].slice(0, 1) as (number | null)[], [26 / 540], 'rate in an engine process')
})

t.test('forecasts of groups', async (t) => {
  const { rows, columns } = await query(
    `SELECT host, forecast(v, _time, 3), forecast(v, _time, 3, 'linear_regression'), forecast(n, _time, 2, 'holt') FROM two GROUP BY host ORDER BY host`,
  )
  t.same(
    columns.map(({ data_type }) => data_type),
    ['Utf8', 'List(Float64)', 'List(Float64)', 'List(Float64)'],
  )
  const [a, b] = rows as unknown as [string, number[], number[], number[]][]
  t.ok(a[1].length === 3 && a[1].every((v) => v === a[1][0]), 'smoothing is flat')
  for (const i of [1, 2] as const)
    near(
      t,
      b[i],
      a[i].map((v) => 10 * v),
      'another group, of ten times the values',
    )
  t.ok(Math.abs(a[3][0] - 10) < 0.5, `a line goes on: ${a[3]}`)
  const [[few, auto, season]] = (
    await query(
      `SELECT auto_forecast(n, _time, 100) FILTER (WHERE n < 20), auto_forecast(v, _time, 12), multivariate_forecast(v, n, _time, 4) FILTER (WHERE n > 2000) FROM many`,
    )
  ).rows as unknown as (number[] | null)[][]
  t.equal(few, null, 'too few points')
  const wanted = Array.from({ length: 12 }, (_, h) => 10 + 0.05 * (2500 + h) + 5 * Math.sin((2 * Math.PI * (2500 + h)) / 24))
  t.ok(
    auto!.every((v, h) => Math.abs(v - wanted[h]) < 0.3),
    `${auto} for ${wanted}`,
  )
  t.equal(season!.length, 4)
})

t.test('forecasts with their intervals', async (t) => {
  const { rows } = await query(
    `SELECT forecast_interval(v, _time, 6, 'auto', 0.9), forecast(v, _time, 6, 'auto'), forecast_lower(v, _time, 6, 'auto', 0.9), forecast_upper(v, _time, 6, 'auto', 0.9),
       forecast_upper(v, _time, 6, 'auto', 0.99), auto_forecast(v, _time, 6), forecast_lower(v, _time, 6), forecast_upper(v, _time, 6) FILTER (WHERE n < 1) FROM many`,
  )
  type Interval = { forecast: number[]; lower: number[]; upper: number[] }
  const [together, values, lower, upper, wider, auto, simple, few] = rows[0] as unknown as [
    Interval,
    number[],
    number[],
    number[],
    number[],
    number[],
    number[],
    number[] | null,
  ]
  t.same(together, { forecast: values, lower, upper })
  t.same(values, auto, 'by the model that suits best')
  for (let h = 0; h < 6; h++) {
    t.ok(Math.abs(values[h] - (lower[h] + upper[h]) / 2) < 1e-9, 'the forecast is in the middle')
    // Those of a normal distribution: 2.5758 and 1.6449 standard deviations.
    t.ok(Math.abs((wider[h] - values[h]) / (upper[h] - values[h]) - 2.5758 / 1.6449) < 1e-3 || upper[h] === values[h], 'a level rescales them')
  }
  t.equal(simple.length, 6)
  t.equal(few, null, 'too few points')
})

t.test('detectors by name', async (t) => {
  const expected = iqrScores(Float64Array.from(VALUES, (v) => v ?? Number.NaN))
  near(
    t,
    await column(`anomaly_score(v, 0.5, 'iqr')`),
    Array.from(expected, (v) => (Number.isNaN(v) ? null : v / 0.5)),
    'anomaly_score',
  )
  for (const name of namesOfOne()) {
    const { rows } = await query(
      `SELECT n FROM (SELECT n, detect_anomalies(CASE WHEN n = 1200 THEN 1e4 ELSE v END, '${name}') OVER (ORDER BY _time) AS odd FROM many) WHERE odd`,
    )
    t.ok(
      rows.some(([n]) => Number(n) === 1200),
      `${name} finds one that is far off`,
    )
    t.ok(rows.length < 250, `${name} finds ${rows.length}`)
  }
  t.same(
    await column('detect_anomalies(v)'),
    VALUES.map((v) => (v === null ? null : false)),
  )
  const { rows } = await query(
    `SELECT multivariate_anomaly(v, n, 3, 'pca') OVER (), multivariate_anomaly(v, n, 0.6, 'isolation_forest') OVER () FROM many LIMIT 3`,
  )
  t.ok(rows.every(([a, b]) => a! >= 0 && b! > 0))
  t.same((await query(`SELECT detect_anomalies(v, 'iqr') OVER (ORDER BY _time) FROM m LIMIT 2`)).rows.length, 2)
})

t.test("wrong use is the caller's error", async (t) => {
  for (const expression of [
    'zscore(v)',
    'ewm(v, 0.5)',
    'diff()  OVER ()',
    'diff(v, 0) OVER ()',
    'diff(v, 17) OVER ()',
    'diff(v, n) OVER ()',
    'rolling_mean(v) OVER ()',
    'rolling_mean(v, 0) OVER ()',
    'rolling_mean(v, 2.5) OVER ()',
    'ewm(v, 0) OVER ()',
    'ewm(v, 1.1) OVER ()',
    'anomaly_score(v, 0) OVER ()',
    `stl_trend(v, 12, 'yes') OVER ()`,
    'stl_trend(v, 1) OVER ()',
    'zscore(v) OVER (ROWS 2 PRECEDING)',
    'zscore(v) FILTER (WHERE n > 1) OVER ()',
    'rate(host, _time)',
    'forecast(v, _time)',
    'forecast(v, _time, 0)',
    'forecast(v, _time, 8761)',
    `forecast(v, _time, 3, 'prophet')`,
    'auto_forecast(v, _time, n)',
    `forecast_upper(v, _time, 3, 'ses', 1)`,
    `forecast_lower(v, _time, 3, 'ses', 0)`,
    `forecast_interval(v, _time, 3, 'prophet')`,
    `anomaly_score(v, 2, 'psychic') OVER ()`,
    `detect_anomalies(v, 'zscore', -1) OVER ()`,
    'detect_anomalies(v)',
    `multivariate_anomaly(v, n, 2, 'zscore') OVER ()`,
    `detect_anomalies(v, 'pca') OVER ()`,
    `_detector_score(v, 'iqr') OVER ()`,
  ]) {
    await t.rejects(query(`SELECT ${expression} FROM m`), { code: 'SQL_ERROR' }, expression)
  }
  await t.rejects(query(`SELECT * FROM forecast('m', 'v', 3)`), { code: 'SQL_ERROR', message: /^cannot call table function "forecast": only / })
})

t.test('a statement over thousands of series keeps within its memory, and samples need no order', async (t) => {
  const one = await boot({ plugins: ['line_protocol', 'sql'], storage: 'embedded', config: { database: { per_query_memory_limit: 67_108_864 } } })
  t.teardown(() => one.stop())
  for (let from = 0; from < 3000; from += 1000) {
    const lines = Array.from({ length: 20_000 }, (_, i) => {
      const [s, k] = [from + (i % 1000), Math.floor(i / 1000)]
      return `wide,series=s${s} v=${s + 2 * k} ${1_700_000_000_000_000_000n + BigInt(k) * 10_000_000_000n}`
    })
    t.equal((await one.inject({ method: 'POST', url: '/write', payload: lines.join('\n') })).statusCode, 204)
  }
  const ask = async (from: string) => {
    const columns = `count(f), min(f[2] - s), max(f[2] - s), min(r), max(r), min(i), max(i)`
    const groups = `SELECT series, min(v) AS s, forecast(v, _time, 2, 'linear_regression') AS f, rate(v, _time) AS r, irate(v, _time) AS i FROM ${from} GROUP BY series`
    const answer = await one.inject({ method: 'POST', url: '/api/v1/svc/sql', payload: { query: `SELECT ${columns} FROM (${groups})` } })
    if (answer.statusCode !== 200) throw new Error(answer.body)
    return (answer.json().rows[0] as number[]).map((v) => Math.round(v * 1e6) / 1e6)
  }
  t.same(await ask('wide'), [3000, 42, 42, 0.2, 0.2, 0.2, 0.2])
  t.same(await ask('(SELECT * FROM wide ORDER BY _time DESC)'), [3000, 42, 42, 0.2, 0.2, 0.2, 0.2], 'backwards')
})
