/** Keys of the state store that come and go by files, in the clear and encrypted. */
import { randomBytes } from 'node:crypto'
import { mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { AUDIT_LOG, type AuditLog, type AuditRecord, definePlugin } from 'svcdb'
import { type FileCalls, realFileCalls } from 'svcdb/lib/files'
import { Logs, mapState, systemClock, temporaryFolder } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { Value } from 'typebox/value'
import { type ApiKeysConfig, configSchema } from './config.ts'
import { plainDigestOf } from './envelope.ts'
import { KeptKeys } from './kept-keys.ts'
import { type InboxWatcher, KeyInbox } from './key-inbox.ts'
import { encodeObject } from './key-object.ts'
import type { KeyRecord } from './key-record.ts'
import { KeySources } from './key-sources.ts'
import { KeyStore } from './key-store.ts'
import { newKey } from './new-key.ts'
import { keyText, start } from './testing.ts'
import { VerifiedCache } from './verified-cache.ts'

t.setTimeout(120_000)
const ADMIN = keyText()
const MASTER = 'API_KEYS_INBOX_MASTER'
const keys = [{ name: 'root', key: ADMIN, admin: true }]
const persistent = { persistent_api_keys: true }
const wanted = (name: string) => ({ name, namespaces: ['red'], roles: [], admin: false })

interface Bare {
  dir: string
  inbox: KeyInbox
  kept: KeptKeys
  steps: string[]
  /** The step that fails. */
  failing: string | undefined
  watcher: InboxWatcher
  write(record: KeyRecord): Promise<void>
}

async function bareInbox(t: Test): Promise<Bare> {
  const root = temporaryFolder(t)
  const dir = join(root, 'auth', 'keys')
  const steps: string[] = []
  const step = (what: string) => {
    if (what === bare.failing) throw new Error(`${what} failed`)
    steps.push(what)
  }
  const calls: FileCalls = {
    ...realFileCalls,
    async rm(path, options) {
      step('rm')
      await realFileCalls.rm(path, options)
    },
    open: async () => ({ sync: async () => step('sync'), close: async () => {}, writeFile: async () => {} }),
  }
  const kept = new KeptKeys(
    mapState(() => step('commit')),
    () => 1,
    plainDigestOf,
  )
  const inbox = new KeyInbox({ folder: dir, kept, envelope: undefined, keys: true, record: async () => {}, calls })
  const watcher: InboxWatcher = {
    check: () => {},
    put: ({ name }) => step(`put ${name}`),
    drop: (id) => step(`drop ${id.slice(0, 4)}`),
    refused: (_, { message }) => step(message),
  }
  const store = new KeyStore({ root, envelope: undefined, monotonic: () => performance.now() })
  const bare: Bare = { dir, inbox, kept, steps, failing: undefined, watcher, write: (record) => store.write(record) }
  return bare
}

t.test('a key is in use when nothing can bring its file back', async (t) => {
  const { record } = await newKey(wanted('ci'), 'svc_', Date.now())
  for (const failing of [undefined, 'commit', 'rm', 'sync']) {
    const bare = await bareInbox(t)
    await bare.write(record)
    bare.failing = failing
    if (failing !== undefined) {
      await t.rejects(bare.inbox.take(bare.watcher), { message: `${failing} failed` })
      t.notOk(bare.steps.includes('put ci'), `not after ${failing} failed`)
      bare.failing = undefined
    }
    await bare.inbox.take(bare.watcher)
    t.equal(bare.steps.at(-1), 'put ci')
    t.equal(bare.steps.at(-2), 'sync')
    if (failing === undefined) t.same(bare.steps, ['commit', 'rm', 'sync', 'put ci'])
    t.same(await readdir(bare.dir), [])
    t.match(await bare.kept.stored(), [{ id: record.id, value: { name: 'ci' } }])
    await bare.inbox.take(bare.watcher)
    t.equal(bare.steps.filter((step) => step === 'put ci').length, 1, 'once')
  }
})

t.test('a key that is revoked while a changed copy of it is taken does not come back', async (t) => {
  const root = temporaryFolder(t)
  const state = mapState()
  const { record } = await newKey(wanted('ci'), 'svc_', Date.now())
  const held = Promise.withResolvers<void>()
  const asked = Promise.withResolvers<void>()
  let questions = 0
  // The last question before a copy is in use, and its answer is late.
  const get: typeof state.get = async <T>(key: string) => {
    const answer = await state.get<T>(key)
    if (key === `stored/${record.id}` && ++questions === 2) {
      asked.resolve()
      await held.promise
    }
    return answer
  }
  const kept = new KeptKeys({ ...state, get }, () => 1, plainDigestOf)
  const monotonic = () => performance.now()
  const cache = new VerifiedCache({ maxEntries: 10, ttlMs: 1000 }, monotonic)
  const config = Value.Default(configSchema, { auth: { api_key: {} } }) as ApiKeysConfig
  const sources = new KeySources({
    config,
    env: {},
    multiTenancy: false,
    cache,
    clock: systemClock,
    log: new Logs({ level: 'error', format: 'json' }).child('t'),
  })
  const inbox = new KeyInbox({ folder: join(root, 'auth', 'keys'), kept, envelope: undefined, keys: true, record: async () => {} })
  await sources.start({ kept, legacy: undefined, inbox, persistent: true, store: undefined, envelope: undefined })
  const key = await sources.add(record)
  await new KeyStore({ root, envelope: undefined, monotonic }).write({ ...record, roles: ['changed'] })
  const taken = sources.refresh()
  await asked.promise
  const revoked = sources.remove(key)
  for (let i = 0; i < 20; i++) await setImmediate()
  held.resolve()
  await Promise.all([taken, revoked])
  t.same(sources.keyring.values(), [])
  t.same(await kept.stored(), [])
})

t.test('a revocation counts from its commit, and no file brings the key back', async (t) => {
  const { record } = await newKey(wanted('ci'), 'svc_', Date.now())
  const dropped = `drop ${record.id.slice(0, 4)}`
  const bare = await bareInbox(t)
  await bare.write(record)
  await bare.inbox.take(bare.watcher)
  await writeFile(join(bare.dir, `${record.id}.revoked`), '')
  bare.steps.length = 0
  bare.failing = 'rm'
  await t.rejects(bare.inbox.take(bare.watcher), { message: 'rm failed' })
  t.same(bare.steps, ['commit', dropped])
  bare.failing = undefined
  await bare.inbox.take(bare.watcher)
  t.same(bare.steps.slice(2), ['commit', dropped, 'rm', 'sync'])
  t.same(await readdir(bare.dir), [])
  t.same(await bare.kept.stored(), [])

  await bare.write(record)
  bare.steps.length = 0
  for (let i = 0; i < 2; i++) await bare.inbox.take(bare.watcher)
  t.same(bare.steps, ['the key was revoked, and does not come back'], 'which is said once')
  t.same(await readdir(bare.dir), [`${record.id}.json`])

  await bare.kept.putFiled([{ id: record.id, name: 'ci', value: {}, replaces: false }])
  t.same(await bare.kept.stored(), [], 'nor a copy that was read before')
})

t.test('of a key that was made over HTTP and revoked while a copy of it is taken nothing comes back, and no file of that copy later', async (t) => {
  const bare = await bareInbox(t)
  const { record } = await newKey(wanted('ci'), 'svc_', Date.now())
  const copy = { ...record, description: 'a copy' }
  const value = encodeObject(record, undefined)
  await bare.kept.putNew({ id: record.id, name: record.name, value })
  await bare.write(copy)
  // Another node revokes it behind the look at what is stored.
  const inbox = new KeyInbox({ folder: bare.dir, kept: bare.kept, envelope: undefined, keys: true, record: () => bare.kept.remove([record.id], record.name) })
  await inbox.take(bare.watcher)
  t.same([await bare.kept.stored(), bare.steps.filter((step) => step.startsWith('put'))], [[], []])

  const other = (await newKey(wanted('other'), 'svc_', Date.now())).record
  await bare.kept.putNew({ id: other.id, name: other.name, value: encodeObject(other, undefined) })
  await bare.write({ ...other, description: 'a copy' })
  await bare.inbox.take(bare.watcher)
  t.match(await bare.kept.stored(), [{ id: other.id, value: { description: 'a copy' } }])
  await bare.kept.remove([other.id], other.name)
  await bare.write(other)
  await bare.inbox.take(bare.watcher)
  t.equal(bare.steps.at(-1), 'the key was revoked, and does not come back')
  t.same(await bare.kept.stored(), [])
})

t.test('what is of no use stays in the folder, and the others are taken', async (t) => {
  const bare = await bareInbox(t)
  const [good, same, wrong] = await Promise.all(['good', 'good', 'wrong'].map(async (name) => (await newKey(wanted(name), 'svc_', Date.now())).record))
  const [first, second] = [good, same].sort((a, b) => (a.id < b.id ? -1 : 1))
  for (const record of [good, same]) await bare.write(record)
  await writeFile(join(bare.dir, `${wrong.id}.json`), JSON.stringify({ version: 1, ...wrong, id: good.id }))
  await writeFile(join(bare.dir, 'notes.txt'), 'mine')
  bare.watcher.check = ({ name }) => {
    if (name === 'bad') throw new Error('its name is bad')
  }
  const bad = (await newKey(wanted('bad'), 'svc_', Date.now())).record
  await bare.write(bad)
  await bare.inbox.take(bare.watcher)
  t.same((await readdir(bare.dir)).sort(), [`${second.id}.json`, `${wrong.id}.json`, `${bad.id}.json`, 'notes.txt'].sort())
  t.same(
    (await bare.kept.stored()).map(({ id }) => id),
    [first.id],
  )
  t.same(bare.steps.filter((step) => /^(it|another)/.test(step)).sort(), [
    'another file has a key of the name "good"',
    `it is of the key ${good.id}`,
    'its name is bad',
  ])
})

for (const how of ['in the clear', 'encrypted']) {
  t.test(`${how}: objects of an older version are taken into the state store, and keys that are made are kept there`, async (t) => {
    process.env[MASTER] = randomBytes(32).toString('base64')
    const dir = temporaryFolder(t)
    const auth = how === 'encrypted' ? { ...persistent, encryption_key_env: MASTER } : persistent
    const root = join(dir, 'before')
    // As an older version left it: the store of such a URL is what the data directory had.
    const before = await start({ keys, auth, config: { storage: { object_store_url: `file://${root}` } } })
    const old = (await before.call('POST', ADMIN, '', { name: 'old', namespaces: ['red'] })).body
    await before.stop()
    const inbox = join(dir, 'auth', 'keys')
    await mkdir(inbox, { recursive: true })
    await writeFile(join(inbox, `${old.id}.json`), await readFile(join(root, 'auth', 'keys', `${old.id}.json`)))

    let node = await start({ keys, dir, auth, tuning: { max_failures: 0 } })
    t.same(await readdir(inbox), [])
    t.match(await node.who(old.key), { status: 200, principal: 'old', claims: { key_id: old.id } })
    const made = (await node.call('POST', ADMIN, '', { name: 'made', namespaces: ['blue'] })).body
    t.equal(made.source, 'store')
    t.same(await readdir(inbox), [])
    const kept = JSON.stringify(await node.storage.state('api_keys').list())
    t.notOk(kept.includes(made.key))
    t.equal(kept.includes('"made"'), how === 'in the clear')
    t.equal((await stat(join(dir, 'catalog'))).mode & 0o777, 0o700)
    // A changed copy takes the place of the key of its id.
    if (how === 'in the clear') {
      const value = (await node.storage.state('api_keys').get(`stored/${old.id}`)) as object
      await writeFile(join(inbox, `${old.id}.json`), JSON.stringify({ ...value, enabled: false }))
      await node.call('GET', ADMIN)
      t.equal((await node.who(old.key)).status, 401)
      t.match((await node.call('GET', ADMIN)).body.items[1], { name: 'old', enabled: false })
    }
    t.equal((await node.call('DELETE', ADMIN, '/old')).status, 204)
    await node.stop()
    node = await start({ keys, dir, auth })
    t.match([await node.who(old.key), await node.who(made.key)], [{ status: 401 }, { status: 200, namespaces: ['blue'] }])
    await node.stop()
    if (how === 'encrypted') {
      process.env[MASTER] = randomBytes(32).toString('base64')
      await t.rejects(start({ keys, dir, auth }), new RegExp(`cannot read API key "${made.id}" of the state store: its data key does not open`))
      await writeFile(join(inbox, `${made.id}.revoked`), '')
      await (await start({ keys, dir, auth })).stop()
    }
  })
}

t.test('without persistent_api_keys files of keys are left alone', async (t) => {
  const dir = temporaryFolder(t)
  const { text, record } = await newKey(wanted('late'), 'svc_', Date.now())
  await new KeyStore({ root: dir, envelope: undefined, monotonic: () => performance.now() }).write(record)
  const node = await start({ keys, dir })
  t.teardown(() => node.stop())
  t.equal((await node.who(text)).status, 401)
  t.same(await readdir(join(dir, 'auth', 'keys')), [`${record.id}.json`])
})

t.test('keys that come, change and go by files are in the audit log', async (t) => {
  const records: AuditRecord[] = []
  const audit = definePlugin({
    id: 'audit_probe',
    summary: 'Keeps what is recorded',
    stability: 'stable',
    provides: [AUDIT_LOG],
    setup: (svc) => svc.provide(AUDIT_LOG, { record: async (record: AuditRecord) => void records.push(record) } satisfies AuditLog),
  })
  const dir = temporaryFolder(t)
  const store = new KeyStore({ root: dir, envelope: undefined, monotonic: () => performance.now() })
  const { record } = await newKey({ ...wanted('put'), namespaces: ['red'], admin: true }, 'svc_', Date.now())
  await store.write(record)
  const node = await start({ keys, dir, auth: persistent, others: [audit] })
  t.teardown(() => node.stop())
  const file = { key_id: record.id, event: 'file' }
  const key = { namespaces: 'red', admin: 'true', enabled: 'true' }
  t.same(records, [{ action: 'api_key_create', resource: 'put', decision: 'allow', metadata: { ...file, ...key } }], 'at the start')
  await store.write({ ...record, enabled: false })
  t.equal((await node.call('GET', ADMIN)).status, 200)
  await writeFile(join(dir, 'auth', 'keys', `${record.id}.revoked`), '')
  t.equal((await node.call('GET', ADMIN)).status, 200)
  t.same(records.slice(1), [
    { action: 'permission_change', resource: 'put', decision: 'allow', metadata: { ...file, ...key, enabled: 'false' } },
    { action: 'api_key_revoke', resource: record.id, decision: 'allow', metadata: file },
  ])
})
