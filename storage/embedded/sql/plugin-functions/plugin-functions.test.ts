/** Functions as plugins declare them (testing/functions.ts): what they answer, where they may run, and what they may not do. */
import t from 'tap'
import { DEFAULT_LIMITS } from '../../sql-limits.ts'
import { parse } from '../ast.ts'
import { isBounded } from '../bounds.ts'
import { checkNames } from '../check-functions.ts'
import { checkTree } from '../limits.ts'
import { CPU, CPU_ROWS, testHost } from '../testing/host.ts'
import { expandFunctions } from './expand.ts'

const MIXED = {
  name: 'mixed',
  columns: [
    { name: '_time', role: 'time' as const },
    { name: 'v', role: 'field' as const, type: 'float64' as const },
  ],
}
const MIXED_ROWS =
  'SELECT make_timestamp_ns(i * 1000) AS _time, v::DOUBLE AS v FROM (VALUES (0, 4), (1, NULL), (2, 1), (3, 6)) r(i, v) UNION ALL SELECT make_timestamp_ns(i * 1000), i FROM range(4, 6000) r(i)'
const host = await testHost([
  [CPU, CPU_ROWS],
  [MIXED, MIXED_ROWS],
])
t.after(() => host.close())

const one = async (expression: string, from = ''): Promise<unknown> => (await host.query(`SELECT ${expression} ${from}`)).rows[0][0]
const SMALL = 'FROM mixed WHERE _time < make_timestamp_ns(4000)'

t.test('scalar functions work on columns', async (t) => {
  t.equal(await one('plus_one(41)'), 42)
  t.equal(await one('plus_one(NULL)'), null)
  t.same((await host.query(`SELECT plus_one(v) ${SMALL} ORDER BY _time`)).rows, [[5], [null], [2], [7]])
  const { rows } = await host.query('SELECT count(*) FILTER (WHERE plus_one(v) = v + 1), count(*) FROM mixed')
  t.same(rows, [[5999n, 6000n]], 'over several chunks')
  t.same((await host.query(`SELECT shouted(hostname), shouted(hostname, 2), shouted('a text that is longer') FROM cpu LIMIT 1`)).rows, [
    ['A!', 'A!!', 'A TEXT THAT IS LONGER!'],
  ])
  t.equal(await one("shouted(NULLIF('a', 'a'))"), null)
  t.equal(await one("epoch_ns(next_tick(TIMESTAMP '2024-01-01 00:00:00.123456789'))"), 1_704_067_200_123_456_790n, 'times keep their nanoseconds')
  t.same(await one('doubled([1, NULL, 3])'), [2, null, 6], 'lists come and go')
  t.same((await host.query(`SELECT doubled(CASE WHEN v > 1 THEN [v] END) ${SMALL} ORDER BY _time`)).rows, [[[8]], [null], [null], [[12]]])
  t.equal(await one('plus_one(plus_one(plus_one(0)))'), 3)
  t.equal(await one('PLUS_ONE(1)'), 2, 'names do not regard case')
  const { columns } = await host.query('SELECT plus_one(usage_user) FROM cpu LIMIT 1')
  t.same(columns, ['plus_one(usage_user)'], 'the answer is called as the statement has it')
})

t.test('aggregates take FILTER, GROUP BY and OVER', async (t) => {
  t.equal(await one('spread(v)', SMALL), 5)
  t.equal(await one('spread(v) FILTER (WHERE v < 6)', SMALL), 3)
  t.equal(await one('spread(v)', 'FROM mixed WHERE v < -1'), null, 'of no rows')
  t.equal(await one('newest(v, _time)', SMALL), 6, 'in the order it asks for')
  t.equal(await one('newest(v, make_timestamp_ns(-epoch_ns(_time)))', SMALL), 4)
  t.same((await host.query('SELECT hostname, spread(usage_user), middle(usage_user) FROM cpu GROUP BY hostname ORDER BY 1')).rows, [
    ['a', 119, 59.5],
    ['b', 119, 59.5],
  ])
  t.same((await host.query(`SELECT spread(v) OVER (ORDER BY _time ROWS 1 PRECEDING), middle(v) OVER (ORDER BY _time) ${SMALL} ORDER BY _time`)).rows, [
    [0, 4],
    [0, 4],
    [0, 2.5],
    [5, 3.5],
  ])
  t.equal(await one('middle(v) FILTER (WHERE v > 1)', SMALL), 5)
})

t.test('window functions see their partition, in order', async (t) => {
  t.same((await host.query(`SELECT running(v) OVER (ORDER BY _time), running(v, 10) OVER (ORDER BY _time DESC) ${SMALL} ORDER BY _time`)).rows, [
    [4, 21],
    [null, null],
    [5, 17],
    [11, 16],
  ])
  t.equal(await one('max(r)', 'FROM (SELECT running(v) OVER (ORDER BY _time) AS r FROM mixed)'), 4 + 1 + 6 + (5999 * 6000) / 2 - 6, 'over several chunks')
  const parts = await host.query(
    'SELECT max(r) FROM (SELECT hostname, running(usage_user) OVER (PARTITION BY hostname ORDER BY _time) AS r FROM cpu) GROUP BY hostname',
  )
  t.same(parts.rows, [[7140], [7140]])
  t.same((await host.query(`SELECT from_mean(v) OVER (), since_last(v) OVER (ORDER BY _time DESC) FROM mixed WHERE v < 3 ORDER BY _time`)).rows, [[0, null]])
})

t.test('expressions pass the gate and may call one another', async (t) => {
  t.equal(await one('half(3)'), 1.5)
  t.equal(await one('quarter(2)'), 0.5)
  t.equal(await one('hundred_more(1)'), 101)
  await t.rejects(host.query('SELECT _private(1)'), { code: 'SQL_ERROR', message: /cannot call function "_private": there is none/ })
  t.equal(await one('count(*)', "FROM cpu WHERE recent(_time, '2024-01-01T01:00:00Z')"), 120n)
  t.equal(host.requests[0].time[0], 1_704_070_800_000_000_000n, 'and limit what is read, as the text itself would')
  t.equal((await host.query('SELECT half(usage_user) AS "h" FROM cpu LIMIT 1')).columns[0], 'h')
  t.equal((await host.query('SELECT half(?)', { parameters: [5] })).rows[0][0], 2.5)
})

t.test('what is called wrongly, or is wrong itself, is refused', async (t) => {
  for (const [expression, message] of [
    ['plus_one()', /cannot call plus_one with 0 arguments: it takes 1/],
    ['plus_one(1, 2)', /it takes 1/],
    ['shouted(hostname, 4)', /argument times must be a constant integer from 1 to 3/],
    ['shouted(hostname, procs)', /must be a constant integer/],
    ['running(usage_user)', /needs OVER/],
    ['running(usage_user) OVER (ROWS 1 PRECEDING)', /with a frame/],
    ['running(usage_user) FILTER (WHERE true) OVER ()', /FILTER/],
    ['plus_one(usage_user) OVER ()', /neither an aggregate nor a window function/],
    ['spread(DISTINCT usage_user)', /DISTINCT/],
    ['spread(usage_user ORDER BY _time)', /ORDER BY/],
    ['main.nowhere(1)', /there is none of that name/],
    ['__svc_fn_plus_one(1)', /there is none of that name/],
    ['__call(1)', /there is none of that name/],
    ['endless(1)', /stands for itself/],
    ['hungry(hungry(hungry(hungry(hungry(1)))))', /functions of plugins written out .* sql_max_nodes/],
    ['thief(1)', /names "secret", which is no argument/],
    ['reader(1)', /holds a subquery/],
    ['broken(1)', /its expression in plugin "tested" is no expression/],
    ['two(1)', /is no expression/],
    ["plus_one((SELECT 1 FROM read_text('/etc/passwd')))", /./],
    ["list_aggregate([1], 'spread')", /must be the name of an aggregate/],
    ['failing(usage_user)', /cannot do that to a column/],
  ] as [string, RegExp][])
    await t.rejects(host.query(`SELECT ${expression} FROM cpu`), { code: 'SQL_ERROR', message }, expression)
  await t.rejects(host.query('SELECT short(usage_user) FROM cpu'), { code: 'DATABASE_ERROR', message: /its module in plugin "tested" returned 0 values for/ })
  await t.rejects(host.query('SELECT absent(usage_user) FROM cpu'), { code: 'DATABASE_ERROR', message: /cannot load SQL function "absent" of plugin "tested"/ })
  const error = await host.query("SELECT plus_one('x') FROM cpu").catch((error: Error) => error)
  t.notMatch((error as Error).message, /__svc/)
})

t.test('volatile functions are called for each row, others once for a constant', async (t) => {
  const { rows } = await host.query('SELECT calls(1), plus_one(1) FROM range(3)')
  t.equal(new Set(rows.map(([call]) => call)).size, 3)
})

t.test('where a statement may run follows from its functions', async (t) => {
  const bounded = async (query: string): Promise<boolean> => {
    const { tree } = await parse(host, query)
    await expandFunctions(tree, host.functions!, DEFAULT_LIMITS, (text) => parse(host, text))
    return isBounded(tree, checkTree(tree, DEFAULT_LIMITS))
  }
  for (const expression of [
    'plus_one(usage_user)',
    'half(usage_user)',
    'middle(usage_user)',
    'from_mean(usage_user) OVER ()',
    'since_last(plus_one(usage_user)) OVER ()',
  ])
    t.equal(await bounded(`SELECT ${expression} FROM cpu`), true, expression)
  for (const expression of ['calls(usage_user)', 'shouted(hostname)', 'spread(usage_user)', 'running(usage_user) OVER ()', "half(len(repeat('x', procs)))"])
    t.equal(await bounded(`SELECT ${expression} FROM cpu`), false, expression)
})

t.test('a name of the engine is not to be had', async (t) => {
  for (const name of ['sum', 'abs', 'lag', 'time_bucket', 'range', 'approx_distinct'])
    t.throws(() => checkNames([{ name, kind: 'scalar', args: [], expression: '1', plugin: 'mine', summary: '' }]), {
      code: 'CONFIG_ERROR',
      message: `cannot add SQL function "${name}" of plugin "mine": the storage engine has a function of that name; choose another`,
    })
})
