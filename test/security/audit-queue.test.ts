/** Calls of one tenant that wait for the audit log leave room in its queue for those of another. */
import { join } from 'node:path'
import { boot, temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { FaultyFiles } from '../../plugins/audit/testing.ts'
import { auditPlugin } from '../../plugins/audit/wiring.ts'
import keys from './tenant-keys.ts'

const QUEUE = 8
const SHARE = 6

t.test('deletes of one tenant, while the disk stands still', async (t) => {
  const files = new FaultyFiles()
  const config = { server: { multi_tenancy: true }, audit: { path: join(temporaryFolder(t), 'audit.jsonl'), max_queue: QUEUE, record: ['delete'] } }
  const node = await boot({ plugins: [keys, 'namespaces', 'line_protocol', 'native', auditPlugin(files)], config })
  t.teardown(() => node.stop())
  const as = (who: string) => ({ authorization: `Bearer ${who}` })
  for (const who of ['alice', 'bob'])
    t.equal((await node.inject({ method: 'POST', url: '/write', payload: 'cpu v=1', headers: { ...as(who), 'content-type': 'text/plain' } })).statusCode, 204)
  const remove = (who: string) => node.inject({ method: 'POST', url: '/api/v1/delete', payload: { measurement: 'cpu', start: 1, end: 2 }, headers: as(who) })

  const held = files.hold()
  // Its entry is taken off the queue and written, for as long as that takes.
  const first = remove('alice')
  await held.begun
  const hers = Array.from({ length: QUEUE }, () => remove('alice'))
  const refused = await Promise.race(hers)
  t.equal(refused.statusCode, 503)
  t.match(refused.body, /6 entries of namespace \\"acme\\" wait for the disk, three quarters of audit.max_queue = 8; retry later, or raise it/)
  const his = Array.from({ length: QUEUE - SHARE + 1 }, () => remove('bob'))
  t.match((await Promise.race(his)).body, /8 entries wait for the disk/, 'he has the rest')
  held.release()
  t.equal((await first).statusCode, 200)
  t.same((await Promise.all(his)).map(({ statusCode }) => statusCode).sort(), [200, 200, 503])
  t.equal((await Promise.all(hers)).filter(({ statusCode }) => statusCode === 200).length, SHARE)
})
