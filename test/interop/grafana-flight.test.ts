/** Grafana's Flight SQL data source: its calls, by the Go client that it is built on. */
import { test } from 'node:test'
import { startListeners } from './listeners.ts'
import { cached, lacking, runChecks } from './program.ts'

test("Grafana's Flight SQL data source", { skip: lacking('program of the Go client for Flight SQL', 'bin/grafana-flight') }, async (t) => {
  const listeners = await startListeners(['flight_sql'])
  t.after(() => listeners.stop())
  await listeners.write(['panel,host=a v=1.5,n=1i,ok=t 1700000000000000000', 'panel,host=b v=2.5,ok=f 1700000010000000000'])
  await runChecks(t, cached('bin/grafana-flight'), [listeners.flight])
})
