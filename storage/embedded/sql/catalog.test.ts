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
