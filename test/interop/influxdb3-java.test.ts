/** The client of InfluxDB 3 for Java: its writes, and SQL at the port of Flight SQL. */
import { test } from 'node:test'
import { startListeners } from './listeners.ts'
import { cached, client, hasCompiler, lacking, runChecks } from './program.ts'

const JARS = 'influxdb3-java-jars'
const skip = lacking('client of InfluxDB 3 for Java', JARS) || (hasCompiler() ? false : 'there is no JDK: no java with a compiler is on the path')

test('influxdb3-java', { skip }, async (t) => {
  const node = await startListeners(['flight_sql'])
  t.after(() => node.stop())
  const options = ['--add-opens=java.base/java.nio=ALL-UNNAMED', '-Xmx512m', '-cp', `${cached(JARS)}/*`]
  await runChecks(t, 'java', [...options, client('InfluxDb3Java.java'), node.flight, node.url])
})
