/** influxdb-client, the client of InfluxDB 2 for Python. */
import { test } from 'node:test'
import { startNode } from './node.ts'
import { client, lackingPython, PYTHON, runChecks } from './program.ts'

test('influxdb-client for Python', { skip: lackingPython('influxdb') }, async (t) => {
  const node = await startNode({ plugins: ['line_protocol', 'sql'], sections: '[line_protocol]\ndatabase = "tag"' })
  t.after(() => node.stop())
  await runChecks(t, PYTHON, [client('influxdb_python.py'), node.url])
})
