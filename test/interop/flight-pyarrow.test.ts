/** pyarrow.flight: bulk writes and queries over Flight SQL. */
import { test } from 'node:test'
import { startDoors } from './doors.ts'
import { client, lackingPython, PYTHON, runChecks } from './program.ts'

test('pyarrow.flight', { skip: lackingPython('pyarrow') }, async (t) => {
  const doors = await startDoors(['flight_sql'])
  t.after(() => doors.stop())
  await runChecks(t, PYTHON, [client('flight_pyarrow.py'), doors.flight, doors.url])
})
