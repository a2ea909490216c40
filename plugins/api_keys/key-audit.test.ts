/** What the audit log is told of keys. */

import { AUDIT_LOG, type AuditRecord, definePlugin } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { faultyState, keyText, start } from './testing.ts'

t.setTimeout(120_000)
const ADMIN = keyText()
const admin = { name: 'root', key: ADMIN, admin: true }

t.test('the audit log has it, also when it then fails, and can refuse it', async (t) => {
  const records: AuditRecord[] = []
  let full = false
  const dir = temporaryFolder(t)
  const auditLog = definePlugin({
    id: 'audit_log',
    summary: 'An audit log',
    stability: 'experimental',
    provides: [AUDIT_LOG],
    setup: (svc) =>
      svc.provide(AUDIT_LOG, {
        async record(record: AuditRecord) {
          if (full) throw new SvcError('STORAGE_FULL', 'no space left')
          records.push(record)
        },
      }),
  })
  const state = faultyState()
  const node = await start({ keys: [admin], others: [auditLog], before: [state.plugin], dir })
  t.teardown(() => node.stop())
  const made = (await node.call('POST', ADMIN, '', { name: 'ci', namespaces: ['red', 'blue'] })).body
  await node.call('POST', ADMIN, '', { name: 'ci' })
  full = true
  t.match(await node.call('DELETE', ADMIN, '/ci'), { status: 507 })
  t.match(await node.call('POST', ADMIN, '', { name: 'more' }), { status: 507 })
  t.equal((await node.who(made.key, { 'x-namespace': 'red' })).status, 200)
  full = false
  t.equal((await node.call('DELETE', ADMIN, '/ci')).status, 204)
  t.match(records, [
    {
      action: 'api_key_create',
      resource: 'ci',
      decision: 'allow',
      by: { principal: 'root' },
      metadata: { key_id: made.id, namespaces: 'red,blue', admin: 'false' },
    },
    { action: 'api_key_revoke', resource: 'ci', decision: 'allow', by: { principal: 'root' }, metadata: { key_id: made.id } },
  ])
  t.equal(records.length, 2)
  t.notOk(JSON.stringify(records).includes(made.key))
  state.failure = new Error('the disk is gone')
  t.match(await node.call('POST', ADMIN, '', { name: 'lost' }), { status: 500 })
  t.match(records.slice(2), [
    { action: 'api_key_create', resource: 'lost', decision: 'allow' },
    { action: 'api_key_create', resource: 'lost', decision: 'deny', by: { principal: 'root' }, metadata: { failed: 'IO_ERROR', admin: 'false' } },
  ])
})
