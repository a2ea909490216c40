/** Statements whose answer lies at an end of the time: as DuckDB answers them over all rows, and without reading these. */
import t from 'tap'
import type { Random } from '../../conformance/random.ts'
import { LANE_START, LaneHarness } from '../sql/testing/lane.ts'
import type { LaneStatement } from '../sql/testing/lane-statements.ts'
import { TestDatabase, type TestPoint } from '../testing/engine-state.ts'
import { EngineReader } from './reader.ts'
import type { Source } from './sources.ts'
import { timeSlices } from './time-slices.ts'

const { SVC_SEED } = process.env
const first = SVC_SEED === undefined ? Date.now() % 1e9 : Number(SVC_SEED)
const STEP = 10_000_000_000n
const MS = 1_000_000n

function whereOf(random: Random, table: string): string {
  const at = (): bigint => LANE_START + BigInt(random.below(600)) * STEP + BigInt(random.below(2))
  const conditions = [
    `region ${random.pick(['=', '<>'])} '${random.pick(['eu', 'us', 'none'])}'`,
    "host IN ('a', 'ä', 'c')",
    "host LIKE '%a%'",
    "host ~ '.*[aä].*'",
    `u_a > ${random.pick([20, 90, 98, 2000])}`,
    `abs(u_a - 50) < ${random.pick([1, 40])}`,
    `_time >= make_timestamp_ns(${at()})`,
    `_time < make_timestamp_ns(${at()})`,
    `coalesce(region, '') || '' <> 'eu'`,
    ...(table === 'one' ? [] : ["s = 'b'", 'n IS NOT NULL']),
  ].filter(() => random.chance(0.15))
  return conditions.length === 0 ? '' : ` WHERE ${conditions.join(' AND ')}`
}

function statement(random: Random): LaneStatement {
  const table = random.pick(['cpu', 'cpu', 'one'])
  const where = whereOf(random, table)
  const from = (sql: string, ordered: boolean): LaneStatement => ({
    sql: sql.replace('FROM', `FROM ${table}`),
    inDuckDb: sql.replace('FROM', `FROM (SELECT * FROM ${table}) AS ${table}`),
    ordered,
  })
  const fields = table === 'one' ? ['u_a'] : ['u_a', 'n', 's', 'u_i']
  if (random.chance(0.3)) {
    const bucket = random.pick([
      "time_bucket('1m', _time)",
      "date_trunc('hour', _time)",
      "time_bucket(INTERVAL '7 seconds', _time)",
      "time_bucket('1h', _time, '', '2020-01-01T00:07:03Z')",
    ])
    const tags = random.pick([[], ['host'], ['region', 'host']])
    const aggregates = ['count(*)', `count(${fields[0]})`, 'max(_time)', `min(${fields[0]}) FILTER (WHERE host IS NOT NULL)`, 'count(DISTINCT host)'].filter(
      () => random.chance(0.4),
    )
    const having = random.chance(0.2) ? ` HAVING count(*) ${random.pick(['> 1', '< 20'])}` : ''
    const order = ['t', ...tags].map((term) => term + random.pick(['', ' DESC'])).join(', ')
    const list = [`${bucket} AS t`, ...tags, ...aggregates].join(', ')
    return from(
      `SELECT ${list} FROM${where} GROUP BY ${['t', ...tags].join(', ')}${having} ORDER BY ${order} LIMIT ${random.pick([1, 2, 5, 30, 500])}${random.pick(['', '', ' OFFSET 1', ' OFFSET 7', ' OFFSET 40'])}`,
      true,
    )
  }
  if (random.chance(0.6)) {
    const items = [
      '*',
      '_time, host, region',
      `_time AS t, host, region, ${fields.join(', ')}`,
      `host, upper(region) AS r, _time, ${fields[0]} * 2 AS "double"`,
    ]
    const item = random.pick(items)
    const time = item.startsWith('_time AS t') ? random.pick(['t', '_time', '1']) : random.pick(['_time', `${table}._time`])
    const end = random.chance(0.5) ? ` OFFSET ${random.pick([0, 1, 3, 20, 100, 5000])}` : ''
    const order = `${time}${random.pick(['', ' DESC', ' DESC NULLS FIRST', ' ASC'])}, host${random.pick(['', ' DESC'])}, region`
    return from(`SELECT ${item} FROM${where} ORDER BY ${order} LIMIT ${random.pick([0, 1, 3, 10, 60, 4000])}${end}`, true)
  }
  // Of one series: of several, that newest row has any of their values.
  const one = `${where === '' ? ' WHERE' : `${where} AND`} host = '${random.pick(['a', 'b', 'none'])}'`
  const alone = random.chance(0.6)
  const values = [
    'max(_time)',
    'min(_time)',
    ...(alone ? fields.flatMap((field) => [`last(${field}, _time)`, `arg_min(${field}, _time)`, `max_by(${field}, _time)`]) : []),
  ]
  const items = values.filter(() => random.chance(alone ? 0.2 : 0.7))
  return from(`SELECT ${items.length === 0 ? 'max(_time) AS "at"' : items.join(', ')} FROM${alone ? one : where}`, true)
}

t.test('the answer is that of all rows', { timeout: 60_000 }, async (t) => {
  let tried = 0
  for (let seed = first; seed < first + 3; seed++) {
    const harness = new LaneHarness(seed)
    try {
      for (let i = 0; i < 24; i++) {
        if (i % 8 === 0) await harness.change()
        const { problem, sql, namespace } = await harness.tryWhole(statement, { firstSliceRows: [1, 7, 50][i % 3] })
        if (problem !== undefined) return t.fail(`SVC_SEED=${seed} in "${namespace}": ${problem}\n${sql}`)
        tried++
      }
    } finally {
      harness.close()
    }
  }
  t.equal(tried, 72)
})

/** A day of two hosts, a row a minute; messages now and then. */
async function day(t: { teardown(end: () => void): unknown }): Promise<(query: string) => Promise<{ rows: unknown[][]; read: readonly [bigint, bigint] }>> {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const log = db.measurement('log', { value: 'float64', message: 'string' })
  const points: TestPoint[] = []
  for (let i = 0; i < 1440; i++)
    for (const host of ['a', 'b'])
      points.push({ tags: { host }, time: BigInt(i) * 60_000n * MS, fields: { value: i, ...(i % 100 === 0 ? { message: `${host}${i}` } : {}) } })
  db.write(log, points)
  return async (query) => {
    const reader = await EngineReader.open({ ...(await db.context()), firstSliceRows: 20 })
    try {
      const rows: unknown[][] = []
      for await (const { rows: count, columns } of await reader.sql({ namespace: 'default', query }))
        for (let i = 0; i < count; i++) rows.push(columns.map(({ values, validity }) => (validity?.[i] === 0 ? null : values[i])))
      return { rows, read: reader.read }
    } finally {
      reader.close()
    }
  }
}

const minute = (i: number): bigint => BigInt(i) * 60_000n * MS

t.test('the clock is one for all of an answer', async (t) => {
  const ask = await day(t)
  for (const query of [
    'SELECT now() AS n FROM log WHERE value % 97 = 0 ORDER BY _time DESC LIMIT 30',
    'SELECT current_timestamp AS n FROM log WHERE value % 97 = 0 ORDER BY _time LIMIT 30',
    'SELECT time_bucket(INTERVAL 1 hour, _time) AS t, max(epoch_us(now())) AS n FROM log GROUP BY t ORDER BY t LIMIT 24',
  ]) {
    const { rows } = await ask(query)
    t.equal(new Set(rows.map((row) => String(row.at(-1)))).size, 1, query)
  }
})

t.test('rows before the answer are not read', async (t) => {
  const ask = await day(t)
  const near: [query: string, rows: unknown[][], from: number, to: number][] = [
    ['SELECT value FROM log ORDER BY _time DESC, host LIMIT 2', [[1439], [1439]], 1400, 1500],
    [
      "SELECT value, message FROM log WHERE host = 'b' ORDER BY _time LIMIT 2",
      [
        [0, 'b0'],
        [1, null],
      ],
      -1,
      40,
    ],
    ['SELECT message FROM log WHERE message IS NOT NULL ORDER BY _time DESC, host LIMIT 2', [['a1400'], ['b1400']], 1300, 1500],
    [
      'SELECT _time, message FROM log WHERE _time < make_timestamp_ns(42060000000000) ORDER BY 1 DESC, 2 LIMIT 2',
      [
        [minute(700), 'a700'],
        [minute(700), 'b700'],
      ],
      660,
      702,
    ],
    ['SELECT max(_time) FROM log', [[minute(1439)]], 1400, 1500],
    ["SELECT last(message, _time), last(value, _time) FROM log WHERE host = 'a'", [['a1400', 1439]], 1200, 1500],
    [
      "SELECT time_bucket('10m', _time) AS t, count(*) FROM log GROUP BY t ORDER BY t DESC LIMIT 2",
      [
        [minute(1430), 20n],
        [minute(1420), 20n],
      ],
      1400,
      1500,
    ],
    ["SELECT first(message, _time) FROM log WHERE host = 'b'", [['b0']], -1, 40],
    [
      'SELECT value, host FROM log ORDER BY _time DESC, host LIMIT 3 OFFSET 5',
      [
        [1437, 'b'],
        [1436, 'a'],
        [1436, 'b'],
      ],
      1390,
      1500,
    ],
    ["SELECT message FROM log WHERE message IS NOT NULL AND host = 'b' ORDER BY _time DESC LIMIT 1 OFFSET 1", [['b1300']], 1100, 1500],
    ["SELECT time_bucket('10m', _time) AS t, count(*) FROM log GROUP BY t ORDER BY t LIMIT 1 OFFSET 2", [[minute(20), 20n]], -1, 200],
  ]
  for (const [query, rows, from, to] of near) {
    const found = await ask(query)
    t.same(found.rows, rows, query)
    t.ok(found.read[0] >= minute(from) || from < 0, `${query} reads from ${found.read[0] / minute(1)} on`)
    t.ok(found.read[1] <= minute(to) || to > 1439, `${query} reads until ${found.read[1] / minute(1)}`)
  }
  t.same((await ask('SELECT min(_time), max(_time) FROM log')).rows, [[0n, minute(1439)]])
  t.same((await ask('SELECT max(_time), last(value, _time) FROM log WHERE value > 5000')).rows, [[null, null]])
})

t.test('statements whose rows are no matter of their own see all of them', async (t) => {
  const ask = await day(t)
  const whole: [query: string, row: unknown[]][] = [
    ['SELECT value, count(*) OVER () FROM log ORDER BY _time DESC LIMIT 1', [1439, 2880n]],
    ['SELECT value, (SELECT count(*) FROM log) FROM log ORDER BY _time DESC LIMIT 1', [1439, 2880n]],
    ['SELECT value FROM log WHERE value IN (SELECT value FROM log WHERE value < 3) ORDER BY _time DESC LIMIT 1', [2]],
    ["SELECT value FROM log WHERE host = 'a' ORDER BY _time DESC LIMIT 1 OFFSET 500", [939]],
    ['SELECT DISTINCT ON (host) value FROM log ORDER BY _time DESC, host LIMIT 1', [1439]],
    ['SELECT max(value), max(_time) FROM log', [1439, minute(1439)]],
    ['SELECT count(*) FROM log ORDER BY 1 DESC LIMIT 1', [2880n]],
    ['SELECT *, _time AS t FROM log ORDER BY 2, 3 DESC LIMIT 1', [minute(1439), 'a', 1439, null, minute(1439)]],
    ['SELECT -value AS _time FROM log ORDER BY _time LIMIT 1', [-1439]],
    ["SELECT time_bucket('10m', _time) AS t, count(*) OVER () FROM log GROUP BY t ORDER BY t DESC LIMIT 1", [minute(1430), 144n]],
    ["SELECT time_bucket('10m', _time) AS t, count(*) FROM log GROUP BY host ,t ORDER BY host, t DESC LIMIT 1", [minute(1430), 10n]],
    ["SELECT time_bucket('10m', _time) AS t FROM log GROUP BY GROUPING SETS ((t), ()) ORDER BY t DESC NULLS FIRST LIMIT 1", [null]],
    ["SELECT sum(value) FROM log WHERE host = 'a' GROUP BY host ORDER BY max(_time) DESC LIMIT 1", [(1439 * 1440) / 2]],
  ]
  for (const [query, row] of whole) t.same((await ask(query)).rows, [row], query)
})

t.test('slices adjoin, are all of the time, and grow', (t) => {
  const source = (from: number, to: number, rows: number): Source =>
    ({ minTime: BigInt(from) * MS + 5n, maxTime: BigInt(to) * MS + 7n, segment: { rows }, dirty: null, measurement: undefined, masks: [] }) as unknown as Source
  const sources = [source(-5000, 100_000, 10_000), source(90_000, 200_000, 20_000), source(150_000, 150_000, 50)]
  const cases: [low: bigint, high: bigint][] = [
    [-(2n ** 63n), 2n ** 63n - 1n],
    [0n, 120_000n * MS + 3n],
  ]
  for (const time of cases)
    for (const newestFirst of [true, false]) {
      const slices = timeSlices(sources, time, { rows: 2, share: 1, newestFirst, firstRows: 100 })
      t.ok(slices.length > 2, `${slices.length} slices`)
      const ascending = newestFirst ? slices.toReversed() : slices
      t.equal(ascending[0][0], time[0])
      t.equal(ascending.at(-1)?.[1], time[1])
      for (const [i, [low, high]] of ascending.entries()) {
        t.ok(low <= high)
        if (i > 0) t.equal(low, ascending[i - 1][1] + 1n)
        if (i > 0) t.equal(low % MS, 0n)
      }
      const buckets = timeSlices(sources, time, { rows: 2, share: 1, newestFirst, firstRows: 100, bucket: { step: 7000, anchor: -300 } })
      t.ok(buckets.length > 2, `${buckets.length} slices`)
      for (const [low] of buckets) t.ok(low === time[0] || low % (7000n * MS) === 6700n * MS || low % (7000n * MS) === -300n * MS, `${low}`)
    }
  t.same(timeSlices(sources, [1n, 2n], { rows: 2, share: 1, newestFirst: true, firstRows: 100 }), [[1n, 2n]], 'a millisecond is one')
  t.same(timeSlices([], [1n, 2n], { rows: 2, share: 1, newestFirst: true }), [[1n, 2n]])
  t.same(timeSlices(sources, cases[0], { rows: 2, share: 1, newestFirst: true }), [cases[0]], 'few rows are one')
  t.end()
})
