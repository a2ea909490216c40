/** The clients of InfluxDB for Java: influxdb-java (of InfluxDB 1), influxdb-client-java (of InfluxDB 2), and Micrometer's registries for InfluxDB and OTLP. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startNode } from './node.ts'
import { cached, client, hasCompiler, lacking, runChecks } from './program.ts'

const JARS = 'influxdb-java-jars'
const skip = lacking('clients of InfluxDB for Java', JARS) || (hasCompiler() ? false : 'there is no JDK: no java with a compiler is on the path')

test('clients of InfluxDB for Java', { skip }, async (t) => {
  const node = await startNode({ plugins: ['line_protocol', 'otlp'] })
  t.after(() => node.stop())
  await runChecks(t, 'java', ['-Xmx512m', '-cp', `${cached(JARS)}/*`, client('InfluxDbJava.java'), node.url])
  const tags = async (measurement: string) => (await node.rows(measurement)).map((row) => row.tags.n).sort()
  assert.equal((await tags('java_batch')).length, 2500)
  // 3 is deleted.
  assert.equal((await tags('java_2')).length, 1199)
  const later = [0, 1, 2, 3].flatMap((batch) => [0, 1, 2].map((n) => `later ${batch}${n}`))
  const good = ['first', 'beside', 'beside too', ...later].sort()
  for (const measurement of ['java_type', 'java_old']) assert.deepEqual(await tags(measurement), good, measurement)
  for (const prefix of ['micrometer1_', 'micrometer2_']) {
    assert.deepEqual((await node.rows(`${prefix}count`))[0].fields, { value: 3 })
    assert.deepEqual((await node.rows(`${prefix}gauge`))[0].fields, { value: 4.5 })
    assert.equal((await node.rows(`${prefix}nan`)).length, 0)
  }
  assert.deepEqual((await node.rows('otlp.gauge'))[0].fields, { gauge: 4.5 })
})
