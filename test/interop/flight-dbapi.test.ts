/** flightsql-dbapi (Python), which Superset asks with. */
import { test } from 'node:test'
import { startListeners } from './listeners.ts'
import { client, lackingPython, PYTHON, runChecks } from './program.ts'

test('flightsql-dbapi', { skip: lackingPython('flightsql-dbapi') }, async (t) => {
  const listeners = await startListeners(['flight_sql'])
  t.after(() => listeners.stop())
  await listeners.write(['dbapi,host=a v=1.5', 'dbapi,host=b v=2.5'])
  await runChecks(t, PYTHON, [client('flight_dbapi.py'), listeners.flight])
})
