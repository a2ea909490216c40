/** The Flight SQL driver of ADBC. */
import { test } from 'node:test'
import { startDoors } from './doors.ts'
import { client, lackingPython, PYTHON, runChecks } from './program.ts'

test('adbc_driver_flightsql', { skip: lackingPython('pyarrow', 'adbc') }, async (t) => {
  const doors = await startDoors(['flight_sql'])
  t.after(() => doors.stop())
  await runChecks(t, PYTHON, [client('flight_adbc.py'), doors.flight, doors.url])
})
