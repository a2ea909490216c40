/** vmalert: it asks with POST, a Content-Type of JSON and nothing in the body, and writes what its rules come to by remote write. */
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { freePort } from '../support/free-port.ts'
import { startNode } from './node.ts'
import { execute } from './program.ts'
import { vector } from './promql/compare.ts'
import { missing, ownMetric, startProgram } from './service.ts'
import { untilValues } from './values.ts'

const RULES = `groups:
- name: plant
  interval: 1s
  rules:
  - {record: 'host:load:max', expr: 'max(cpu_load) by (host)'}
  - {alert: Hot, expr: 'cpu_load > 90', for: 1s}
`

test('vmalert: rules are asked here, and what they record and alert of is here', { skip: missing('vmalert') }, async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'svc-interop-vmalert-'))
  const node = await startNode({ plugins: ['line_protocol', 'remote_write', 'promql'] })
  t.after(async () => {
    await node.stop()
    await rm(folder, { recursive: true, force: true })
  })
  const written = await fetch(`${node.url}/write`, { method: 'POST', body: 'cpu,host=a load=95\ncpu,host=b load=12' })
  assert.equal(written.status, 204)
  await writeFile(join(folder, 'rules.yml'), RULES)
  const address = `127.0.0.1:${await freePort()}`
  const flags = [`-rule=${join(folder, 'rules.yml')}`, '-rule.evalDelay=0s', '-notifier.blackhole', `-httpListenAddr=${address}`]
  const servers = [`-datasource.url=${node.url}`, `-remoteWrite.url=${node.url}`, '-remoteWrite.flushInterval=500ms']
  const vmalert = await startProgram('vmalert', [...flags, ...servers], `http://${address}`, '/health')
  try {
    const until = (query: string, expected: number[]) =>
      untilValues(node, vmalert, query, (values) => String(values.sort((a, b) => a - b)) === String(expected))
    await until('{__name__="host:load:max"}', [12, 95])
    await until('ALERTS{alertname="Hot",alertstate="firing",host="a"}', [1])
    for (const failures of ['execution_errors', 'remotewrite_errors', 'remotewrite_dropped_rows'])
      assert.equal(await ownMetric(vmalert.url, `vmalert_${failures}_total`), 0, vmalert.output())
  } finally {
    await vmalert.stop()
  }
})

test('vmalert replays rules over times before the out-of-order window', { skip: missing('vmalert') }, async (t) => {
  const node = await startNode({ plugins: ['line_protocol', 'remote_write', 'promql'] })
  t.after(() => node.stop())
  const time = Math.floor(Date.now() / 1000) - 100 * 3600
  const written = await fetch(`${node.url}/write?precision=s&backfill=true`, { method: 'POST', body: `cpu,host=a load=95 ${time}` })
  assert.equal(written.status, 204)
  await writeFile(join(node.folder, 'rules.yml'), RULES)
  const [timeFrom, timeTo] = [time - 60, time + 60].map((seconds) => new Date(seconds * 1000).toISOString())
  const { code, stderr } = await execute('vmalert', [
    `-rule=${join(node.folder, 'rules.yml')}`,
    `-datasource.url=${node.url}`,
    '-remoteWrite.disablePathAppend',
    `-remoteWrite.url=${node.url}/api/v1/prom/write?backfill=true`,
    `-replay.timeFrom=${timeFrom}`,
    `-replay.timeTo=${timeTo}`,
    '-replay.disableProgressBar',
    `-httpListenAddr=127.0.0.1:${await freePort()}`,
  ])
  assert.equal(code, 0, stderr)
  const found = await vector(node.url, '{__name__=~"host:load:max|ALERTS",alertstate!="pending"}', time + 30)
  assert.deepEqual(found.map(({ metric, value }) => [metric.__name__, value]).sort(), [
    ['ALERTS', 1],
    ['host:load:max', 95],
  ])
})
