import t from 'tap'
import { MAX_TIME, MIN_TIME, type SqlMeasurement } from './host.ts'
import { CPU, CPU_ROWS, testHost } from './testing/host.ts'

t.test('BETWEEN with an end that is no constant is asked of every row', async (t) => {
  const host = await testHost([[CPU, CPU_ROWS]])
  t.teardown(() => host.close())
  const count = async (where: string) => Number((await host.query(`SELECT count(*) FROM cpu WHERE ${where}`)).rows[0][0])
  const all = await count('true')
  t.ok(all > 0)
  t.equal(await count('_time BETWEEN 0 AND _time - INTERVAL 1 SECOND'), 0)
  t.equal(await count('_time BETWEEN _time + INTERVAL 1 SECOND AND 4102444800000000000'), 0)
  t.equal(await count('_time BETWEEN 0 AND _time'), all)
})

t.test('a column that is called like a clock is no constant', async (t) => {
  const columns: SqlMeasurement['columns'] = [
    { name: '_time', role: 'time' },
    { name: 'current_date', role: 'field', type: 'string' },
  ]
  const host = await testHost([[{ name: 'm', columns }, "SELECT make_timestamp_ns(5) AS _time, '1970-01-01 00:00:00.000000004' AS current_date"]])
  t.teardown(() => host.close())
  t.same((await host.query('SELECT count(*) FROM m WHERE _time > current_date::TIMESTAMP_NS')).rows, [[1n]])
  t.same((await host.query('SELECT count(*) FROM (SELECT * FROM m) m WHERE _time > current_date::TIMESTAMP_NS')).rows, [[1n]])
  t.same(host.requests[0].time, [MIN_TIME, MAX_TIME])
})

t.test('names of a statement over a semi or anti join are those of its left side', async (t) => {
  const host = await testHost([[CPU, CPU_ROWS]])
  t.teardown(() => host.close())
  const at = 1_704_067_200_000_000_000n
  for (const kind of ['SEMI', 'ANTI']) {
    const query = `SELECT count(*) FROM cpu ${kind} JOIN cpu b ON cpu.procs = b.procs AND b._time >= ${at + 60_000_000_000n} AND b.hostname = 'b' WHERE _time < ${at + 120_000_000_000n} AND hostname = 'a'`
    t.same((await host.query(query)).rows, [[1n]], kind)
    t.same(
      host.requests.map(({ time, tags }) => ({ time, tags })),
      [
        { time: [MIN_TIME, at + 119_999_999_999n], tags: [{ tag: 'hostname', values: ['a'] }] },
        { time: [at + 60_000_000_000n, MAX_TIME], tags: [{ tag: 'hostname', values: ['b'] }] },
      ],
      kind,
    )
  }
})

t.test('LIKE on a tag, or a regular expression, says which series are read, once for a few patterns', async (t) => {
  const host = await testHost([[CPU, CPU_ROWS]])
  t.teardown(() => host.close())
  const tagsOf = async (where: string, join = ''): Promise<unknown> => {
    host.requests.length = 0
    await host.query(`SELECT count(*) FROM cpu ${join} WHERE ${where}`)
    return host.requests[0].tags
  }
  t.same(await tagsOf("hostname LIKE 'a%' AND region = 'eu'"), [
    { tag: 'hostname', like: 'a%' },
    { tag: 'region', values: ['eu'] },
  ])
  t.same(await tagsOf("hostname ~ '(a|b).*' AND regexp_matches(region, '^e.') AND regexp_full_match(region, 'us')"), [
    { tag: 'hostname', regex: '(?:(a|b)[^\\n]*)' },
    { tag: 'region', regex: '(?:e[^\\n]).*' },
  ])
  t.same(await tagsOf("regexp_full_match(region, 'u?s')"), [{ tag: 'region', regex: '(?:u?s)' }])
  for (const where of [
    "hostname !~ 'a'",
    "regexp_matches(hostname, 'a.*b')",
    "hostname ~ '.*'",
    'hostname ~ region',
    "regexp_matches(hostname, 'a', 'i')",
    "NOT hostname ~ 'a'",
    "hostname LIKE '%'",
    "hostname NOT LIKE 'a'",
    'hostname LIKE region',
    "hostname LIKE 'a%' ESCAPE '!'",
    "(hostname LIKE 'a%' OR procs = 1)",
    "'a' LIKE hostname",
  ])
    t.same(await tagsOf(where), [], where)
  const many = Array.from({ length: 20 }, (_, i) => `hostname LIKE '%${i}%'`)
  t.equal(((await tagsOf(many.join(' AND '))) as unknown[]).length, 8)
  t.same(
    (await host.query("SELECT count(*) FROM cpu WHERE hostname LIKE 'a%'")).rows,
    (await host.query("SELECT count(*) FROM cpu WHERE hostname || '' LIKE 'a%'")).rows,
  )
  for (const pattern of ['a', 'a|b', 'a.*', '[^a]', '.'])
    for (const name of ['regexp_matches', 'regexp_full_match'])
      t.same(
        (await host.query(`SELECT count(*) FROM cpu WHERE ${name}(hostname, '${pattern}')`)).rows,
        (await host.query(`SELECT count(*) FROM cpu WHERE ${name}(hostname || '', '${pattern}')`)).rows,
        pattern,
      )
})
