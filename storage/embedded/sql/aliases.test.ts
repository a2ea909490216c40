/** Aliases of divisions whose divisor is checked: DuckDB lets none stand for what may have side effects, so they are written out. */
import t, { type Test } from 'tap'
import { EngineReader } from '../read/reader.ts'
import { TestDatabase } from '../testing/engine-state.ts'
import { VOLATILE } from './aliases.ts'
import { SCALARS } from './functions.ts'

async function openReader(t: Test): Promise<{ rows(query: string): Promise<unknown[][]>; db: TestDatabase }> {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const m = db.measurement('m', { x: 'float64', n: 'int64' })
  db.write(
    m,
    Array.from({ length: 6 }, (_, i) => ({ tags: { host: 'ab'[i % 2] }, time: 1_700_000_040_000_000_000n + BigInt(i), fields: { x: i, n: BigInt(i) } })),
  )
  const reader = await EngineReader.open(await db.context())
  t.teardown(() => reader.close())
  return {
    db,
    async rows(query) {
      const rows: unknown[][] = []
      for await (const { rows: count, columns } of await reader.sql({ namespace: 'default', query }))
        for (let i = 0; i < count; i++) rows.push(columns.map(({ values, validity }) => (validity?.[i] === 0 ? null : values[i])))
      return rows
    },
  }
}

t.test('an alias of a division of integers stands for it wherever others do', async (t) => {
  const { rows } = await openReader(t)
  const column = async (query: string): Promise<unknown[]> => (await rows(query)).map((row) => row.at(-1))
  t.same(await column('SELECT 6 / (n + 1) AS v FROM m WHERE v > 1.5 ORDER BY v'), [2, 3, 6])
  t.same(await column('SELECT 6 / (n + 1) AS v, v + 1 AS w, w * 2 AS z FROM m WHERE z > 7 ORDER BY z'), [8, 14])
  t.same(await column('SELECT 6 / (n + 1) AS v FROM m WHERE n < 3 ORDER BY -v'), [6, 3, 2])
  t.same(await column('SELECT 7 % (n + 1) AS "V" FROM m WHERE v = 1 ORDER BY v + n'), [1, 1, 1])
  t.same(await column('SELECT host, sum(n) / count(*) AS v FROM m WHERE 1 = 1 GROUP BY host HAVING v > 2'), [3])
  t.same(await column('SELECT row_number() OVER (ORDER BY n) / count(*) OVER () AS v FROM m QUALIFY v > 0.7 ORDER BY v'), [5 / 6, 1])
  t.same(await column('SELECT 6 / (n + 1) AS v, max(v + 1) OVER () FROM m WHERE n < 1'), [7])
  t.same(
    await rows("SELECT 6 / (n + 1) AS v, CASE WHEN v > 2 THEN 'a' ELSE 'b' END AS k, count(*) FROM m WHERE n < 3 GROUP BY ALL HAVING v > 2 ORDER BY ALL"),
    [
      [3, 'a', 1n],
      [6, 'a', 1n],
    ],
  )
  await t.rejects(rows('SELECT 6 / n AS v FROM m WHERE v > 1'), { message: /division by zero/ })
})

t.test('what has the name of a column, of a key or of another item stays what it is', async (t) => {
  const { rows } = await openReader(t)
  t.same(await rows('SELECT 6 / (n + 1) AS n FROM m WHERE n > 4'), [[1]])
  t.same(await rows("SELECT host, sum(n) / count(*) AS host FROM m WHERE 1 = 1 GROUP BY host HAVING host > 'a'"), [['b', 3]])
  t.same(await rows('SELECT sum(n) / count(*) AS v FROM (SELECT n, 3 AS v FROM m) q GROUP BY v HAVING v > 2.6'), [[2.5]])
  t.same(await rows('SELECT 6 / (n + 1) AS v, v + 1 AS w FROM m WHERE n < 1 GROUP BY v'), [[6, 7]])
  t.same(await rows('SELECT 6 / (n + 1) AS v FROM m WHERE n < 1 AND list_max(list_transform([1], v -> v + 1)) = 2'), [[6]])
  t.same(await rows('SELECT v FROM (SELECT 6 / (n + 1) AS v, n AS w FROM m) v WHERE v > 2 AND w > 0'), [[3]])
  for (const query of [
    'SELECT 6 / (n + 1) AS v, 6 / (n + 2) AS v FROM m WHERE v > 1',
    'SELECT random() / (n + 1) AS v, n % (n + 1) AS w FROM m WHERE v > w',
    'SELECT floor(random() * 5)::INT / (n + 1) AS v FROM m WHERE v > 1',
    'SELECT (SELECT count(*) FROM m) / (n + 1) AS v FROM m WHERE v > 1',
    'SELECT 6 / (n + 1) AS v FROM m WHERE list_max(list_transform([1], n -> n + v)) = 2',
  ])
    await t.rejects(rows(query), { message: /side effects/ }, query)
  await t.rejects(rows('SELECT 6 / (n + 1) AS v, sum(v) FROM m GROUP BY n'), { code: 'SQL_ERROR' }, 'as of other aliases')
})

t.test('divisions that are written out in each other grow no further than a statement may', async (t) => {
  const { rows } = await openReader(t)
  const names = Array.from({ length: 12 }, (_, i) => `a${i}`)
  const items = names.slice(1).map((name, i) => `${names[i]} / ${names[i]} AS ${name}`)
  await t.rejects(rows(`SELECT 1 / (n + 1) AS a0, ${items.join(', ')} FROM m`), { code: 'SQL_ERROR', message: /too large|more than \d+ parts/ })
})

t.test('functions whose values differ from call to call are those that DuckDB says', async (t) => {
  const { db } = await openReader(t)
  const connection = await (await db.context()).duck.connect()
  const reader = await connection.runAndReadAll("SELECT DISTINCT lower(function_name) FROM duckdb_functions() WHERE stability = 'VOLATILE'")
  const found = reader.getRows().map(([name]) => String(name))
  t.same(found.filter((name) => SCALARS.has(name)).sort(), [...VOLATILE].sort())
})
