/** The Flight SQL JDBC driver, by a program of one file that the Java launcher compiles. */
import { test } from 'node:test'
import { startDoors } from './doors.ts'
import { JDBC, noJdbc, runChecks } from './program.ts'

test('flight-sql-jdbc-driver', { skip: noJdbc }, async (t) => {
  const doors = await startDoors(['flight_sql'])
  t.after(() => doors.stop())
  await doors.write(['jdbc,host=a f=1.5,i=-9007199254740993i,b=t,s="ünï",d=12.50d 1700000000123000000', 'jdbc,host=b b=f 1700000001000000000'])
  await runChecks(t, 'java', [...JDBC, doors.flight])
})
