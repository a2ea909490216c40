/** pyarrow.flight: bulk writes and queries over Flight SQL. */
import { test } from 'node:test'
import { startListeners } from './listeners.ts'
import { client, lackingPython, PYTHON, runChecks } from './program.ts'

test('pyarrow.flight', { skip: lackingPython('pyarrow') }, async (t) => {
  const listeners = await startListeners(['flight_sql'])
  t.after(() => listeners.stop())
  await runChecks(t, PYTHON, [client('flight_pyarrow.py'), listeners.flight, listeners.url])
})
