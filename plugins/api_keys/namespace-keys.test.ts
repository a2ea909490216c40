/** Keys of namespaces that are deleted: whoever has the name next is not reached by them. */
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import type { Plugin } from 'svcdb'
import { AUDIT_LOG, type AuditRecord, definePlugin } from 'svcdb'
import { SharedState, temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import line from '../line_protocol/index.ts'
import namespaces from '../namespaces/index.ts'
import { openNode } from '../namespaces/testing.ts'
import { faultyState, type KeyNode, type KeyOptions, keyText, start } from './testing.ts'

t.setTimeout(120_000)
const ADMIN = keyText()
const CONFIG = { server: { multi_tenancy: true } } as const
const MASTER = 'SVC_TEST_NAMESPACES_MASTER'
process.env[MASTER] = randomBytes(32).toString('base64')
const root = { name: 'root', key: ADMIN, admin: true, namespaces: ['*'] }

const options = (more: KeyOptions = {}): KeyOptions => ({ keys: [root], config: CONFIG, others: [namespaces, line], ...more })
const make = async (node: KeyNode, body: object, by = ADMIN): Promise<string> => (await node.call('POST', by, '', body)).body.key
const write = async (node: KeyNode, token: string, namespace: string): Promise<number> => {
  const headers = { authorization: `Bearer ${token}`, 'x-namespace': namespace, 'content-type': 'text/plain' }
  return (await node.inject({ method: 'POST', url: '/write', payload: `m v=1 ${BigInt(Date.now()) * 1_000_000n}`, headers })).statusCode
}
const drop = async (node: KeyNode, namespace: string): Promise<number> =>
  (await node.inject({ method: 'DELETE', url: `/api/v1/namespaces/${namespace}`, headers: { authorization: `Bearer ${ADMIN}` } })).statusCode
const names = async (node: KeyNode): Promise<string[]> => (await node.call('GET', ADMIN)).body.items.map(({ name }: { name: string }) => name)

t.test('keys end with their namespace, and those that have others as well are for them alone', async (t) => {
  const cases: [string, Record<string, unknown>, boolean][] = [
    ['at run time', {}, false],
    ['as objects', { persistent_api_keys: true }, false],
    ['sealed', { persistent_api_keys: true, encryption_key_env: MASTER }, false],
    ['in files', { persistent_api_keys: true }, true],
  ]
  for (const [what, auth, files] of cases) {
    const dir = temporaryFolder(t)
    const object_store_url = pathToFileURL(join(dir, 'objects')).href
    const given = options({ auth, dir, config: { ...CONFIG, ...(files ? { storage: { object_store_url } } : {}) } as KeyOptions['config'] })
    let node = await start(given)
    const own = await make(node, { name: 'own', namespaces: ['acme'], admin: true })
    const below = await make(node, { name: 'below', namespaces: ['acme'] }, own)
    const both = await make(node, { name: 'both', namespaces: ['acme', 'other'], admin: true })
    const other = await make(node, { name: 'other', namespaces: ['other'] })
    for (const key of [own, below, both]) t.equal(await write(node, key, 'acme'), 204, what)
    t.equal(await write(node, other, 'other'), 204)

    t.equal(await drop(node, 'acme'), 200)
    for (let starts = 0; starts < 2; starts++) {
      t.equal(await write(node, ADMIN, 'acme'), 204, 'somebody else has the name')
      for (const key of [own, below]) t.equal((await node.who(key)).status, 401, what)
      t.match(await node.who(both), { status: 200, principal: 'both', namespaces: ['other'], admin: true, claims: { tenant_id: 'other' } }, what)
      t.equal(await write(node, both, 'acme'), 403)
      for (const key of [both, other]) t.equal(await write(node, key, 'other'), 204)
      t.same(await names(node), ['both', 'other', 'root'])
      await node.stop()
      node = await start(given)
    }
    // What the new one makes is its own.
    const next = await make(node, { name: 'own', namespaces: ['acme'] })
    await node.stop()
    node = await start(given)
    t.equal(await write(node, next, 'acme'), 204)
    await node.stop()
  }
})

t.test('a namespace is there until its keys are revoked: a failure, or a stop, in the middle', async (t) => {
  const dir = temporaryFolder(t)
  const faulty = faultyState()
  let node = await start(options({ dir, before: [faulty.plugin] }))
  const keys = await Promise.all([1, 2, 3].map((i) => make(node, { name: `own${i}`, namespaces: ['acme'] })))
  for (const key of keys) t.equal(await write(node, key, 'acme'), 204)
  const storage = node.storage
  const state = storage.state.bind(storage)
  // The mark gets through, the revocations do not.
  const remove = storage.drop.bind(storage)
  storage.drop = (...args) => {
    faulty.failure = new Error('the disk is gone')
    return remove(...args)
  }
  t.equal(await drop(node, 'acme'), 500)
  faulty.failure = undefined
  t.ok((await state('namespaces').get('namespace/acme')) !== undefined)
  t.equal(await write(node, ADMIN, 'acme'), 404, 'the name is not free')
  await node.stop()
  node = await start(options({ dir }))
  t.teardown(() => node.stop())
  for (let looks = 0; looks < 1000 && (await write(node, ADMIN, 'acme')) !== 204; looks++) await setTimeout(10)
  for (const key of keys) t.equal((await node.who(key)).status, 401)
})

t.test('keys of a namespace that went while the plugin was not selected', async (t) => {
  const dir = temporaryFolder(t)
  let node = await start(options({ dir }))
  const own = await make(node, { name: 'own', namespaces: ['acme'] })
  t.equal(await write(node, own, 'acme'), 204)
  await node.stop()
  const without = await openNode(dir)
  t.equal((await without.inject('DELETE', '/api/v1/namespaces/acme')).statusCode, 200)
  await without.node.stop()
  node = await start(options({ dir }))
  t.teardown(() => node.stop())
  t.equal((await node.who(own)).status, 401)
})

t.test('no key is made by one that ended while it was on its way', async (t) => {
  const node = await start(options())
  t.teardown(() => node.stop())
  const own = await make(node, { name: 'own', namespaces: ['acme'], admin: true })
  t.equal(await write(node, own, 'acme'), 204)
  const made = Array.from({ length: 12 }, (_, i) => node.call('POST', own, '', { name: `k${i}`, namespaces: ['acme'] }))
  await made[0]
  t.equal(await drop(node, 'acme'), 200)
  const answers = await Promise.all(made)
  for (const { status, body } of answers) t.ok(status === 201 || (status === 401 && body.code === 'UNAUTHORIZED'), JSON.stringify(body))
  for (const { status, body } of answers) if (status === 201) t.equal((await node.who(body.key)).status, 401)
  t.same(await names(node), ['root'])
})

t.test('other nodes take it up, and keys that they have made', async (t) => {
  const shared = new SharedState()
  // The first one hears late of what the second one makes.
  const [first, second] = await Promise.all([false, true].map(async (told) => start(options({ storage: await shared.engine(undefined, told) }))))
  for (const node of [first, second]) t.teardown(() => node.stop())
  const both = await make(second, { name: 'both', namespaces: ['acme', 'other'] })
  const own = await make(second, { name: 'own', namespaces: ['acme'] })
  t.equal(await write(first, ADMIN, 'acme'), 204)
  t.equal(await drop(first, 'acme'), 200)
  for (const node of [first, second]) {
    for (let looks = 0; looks < 100 && (await node.who(own)).status === 200; looks++) await setTimeout(10)
    t.match(await node.who(both), { status: 200, namespaces: ['other'] })
    t.equal((await node.who(own)).status, 401)
  }
})

t.test('a key that was changed elsewhere, and that cannot be read here, lets nobody in any more', async (t) => {
  const shared = new SharedState()
  const cases: [string, KeyOptions][] = [
    ['runtime/', { storage: await shared.engine(undefined, true) }],
    ['stored/', { auth: { persistent_api_keys: true }, dir: temporaryFolder(t) }],
  ]
  for (const [prefix, more] of cases) {
    const node = await start(options(more))
    t.teardown(() => node.stop())
    const keys = [await make(node, { name: 'kept', namespaces: ['acme'] }), await make(node, { name: 'changed', namespaces: ['acme', 'other'] })]
    const statuses = () => Promise.all(keys.map(async (key) => (await node.who(key, { 'x-namespace': 'acme' })).status))
    t.same(await statuses(), [200, 200])
    const { items } = (await node.call('GET', ADMIN)).body
    const { id } = items.find(({ name }: { name: string }) => name === 'changed')
    const { storage } = more.storage === undefined ? node : { storage: await shared.engine() }
    await storage.state('api_keys').transaction(async (tx) => {
      t.ok(await tx.get(prefix + id))
      tx.put(prefix + id, { id, version: 99 })
    })
    // Has all read anew, where nobody tells of the change.
    t.equal(await write(node, ADMIN, 'gone'), 204)
    t.equal(await drop(node, 'gone'), 200)
    for (let looks = 0; looks < 100 && (await statuses())[1] === 200; looks++) await setTimeout(10)
    t.same(await statuses(), [200, 401], prefix)
  }
})

t.test('it is on record, and keys of the config stay and are named', async (t) => {
  const records: AuditRecord[] = []
  const log: Plugin = definePlugin({
    id: 'records',
    summary: 'x',
    stability: 'experimental',
    provides: [AUDIT_LOG],
    setup: (svc) => svc.provide(AUDIT_LOG, { record: async (record: AuditRecord) => void records.push(record) }),
  })
  const lines: string[] = []
  const user = keyText()
  const keys = [root, { name: 'user', key: user, namespaces: ['acme'] }]
  const node = await start(options({ keys, others: [namespaces, line, log], log: (text) => lines.push(text) }))
  t.teardown(() => node.stop())
  await make(node, { name: 'own', namespaces: ['acme'] })
  await make(node, { name: 'both', namespaces: ['acme', 'other'] })
  t.equal(await write(node, user, 'acme'), 204)
  records.length = 0
  t.equal(await drop(node, 'acme'), 200)
  t.match(records, [
    { action: 'namespace_delete', resource: 'acme' },
    { action: 'api_key_revoke', resource: 'own', metadata: { event: 'namespace', namespaces: '' } },
    { action: 'permission_change', resource: 'both', metadata: { event: 'namespace', namespaces: 'other' } },
  ])
  t.equal((await node.who(user)).status, 200)
  t.match(
    lines.map((text) => JSON.parse(text)).find(({ msg }) => /keys of auth\.api_keys name a namespace that is deleted/.test(msg)),
    { namespace: 'acme', key_names: ['user'] },
  )
})
