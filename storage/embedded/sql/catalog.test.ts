/** Statements beside very many measurements, and what lists these. */
import t from 'tap'
import type { SqlMeasurement } from './host.ts'
import { testHost } from './testing/host.ts'

const COUNT = 3000
/** A name may have anything in it. */
const NAME = (i: number): string => `m"'\\${i}ß`

const measurement = (i: number): SqlMeasurement => ({
  name: NAME(i),
  columns: [
    { name: '_time', role: 'time' },
    { name: "ho'st", role: 'tag' },
    { name: 'v', role: 'field', type: 'float64' },
  ],
})

const rows = "SELECT make_timestamp_ns(0) AS _time, 'a' AS \"ho'st\", 1.5::DOUBLE AS v"
const host = await testHost([[measurement(0), rows]])
t.after(() => host.close())
const all = Array.from({ length: COUNT }, (_, i) => measurement(i))
const byName = new Map(all.map((each) => [each.name, each]))
let listed = 0
host.measurements = () => {
  listed++
  return all
}
host.measurement = (_, name) => byName.get(name)

t.test('a statement of one measurement does not look at the others', async (t) => {
  listed = 0
  const name = `"${NAME(0).replaceAll('"', '""')}"`
  t.same((await host.query(`SELECT v, "ho'st" FROM ${name}`)).rows, [[1.5, 'a']])
  t.same((await host.query(`DESCRIBE ${name}`)).rows.length, 3)
  t.same((await host.query(`DESCRIBE SELECT * FROM ${name}`)).rows.length, 3)
  t.equal(listed, 0)
})

t.test('all of many are listed', async (t) => {
  const names = all.map(({ name }) => name)
  t.same((await host.query('SHOW TABLES')).rows.flat(), [...names].sort())
  const tables = await host.query('SELECT table_catalog, table_schema, table_name, table_type FROM information_schema.tables')
  t.same(
    tables.rows,
    names.map((name) => ['default', 'main', name, 'BASE TABLE']),
  )
  const columns = await host.query(`SELECT * FROM information_schema.columns WHERE table_name = '${NAME(7).replaceAll("'", "''")}'`)
  t.same(columns.types, ['Utf8', 'Utf8', 'Utf8', 'Utf8', 'Int32', 'Utf8', 'Utf8', 'Utf8'])
  t.same(columns.rows, [
    ['default', 'main', NAME(7), '_time', 1, 'NO', 'TIMESTAMP_NS', 'timestamp'],
    ['default', 'main', NAME(7), "ho'st", 2, 'YES', 'VARCHAR', 'tag'],
    ['default', 'main', NAME(7), 'v', 3, 'YES', 'DOUBLE', 'field'],
  ])
  const joined = await host.query(
    'SELECT count(*) FROM information_schema.columns c JOIN information_schema.tables t USING (table_name) WHERE ordinal_position > 1',
  )
  t.same(joined.rows, [[BigInt(2 * COUNT)]])
})

t.test('a listing that conditions name tables for is of those alone', async (t) => {
  const quoted = (i: number): string => `'${NAME(i).replaceAll("'", "''")}'`
  const views = ['information_schema.columns', 'information_schema.tables']
  const [one, other] = [quoted(7), quoted(2999)]
  const named = [
    `table_name = ${one}`,
    `${one} = table_name`,
    `c.table_name IN (${one}, ${other}, 'none')`,
    `table_name = ${one} OR c.table_name = ${other}`,
    `table_schema = 'main' AND table_name = ${one} AND TABLE_NAME = ${one}`,
    `table_name = ${one} AND table_name = ${other}`,
    "table_name = 'none'",
  ]
  for (const view of views) {
    for (const condition of named) {
      listed = 0
      const { rows } = await host.query(`SELECT * FROM ${view} c WHERE ${condition} ORDER BY ALL`)
      t.equal(listed, 0, `${view}: ${condition}`)
      // A condition that names no table by itself is no less right.
      const whole = await host.query(`SELECT * FROM (SELECT * FROM ${view}) c WHERE ${condition} ORDER BY ALL`)
      t.ok(listed > 0)
      t.same(rows, whole.rows, condition)
    }
  }
  listed = 0
  const renamed = await host.query(`SELECT what FROM information_schema.columns c(a, b, what, d) WHERE what = ${one}`)
  t.same(renamed.rows, Array(3).fill([NAME(7)]))
  t.equal(listed, 0)
  const joined = await host.query(
    `SELECT column_name FROM information_schema.tables t JOIN information_schema.columns c USING (table_name) WHERE t.table_name = ${one}`,
  )
  t.equal(joined.rows.length, 3)
  const left = await host.query(
    `SELECT t.table_name, c.column_name FROM information_schema.tables t LEFT JOIN information_schema.columns c ON c.table_name = ${one} AND c.table_name = t.table_name`,
  )
  t.equal(left.rows.length, COUNT + 2)
})

t.test('conditions that other tables pass too leave none out', async (t) => {
  const one = `'${NAME(7).replaceAll("'", "''")}'`
  const count = async (condition: string): Promise<unknown> =>
    (await host.query(`SELECT count(*) FROM information_schema.tables WHERE ${condition}`)).rows[0][0]
  t.equal(await count(`table_name = ${one} OR table_schema = 'main'`), BigInt(COUNT))
  t.equal(await count(`NOT (table_name = ${one})`), BigInt(COUNT - 1))
  t.equal(await count(`lower(table_name) = lower(${one})`), 1n)
  t.equal(await count(`table_name <> ${one}`), BigInt(COUNT - 1))
  t.equal(await count(`table_name IS DISTINCT FROM ${one}`), BigInt(COUNT - 1))
  t.equal(await count(`table_catalog = ${one}`), 0n)
})

t.test('lists of columns that many have in common, and those that one has alone', async (t) => {
  const many = await testHost([[measurement(0), rows]])
  t.teardown(() => many.close())
  const types = ['float64', 'int64', 'string', 'bool'] as const
  const odd = Array.from({ length: 500 }, (_, i): SqlMeasurement => {
    const fields = Array.from({ length: i % 7 }, (_, f) => ({ name: i % 3 === 0 ? `f"'${i}_${f}` : `f${f}`, role: 'field' as const, type: types[(i + f) % 4] }))
    return { name: NAME(i), columns: [{ name: '_time', role: 'time' }, ...(i % 2 === 0 ? [{ name: 'host', role: 'tag' as const }] : []), ...fields] }
  })
  many.measurements = () => odd
  many.measurement = (_, name) => odd.find((each) => each.name === name)
  const all = (await many.query('SELECT * FROM information_schema.columns')).rows
  t.equal(
    all.length,
    odd.reduce((sum, { columns }) => sum + columns.length, 0),
  )
  let at = 0
  for (const [i, { columns }] of odd.entries()) {
    const { rows, types } = await many.query(`SELECT * FROM information_schema.columns WHERE table_name = '${NAME(i).replaceAll("'", "''")}'`)
    t.equal(types[4], 'Int32')
    t.same(all.slice(at, (at += columns.length)), rows)
  }
})
