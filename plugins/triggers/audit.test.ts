/** What the audit log has of triggers: who, which, and nothing of a webhook but where it is. */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { AUDIT_LOG, type AuditLog, type AuditRecord, definePlugin } from 'svcdb'
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

t.test('signals of one write share the syncs of the audit log, in their order', async (t) => {
  const known: string[] = []
  let under = 0
  let most = 0
  const slow = definePlugin({
    id: 'slow_audit',
    summary: 'Keeps each entry after a while',
    stability: 'experimental',
    provides: [AUDIT_LOG],
    setup: (svc) =>
      svc.provide(AUDIT_LOG, {
        async record({ action, metadata }: AuditRecord) {
          if (action !== 'signal_fired') return
          most = Math.max(most, ++under)
          known.push(metadata?.event_id ?? '')
          await new Promise((resolve) => setTimeout(resolve, 5))
          under--
        },
      } satisfies AuditLog),
  })
  const { run, write, settled, signals } = await start(t, { plugins: [slow], config: { triggers: { audit_signals: true, signal_store_capacity: 1000 } } })
  await run('CREATE TRIGGER hot ON m WHEN v > 1')
  await write(Array.from({ length: 600 }, (_, i) => `m,host=h${i} v=2`).join('\n'))
  await settled(1)
  for (let i = 0; i < 3000 && known.length < 600; i++) await new Promise((resolve) => setTimeout(resolve, 10))
  t.equal(new Set(known).size, 600)
  t.ok(most > 100 && most <= 256, `${most} at one time`)
  const newest = (await signals('?limit=1000')).map(({ event_id }) => event_id)
  t.same(known, newest)
})

t.test('none is lost where the audit log has room for less', async (t) => {
  const path = join(temporaryFolder(t), 'audit.jsonl')
  const { run, write } = await start(t, { plugins: ['audit'], config: { audit: { path, max_queue: 2 }, triggers: { audit_signals: true } } })
  await run('CREATE TRIGGER hot ON m WHEN v > 1')
  await write(Array.from({ length: 100 }, (_, i) => `m,host=h${i} v=2`).join('\n'))
  const ids = () => readFileSync(path, 'utf8').match(/"event_id":"[^"]+"/g) ?? []
  for (let i = 0; i < 3000 && ids().length < 100; i++) await new Promise((resolve) => setTimeout(resolve, 10))
  t.equal(new Set(ids()).size, 100)
  t.equal(ids().length, 100)
})
