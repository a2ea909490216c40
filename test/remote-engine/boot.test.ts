/** A node whose data is elsewhere: plugins write, read and remember through it. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { testContext } from 'svcdb/conformance'
import { boot } from 'svcdb/testkit'
import t from 'tap'
import { RemoteEngine } from './engine.ts'

t.test('plugins run on an engine whose answers are late', async (t) => {
  const engine = new RemoteEngine(testContext({}, Date.now), 7)
  const plugins = ['line_protocol', 'remote_write', 'promql', 'native', 'namespaces', 'audit']
  const folder = mkdtempSync(join(tmpdir(), 'svc-remote-'))
  const node = await boot({ plugins, storage: engine, config: { audit: { path: join(folder, 'audit.jsonl') } } })
  t.teardown(async () => {
    await node.stop()
    rmSync(folder, { recursive: true })
  })
  const call = (method: 'GET' | 'POST', url: string, payload?: string | object) => node.inject({ method, url, ...(payload === undefined ? {} : { payload }) })
  t.equal((await call('POST', '/write', 'cpu,host=a value=1\ncpu,host=b value=2')).statusCode, 204)
  t.equal((await call('POST', '/write', 'cpu,host=a value="text"')).statusCode, 400, 'the types are those that the engine knows')
  const answer = await call('GET', '/api/v1/query?query=sum(cpu_value)%20or%20sum(cpu)')
  t.equal(answer.json().data.result[0].value[1], '3')
  t.same(
    (await call('GET', '/api/v1/measurements')).json().items.map(({ name }: { name: string }) => name),
    ['cpu'],
  )
  t.equal((await call('POST', '/api/v1/namespaces', { name: 'acme' })).statusCode, 201)
  t.equal((await engine.state('namespaces').list({ prefix: 'namespace/acme' })).length, 1)
  t.match((await call('GET', '/api/v1/namespaces/default')).json(), { usage: { series_count: 2, measurements: 1 } })
})
