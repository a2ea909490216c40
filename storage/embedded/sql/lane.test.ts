import type { SqlCursor } from 'svcdb'
import t from 'tap'
import { lane } from '../read/lane.ts'
import { EngineReader } from '../read/reader.ts'
import { TestDatabase, type TestPoint } from '../testing/engine-state.ts'
import type { Snapshot } from '../threads/state.ts'
import { LaneHarness, type Tried } from './testing/lane.ts'

const { SVC_SEED } = process.env
const first = SVC_SEED === undefined ? Date.now() % 1e9 : Number(SVC_SEED)

t.test('statements are answered from samples as DuckDB answers them', { timeout: 60_000 }, async (t) => {
  const counts: Record<Tried['outcome'], number> = { samples: 0, duckdb: 0, refused: 0 }
  for (let seed = first; seed < first + 3; seed++) {
    const harness = new LaneHarness(seed)
    try {
      await harness.change()
      for (let i = 0; i < 15; i++) {
        const { problem, sql, namespace, outcome } = await harness.tryOne()
        counts[outcome]++
        if (problem !== undefined) return t.fail(`SVC_SEED=${seed} in "${namespace}", ${outcome}: ${problem}\n${sql}`)
      }
    } finally {
      harness.close()
    }
  }
  t.ok(counts.samples > 0, `SVC_SEED=${first} ${JSON.stringify(counts)}`)
})

t.test('EXPLAIN says which way a statement goes, and parameters are constants', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const m = db.measurement('m', { value: 'float64', state: 'string' })
  db.write(m, [
    { tags: { host: 'a' }, time: 1_700_000_000_000_000_000n, fields: { value: 3, state: 'x' } },
    { tags: { host: 'b' }, time: 1_700_000_060_000_000_000n, fields: { value: 5, state: 'y' } },
  ])
  const reader = await EngineReader.open(await db.context())
  t.teardown(() => reader.close())
  const read = async (query: string, parameters?: string[]): Promise<unknown[][]> => {
    const rows: unknown[][] = []
    for await (const { rows: count, columns } of await reader.sql({ namespace: 'default', query, parameters }))
      for (let i = 0; i < count; i++) rows.push(columns.map(({ values }) => values[i]))
    return rows
  }
  const path = async (query: string): Promise<string> => String((await read(`EXPLAIN ${query}`)).at(-1))
  t.match(await path("SELECT max(value) FROM m WHERE host = 'a'"), /^path,Samples/)
  t.match(await path('SELECT _time, value FROM m ORDER BY _time'), /^path,Samples/)
  t.match(await path("SELECT time_bucket(INTERVAL '5 minutes', _time), max(_time), max(value) FROM m GROUP BY 1"), /^path,Samples/)
  for (const query of [
    'SELECT DISTINCT host FROM m',
    'SELECT host FROM m GROUP BY host',
    'SELECT count(DISTINCT host) FROM m',
    'SELECT host, last(value, _time) FROM m GROUP BY 1',
    "SELECT max(value) FROM m WHERE host LIKE 'a%'",
    'SELECT host, median(value), quantile_cont(value, 0.95) FROM m GROUP BY ALL',
    'SELECT host, stddev(value) FROM m GROUP BY host HAVING avg(value) > 2 AND count(*) < 100',
    'SELECT round(percentile_cont(0.99) WITHIN GROUP (ORDER BY value), 1) AS p99 FROM m',
  ])
    t.match(await path(query), /^path,Samples/, query)
  t.match(await path("SELECT round(100 - avg(value) / 3, 1) AS v FROM m WHERE host LIKE 'a%' ORDER BY v"), /^path,Samples/)
  t.equal(await path('SELECT 100 - avg(value) FROM m'), 'path,DuckDB', 'DuckDB knows what it calls that')
  t.same(await read('SELECT count(*) / 4 AS quarter, abs(min(value) - max(value)) AS spread FROM m'), [[0.5, 2]])
  t.match(await path('SELECT * FROM m ORDER BY _time DESC LIMIT 1'), /^path,DuckDB. In slices of the time/)
  t.same(await read('SELECT count(DISTINCT host) FROM m'), [[2n]])
  t.same(await read('SELECT median(value), quantile_cont(value, 0.25), approx_quantile(value, 0.75) FROM m'), [[4, 3.5, 4.5]])
  t.same(await read('SELECT var_pop(value), variance(value), stddev_pop(value) AS s FROM m HAVING s < 2 AND count(*) > 1'), [[1, 2, 1]])
  t.same(await read('SELECT host, max(value) AS most FROM m GROUP BY host HAVING most BETWEEN 4 AND 5.5'), [['b', 5]])
  for (const holds of ['1 = 1', '1 > 0', '1 BETWEEN 0 AND 2', '1 = 1 AND count(*) > 1', '$1 = 1'])
    t.same(await read(`SELECT count(*), max(value) FROM m HAVING ${holds}`, holds.includes('$') ? ['1'] : undefined), [[2n, 5]], holds)
  const [fromSamples, fromDuckDb] = await Promise.all(
    ['', ' WHERE 1 = 1'].map((where) =>
      reader.sql({ namespace: 'default', query: `SELECT time_bucket($1, _time), max(value) FROM m${where} GROUP BY 1`, parameters: ['5m'] }),
    ),
  )
  t.same(fromSamples.columns, fromDuckDb.columns)
  for (const query of [
    'SELECT max(state) FROM m',
    'SELECT max(value) FROM m HAVING count(*) > count(value)',
    'SELECT DISTINCT value FROM m',
    "SELECT 'a'",
    'SELECT quantile_cont(value, -0.5) FROM m',
  ])
    t.equal(await path(query), 'path,DuckDB', query)
  t.same(await read('SELECT max(value) AS v, count(*) FROM m WHERE host = $1', ['b']), [[5, 1n]])
  t.same(await read('SELECT _time, host FROM m WHERE value > 2 AND host <> ? ORDER BY 1 DESC', ['a']), [[1_700_000_060_000_000_000n, 'b']])
  await t.rejects(read('SELECT max(value) FROM m WHERE host = $1', ['b', 'c']), /2 values were given/)
  for (const call of [
    'median()',
    'stddev()',
    'approx_quantile()',
    'quantile_cont(value)',
    'quantile_cont(value, 2)',
    'median(value, 0.5)',
    'percentile_cont(value) WITHIN GROUP (ORDER BY value)',
  ])
    await t.rejects(read(`SELECT ${call} FROM m`), { code: 'SQL_ERROR' }, call)
})

t.test('first and last values of buckets are by the time, whatever the order of writes', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const trades = db.measurement('trades', { price: 'float64', size: 'int64' })
  const at = (second: number, price: number, size: number): TestPoint => ({
    tags: { symbol: 'x' },
    time: 1_700_000_040_000_000_000n + BigInt(second) * 1_000_000_000n,
    fields: { price, size: BigInt(size) },
  })
  db.write(trades, [at(5, 12, 1), at(58, Number.NaN, 4), at(61, 30, 5), at(30, 9, 2)])
  db.write(trades, [at(57, 11, 3), at(1, Number.POSITIVE_INFINITY, 9), at(2, 10.5, 8), at(119, -0, 7), at(90, 31, 6)])
  const reader = await EngineReader.open(await db.context())
  t.teardown(() => reader.close())
  const read = async (query: string): Promise<unknown[][]> => {
    const rows: unknown[][] = []
    for await (const { rows: count, columns } of await reader.sql({ namespace: 'default', query }))
      for (let i = 0; i < count; i++) rows.push(columns.map(({ values }) => values[i]))
    return rows
  }
  const items =
    'first(price, _time) AS open, max(price) AS high, min(price) AS low, last(price, _time) AS "close", arg_min(size, _time) AS a, max_by(size, _time) AS b'
  const query = `SELECT time_bucket('1m', _time) AS t, ${items} FROM trades GROUP BY t ORDER BY t`
  t.match(String((await read(`EXPLAIN ${query}`)).at(-1)), /^path,Samples/)
  const minute = 1_700_000_040_000_000_000n
  t.same(await read(query), [
    [minute, 10.5, 12, 9, 11, 9n, 4n],
    [minute + 60_000_000_000n, 30, 31, 0, 0, 5n, 7n],
  ])
  t.same(await read(query.replace(' GROUP BY', ' WHERE 1 = 1 GROUP BY')), await read(query))
  t.same(await read('SELECT last(price, _time) - first(price, _time) AS move FROM trades WHERE size < 6'), [[18]])
  const between = `SELECT time_bucket('1m', _time, 'UTC', '2000-01-01 00:00:00.0005') AS t, count(*) FROM trades GROUP BY t ORDER BY t`
  t.same(
    await read(between),
    [
      [minute + 500_000n, 6n],
      [minute + 60_000_500_000n, 3n],
    ],
    'buckets that begin between two milliseconds',
  )
})

t.test('integers are answered from samples while doubles hold them, and their sums', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const time = (i: number): bigint => 1_700_000_000_000_000_000n + BigInt(i) * 1_000_000_000n
  const write = (name: string, values: readonly bigint[]): void =>
    db.write(
      db.measurement(name, { n: 'int64', u: 'uint64' }),
      values.map((n, i) => ({ tags: { host: 'a' }, time: time(i), fields: { n, u: n < 0n ? -n : n } })),
    )
  const most = 2n ** 53n - 1n
  write('small', [-5n, 7n, 12n])
  write('largest', [most])
  write('sums', [most, 1n, most - 3n])
  write('larger', [1n, most + 2n])
  write('signs', [most, 2n, -most])
  const read = async (query: string): Promise<[way: string, types: string[], rows: unknown[][]]> => {
    const reader = await EngineReader.open(await db.context())
    let way = 'samples'
    const inDuckDb = (): Promise<SqlCursor> => {
      way = 'duckdb'
      return reader.sql({ namespace: 'default', query: query.replace('FROM', ', 1 AS one FROM') })
    }
    try {
      const cursor = await lane(await db.context(), db.state.snapshotNow() as Snapshot, { namespace: 'default', query }, undefined, () => {}, inDuckDb)
      const rows: unknown[][] = []
      for await (const { rows: count, columns } of cursor)
        for (let i = 0; i < count; i++) rows.push(columns.slice(0, cursor.columns.length).map(({ values }) => values[i]))
      return [way, cursor.columns.map(({ type }) => type), rows.map((row) => row.slice(0, cursor.columns.length))]
    } finally {
      reader.close()
    }
  }
  const types = ['Int64', 'Int64', 'UInt64', 'decimal(38, 0)', 'decimal(38, 0)', 'Float64']
  const all = 'SELECT count(n), min(n), max(u), sum(n), sum(u), avg(n) FROM'
  t.same(await read(`${all} small`), ['samples', types, [[3n, -5n, 12n, 14n, 24n, 14 / 3]]])
  t.same(await read(`${all} small WHERE n >= 6.5`), ['samples', types, [[2n, 7n, 12n, 19n, 19n, 9.5]]])
  t.same(await read(`${all} largest`), ['samples', types, [[1n, most, most, most, most, Number(most)]]])
  t.same(await read('SELECT n, u FROM small ORDER BY n'), [
    'samples',
    ['Int64', 'UInt64'],
    [
      [-5n, 5n],
      [7n, 7n],
      [12n, 12n],
    ],
  ])
  t.equal((await read('SELECT max(n) FROM sums'))[0], 'samples')
  t.same(await read('SELECT sum(n) FROM sums'), ['duckdb', ['decimal(38, 0)'], [[2n * most - 2n]]])
  t.same(await read('SELECT sum(n) FROM signs'), ['duckdb', ['decimal(38, 0)'], [[2n]]], 'on the way the sum was larger')
  t.same(await read('SELECT max(n) FROM larger'), ['duckdb', ['Int64'], [[most + 2n]]])
  t.same(await read('SELECT n FROM larger ORDER BY n'), ['duckdb', ['Int64'], [[1n], [most + 2n]]])
})

t.test('conditions hold at the least and the greatest value of a block, beside alternatives, and rows end at the limit', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const values = [-5, 7, 7, 12]
  db.write(
    db.measurement('m', { v: 'float64', n: 'int64' }),
    values.map((v, i) => ({ tags: { host: `h${i % 2}` }, time: 1_700_000_000_000_000_000n + BigInt(i) * 1_000_000_000n, fields: { v, n: BigInt(v) } })),
  )
  const read = async (query: string): Promise<unknown[][]> => {
    const inDuckDb = () => t.fail(`it is DuckDB's: ${query}`) as never
    const rows: unknown[][] = []
    const cursor = await lane(await db.context(), db.state.snapshotNow() as Snapshot, { namespace: 'default', query }, undefined, () => {}, inDuckDb)
    for await (const { rows: count, columns } of cursor) for (let i = 0; i < count; i++) rows.push(columns.map(({ values }) => values[i]))
    return rows
  }
  const comparisons: [string, (value: number, bound: number) => boolean][] = [
    ['<', (value, bound) => value < bound],
    ['<=', (value, bound) => value <= bound],
    ['>', (value, bound) => value > bound],
    ['>=', (value, bound) => value >= bound],
    ['=', (value, bound) => value === bound],
    ['<>', (value, bound) => value !== bound],
  ]
  const check = async (field: string, where: string): Promise<void> => {
    for (const [comparison, holds] of comparisons)
      for (const bound of [-6, -5, 7, 12, 13]) {
        const some = values.filter((value) => holds(value, bound))
        const condition = `${field} ${comparison} ${bound}`
        t.same(await read(`SELECT count(*) FROM m WHERE ${condition}`), [[BigInt(some.length)]], `${condition}, in ${where}`)
        const among = some.filter((value) => value > 10 || value < -1)
        t.same(await read(`SELECT count(*) FROM m WHERE ${condition} AND (v > 10 OR v < -1)`), [[BigInt(among.length)]], `${condition}, in ${where}`)
      }
  }
  for (const field of ['v', 'n']) await check(field, 'a memtable')
  for (const [limit, offset, rows] of [
    [1, 0, 1],
    [2, 1, 2],
    [4, 0, 4],
    [3, 2, 2],
    [9, 0, 4],
    [2, 4, 0],
  ])
    t.equal((await read(`SELECT v FROM m LIMIT ${limit} OFFSET ${offset}`)).length, rows, `LIMIT ${limit} OFFSET ${offset}`)
  t.same(await read('SELECT v FROM m ORDER BY v DESC LIMIT 2'), [[12], [7]])
  t.same(await read('SELECT v FROM m ORDER BY v LIMIT 2 OFFSET 2'), [[7], [12]])
  // Whose least and greatest values are known.
  await db.flush(db.freeze())
  for (const field of ['v', 'n']) await check(field, 'a segment')
})

t.test('what is computed of the fields of a row is answered from samples, as DuckDB computes it', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const rows = [
    { used: 3, total: 4, n: 7n, u: 2n },
    { used: -5.5, total: 8, n: -2n, u: 1n },
    { used: Number.NaN, total: 2, n: 1n, u: 9n },
    { used: Number.POSITIVE_INFINITY, total: 0, n: 3n, u: 0n },
    { used: 12.25, total: 0.1, n: 0n, u: 4n },
    { used: 1e300, total: 1e300, n: 5n, u: 5n },
    { used: 1, total: 0, n: 6n, u: 6n },
  ]
  const points = rows.map(
    (fields, i): TestPoint => ({ tags: { host: i === 6 ? 'b' : 'a' }, time: 1_700_000_000_000_000_000n + BigInt(i) * 1_000_000_000n, fields }),
  )
  db.write(db.measurement('m', { used: 'float64', total: 'float64', n: 'int64', u: 'uint64' }), points)
  db.write(db.measurement('large', { x: 'float64', n: 'int64' }), [{ tags: { host: 'a' }, time: points[0].time, fields: { x: 1, n: 2n ** 53n + 1n } }])
  const reader = await EngineReader.open(await db.context())
  t.teardown(() => reader.close())
  const ways = async (query: string): Promise<string> => {
    let way = 'samples'
    const inDuckDb = (): Promise<SqlCursor> => {
      way = 'duckdb'
      return reader.sql({ namespace: 'default', query: 'SELECT 1' })
    }
    const cursor = await lane(await db.context(), db.state.snapshotNow() as Snapshot, { namespace: 'default', query }, undefined, () => {}, inDuckDb)
    for await (const _ of cursor);
    return way
  }
  const A = "host = 'a' AND used < 1e200"
  for (const [items, way, where] of [
    ['avg(used / total * 100) AS v', 'samples', A],
    ['avg(used / total * 100) AS v, count(used / total) AS c', 'samples', "host = 'a' AND total <> 0"],
    ['sum(used * total) / sum(total) AS vwap, max(abs(used - total)) AS d, min(-used) AS m', 'samples', A],
    ['last(used - n, _time) AS l, median(used + u) AS q, stddev(used * 2) AS s, avg(n / u) AS r', 'samples', A],
    ['count(*) AS c, sum(CASE WHEN used + total > 5 THEN used - 1 ELSE 0 END) AS s', 'samples', A],
    ['count(*) FILTER (WHERE round(used / total, 1) <> 0.8) AS c, count(*) AS all', 'samples', A],
    ['count(*) AS c, max(used) AS m', 'samples', `${A} AND used * 2 > 5.5`],
    ['count(*) AS c', 'samples', `${A} AND (used + 1 IN (4, 13.25) OR used * total < -40)`],
    ['count(*) AS c, max(n) FILTER (WHERE used > total) AS m, min(used) FILTER (WHERE n >= u) AS n', 'samples', `${A} AND total <> used + n`],
    ['_time, used / total * 100 AS pct, n', 'samples', `${A} AND total > 1 ORDER BY pct DESC`],
    ['_time, used / total AS r', 'duckdb', 'total < 1 ORDER BY _time'],
    ['max(used * total) AS overflow', 'duckdb', "host = 'a'"],
    ['avg(1 / (used * total)) AS overflow', 'duckdb', "host = 'a'"],
    ['avg(1 / (used * total * -1)) AS overflow', 'duckdb', "host = 'a'"],
    ['max(used / total) AS by_zero', 'duckdb', "host = 'b'"],
    ['sum(n + 1) AS s, avg(-n * 3) AS a, min(abs(n - 2)) AS m, max(n * n - 1) AS x, count(*) FILTER (WHERE 2 * n > n + 3) AS c', 'samples', A],
    ['_time, n * 2 AS twice, n + used AS both', 'samples', `${A} ORDER BY twice`],
    ['max(n * 2000000000 * 1000000) AS beyond', 'duckdb', A],
    ['sum(u + 1) AS unsigned', 'duckdb', A],
    ['sum(n + 1.5) AS decimal', 'duckdb', A],
    ['max(used) / (max(total) - max(total)) AS by_zero_of_groups', 'duckdb', A],
    ['stddev(used) AS overflow_of_groups', 'duckdb', "host = 'a'"],
    ['count(*) AS overflow_compared', 'duckdb', "host = 'a' AND used * total > 5"],
    ['sum(used) FILTER (WHERE n > 100 OR used * total > 5) AS overflow_of_either', 'duckdb', "host = 'a'"],
  ]) {
    const query = `SELECT ${items} FROM m WHERE ${where}`
    t.equal(await ways(query), way, query)
    t.same(await answerOf(reader, query), await answerOf(reader, query.replace('WHERE', 'WHERE 1 = 1 AND')), query)
  }
  for (const [items, way] of [
    ['avg(used / total * 100), max(abs(used - 2.5)), min(round(used, 1)), sum(2 * n)', 'samples'],
    ['quantile_cont(used * 2, 0.5), last(used - n, _time), count(used + 0.25)', 'samples'],
    ['max(-used)', 'duckdb'],
    ['max(used * -1)', 'duckdb'],
    ['max(used + .5)', 'duckdb'],
    ['max(used * 2) + 1', 'duckdb'],
  ]) {
    const query = `SELECT ${items} FROM m WHERE ${A}`
    t.equal(await ways(query), way, query)
    const [{ columns }, whole] = await Promise.all([query, `${query} AND 1 = 1`].map((each) => reader.sql({ namespace: 'default', query: each })))
    t.same(columns, whole.columns, query)
  }
  t.equal(await ways('SELECT max(x + n) AS v FROM large'), 'duckdb', 'a double does not hold the integer')
  t.same(await answerOf(reader, 'SELECT used FROM m WHERE used * 2 > 20 ORDER BY used'), [[12.25], [1e300]])
})

t.test('quantiles whose values have no room are left to DuckDB, and room comes back', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  db.write(
    db.measurement('m', { value: 'float64' }),
    Array.from({ length: 1000 }, (_, i) => ({
      tags: { host: 'a' },
      time: 1_700_000_000_000_000_000n + BigInt(i) * 1_000_000_000n,
      fields: { value: i },
    })),
  )
  const context = await db.context()
  const reader = await EngineReader.open(context)
  t.teardown(() => reader.close())
  const query = 'SELECT median(value) FROM m'
  const read = async (memoryLimit: number): Promise<[way: string, median: unknown]> => {
    let way = 'samples'
    const inDuckDb = (): Promise<SqlCursor> => {
      way = 'duckdb'
      return reader.sql({ namespace: 'default', query: `${query} WHERE 1 = 1` })
    }
    const duck = Object.create(context.duck, { memoryLimit: { value: memoryLimit } })
    const cursor = await lane({ ...context, duck }, db.state.snapshotNow() as Snapshot, { namespace: 'default', query }, undefined, () => {}, inDuckDb)
    let median: unknown
    for await (const { columns } of cursor) median = columns[0].values[0]
    return [way, median]
  }
  t.same(await read(10_000), ['duckdb', 499.5])
  for (let i = 0; i < 3; i++) t.same(await read(100_000), ['samples', 499.5])
})

/** The rows of a statement, or why there are none. */
async function answerOf(reader: EngineReader, query: string): Promise<unknown> {
  try {
    const rows: unknown[][] = []
    for await (const { rows: count, columns } of await reader.sql({ namespace: 'default', query }))
      for (let i = 0; i < count; i++) rows.push(columns.map(({ values }) => values[i]))
    return rows
  } catch (error) {
    return (error as Error).message
  }
}

t.test('DISTINCT ON means an alias before a column, as in DuckDB', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const at = (ms: bigint, host: string, region: string): TestPoint => ({
    tags: { host, region },
    time: 1_700_000_000_000_000_000n + ms * 1_000_000n,
    fields: { value: 1 },
  })
  db.write(db.measurement('m', { value: 'float64' }), [at(0n, 'a', 'eu'), at(1n, 'b', 'eu'), at(2n, 'c', 'us')])
  const reader = await EngineReader.open(await db.context())
  t.teardown(() => reader.close())
  for (const [query, rows] of [
    ['SELECT DISTINCT ON (host) region AS host, value FROM m ORDER BY _time DESC', ['us', 'eu']],
    ['SELECT DISTINCT ON (host) host, value FROM m ORDER BY _time DESC', ['c', 'b', 'a']],
    ['SELECT DISTINCT ON (h) host AS h, value FROM m ORDER BY _time DESC', ['c', 'b', 'a']],
  ] as const) {
    const wanted = rows.map((row) => [row, 1])
    t.same(await answerOf(reader, query), wanted, query)
    t.same(await answerOf(reader, query.replace('FROM m', 'FROM m WHERE 1 = 1')), wanted, `${query} in DuckDB`)
  }
})

t.test('DISTINCT ON tells rows of one time apart by what stands behind the time in ORDER BY, as in DuckDB', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const time = 1_700_000_000_000_000_000n
  const point = (host: string, value: number, at = time): TestPoint => ({ tags: { host, region: 'eu' }, time: at, fields: { value } })
  db.write(db.measurement('m', { value: 'float64' }), [point('a', 2), point('b', 9), point('c', 1), point('d', 100, time - 1_000_000n)])
  const reader = await EngineReader.open(await db.context())
  t.teardown(() => reader.close())
  for (const [order, row] of [
    ['region, _time DESC, value DESC', ['b', 9]],
    ['region, _time DESC, value', ['c', 1]],
    ['_time DESC, host DESC', ['c', 1]],
    ['_time DESC, _time, host', ['a', 2]],
    ['_time DESC, h DESC', ['c', 1]],
  ] as const) {
    const query = `SELECT DISTINCT ON (region) host AS h, value FROM m ORDER BY ${order}`
    t.same(await answerOf(reader, query), [row], query)
    t.same(await answerOf(reader, query.replace('FROM m', 'FROM m WHERE 1 = 1')), [row], `${query} in DuckDB`)
  }
})

t.test('a bucket that would begin before all times is refused, not wrapped around', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  db.write(db.measurement('m', { value: 'float64' }), [{ tags: { host: 'a' }, time: -9_223_372_036_854_000_000n, fields: { value: 1 } }])
  const reader = await EngineReader.open(await db.context())
  t.teardown(() => reader.close())
  for (const bucket of ["time_bucket('1w', _time)", "time_bucket('1h', _time)", "date_trunc('day', _time)"])
    t.match(await answerOf(reader, `SELECT ${bucket}, max(value) FROM m GROUP BY 1`), /Overflow/, bucket)
  t.same(await answerOf(reader, "SELECT time_bucket('1ms', _time), max(value) FROM m GROUP BY 1"), [[-9_223_372_036_854_000_000n, 1]])
})

const VALUES = { doubles: Math.sqrt, 'integers, which are unpacked': (i: number) => i % 7 }
for (const [name, of] of Object.entries(VALUES))
  t.test(`what is known of values that are not kept does not outlive them: ${name}`, async (t) => {
    const db = new TestDatabase({ sampleCacheBytes: 400_000, rowGroupRows: 2048 })
    t.teardown(() => db.close())
    const hosts = Array.from({ length: 30 }, (_, i) => `h${i}`)
    const sums = new Map<string, number>()
    const points = hosts.flatMap((host, h) =>
      Array.from({ length: 2048 }, (_, i) => {
        const value = h * 1000 + of(i)
        sums.set(host, (sums.get(host) ?? 0) + value)
        return { tags: { host }, time: 1_700_000_000_000_000_000n + BigInt(i) * 1_000_000_000n, fields: { value } }
      }),
    )
    db.write(db.measurement('m', { value: 'float64' }), points)
    await db.flush()
    const context = await db.context()
    for (let round = 0; round < 3; round++) {
      const cursor = await lane(
        context,
        db.state.snapshotNow() as Snapshot,
        { namespace: 'default', query: 'SELECT host, sum(value) FROM m GROUP BY host' },
        undefined,
        () => {},
        () => {
          throw new Error('left to DuckDB')
        },
      )
      for await (const { rows, columns } of cursor)
        for (let i = 0; i < rows; i++) {
          const host = String(columns[0].values[i])
          t.ok(Math.abs((columns[1].values[i] as number) - (sums.get(host) as number)) < 1e-3, `round ${round}, ${host}`)
        }
    }
  })
