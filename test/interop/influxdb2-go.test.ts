/** github.com/influxdata/influxdb-client-go, of InfluxDB 2. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startNode } from './node.ts'
import { cached, lacking, runChecks } from './program.ts'

const PROGRAM = 'bin/influxdb2-go'
const skip = lacking('influxdb2-go', PROGRAM)

test('influxdb-client-go', { skip }, async (t) => {
  const node = await startNode()
  t.after(() => node.stop())
  await runChecks(t, cached(PROGRAM), [node.url])
  const rows = await node.rows('go2')
  assert.deepEqual(
    rows.map(({ tags }) => tags).sort((one, other) => (one.host < other.host ? -1 : 1)),
    [
      { host: 'gzip false', odd: 'a b,c=d' },
      { host: 'gzip true', odd: 'a b,c=d' },
    ],
  )
  for (const { fields } of rows) assert.deepEqual({ ...fields, u: undefined }, { f: 1.5, i: -7, s: 'a "q" \\ b', b: true, u: undefined })
  // Whole seconds, whose nanoseconds a number of JSON holds near enough.
  for (const { timestamp, fields } of await node.rows('go2_precision')) assert.equal(timestamp, fields.at)
  assert.equal((await node.rows('go2_precision')).length, 4)
  assert.deepEqual(
    (await node.rows('go2_delete')).map(({ tags }) => tags.host),
    ['stays'],
  )
})

test('influxdb-client-go: batches that 503 has refused are sent again', { skip }, async (t) => {
  const node = await startNode()
  t.after(() => node.stop())
  await node.fail('BACKPRESSURE', 2)
  await runChecks(t, cached(PROGRAM), [node.url, 'background'])
  assert.equal(await node.failed(), 2)
  assert.equal((await node.arrived('go2_background', 500)).length, 500)
})
