import t from 'tap'
import { CPU, CPU_ROWS, testHost } from './test-host.ts'

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
