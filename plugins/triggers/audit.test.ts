/** What the audit log has of triggers: who, which, and nothing of a webhook but where it is. */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { start } from './testing.ts'

const KEY = `svc_${'k'.repeat(43)}`
const headers = { authorization: `Bearer ${KEY}` }

interface Entry {
  action: string
  resource: string
  decision: string
  principal: string
  metadata: Record<string, string>
}

t.test('statements are in the audit log, without the secrets of webhooks', async (t) => {
  const dataDir = temporaryFolder(t)
  const path = join(dataDir, 'audit.jsonl')
  const { run, write, settled } = await start(t, {
    plugins: ['api_keys', 'audit', 'webhooks'],
    config: {
      auth: { api_keys: [{ name: 'ops', key: KEY, admin: true }] },
      audit: { path },
      triggers: { audit_signals: true },
      webhooks: { allow_private_targets: true, signing_secrets: [`whsec_${Buffer.alloc(24, 1).toString('base64')}`] },
    },
  })
  const hooks = [
    'https://127.0.0.1:1/path/SECRET?token=SECRET#SECRET',
    "https://127.0.0.1:1/a''SECRET",
    "https://127.0.0.1:1/?q='',SECRET''",
    'https://user:SECRET@127.0.0.1:1/',
    'ftp://127.0.0.1:1/SECRET',
    "no address ''SECRET",
  ]
  for (const [i, url] of hooks.entries()) await run(`CREATE TRIGGER t${i} ON m WHEN v > 1 AND host = 'a''b' DELIVER webhook('${url}')`, headers)
  await run('ALTER TRIGGER t0 DISABLE', headers)
  await run('ALTER TRIGGER t0 ENABLE', headers)
  await write("m,host=a'b v=2", headers)
  await settled(3, headers)
  await run('DROP TRIGGER t0', headers)
  const text = readFileSync(path, 'utf8')
  const entries = text
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Entry)
    .filter(({ action }) => action.startsWith('trigger_') || action === 'signal_fired')
  t.notMatch(text, 'SECRET')
  const created = entries.filter(({ action, resource }) => action === 'trigger_create' && resource === 't0')
  t.match(created, [{ decision: 'allow', principal: 'ops', metadata: { statement: /DELIVER webhook\('https:\/\/127\.0\.0\.1:1\/\.\.\.'\)/ } }])
  t.match(created[0].metadata.statement, "host = 'a''b'", 'all else stays')
  t.match(
    entries.filter(({ action }) => action === 'trigger_alter'),
    [
      { resource: 't0', principal: 'ops', metadata: { enabled: 'false' } },
      { resource: 't0', principal: 'ops', metadata: { enabled: 'true' } },
    ],
  )
  t.match(
    entries.filter(({ action }) => action === 'trigger_drop'),
    [{ resource: 't0', principal: 'ops' }],
  )
  const fired = entries.filter(({ action }) => action === 'signal_fired')
  t.same(fired.map(({ resource }) => resource).sort(), ['t0', 't1', 't2'], 'signals with audit_signals')
})
