import type { SqlParameter } from 'svcdb'
import t from 'tap'
import { MAX_TIME } from './host.ts'
import { openSql } from './open.ts'
import { prepareSql } from './prepare.ts'
import { CPU, CPU_ROWS, type TestHost, testHost } from './testing/host.ts'

let host: TestHost
t.before(async () => {
  host = await testHost([[CPU, CPU_ROWS]])
})
t.after(() => host.close())

const START = 1_704_067_200_000_000_000n // 2024-01-01T00:00:00Z
const MINUTE = 60_000_000_000n

const ask = async (query: string, ...parameters: SqlParameter[]): Promise<unknown[][]> => (await host.query(query, { parameters })).rows
const typesOf = async (query: string, ...parameters: SqlParameter[]): Promise<string[]> => (await host.query(query, { parameters })).types
const open = (query: string) => openSql(host, { namespace: 'default', query })

t.test('a value is what it would be in the text, and of a type of its own', async (t) => {
  for (const [value, shown, type] of [
    [null, null, 'Int32'],
    [true, 1, 'Boolean'],
    [1.5, 1.5, 'Float64'],
    [3, 3, 'Float64'],
    [-0, -0, 'Float64'],
    [Number.NaN, Number.NaN, 'Float64'],
    [-Infinity, -Infinity, 'Float64'],
    [5n, 5n, 'Int64'],
    [-(2n ** 63n), -(2n ** 63n), 'Int64'],
    [2n ** 64n - 1n, 2n ** 64n - 1n, 'UInt64'],
    [-(2n ** 100n), -(2n ** 100n), 'decimal(38, 0)'],
    ["it's; -- \\ é", "it's; -- \\ é", 'Utf8'],
    ['', '', 'Utf8'],
    [Uint8Array.of(0, 255, 39), Uint8Array.of(0, 255, 39), 'Binary'],
    [{ timestamp: START + 1n }, START + 1n, 'Timestamp(ns)'],
    [{ decimal: -150n, scale: 2 }, -150n, 'decimal(3, 2)'],
    [{ decimal: 5n, scale: 4 }, 5n, 'decimal(4, 4)'],
    [{ decimal: 7n, scale: 0 }, 7n, 'decimal(38, 0)'],
    [{ decimal: 7n, scale: -2 }, 700n, 'decimal(38, 0)'],
  ] as [SqlParameter, unknown, string][]) {
    const { rows, types } = await host.query('SELECT ?', { parameters: [value] })
    t.strictSame([rows[0][0], types[0]], [shown, type])
  }
})

t.test('by place, by number and by name', async (t) => {
  t.strictSame(await ask('SELECT ? - ?', 7n, 2n), [[5n]])
  t.strictSame(await ask('SELECT $2 - $1, $2', 7n, 2n), [[-5n, 2n]])
  t.strictSame(await ask('SELECT $b - $a, $b', 7n, 2n), [[5n, 7n]], 'names in the order they are met')
  t.strictSame(await ask('SELECT $2', 7n, 2n), [[2n]], 'a number that is skipped has a value too')
  t.strictSame(await ask("SELECT '?', $1 -- ?", 1n), [['?', 1n]])
})

t.test('values by name', async (t) => {
  const named = async (query: string, values: Record<string, SqlParameter>): Promise<unknown[][]> =>
    (await host.query(query, { parameters: new Map(Object.entries(values)) })).rows
  t.strictSame(await named('SELECT $b - $a, $b', { a: 2n, b: 7n, unused: 1n }), [[5n, 7n]])
  t.strictSame(await named('SELECT $2', { 2: 2n }), [[2n]], 'a number is a name, and one that is skipped needs no value')
  t.strictSame(await named('SELECT 1::BIGINT', {}), [[1n]])
  t.strictSame(await named('SELECT count(*) FROM cpu WHERE procs = $procs', { procs: -77n }), [[0n]])
  await t.rejects(named('SELECT $a', { A: 1n, constructor: 1n }), { code: 'SQL_ERROR', message: /no value was given for its parameter \$a/ })
  t.ok((await named('SHOW TABLES', { a: 1n })).length > 0)
})

t.test('a column is called by its parameter, whatever the value', async (t) => {
  const named = async (query: string, ...parameters: SqlParameter[]): Promise<string[]> => (await host.query(query, { parameters })).columns
  t.strictSame(await named('SELECT ?, procs + ? FROM cpu LIMIT 1', 1n, 2n), ['$1', 'procs + $2'])
  t.strictSame(
    (await open('SELECT ?, procs + ? FROM cpu LIMIT 1')).columns.map(({ name }) => name),
    ['$1', 'procs + $2'],
  )
})

t.test('times prune', async (t) => {
  const scan = async (where: string, ...parameters: SqlParameter[]) =>
    (await prepareSql(host, 'default', `SELECT count(*) FROM cpu WHERE ${where}`, { parameters })).scans[0]
  t.strictSame((await scan('_time >= ?', { timestamp: START })).time, [START, MAX_TIME])
  t.strictSame((await scan('_time >= ?', START)).time, [START, MAX_TIME])
  t.strictSame((await scan('_time >= ?', '2024-01-01T00:00:00Z')).time, [START, MAX_TIME])
  t.strictSame((await scan('_time BETWEEN $1 AND $2', { timestamp: START }, { timestamp: START + MINUTE })).time, [START, START + MINUTE])
  t.strictSame((await scan("_time >= ? - INTERVAL '1 minute'", { timestamp: START })).time, [START - MINUTE, MAX_TIME])
  t.strictSame((await scan('_time IN (?, ?)', 5n, { timestamp: 9n })).time, [5n, 9n])
  t.strictSame((await scan('hostname = ?', 'a')).tags, [{ tag: 'hostname', values: ['a'] }])
  const rows = await ask(
    'SELECT count(*) FROM cpu WHERE _time >= ? AND _time < ? AND hostname = ?',
    { timestamp: START },
    { timestamp: START + 10n * MINUTE },
    'b',
  )
  t.strictSame(rows, [[10n]])
})

t.test('where a constant is asked for', async (t) => {
  t.strictSame(await ask('SELECT time_bucket(?, _time) AS t, count(*) FROM cpu GROUP BY 1 ORDER BY 1', '1h'), [
    [START, 120n],
    [START + 60n * MINUTE, 120n],
  ])
  t.strictSame(await ask('SELECT procs FROM cpu WHERE hostname = $1 ORDER BY procs LIMIT $2 OFFSET $3', 'a', 2n, 5n), [[5n], [6n]])
  t.strictSame(await ask('SELECT procs / ? FROM cpu WHERE procs = 8 LIMIT 1', 2n), [[4]])
  await t.rejects(ask('SELECT procs // ? FROM cpu', 0n), { code: 'SQL_ERROR', message: /division by zero/ })
})

t.test('values are data: they never become part of the statement', async (t) => {
  t.strictSame(await ask('SELECT count(*) FROM cpu WHERE hostname = ?', "a' OR '1' = '1"), [[0n]])
  await t.rejects(ask('SELECT * FROM read_text(?)', '/etc/passwd'), { code: 'SQL_ERROR', message: /only .* are allowed/ })
  await t.rejects(ask('SELECT list_aggregate([1], ?)', 'histogram_exact'), { code: 'SQL_ERROR' })
  await t.rejects(ask('SELECT ?', 'a\0b'), { code: 'SQL_ERROR', message: /parameter \$1.*NUL/ })
})

t.test('as many values as parameters', async (t) => {
  await t.rejects(ask('SELECT ?, ?', 1n), { code: 'SQL_ERROR', message: 'cannot run the query: it has 2 parameters, and one value was given' })
  await t.rejects(ask('SELECT ?'), { code: 'SQL_ERROR', message: 'cannot run the query: it has one parameter, and 0 values were given' })
  await t.rejects(ask('SELECT 1', 1n, 2n), { code: 'SQL_ERROR', message: 'cannot run the query: it has no parameters, and 2 values were given' })
  await t.rejects(ask('SHOW TABLES', 1n), { code: 'SQL_ERROR', message: /no parameters/ })
  t.strictSame(await ask('SELECT 1'), [[1]])
  await t.rejects(ask('SELECT $70000', 1n), { code: 'SQL_ERROR', message: /at most 65535/ })
})

t.test('a parameter orders and groups nothing', async (t) => {
  await t.rejects(ask('SELECT procs FROM cpu ORDER BY ?', 1n), { code: 'SQL_ERROR', message: /parameter in ORDER BY/ })
  await t.rejects(ask('SELECT procs FROM cpu GROUP BY $1', 1n), { code: 'SQL_ERROR', message: /parameter in GROUP BY/ })
})

t.test('values out of range', async (t) => {
  await t.rejects(ask('SELECT ?', 2n ** 127n), { code: 'SQL_ERROR', message: /more than 128 bits/ })
  await t.rejects(ask('SELECT ?', { timestamp: 2n ** 63n }), { code: 'SQL_ERROR', message: /outside the range/ })
  await t.rejects(ask('SELECT ?', { decimal: 10n ** 38n, scale: 3 }), { code: 'SQL_ERROR', message: /more than 38 digits/ })
})

t.test('without values a query says what it answers and what it asks for, and does not run', async (t) => {
  const described = async (query: string) => {
    const { columns, parameters } = await open(query)
    return [columns.map(({ type }) => type), parameters]
  }
  t.strictSame(await described('SELECT _time, hostname, usage_user FROM cpu WHERE _time > ? AND usage_user < ? AND hostname = ? LIMIT ?'), [
    ['Timestamp(ns)', 'Utf8', 'Float64'],
    ['Timestamp(ns)', 'Float64', 'Utf8', 'Int64'],
  ])
  t.strictSame(await described('SELECT procs + ?, upper(?), hostname FROM cpu WHERE procs = ?'), [
    ['Int64', 'Utf8', 'Utf8'],
    ['Null', 'Null', 'Int64'],
  ])
  t.strictSame(await described('SELECT time_bucket($w, _time) AS t, avg(usage_user) FROM cpu WHERE price > $p GROUP BY 1'), [
    ['Timestamp(ns)', 'Float64'],
    ['Utf8', 'decimal(38, 4)'],
  ])
  t.strictSame(await described('SELECT procs + $2 FROM cpu WHERE procs > $4'), [['Int64'], ['Null', 'Null', 'Null', 'Int64']])
  t.strictSame(await described('EXPLAIN SELECT * FROM cpu WHERE procs = ?'), [['Utf8', 'Utf8'], ['Int64']])
  t.strictSame(await described('DESCRIBE SELECT * FROM cpu WHERE procs = ?'), [['Utf8', 'Utf8', 'Utf8'], ['Int64']])
  const cursor = await open('SELECT procs FROM cpu WHERE procs = ?')
  await t.rejects(cursor[Symbol.asyncIterator]().next(), { code: 'SQL_ERROR', message: /no values were given for its parameter/ })
  await t.rejects(open('SELECT nothing FROM cpu WHERE procs = ?'), { code: 'SQL_ERROR', message: /nothing/ })
  t.strictSame((await open('SELECT * FROM cpu')).parameters, [])
})

t.test('types are known before the first row, and are those of the rows', async (t) => {
  for (const [query, ...parameters] of [
    ['SELECT * FROM cpu'],
    ['SELECT sum(procs), avg(price), hostname FROM cpu WHERE procs > ? GROUP BY hostname', 5n],
    ['SELECT [hostname], {a: procs}, ? FROM cpu', 1.5],
    ['SHOW COLUMNS FROM cpu'],
    ['EXPLAIN SELECT ?', 1n],
  ] as [string, ...SqlParameter[]][]) {
    const cursor = await openSql(host, { namespace: 'default', query, parameters })
    t.strictSame(
      cursor.columns.map(({ type }) => type),
      await typesOf(query, ...parameters),
    )
  }
})

t.test('nothing runs before the first row is asked for', async (t) => {
  const cursor = await open('SELECT procs // (procs - procs) FROM cpu')
  t.equal(cursor.columns.length, 1)
  await t.rejects(cursor[Symbol.asyncIterator]().next(), { code: 'SQL_ERROR', message: /division by zero/ })
})

t.test('text as bytes and as numbers in a dictionary', async (t) => {
  const decode = async (query: string) => {
    const cursor = await openSql(host, { namespace: 'default', query, textBytes: true })
    const texts: unknown[][] = []
    const kinds: string[] = []
    for await (const { rows, columns } of cursor) {
      columns.forEach(({ dictionary, bytes }, i) => {
        kinds[i] = dictionary !== undefined ? 'dictionary' : bytes !== undefined ? 'bytes' : 'values'
      })
      for (let row = 0; row < rows; row++) {
        texts.push(
          columns.map(({ values, validity, dictionary, bytes }) => {
            if (validity?.[row] === 0) return null
            if (dictionary !== undefined) return dictionary[values[row] as number]
            if (bytes === undefined) return values[row]
            return Buffer.from(bytes).toString('utf8', values[row] as number, values[row + 1] as number)
          }),
        )
      }
    }
    return { kinds, texts }
  }
  const { kinds, texts } = await decode('SELECT hostname, region, procs FROM cpu ORDER BY procs, hostname LIMIT 3')
  t.strictSame(kinds, ['dictionary', 'bytes', 'values'], 'tags that have a dictionary come by it')
  t.strictSame(texts, [
    ['a', 'eu', 0n],
    ['b', 'us', 0n],
    ['a', 'eu', 1n],
  ])
  t.strictSame((await decode('SELECT * FROM cpu LIMIT 1')).kinds[1], 'dictionary')
  t.strictSame((await decode("SELECT hostname, hostname || 'x' FROM cpu LIMIT 1")).kinds, ['bytes', 'bytes'], 'a tag that is worked on as text is text')
  const long = await decode(
    "SELECT CASE WHEN i % 3 = 0 THEN NULL WHEN i % 3 = 1 THEN repeat('lang é ', i % 50) ELSE 'kurz' END, 'always the same long text' FROM range(5000) r(i)",
  )
  t.strictSame(long.kinds, ['bytes', 'bytes'])
  long.texts.forEach(([text, same], i) => {
    const expected = i % 3 === 0 ? null : i % 3 === 1 ? 'lang é '.repeat(i % 50) : 'kurz'
    if (text !== expected || same !== 'always the same long text') t.fail(`row ${i}: ${text}`)
  })
  t.strictSame((await decode("SELECT hostname FROM cpu WHERE hostname = 'none'")).texts, [])
})
