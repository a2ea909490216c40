/** Keys as objects of their own, in the clear and encrypted, and what others do to the folder meanwhile. */
import { randomBytes } from 'node:crypto'
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { type FileCalls, realFileCalls } from 'svcdb/lib/files'
import { seeded } from 'svcdb/lib/random'
import { ManualClock, temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { Envelope } from './envelope.ts'
import type { KeyRecord } from './key-record.ts'
import { KeyStore } from './key-store.ts'
import { newKey } from './new-key.ts'
import { keyText, start } from './testing.ts'

const ADMIN = keyText()
const keys = [{ name: 'root', key: ADMIN, admin: true }]
const MASTER = 'API_KEYS_TEST_MASTER'
const inStore = (root: string) => ({ keys, auth: { persistent_api_keys: true }, config: { storage: { object_store_url: String(pathToFileURL(root)) } } })
const sealed = (root: string) => ({ ...inStore(root), auth: { persistent_api_keys: true, encryption_key_env: MASTER } })
const plainStore = (root: string) => new KeyStore({ root, envelope: undefined, monotonic: () => performance.now() })
const wanted = (name: string, more: object = {}) => ({ name, namespaces: [], roles: [], admin: false, ...more })
const fileOf = (root: string, id: string) => join(root, 'auth', 'keys', `${id}.json`)

async function put(root: string, name: string, more: object = {}): Promise<{ text: string; record: KeyRecord }> {
  const made = await newKey(wanted(name, more), 'svc_', Date.now())
  await plainStore(root).write(made.record)
  return made
}

t.test('keys that are made are kept as objects below the URL', async (t) => {
  const root = temporaryFolder(t)
  let node = await start(inStore(root))
  const made = (await node.call('POST', ADMIN, '', { name: 'ci', namespaces: ['red'], roles: ['r'] })).body
  t.equal(made.source, 'store')
  t.equal((await stat(fileOf(root, made.id))).mode & 0o777, 0o600)
  const text = await readFile(fileOf(root, made.id), 'utf8')
  t.match(JSON.parse(text), {
    version: 1,
    id: made.id,
    name: 'ci',
    key_hash: /^\$argon2id\$v=19\$m=19456,t=2,p=1\$/,
    key_prefix: made.key.slice(4, 12),
    tenant_id: null,
    enabled: true,
  })
  t.notOk(text.includes(made.key))
  const other = (await node.call('POST', ADMIN, '', { name: 'other' })).body
  t.equal((await node.call('DELETE', ADMIN, '/other')).status, 204)
  t.equal((await node.call('DELETE', ADMIN, '/root')).status, 409)
  await node.stop()
  t.same(await readdir(join(root, 'auth', 'keys')), [`${made.id}.json`])
  node = await start(inStore(root))
  t.teardown(() => node.stop())
  t.match(await node.who(made.key), { status: 200, principal: 'ci', namespaces: ['red'], claims: { key_id: made.id } })
  t.equal((await node.who(other.key)).status, 401)
  t.equal(await node.metric(ADMIN, 'api_keys{source="store"}'), 1)
})

t.test('a key of an admin that lets nobody in does not count as one that is left', async (t) => {
  const root = temporaryFolder(t)
  const { text, record } = await newKey(wanted('second', { admin: true, namespaces: ['*'] }), 'svc_', Date.now())
  await plainStore(root).write({ ...record, enabled: false })
  const node = await start(inStore(root))
  t.teardown(() => node.stop())
  t.match(await node.call('DELETE', ADMIN, '/root'), { status: 409, body: { error: /it is the last/ } })
  await plainStore(root).write(record)
  t.equal((await node.call('DELETE', text, '/root')).status, 204)
})

t.test('a key that was put a moment ago can be revoked', async (t) => {
  const root = temporaryFolder(t)
  const node = await start(inStore(root))
  t.teardown(() => node.stop())
  const { text } = await put(root, 'late')
  t.equal((await node.call('DELETE', ADMIN, '/late')).status, 204)
  t.equal((await node.who(text)).status, 401)
})

t.test('a removal is durable before it is done', async (t) => {
  const root = temporaryFolder(t)
  const { record } = await put(root, 'one')
  const calls: string[] = []
  const said = (what: string, path: string) => void calls.push(`${what} ${path.slice(root.length + 1)}`)
  const seen: FileCalls = {
    ...realFileCalls,
    async rm(path, options) {
      said('rm', path)
      await realFileCalls.rm(path, options)
    },
    async open(path, flags, mode) {
      const file = await realFileCalls.open(path, flags, mode)
      const sync = async () => {
        said('sync', path)
        await file.sync()
      }
      return { writeFile: (text) => file.writeFile(text), sync, close: () => file.close() }
    },
  }
  const store = new KeyStore({ root, envelope: undefined, monotonic: () => performance.now(), calls: seen })
  await store.open({ put() {}, drop() {} })
  await store.remove(record.id)
  t.same(calls, [`rm auth/keys/${record.id}.json`, 'sync auth/keys'])
})

t.test('what others put, change and remove while the node runs is taken up', async (t) => {
  const root = temporaryFolder(t)
  const clock = new ManualClock(Date.now())
  const node = await start({ ...inStore(root), clock, tuning: { cache_ttl_secs: 10, max_failures: 0 } })
  t.teardown(() => node.stop())
  t.equal((await node.who(keyText())).status, 401)
  const { text, record } = await put(root, 'late', { namespaces: ['red'] })
  t.match(await node.who(text), { status: 200, principal: 'late', namespaces: ['red'] }, 'a new one at once')
  t.equal((await node.call('POST', ADMIN, '', { name: 'late' })).status, 409)

  // In place, so that the folder's time does not change.
  await writeFile(fileOf(root, record.id), JSON.stringify({ version: 1, ...record, namespaces: ['blue'] }))
  clock.skip(10_001)
  t.match(await node.who(text), { status: 200, namespaces: ['blue'] }, 'another content when the cache ends')
  await writeFile(fileOf(root, record.id), JSON.stringify({ version: 1, ...record, enabled: false }))
  clock.skip(10_001)
  t.equal((await node.who(text)).status, 401, 'disabled')
  t.match((await node.call('GET', ADMIN)).body.items[0], { name: 'late', enabled: false })
  await plainStore(root).write(record)
  t.equal((await node.who(text)).status, 200, 'enabled again')
  await rm(fileOf(root, record.id))
  clock.skip(10_001)
  t.equal((await node.who(text)).status, 401, 'removed')
  t.equal((await node.call('GET', ADMIN)).body.total, 1)
})

t.test('a key that has another hash by now is not let in for the former one, during an attack either', async (t) => {
  const root = temporaryFolder(t)
  const clock = new ManualClock(Date.now())
  const node = await start({ ...inStore(root), clock, tuning: { cache_ttl_secs: 10, max_failures: 1 } })
  t.teardown(() => node.stop())
  const { text, record } = await put(root, 'late')
  const { record: another } = await newKey(wanted('late'), 'svc_', Date.now())
  t.equal((await node.who(text)).status, 200)
  clock.skip(10_001)
  t.equal((await node.who(text.slice(0, 12) + keyText().slice(12))).status, 401)
  t.equal((await node.who(text)).status, 200, 'too many failures, and it was verified before')
  clock.skip(10_001)
  await writeFile(fileOf(root, record.id), JSON.stringify({ version: 1, ...record, key_hash: another.key_hash }))
  t.equal((await node.who(text)).status, 429)
})

t.test('a removal that the folder shows ends a cached key when another is looked for', async (t) => {
  const root = temporaryFolder(t)
  const node = await start(inStore(root))
  t.teardown(() => node.stop())
  const { text, record } = await put(root, 'gone')
  t.equal((await node.who(text)).status, 200)
  await rm(fileOf(root, record.id))
  await node.who(keyText())
  t.equal((await node.who(text)).status, 401)
})

t.test('while it runs, what cannot be used lets nobody in and harms nobody else', async (t) => {
  const root = temporaryFolder(t)
  const lines: string[] = []
  const node = await start({ ...inStore(root), log: (line) => lines.push(line), tuning: { max_failures: 0 } })
  t.teardown(() => node.stop())
  const [good, bad] = [await put(root, 'good'), await put(root, 'bad')]
  for (const { text } of [good, bad]) t.equal((await node.who(text)).status, 200)
  const inPlace = fileOf(root, bad.record.id)
  for (const content of [
    '',
    '{',
    '[]',
    'null',
    '{"version":2}',
    JSON.stringify({ version: 1, ...bad.record, key_hash: 'x' }),
    JSON.stringify({ version: 1, ...good.record }),
  ]) {
    // Renamed into place, so that the folder shows it.
    await writeFile(`${inPlace}.new`, content)
    await rename(`${inPlace}.new`, inPlace)
    await node.who(keyText())
    t.equal((await node.who(bad.text)).status, 401, content.slice(0, 20))
    t.equal((await node.who(good.text)).status, 200)
  }
  const twin = await put(root, 'good', { admin: true })
  t.equal((await node.who(twin.text)).status, 401, 'a name that is in use')
  const config = await put(root, 'root', { admin: true })
  t.equal((await node.who(config.text)).status, 401)
  await rm(fileOf(root, good.record.id))
  await node.who(keyText())
  t.match(await node.who(twin.text), { status: 200, principal: 'good' }, 'the name is free again')
  await mkdir(fileOf(root, crypto.randomUUID()))
  await writeFile(join(root, 'auth', 'keys', 'notes.json'), 'x')
  await node.who(keyText())
  t.equal((await node.who(twin.text)).status, 200)
  t.ok(lines.filter((line) => line.includes('a stored API key lets nobody in') && line.includes(bad.record.id)).length >= 7)
  for (const { text, record } of [good, bad]) for (const secret of [text, record.key_hash]) t.notOk(lines.join('').includes(secret), 'no secret is logged')
  await rm(join(root, 'auth'), { recursive: true })
  t.equal((await node.who(keyText())).status, 401, 'without the folder')
  t.equal((await node.who(ADMIN)).status, 200)
})

t.test('at start, what cannot be used is named', async (t) => {
  const root = temporaryFolder(t)
  const { record } = await put(root, 'one')
  await writeFile(fileOf(root, record.id), 'no')
  await t.rejects(start(inStore(root)), new RegExp(`cannot read API key ".*${record.id}\\.json": it is no JSON; repair or remove the file`))
  await plainStore(root).write({ ...record, name: 'root' })
  await t.rejects(start(inStore(root)), /another key has the name "root"/)
  await plainStore(root).write(record)
  await t.rejects(
    start({ ...inStore(root), keys: [{ ...keys[0], namespaces: ['*'] }], config: { ...inStore(root).config, server: { multi_tenancy: true } } }),
    /cannot use key "one" with server\.multi_tenancy/,
  )
  await put(root, 'one')
  await t.rejects(start(inStore(root)), /another key has the name "one"/)
})

t.test('encrypted', async (t) => {
  const root = temporaryFolder(t)
  process.env[MASTER] = randomBytes(32).toString('base64')
  t.teardown(() => delete process.env[MASTER])
  let node = await start(sealed(root))
  const made = (await node.call('POST', ADMIN, '', { name: 'a-telling-name', namespaces: ['telling'] })).body
  await node.stop()
  const good = await readFile(fileOf(root, made.id), 'utf8')
  const content = JSON.parse(good)
  t.match(content, { version: 1, id: made.id, key_prefix: made.key.slice(4, 12), algorithm: 'AES-256-GCM' })
  for (const hidden of ['telling', 'argon2', made.key]) t.notOk(good.includes(hidden))
  node = await start(sealed(root))
  t.match(await node.who(made.key), { status: 200, principal: 'a-telling-name' })
  const clear = await put(root, 'planted', { admin: true })
  t.equal((await node.who(clear.text)).status, 401, 'a record in the clear is not taken')
  await node.stop()
  await t.rejects(start(sealed(root)), /it is not an encrypted record, and auth\.encryption_key_env is set/)
  await rm(fileOf(root, clear.record.id))

  const random = seeded(3)
  for (const member of ['sealed', 'wrapped_key'] as const) {
    for (let i = 0; i < 10; i++) {
      const bytes = Buffer.from(content[member], 'base64')
      bytes[Math.floor(random() * bytes.length)] ^= 1 << Math.floor(random() * 8)
      await writeFile(fileOf(root, made.id), JSON.stringify({ ...content, [member]: bytes.toString('base64') }))
      await t.rejects(start(sealed(root)), new RegExp(`cannot read API key ".*${made.id}`))
    }
  }
  for (const change of [{ key_prefix: 'abcdefgh' }, { sealed: '' }, { wrapped_key: 'AAAA' }, { algorithm: 'none' }, { more: 1 }, { version: 2 }]) {
    await writeFile(fileOf(root, made.id), JSON.stringify({ ...content, ...change }))
    await t.rejects(start(sealed(root)), /cannot read API key/, JSON.stringify(change))
  }
  await rm(fileOf(root, made.id))
  const elsewhere = crypto.randomUUID()
  await writeFile(fileOf(root, elsewhere), good)
  await t.rejects(start(sealed(root)), /it is of the key/, 'under another name')
  await writeFile(fileOf(root, elsewhere), JSON.stringify({ ...content, id: elsewhere }))
  await t.rejects(start(sealed(root)), /does not open/, 'under another id')
  await rm(fileOf(root, elsewhere))
  await writeFile(fileOf(root, made.id), good)

  await t.rejects(start(inStore(root)), /it is encrypted, and auth\.encryption_key_env is not set/)
  const master = process.env[MASTER]
  process.env[MASTER] = randomBytes(32).toString('base64')
  await t.rejects(start(sealed(root)), /its data key does not open with the key of auth\.encryption_key_env/)
  for (const value of ['', 'hunter2', randomBytes(31).toString('base64'), randomBytes(33).toString('base64'), `${'a'.repeat(42)}!=`]) {
    process.env[MASTER] = value
    const error = await start(sealed(root)).catch((failure: Error) => failure)
    t.match(error, { message: new RegExp(`environment variable ${MASTER} of auth\\.encryption_key_env (is not set|does not hold)`) })
    if (value !== '') t.notOk((error as Error).message.includes(value))
  }
  delete process.env[MASTER]
  await t.rejects(start(sealed(root)), /is not set; set it to base64 of 32 bytes/)
  process.env[MASTER] = master
  node = await start(sealed(root))
  t.equal((await node.who(made.key)).status, 200)
  await node.stop()
})

t.test('no two envelopes are the same', async (t) => {
  const { record } = await newKey(wanted('x'), 'svc_', 0)
  const envelope = new Envelope(randomBytes(32))
  const seals = Array.from({ length: 100 }, () => envelope.seal(record) as Record<string, string>)
  for (const member of ['sealed', 'wrapped_key']) {
    t.equal(new Set(seals.map((seal) => seal[member])).size, 100)
    t.equal(new Set(seals.map((seal) => Buffer.from(seal[member], 'base64').subarray(0, 12).toString('hex'))).size, 100, 'nor two nonces')
  }
  t.same(envelope.open(seals[0]), record)
})

t.test('memory:// keeps nothing, and says so', async (t) => {
  const lines: string[] = []
  const node = await start({
    keys,
    auth: { persistent_api_keys: true },
    config: { storage: { object_store_url: 'memory://' } },
    log: (line) => lines.push(line),
  })
  t.teardown(() => node.stop())
  t.match((await node.call('POST', ADMIN, '', { name: 'x' })).body, { source: 'runtime' })
  t.ok(lines.some((line) => line.includes('persistent_api_keys has no effect')))
})
