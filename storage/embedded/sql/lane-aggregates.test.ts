/** Aggregates over some of the rows, from samples: what DuckDB answers is what they are compared with. */
import t, { type Test } from 'tap'
import { EngineReader } from '../read/reader.ts'
import { TestDatabase } from '../testing/engine-state.ts'

const MINUTE = 60_000_000_000n
const START = 1_700_000_040_000_000_000n

/** Of a segment bounds of values are known, which settle some conditions. */
type Place = 'a memtable' | 'a segment'
const PLACES: readonly Place[] = ['a memtable', 'a segment']

/** Ten rows of two hosts in two regions, a minute apart; one has no finite x. */
async function openReader(t: Test, place: Place = 'a memtable'): Promise<EngineReader> {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const m = db.measurement('m', { x: 'float64', y: 'float64', n: 'int64', u: 'uint64', s: 'string' })
  db.write(
    m,
    Array.from({ length: 10 }, (_, i) => ({
      tags: { host: 'abc'[i % 3], region: i % 2 === 0 ? 'eu' : 'us' },
      time: START + BigInt(i) * MINUTE,
      fields: { x: i === 7 ? Number.NaN : i * 1.5, y: 10 - i, n: BigInt(i - 5), u: BigInt(i), s: 'text' },
    })),
  )
  if (place === 'a segment') await db.flush()
  const reader = await EngineReader.open(await db.context())
  t.teardown(() => reader.close())
  return reader
}

interface Answer {
  columns: readonly { name: string; type: string }[]
  rows: unknown[][]
}

async function answer(reader: EngineReader, query: string): Promise<Answer> {
  const cursor = await reader.sql({ namespace: 'default', query })
  const rows: unknown[][] = []
  for await (const { rows: count, columns } of cursor)
    for (let i = 0; i < count; i++) rows.push(columns.map(({ values, validity }) => (validity?.[i] === 0 ? null : values[i])))
  return { columns: cursor.columns, rows }
}

async function path(reader: EngineReader, query: string): Promise<string> {
  return String((await answer(reader, `EXPLAIN ${query}`)).rows.at(-1)?.[1]).replace(/[:.].*/, '')
}

/** The one row of a statement, which samples answer as DuckDB does. */
async function fromSamples(t: Test, reader: EngineReader, items: string, rest = ''): Promise<unknown[][]> {
  const query = `SELECT ${items} FROM m${rest}`
  t.equal(await path(reader, query), 'Samples', query)
  const found = await answer(reader, query)
  t.same(found, await answer(reader, query.replace('FROM m', 'FROM m WHERE 1 = 1')), query)
  return found.rows
}

for (const place of PLACES)
  t.test(`FILTER and CASE take the rows of ${place} that satisfy conditions on tags and fields`, async (t) => {
    const reader = await openReader(t, place)
    for (const [items, row] of [
      ['count(*) FILTER (WHERE x > 5) AS a, count(x) FILTER (WHERE u > 5) AS b, count(*) AS c', [5n, 3n, 10n]],
      ["avg(y) FILTER (WHERE host = 'a') AS a, sum(n) FILTER (WHERE host IN ('a', 'b') AND n < 0) AS b", [5.5, -12n]],
      ["max(x) FILTER (WHERE region <> 'eu') AS a, min(x) FILTER (WHERE host LIKE '_' AND y BETWEEN 2 AND 4.5) AS b", [13.5, 9]],
      ['count(*) FILTER (WHERE x IS NOT NULL) AS a, count(*) FILTER (WHERE u IS NOT NULL) AS b', [9n, 10n]],
      ['sum(x) FILTER (WHERE x > 100) AS a, count(x) FILTER (WHERE x > 100) AS b, avg(x) FILTER (WHERE x > 100) AS c', [null, 0n, null]],
      ['first(u, _time) FILTER (WHERE x > 5) AS a, last(u, _time) FILTER (WHERE y > 5) AS b, max(u) AS c', [4n, 4n, 9n]],
      ['min(_time) FILTER (WHERE x > 5) AS a, max(_time) FILTER (WHERE x > 100) AS b, count(*) AS c', [START + 4n * MINUTE, null, 10n]],
      ['median(x) FILTER (WHERE n > 0) AS a, var_pop(x) FILTER (WHERE n > 2) AS b', [12, 0.5625]],
      ['sum(CASE WHEN x > 5 THEN 1 ELSE 0 END) AS a, sum(CASE WHEN x > 50 THEN 1 ELSE 0 END) AS b, sum(CASE WHEN x > 50 THEN 1 END) AS c', [5n, 0n, null]],
      ['avg(CASE WHEN x > 5 THEN 1 ELSE 0 END) AS a, count(CASE WHEN x > 5 THEN 1 END) AS b, count(CASE WHEN x > 5 THEN x END) AS c', [0.5, 5n, 5n]],
      [
        "sum(CASE WHEN host = 'a' THEN u ELSE 0 END) AS a, avg(CASE WHEN host = 'a' THEN y ELSE 0 END) AS b, max(CASE WHEN n < 0 THEN n END) AS c",
        [18n, 2.2, -1n],
      ],
      ['sum(CASE WHEN x > 5 THEN 1 ELSE 0 END) / count(*) AS a, avg(CASE WHEN n > 0 THEN n END) FILTER (WHERE x > 9) AS b', [0.5, 3.5]],
    ] as const)
      t.same(await fromSamples(t, reader, items), [row], items)
    // What is null by its value in all rows that are taken is not 0, unless there are others.
    const rest = ' GROUP BY t ORDER BY t'
    const none = await fromSamples(t, reader, "time_bucket('1m', _time) AS t, sum(CASE WHEN u = 7 THEN x ELSE 0 END) AS a", rest)
    t.same(
      none.map(([, sum]) => sum),
      [0, 0, 0, 0, 0, 0, 0, null, 0, 0],
    )
    const groups = await fromSamples(
      t,
      reader,
      'host, count(*) FILTER (WHERE x > 5) AS a',
      ' GROUP BY host HAVING max(x) FILTER (WHERE n < 1) > 5 ORDER BY a DESC, 1',
    )
    t.same(groups, [
      ['c', 2n],
      ['b', 1n],
    ])
    t.same(await fromSamples(t, reader, 'count(*) FILTER (WHERE x > 5) AS a', ' GROUP BY host HAVING a > 1 ORDER BY a LIMIT 1'), [[2n]])
  })

for (const place of PLACES)
  t.test(`an aggregate with a condition on tags takes the rows of ${place} that satisfy those of the statement besides`, async (t) => {
    const reader = await openReader(t, place)
    for (const [items, row] of [
      ["count(*) FILTER (WHERE host = 'a') AS a, sum(u) FILTER (WHERE host = 'a') AS b", [2n, 3n]],
      ["count(*) FILTER (WHERE host = 'a' AND n < -3) AS a, count(DISTINCT host) FILTER (WHERE region = 'us') AS b", [1n, 2n]],
    ] as const) {
      const query = `SELECT ${items} FROM m WHERE y > 6 AND (x < 4 OR u = 3)`
      t.equal(await path(reader, query), 'Samples', query)
      t.same((await answer(reader, query)).rows, [row], query)
      t.same((await answer(reader, `${query} AND 1 = 1`)).rows, [row], query)
    }
  })

t.test('values of tags are counted by groups, those that rows have', async (t) => {
  const reader = await openReader(t)
  t.same(await fromSamples(t, reader, 'count(DISTINCT host), count(*)'), [[3n, 10n]])
  t.same(await fromSamples(t, reader, "count(DISTINCT host) FILTER (WHERE x > 12) AS a, count(DISTINCT host) FILTER (WHERE host <> 'a') AS b"), [[1n, 2n]])
  t.same(await fromSamples(t, reader, 'region, count(DISTINCT host) AS c', ' GROUP BY region HAVING c > 2 ORDER BY c, region DESC'), [
    ['us', 3n],
    ['eu', 3n],
  ])
  const buckets = await fromSamples(
    t,
    reader,
    "time_bucket('4m', _time) AS t, count(DISTINCT host) AS h, count(DISTINCT region) AS r",
    ' GROUP BY t ORDER BY t',
  )
  t.same(
    buckets.map(([, hosts, regions]) => [hosts, regions]),
    [
      [2n, 2n],
      [3n, 2n],
      [3n, 2n],
    ],
  )
  t.same(
    await fromSamples(t, reader, 'host, count(DISTINCT host) AS c, round(count(DISTINCT region) / avg(u), 1) AS q', ' GROUP BY host ORDER BY host LIMIT 1'),
    [['a', 1n, 0.4]],
  )
  for (const item of ['count(DISTINCT u), count(*)', 'count(DISTINCT s), count(*)', 'max(DISTINCT u), count(*)', 'sum(DISTINCT u), count(*)'])
    t.equal(await path(reader, `SELECT ${item} FROM m`), 'DuckDB', item)
  const many = (n: number): string => Array.from({ length: n }, (_, i) => `count(DISTINCT host) FILTER (WHERE y > ${i}) AS a${i}`).join(', ')
  t.equal(await path(reader, `SELECT ${many(8)} FROM m`), 'Samples')
  t.equal(await path(reader, `SELECT ${many(9)} FROM m`), 'DuckDB')
})

for (const place of PLACES)
  t.test(`one of several conditions on fields of ${place} holds, in WHERE and for aggregates`, async (t) => {
    const reader = await openReader(t, place)
    const counted = async (where: string): Promise<unknown> => {
      const query = `SELECT count(*), sum(u) FROM m WHERE ${where}`
      t.equal(await path(reader, query), 'Samples', query)
      const found = await answer(reader, query)
      t.same(found, await answer(reader, `${query} AND 1 = 1`), query)
      t.same(await fromSamples(t, reader, `count(*) FILTER (WHERE ${where}) AS a`), [found.rows[0].slice(0, 1)], query)
      t.same((await fromSamples(t, reader, `count(*) FILTER (WHERE ${where}) AS a, sum(u) FILTER (WHERE ${where}) AS b`))[0], found.rows[0], query)
      return found.rows[0][0]
    }
    t.equal(await counted('(x < 3 OR y < 3)'), 4n)
    t.equal(await counted('(x < 3 OR x >= 3)'), 9n, 'a value that is none satisfies neither')
    t.equal(await counted('(x > 100 OR y > 100)'), 0n)
    t.equal(await counted('(x > 100 OR y < 100)'), 10n)
    t.equal(await counted('(x BETWEEN 3 AND 6 OR n > 1 AND y > 2 OR u IN (0, 9))'), 6n)
    t.equal(await counted("(x < 3 OR y < 3) AND n > -5 AND host <> 'b'"), 2n)
    t.equal(await counted('(x < 3 OR y < 3) AND u IN (0, 8, 20)'), 2n)
    t.equal(await counted('y > 0 AND u < 100'), 10n)
    t.equal(await counted('y > 0 AND u > 100'), 0n)
    t.equal(await counted('(x < 3 OR y > 100) AND u < 100'), 2n)
    t.equal(await counted('x IN (1.5, 3, 4)'), 2n)
    t.equal(await counted('x NOT IN (1.5, 3, 4)'), 7n)
    for (const [where, n] of [
      ['3 < x', 6n],
      ['3 <= x', 7n],
      ['3 > x', 2n],
      ['3 >= x', 3n],
      ['3 = x', 1n],
      ['3 <> x', 8n],
      ['x BETWEEN 3 AND 6', 3n],
      ['-1 < n', 5n],
      ['-1 >= n', 5n],
    ] as const)
      t.equal(await counted(where), n, where)
    const rows = 'SELECT u FROM m WHERE (x < 3 OR n > 3) ORDER BY _time'
    t.equal(await path(reader, rows), 'Samples')
    t.same((await answer(reader, rows)).rows, [[0n], [1n], [9n]])
    for (const where of ["(x < 3 OR host = 'a')", '(x < 3 OR n % 2 = 1)', 'n IN (1, 1.5)', 'x IN (1, y)', 'x IN (1, NULL)', '(x < 3 OR x IS NULL)'])
      t.equal(await path(reader, `SELECT count(*) FROM m WHERE ${where}`), 'DuckDB', where)
    const many = (n: number): string => Array.from({ length: n }, (_, i) => i).join(', ')
    t.equal(await path(reader, `SELECT count(*) FROM m WHERE x IN (${many(64)})`), 'Samples')
    t.equal(await path(reader, `SELECT count(*) FROM m WHERE x IN (${many(65)})`), 'DuckDB')
    t.equal(await path(reader, `SELECT count(*) FROM m WHERE x NOT IN (${many(65)})`), 'DuckDB')
    const filtered = (n: number): string => [32, n].map((each) => `count(*) FILTER (WHERE x IN (${many(each)})) AS a${each}`).join(', ')
    t.equal(await path(reader, `SELECT ${filtered(31)} FROM m`), 'Samples')
    t.equal(await path(reader, `SELECT ${filtered(33)} FROM m`), 'DuckDB', 'all conditions of aggregates together')
  })

t.test('conditions that are not known to mean the same, and very many, are left to DuckDB', async (t) => {
  const reader = await openReader(t)
  for (const item of [
    'count(*) FILTER (WHERE x > 5)',
    "count(*) FILTER (WHERE _time > '2020-01-01') AS a",
    "count(*) FILTER (WHERE host > 'a') AS a",
    'count(*) FILTER (WHERE host IS NULL) AS a',
    "count(*) FILTER (WHERE host = '') AS a",
    "count(*) FILTER (WHERE s = 'text') AS a",
    'count(*) FILTER (WHERE n % 2 = 1) AS a',
    // Of so many digits a decimal need not be the double that DuckDB makes of it.
    'count(*) FILTER (WHERE x > 1.234567890123456) AS a',
    'count(DISTINCT x) FILTER (WHERE x > 5) AS a',
    'sum(CASE WHEN x > 5 THEN 1 ELSE 0 END)',
    'sum(CASE WHEN x > 5 THEN 1 WHEN x > 3 THEN 0 END) AS a',
    'sum(CASE WHEN x > 5 THEN 2 ELSE 0 END) AS a',
    'sum(CASE WHEN x > 5 THEN 1.0 ELSE 0 END) AS a',
    'sum(CASE WHEN x > 5 THEN 1 ELSE 1 END) AS a',
    'sum(CASE WHEN x > 5 THEN 1 ELSE 0 END) FILTER (WHERE y > 3) AS a',
    'min(CASE WHEN x > 5 THEN x ELSE 0 END) AS a',
    'count(CASE WHEN x > 5 THEN NULL END) AS a',
    'count(CASE WHEN x > 5 THEN 1 ELSE 0 END) AS a',
  ])
    t.equal(await path(reader, `SELECT ${item} FROM m`), 'DuckDB', item)
  t.equal(await path(reader, 'SELECT count(*) FILTER (WHERE x > 1.23456789012345) AS a FROM m'), 'Samples')
  const sets = (n: number): string => Array.from({ length: n }, (_, i) => `sum(x) FILTER (WHERE y > ${i}) AS a${i}`).join(', ')
  const aggregates = (n: number): string => Array.from({ length: n }, (_, i) => `sum(x) FILTER (WHERE y > ${i % 13} AND u > ${i % 3}) AS a${i}`).join(', ')
  t.equal(await path(reader, `SELECT ${sets(16)} FROM m`), 'Samples')
  t.equal(await path(reader, `SELECT ${sets(17)} FROM m`), 'DuckDB')
  t.equal(await path(reader, `SELECT ${aggregates(200)} FROM m`), 'DuckDB')
  await fromSamples(t, reader, sets(16))
})

for (const place of PLACES)
  t.test(`a condition on values that a row of ${place} lacks, or that doubles do not hold, is DuckDB's`, async (t) => {
    const db = new TestDatabase()
    t.teardown(() => db.close())
    const m = db.measurement('m', { x: 'float64', n: 'int64', late: 'float64' })
    db.write(m, [
      { tags: { host: 'a' }, time: START, fields: { x: 1, n: 2n ** 53n + 1n } },
      { tags: { host: 'a' }, time: START + MINUTE, fields: { x: 2, n: 5n, late: 3 } },
    ])
    if (place === 'a segment') await db.flush()
    const reader = await EngineReader.open(await db.context())
    t.teardown(() => reader.close())
    t.same((await answer(reader, 'SELECT count(*) AS a, count(*) FILTER (WHERE late > 1) AS b FROM m')).rows, [[2n, 1n]])
    t.same((await answer(reader, `SELECT count(*) FILTER (WHERE n > ${2n ** 53n}) AS a FROM m`)).rows, [[1n]])
    for (const where of ['n > 10', '(n > 10 OR x > 100)', '(x > 100 OR n > 10)']) {
      t.same((await answer(reader, `SELECT count(*) FILTER (WHERE ${where}) AS a FROM m`)).rows, [[1n]], where)
      t.same((await answer(reader, `SELECT count(*) FROM m WHERE ${where}`)).rows, [[1n]], where)
    }
    t.same((await answer(reader, 'SELECT sum(n) FILTER (WHERE x < 2) AS a FROM m')).rows, [[2n ** 53n + 1n]])
  })

for (const place of PLACES)
  t.test(`what is computed of the fields of a row of ${place} does not depend on what else is computed`, async (t) => {
    const db = new TestDatabase()
    t.teardown(() => db.close())
    const m = db.measurement('m', { x: 'float64', y: 'float64', n: 'int64' })
    // Tenths are stored as integers.
    const points = Array.from({ length: 100 }, (_, i) => ({
      tags: { host: 'ab'[i % 2] },
      time: START + BigInt(i) * MINUTE,
      fields: { x: (i % 7) / 10, y: 10 - (i % 9), n: BigInt(i % 5) },
    }))
    db.write(m, points)
    if (place === 'a segment') await db.flush()
    // Rows that are written again are put in order: the runs of a block are then in another one.
    db.write(
      m,
      points.filter((_, i) => i % 20 === 0),
    )
    const reader = await EngineReader.open(await db.context())
    t.teardown(() => reader.close())
    const sum = (of: (x: number, y: number, n: number) => number, taken: (x: number, y: number, n: number) => boolean = () => true): number =>
      points.reduce((all, { fields: { x, y, n } }) => (taken(x, y, Number(n)) ? all + of(x, y, Number(n)) : all), 0)
    for (const [items, numbers] of [
      ['sum(x * 2) AS a, max(x + n) AS b', [sum((x) => x * 2), 4.6]],
      ['sum(y - x * (y + n)) AS a', [sum((x, y, n) => y - x * (y + n))]],
      ['sum(y - (x * (n - (x + y)))) AS a', [sum((x, y, n) => y - x * (n - (x + y)))]],
      [
        'sum(y * (x + n)) FILTER (WHERE n > 1) AS a, sum(x + 1) AS b, sum(x + 1) FILTER (WHERE n < 3) AS c',
        [
          sum(
            (x, y, n) => y * (x + n),
            (_x, _y, n) => n > 1,
          ),
          sum((x) => x + 1),
          sum(
            (x) => x + 1,
            (_x, _y, n) => n < 3,
          ),
        ],
      ],
      [
        'count(*) FILTER (WHERE x + n > 2.05) AS a',
        [
          BigInt(
            sum(
              () => 1,
              (x, _y, n) => x + n > 2.05,
            ),
          ),
        ],
      ],
    ] as const) {
      const query = `SELECT ${items} FROM m`
      t.equal(await path(reader, query), 'Samples', query)
      const [row] = (await answer(reader, query)).rows
      for (const [i, number] of numbers.entries())
        if (typeof number === 'bigint') t.equal(row[i], number, query)
        else t.ok(Math.abs((row[i] as number) - number) < 1e-9, `${query}: ${row[i]}, not ${number}`)
    }
  })

t.test('what is computed of the fields of a row is bounded, beyond that it is left to DuckDB', async (t) => {
  const reader = await openReader(t)
  const added = (n: number): string => `sum(${'y + '.repeat(n)}y) AS a`
  // Each sum is a step, and each field.
  t.equal(await path(reader, `SELECT ${added(15)} FROM m`), 'Samples')
  t.equal(await path(reader, `SELECT ${added(16)} FROM m`), 'DuckDB')
  const nested = (n: number): string => `sum(${'(y - '.repeat(n)}y${')'.repeat(n)}) AS a`
  await fromSamples(t, reader, nested(4))
  t.equal(await path(reader, `SELECT ${nested(5)} FROM m`), 'DuckDB')
  const several = (n: number): string => Array.from({ length: n }, (_, i) => `sum(y + ${i}) AS a${i}`).join(', ')
  await fromSamples(t, reader, several(8))
  t.equal(await path(reader, `SELECT ${several(9)} FROM m`), 'DuckDB')
  t.equal(await path(reader, `SELECT ${several(8)}, max(y + 7) AS m FROM m`), 'Samples', 'the same one again')
})
