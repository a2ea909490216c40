/** Grafana's Flight SQL data source: its calls, by the Go client that it is built on. */
import { test } from 'node:test'
import { startDoors } from './doors.ts'
import { cached, lacking, runChecks } from './program.ts'

test("Grafana's Flight SQL data source", { skip: lacking('program of the Go client for Flight SQL', 'bin/grafana-flight') }, async (t) => {
  const doors = await startDoors(['flight_sql'])
  t.after(() => doors.stop())
  await doors.write(['panel,host=a v=1.5,n=1i,ok=t 1700000000000000000', 'panel,host=b v=2.5,ok=f 1700000010000000000'])
  await runChecks(t, cached('bin/grafana-flight'), [doors.flight])
})
