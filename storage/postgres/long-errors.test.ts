/** What PostgreSQL says of a failure may be as long as a function there likes: answers and the log have the beginning of it. */
import t from 'tap'
import { NO_POSTGRES, startPostgres } from '../../test/support/postgres.ts'
import { PostgresState } from './postgres-state.ts'
import { contextOf } from './testing.ts'

/** Of an answer or an entry. */
const MAX_LENGTH = 2000

const postgres = await startPostgres()
t.teardown(() => postgres?.stop())

t.test('an error of megabytes', { skip: postgres === undefined && NO_POSTGRES }, async (t) => {
  if (postgres === undefined) return
  const url = await postgres.database()
  const name = url.split('/').at(-1)
  const logged: object[] = []
  const log = {
    debug: (entry: object) => logged.push(entry),
    info() {},
    warn: (entry: object) => logged.push(entry),
    error: (entry: object) => logged.push(entry),
  }
  const state = new PostgresState({ ...contextOf(url, { retry_secs: 0.2 }), log: log as never })
  t.teardown(() => state.close())
  await state.open()
  const refuse = `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not today%', repeat('x', 3000000) USING ERRCODE = '40001'; END $$`
  await postgres.query(`${refuse}; CREATE TRIGGER refuses BEFORE INSERT ON svc.state FOR EACH ROW EXECUTE FUNCTION refuse()`, name)
  const error = await state
    .state('one')
    .transaction((tx) => tx.put('k', 1))
    .then(
      () => undefined,
      (error: Error) => error,
    )
  t.match(error, { code: 'OVERLOADED', message: /PostgreSQL: not todayx+…; nothing has changed, try again$/ })
  t.ok((error?.message.length ?? 0) < MAX_LENGTH, `${error?.message.length} characters are answered`)
  t.ok(logged.length > 0)
  t.ok(Math.max(...logged.map((entry) => JSON.stringify(entry).length)) < MAX_LENGTH, 'and logged')
})
