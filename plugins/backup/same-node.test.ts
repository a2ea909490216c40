/** A node restored from a backup is the same node: namespaces, quotas, deletes under way, keys, revocations, the audit log's head. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { boot, type TestNode } from 'svcdb/testkit'
import t from 'tap'
import plugin from './index.ts'

t.setTimeout(120_000)
const ROOT = 'svc_the-root-of-the-test-0123456789'
const OLD = 'svc_the-old-key-of-the-test-0123456789'
const HANDED_OUT = 'svc_the-key-of-a-program-0123456789'
const KEYS = '/api/v1/admin/auth/keys'
const NAMESPACES = '/api/v1/namespaces'

function open(dir: string, persistent: boolean): Promise<TestNode> {
  return boot({
    plugins: [plugin, 'api_keys', 'namespaces', 'audit', 'line_protocol', 'native'],
    storage: './storage/embedded/index.ts',
    config: {
      server: { multi_tenancy: true },
      database: { data_dir: dir },
      auth: {
        persistent_api_keys: persistent,
        api_keys: [
          { name: 'root', key: ROOT, admin: true, namespaces: ['*'] },
          { name: 'old', key: OLD, namespaces: ['acme'] },
          { name: 'program', key: HANDED_OUT, namespaces: ['acme'] },
        ],
      },
    },
  })
}

async function call(node: TestNode, method: 'GET' | 'POST' | 'DELETE', url: string, payload?: object | string, key = ROOT, namespace?: string) {
  const type = typeof payload === 'string' ? { 'content-type': 'text/plain' } : {}
  const headers = { authorization: `Bearer ${key}`, ...type, ...(namespace === undefined ? {} : { 'x-namespace': namespace }) }
  const answer = await node.inject({ method, url, headers, ...(payload === undefined ? {} : { payload }) })
  return { status: answer.statusCode, body: answer.body === '' ? undefined : answer.json() }
}

const write = (node: TestNode, key: string, host: string) => call(node, 'POST', '/write', `cpu,host=${host} v=1`, key, 'acme')

interface Line {
  id: number
  prev_hash?: string
  event_hash: string
  action: string
  metadata: Record<string, string>
}
const logOf = (dir: string): Line[] =>
  readFileSync(join(dir, 'audit.jsonl'), 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))

for (const persistent of [false, true]) {
  t.test(`restored, with ${persistent ? 'keys kept as objects' : 'runtime keys'}`, async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'svc-same-'))
    t.teardown(() => rmSync(folder, { recursive: true, force: true }))
    const [here, there] = [join(folder, 'here'), join(folder, 'here', 'backups', 'there')]
    const one = await open(here, persistent)
    await call(one, 'POST', NAMESPACES, { name: 'acme', description: 'A customer', max_series: 2, max_ingestion_rate: 77 })
    const made = (await call(one, 'POST', KEYS, { name: 'made', namespaces: ['acme'], roles: ['writer'] })).body
    const gone = (await call(one, 'POST', KEYS, { name: 'gone \u{1f600}', namespaces: ['acme'] })).body
    for (const name of ['gone \u{1f600}', 'old']) t.equal((await call(one, 'DELETE', `${KEYS}/${encodeURIComponent(name)}`)).status, 204)
    for (const host of ['a', 'b']) t.equal((await write(one, made.key, host)).status, 204)
    const namespaces = (await call(one, 'GET', NAMESPACES)).body
    // What the log of the audit is at the backup: the head is noted a moment behind the file.
    const before = logOf(here)
    while ((await one.storage.state('audit').get<{ id: string }>('head'))?.id !== String(before.at(-1)?.id))
      await new Promise((resolve) => setTimeout(resolve, 10))
    t.equal((await call(one, 'POST', '/api/v1/admin/backup', { target_dir: 'one' })).status, 200)
    // Later than the backup: not in it.
    t.equal((await call(one, 'DELETE', `${KEYS}/program`)).status, 204)
    t.equal((await call(one, 'POST', '/api/v1/admin/restore', { backup_dir: 'one', target_dir: 'there' })).status, 200)
    await one.stop()
    t.same(readdirSync(there).sort(), ['catalog', 'segments', 'wal'], 'nothing but what the backup has')
    t.equal(statSync(join(there, 'catalog', 'data.mdb')).mode & 0o077, 0, 'hashes of keys are for the owner only')

    const two = await open(there, persistent)
    t.teardown(() => two.stop())
    const known = ({ namespaces: all }: { namespaces: { usage: object; name: string }[] }) => all.map(({ usage: _, ...rest }) => rest)
    t.same(known((await call(two, 'GET', NAMESPACES)).body), known(namespaces))
    t.match(await write(two, made.key, 'c'), { status: 429, body: { error: /max_series/ } }, 'the quota holds, and the key lets in')
    t.equal((await write(two, HANDED_OUT, 'a')).status, 204)
    for (const key of [gone.key, OLD]) t.equal((await write(two, key, 'a')).status, 401, 'revoked before the backup')
    t.match((await call(two, 'GET', KEYS)).body.items, [{ name: 'made', id: made.id, roles: ['writer'], source: persistent ? 'store' : 'runtime' }, {}, {}])
    const [first] = logOf(there)
    const last = logOf(here).find(({ id }) => id === first.id - 1) as Line
    t.match(first, { prev_hash: last.event_hash, action: 'custom', metadata: { event: 'entries_missing', last_id: String(last.id), found_id: '0' } })
    t.ok(last.id >= (before.at(-1) as Line).id, 'the chain goes on where the backup was made')
  })
}
