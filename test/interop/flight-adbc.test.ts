/** The Flight SQL driver of ADBC. */
import { test } from 'node:test'
import { startListeners } from './listeners.ts'
import { client, lackingPython, PYTHON, runChecks } from './program.ts'

test('adbc_driver_flightsql', { skip: lackingPython('pyarrow', 'adbc') }, async (t) => {
  const listeners = await startListeners(['flight_sql'])
  t.after(() => listeners.stop())
  await runChecks(t, PYTHON, [client('flight_adbc.py'), listeners.flight, listeners.url])
})
