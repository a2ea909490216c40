/** The clients of InfluxDB for Python: influxdb-client (of InfluxDB 2), influxdb and aioinflux (of InfluxDB 1). */
import { test } from 'node:test'
import { startNode } from './node.ts'
import { client, lackingPython, PYTHON, runChecks } from './program.ts'

const skip = lackingPython('influxdb')

test('influxdb-client for Python', { skip }, async (t) => {
  const node = await startNode({ plugins: ['line_protocol', 'sql'], sections: '[line_protocol]\ndatabase = "tag"' })
  t.after(() => node.stop())
  await runChecks(t, PYTHON, [client('influxdb_python.py'), node.url])
})

test('influxdb for Python', { skip }, async (t) => {
  const node = await startNode({ plugins: ['line_protocol', 'sql'] })
  t.after(() => node.stop())
  await runChecks(t, PYTHON, [client('influxdb1_python.py'), node.url])
})

test('aioinflux', { skip }, async (t) => {
  const node = await startNode({ plugins: ['line_protocol', 'sql'] })
  t.after(() => node.stop())
  await runChecks(t, PYTHON, [client('aioinflux_python.py'), node.url])
})
