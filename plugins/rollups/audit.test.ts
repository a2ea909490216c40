/** What the audit log has of rollups. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { boot, temporaryFolder } from 'svcdb/testkit'
import t from 'tap'

const KEY = `svc_${'k'.repeat(43)}`

t.test('who has created and deleted a rollup is in the audit log', async (t) => {
  const path = join(temporaryFolder(t), 'audit.jsonl')
  const config = { auth: { api_keys: [{ name: 'ops', key: KEY, admin: true }] }, audit: { path } }
  const node = await boot({ plugins: ['line_protocol', 'rollups', 'api_keys', 'audit'], config })
  t.teardown(() => node.stop())
  const headers = { authorization: `Bearer ${KEY}` }
  const payload = { name: 'hourly', source_measurement: 'cpu', target_measurement: 'cpu_1h', every: '1h', aggregations: ['avg'] }
  const create = () => node.inject({ method: 'POST', url: '/api/v1/rollups', payload, headers })
  t.equal((await create()).statusCode, 201)
  t.equal((await node.inject({ method: 'DELETE', url: '/api/v1/rollups/hourly', headers })).statusCode, 204)
  const entries = readFileSync(path, 'utf8')
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line))
    .filter(({ action }) => action.endsWith('_rollup'))
  t.match(entries, [
    { action: 'create_rollup', resource: 'hourly', decision: 'allow', principal: 'ops' },
    { action: 'drop_rollup', resource: 'hourly', decision: 'allow', principal: 'ops' },
  ])
  t.equal(entries.length, 2)
})
