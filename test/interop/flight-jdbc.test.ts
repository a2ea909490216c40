/** The Flight SQL JDBC driver, by a program of one file that the Java launcher compiles. */
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { startDoors } from './doors.ts'
import { cached, client, lacking, runChecks } from './program.ts'

const JAR = 'flight-sql-jdbc-driver.jar'
// A runtime without the compiler cannot run a source file.
const compiler = spawnSync('java', ['--list-modules'], { encoding: 'utf8' }).stdout?.includes('jdk.compiler') === true
const skip = compiler ? lacking('JDBC driver for Flight SQL', JAR) : 'there is no JDK: no java with a compiler is on the path'

test('flight-sql-jdbc-driver', { skip }, async (t) => {
  const doors = await startDoors(['flight_sql'])
  t.after(() => doors.stop())
  const lines = ['jdbc,host=a f=1.5,i=-9007199254740993i,b=t,s="ünï",d=12.50d 1700000000123000000', 'jdbc,host=b b=f 1700000001000000000']
  await doors.write(lines)
  const flags = ['--add-opens=java.base/java.nio=ALL-UNNAMED', '-Duser.timezone=UTC', '-Xmx512m']
  await runChecks(t, 'java', [...flags, '-cp', cached(JAR), client('FlightSqlJdbc.java'), doors.flight])
})
