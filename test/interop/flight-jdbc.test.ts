/** The Flight SQL JDBC driver, by a program of one file that the Java launcher compiles. */
import { test } from 'node:test'
import { JDBC, noJdbc } from './jdbc.ts'
import { startListeners } from './listeners.ts'
import { runChecks } from './program.ts'

test('flight-sql-jdbc-driver', { skip: noJdbc }, async (t) => {
  const listeners = await startListeners(['flight_sql'])
  t.after(() => listeners.stop())
  await listeners.write(['jdbc,host=a f=1.5,i=-9007199254740993i,b=t,s="ünï",d=12.50d 1700000000123000000', 'jdbc,host=b b=f 1700000001000000000'])
  await runChecks(t, 'java', [...JDBC, listeners.flight])
})
