/** github.com/influxdata/influxdb1-client, with which k6 writes. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startNode } from './node.ts'
import { cached, lacking, runChecks } from './program.ts'

test('influxdb1-client for Go', { skip: lacking('influxdb1-go', 'bin/influxdb1-go') }, async (t) => {
  const node = await startNode()
  t.after(() => node.stop())
  await runChecks(t, cached('bin/influxdb1-go'), [node.url])
  const [row] = await node.rows('http_reqs')
  assert.deepEqual([row.tags, row.fields], [{ url: 'http://a b/' }, { value: 1.5, n: 2 }])
})
