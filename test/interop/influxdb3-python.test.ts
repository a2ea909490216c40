/** The client of InfluxDB 3 for Python: writes over HTTP, queries over Flight SQL's port. */
import { test } from 'node:test'
import { startListeners } from './listeners.ts'
import { client, lackingPython, PYTHON, runChecks } from './program.ts'

test('influxdb3-python', { skip: lackingPython('pyarrow', 'influxdb3') }, async (t) => {
  const listeners = await startListeners(['flight_sql'])
  t.after(() => listeners.stop())
  await runChecks(t, PYTHON, [client('influxdb3_python.py'), listeners.flight, listeners.url])
})
