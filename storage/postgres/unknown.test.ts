/** A commit of which nobody can say whether it is stored: the node that made it hears of it when it is. */
import t from 'tap'
import { NO_POSTGRES, startPostgres } from '../../test/support/postgres.ts'
import { eventually } from '../../test/support/until.ts'
import { openState } from './testing.ts'

const postgres = await startPostgres()
t.teardown(() => postgres?.stop())

t.test('a standby that does not answer', { skip: postgres === undefined && NO_POSTGRES }, async (t) => {
  if (postgres === undefined) return
  const url = await postgres.database()
  const state = await openState(url, { statement_timeout_secs: 1, retry_secs: 0.2 })
  t.teardown(() => state.close())
  const one = state.state('one')
  let told: unknown[] = []
  await one.watch(['k'], (keys) => void told.push(keys))
  await one.transaction((tx) => tx.put('k', 1))
  told = []
  await postgres.query(`ALTER SYSTEM SET synchronous_standby_names = 'nobody'`)
  await postgres.query('SELECT pg_reload_conf()')
  await eventually(async () => (await postgres.query<{ n: string }>(`SELECT current_setting('synchronous_standby_names') AS n`))[0].n === 'nobody')
  await t.rejects(
    one.transaction((tx) => tx.put('k', 2)),
    { code: 'OVERLOADED', message: /whether it was stored is not known/ },
  )
  t.ok(told.includes(undefined), 'anything may have changed')
  t.equal(await one.get('k'), 1)
  await postgres.query('ALTER SYSTEM RESET synchronous_standby_names')
  await postgres.query('SELECT pg_reload_conf()')
  await eventually(() => told.flat().includes('k'))
  t.equal(await one.get('k'), 2)
  told = []
  await one.transaction((tx) => tx.put('k', 3))
  await one.transaction((tx) => tx.put('other', 3))
  const other = await openState(url)
  t.teardown(() => other.close())
  await other.state('one').watch(['k'], () => {})
  await other.state('one').transaction((tx) => tx.put('k', 4))
  await eventually(() => told.length > 0)
  t.same(told, [['k']], 'of its own changes it is not told')
})
