import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { AUDIT_LOG, type AuditRecord, definePlugin, NAMESPACES, type NamespaceDirectory } from 'svcdb'
import { type BootOptions, boot, systemClock, type TestNode, temporaryFolder } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { turnsDuring } from '../../test/support/turns-during.ts'
import line from '../line_protocol/index.ts'
import native from '../native/index.ts'
import rateLimit from '../rate_limit/index.ts'
import { Directory } from './directory.ts'
import plugin from './index.ts'
import { Registry } from './registry.ts'
import { type FolderNode, openNode } from './testing.ts'

const PATH = '/api/v1/namespaces'
const TENANTS = { server: { multi_tenancy: true } }
const now = (): bigint => BigInt(Date.now()) * 1_000_000n

async function started(t: Test, config: Record<string, unknown> = TENANTS, more: Partial<BootOptions> = {}): Promise<TestNode> {
  const node = await boot({ plugins: [plugin, line, native], config: config as never, ...more })
  t.teardown(() => node.stop())
  return node
}

const write = (node: TestNode, namespace: string, lines: string) =>
  node.inject({ method: 'POST', url: '/write', payload: lines, headers: { 'content-type': 'text/plain', 'x-namespace': namespace } })
const call = async (node: TestNode, method: 'GET' | 'POST' | 'PUT' | 'DELETE', url: string, payload?: object, headers: Record<string, string> = {}) => {
  const answer = await node.inject({ method, url, ...(payload === undefined ? {} : { payload }), headers })
  return { status: answer.statusCode, body: answer.json(), headers: answer.headers }
}
const metric = async (node: TestNode, name: string): Promise<number> => {
  const { body } = await node.inject('/metrics')
  return Number(
    body
      .split('\n')
      .find((text) => text.startsWith(`${name} `))
      ?.split(' ')[1],
  )
}

const DEFAULTS = {
  max_series_count: 1_000_000,
  max_ingestion_rate: 100_000,
  max_storage_bytes: 107_374_182_400,
  max_measurements: 1000,
  max_models: 0,
  max_request_rps: 0,
  max_request_burst: 0,
}
const EMPTY = { series_count: 0, ingestion_rate: 0, storage_bytes: 0, measurements: 0 }

t.test('the list comes by pages, in the order of names', async (t) => {
  const node = await started(t)
  for (const name of ['c', 'a', 'b']) await call(node, 'POST', PATH, { name })
  const of = async (query: string) => {
    const { namespaces, ...rest } = (await call(node, 'GET', `${PATH}${query}`)).body
    return [namespaces.map(({ name }: { name: string }) => name), rest]
  }
  t.same(await of(''), [['a', 'b', 'c', 'default'], { count: 4, offset: 0, limit: 1000 }])
  t.same(await of('?offset=1&limit=2'), [['b', 'c'], { count: 4, offset: 1, limit: 2 }])
  t.same(await of('?offset=9'), [[], { count: 4, offset: 9, limit: 1000 }])
  for (const query of ['?limit=1001', '?limit=0', '?offset=-1', '?limit=x']) t.equal((await call(node, 'GET', `${PATH}${query}`)).status, 400, query)
})

t.test('a page of namespaces that hold much lets others have their turns', async (t) => {
  const node = await started(t)
  for (let i = 0; i < 20; i++) await call(node, 'POST', PATH, { name: `n${i}` })
  const usage = node.storage.usage.bind(node.storage)
  node.storage.usage = (namespace) => {
    for (const end = performance.now() + 10; performance.now() < end; );
    return usage(namespace)
  }
  const turns = await turnsDuring(async () => t.equal((await call(node, 'GET', PATH)).body.namespaces.length, 21))
  t.ok(turns > 10, `${turns} turns`)
})

t.test('a page, and a scrape, look at no more namespaces than they show', async (t) => {
  const node = await started(t)
  for (let i = 0; i < 30; i++) t.equal((await call(node, 'POST', PATH, { name: `n${i}` })).status, 201)
  const [get, looks] = [Directory.prototype.get, new Map<string, number>()]
  t.teardown(() => void (Directory.prototype.get = get))
  Directory.prototype.get = function (name) {
    looks.set(name, (looks.get(name) ?? 0) + 1)
    return get.call(this, name)
  }
  const values = Registry.prototype.values
  t.teardown(() => void (Registry.prototype.values = values))
  Registry.prototype.values = () => t.fail('all are gone through') as never
  t.match((await call(node, 'GET', `${PATH}?offset=1&limit=2`)).body, { namespaces: [{ name: 'n0' }, { name: 'n1' }], count: 31 })
  t.same([...looks.keys()].sort(), ['n0', 'n1'])
  t.match((await node.inject('/metrics')).body, /^svc_namespaces 31$/m)
  t.same([...looks.keys()].sort(), ['n0', 'n1'])
  t.equal((await call(node, 'DELETE', `${PATH}/n0`)).status, 200)
  t.match((await call(node, 'GET', `${PATH}?offset=1&limit=2`)).body, { namespaces: [{ name: 'n1' }, { name: 'n10' }], count: 30 })
})

t.test('created, listed, shown, bounded, deleted', async (t) => {
  const node = await started(t)
  const created = await call(node, 'POST', PATH, { name: 'acme', description: 'A customer', max_series: 5, max_models: 7 })
  const acme = { name: 'acme', description: 'A customer', owner: 'admin', quota: { ...DEFAULTS, max_series_count: 5, max_models: 7 }, usage: EMPTY }
  t.match(created, { status: 201, body: acme })
  t.same(created.body, acme)
  const list = await call(node, 'GET', PATH)
  t.same([list.body.count, list.body.namespaces.map((one: { name: string }) => one.name)], [2, ['acme', 'default']])
  t.same(list.body.namespaces[1], { name: 'default', description: '', owner: 'admin', quota: DEFAULTS, usage: EMPTY })
  t.same((await call(node, 'GET', `${PATH}/acme`)).body, acme)
  t.equal((await write(node, 'acme', `cpu,host=a v=1 ${now()}\ncpu,host=b v=1 ${now()}`)).statusCode, 204)
  const usage = await call(node, 'GET', `${PATH}/acme/usage`)
  t.match(usage.body, { name: 'acme', usage: { series_count: 2, measurements: 1 }, quota: { max_series_count: 5 } })
  t.ok(usage.body.usage.storage_bytes > 0)
  const changed = await call(node, 'PUT', `${PATH}/acme/quota`, { max_measurements: 3 })
  t.same([changed.status, changed.body.quota], [200, { ...acme.quota, max_measurements: 3 }])
  t.match(await call(node, 'PUT', `${PATH}/default/quota`, { max_models: 9 }), { status: 200, body: { name: 'default', quota: { max_models: 9 } } })
  t.equal(await metric(node, 'svc_namespaces'), 2)

  t.match(await call(node, 'DELETE', `${PATH}/acme`), { status: 200, body: { ok: true, message: /"acme" is deleted/ } })
  t.match(await call(node, 'GET', `${PATH}/acme`), { status: 404, body: { code: 'NOT_FOUND' } })
  t.same(await node.storage.measurements('acme'), [])
  t.equal(await metric(node, 'svc_namespaces'), 1)
})

t.test('what is refused', async (t) => {
  const node = await started(t, { ...TENANTS, namespaces: { max_namespaces: 2 } })
  await call(node, 'POST', PATH, { name: 'acme' })
  const cases: [method: 'GET' | 'POST' | 'PUT' | 'DELETE', path: string, body: object | undefined, status: number, text: RegExp][] = [
    ['POST', '', { name: 'acme' }, 409, /it exists/],
    ['POST', '', { name: 'default' }, 409, /it exists/],
    ['POST', '', { name: 'Acme' }, 400, /1 to 63 lower case/],
    ['POST', '', { name: 'a-' }, 400, /1 to 63 lower case/],
    ['POST', '', { name: 'a'.repeat(64) }, 400, /1 to 63 lower case/],
    ['POST', '', { name: '../x' }, 400, /1 to 63 lower case/],
    ['POST', '', {}, 422, /name/],
    ['POST', '', { name: 'b', quota: {} }, 422, /quota is not a known member/],
    ['POST', '', { name: 'b', max_series_count: 1, max_series: 2 }, 400, /one bound/],
    ['POST', '', { name: 'b', max_series_count: 2, max_series: 1 }, 400, /one bound/],
    ['POST', '', { name: 'b', max_series_count: 1_000_000_001 }, 422, /max_series_count/],
    ['POST', '', { name: 'b', max_ingestion_rate: 100_000_001 }, 422, /max_ingestion_rate/],
    ['POST', '', { name: 'b', max_storage_bytes: 100 * 2 ** 40 + 1 }, 422, /max_storage_bytes/],
    ['POST', '', { name: 'b', max_measurements: 1_000_001 }, 422, /max_measurements/],
    ['POST', '', { name: 'b', max_measurements: -1 }, 422, /max_measurements/],
    ['POST', '', { name: 'b', max_measurements: 1.5 }, 422, /max_measurements/],
    ['POST', '', { name: 'b', max_measurements: '5' }, 422, /max_measurements/],
    ['GET', '/nope', undefined, 404, /none of this name/],
    ['GET', '/nope/usage', undefined, 404, /none of this name/],
    ['PUT', '/nope/quota', { max_series: 1 }, 404, /none of this name/],
    ['PUT', '/acme/quota', {}, 422, /./],
    ['PUT', '/acme/quota', { name: 'x' }, 422, /name is not a known member/],
    ['DELETE', '/nope', undefined, 404, /none of this name/],
    ['DELETE', '/default', undefined, 400, /it is always there/],
  ]
  for (const [method, path, body, status, text] of cases)
    t.match(await call(node, method, PATH + path, body), { status, body: { error: text } }, `${method} ${path} ${JSON.stringify(body)}`)
  t.equal((await call(node, 'POST', PATH, { name: 'second' })).status, 201)
  t.match(await call(node, 'POST', PATH, { name: 'third' }), { status: 429, body: { code: 'RATE_LIMITED', error: /max_namespaces/ } })
  const refused = await write(node, 'third', `cpu v=1 ${now()}`)
  t.match([refused.statusCode, refused.json().error], [429, /max_namespaces/])
  t.same(await node.storage.namespaces(), [])
  t.equal(await metric(node, 'svc_namespace_quota_refusals_total{quota="namespaces"}'), 2)
})

t.test('a namespace comes into being at its first write, or not', async (t) => {
  const node = await started(t)
  t.equal((await call(node, 'GET', '/api/v1/measurements', undefined, { 'x-namespace': 'fresh' })).status, 200)
  t.equal((await call(node, 'GET', `${PATH}/fresh`)).status, 404, 'reading does not create')
  await Promise.all(Array.from({ length: 5 }, () => write(node, 'fresh', `cpu v=1 ${now()}`)))
  t.match(await call(node, 'GET', `${PATH}/fresh`), { status: 200, body: { quota: DEFAULTS, usage: { series_count: 1 } } })
  t.equal((await call(node, 'DELETE', `${PATH}/fresh`)).status, 200)
  t.equal((await write(node, 'fresh', `cpu v=1 ${now()}`)).statusCode, 204)
  t.equal((await call(node, 'GET', `${PATH}/fresh`)).status, 200, 'and again after it was deleted')
  const declared = await call(node, 'POST', '/api/v1/measurements/m/schema/fields', { name: 'f', type: 'bool' }, { 'x-namespace': 'declared' })
  t.equal(declared.status, 200)
  t.equal((await call(node, 'GET', `${PATH}/declared`)).status, 200)

  const full = await openNode(temporaryFolder(t), { namespaces: { max_namespaces: 1 } })
  t.teardown(() => full.node.stop())
  const together = await Promise.all(Array.from({ length: 5 }, () => full.inject('POST', '/write', `cpu v=1 ${now()}`, 'last')))
  t.same(
    together.map(({ statusCode }) => statusCode),
    Array(5).fill(204),
    'writes that wait for one namespace share the room that is left for it',
  )

  const strict = await started(t, { ...TENANTS, namespaces: { auto_create: false } })
  for (const url of ['/api/v1/measurements', '/api/v1/measurements/m/schema'])
    t.match(await call(strict, 'GET', url, undefined, { 'x-namespace': 'fresh' }), {
      status: 404,
      body: { code: 'NOT_FOUND', error: /cannot find namespace "fresh"/ },
    })
  t.match((await write(strict, 'fresh', `cpu v=1 ${now()}`)).json(), { code: 'NOT_FOUND' })
  t.equal((await write(strict, 'default', `cpu v=1 ${now()}`)).statusCode, 204)
  t.equal((await call(strict, 'POST', PATH, { name: 'fresh' }, { 'x-namespace': 'fresh' })).status, 201, 'who has none yet can create it')
  t.equal((await write(strict, 'fresh', `cpu v=1 ${now()}`)).statusCode, 204)
  t.equal((await call(strict, 'GET', '/health', undefined, { 'x-namespace': 'none' })).status, 200)
})

t.test('what is about no namespace in particular is answered though the first of the credential is gone', async (t) => {
  const locks = definePlugin({
    id: 'locks',
    summary: 'A credential for two namespaces',
    stability: 'experimental',
    setup: (svc) =>
      svc.auth.authenticator(({ header }) => ({
        principal: 'ann',
        method: 'test',
        claims: {},
        namespaces: header('x-all') ? [] : ['gone', 'red'],
        admin: true,
      })),
  })
  const node = await boot({
    plugins: [plugin, native, 'catalog_auth', locks],
    config: { ...TENANTS, namespaces: { auto_create: false }, catalog_auth: { audit_sink: 'none' } },
  })
  t.teardown(() => node.stop())
  t.equal((await call(node, 'POST', PATH, { name: 'red' }, { 'x-all': 'yes' })).status, 201)
  t.same((await call(node, 'GET', '/v1/namespaces')).body.namespaces, [['red']])
  for (const url of ['/v1/config', '/auth/context']) t.equal((await call(node, 'GET', url)).status, 200, url)
  t.equal((await call(node, 'GET', '/v1/namespaces', undefined, { 'x-namespace': 'gone' })).status, 404, 'it is asked for')
  t.equal((await call(node, 'GET', '/api/v1/measurements', undefined, { 'x-namespace': 'gone' })).status, 404)
})

t.test('quotas bind each namespace by itself', async (t) => {
  const node = await started(t, { ...TENANTS, namespaces: { storage_refresh_secs: 0 } })
  await call(node, 'POST', PATH, { name: 'acme', max_series: 2, max_measurements: 2 })
  const at = now()
  t.equal((await write(node, 'acme', `cpu,host=a v=1 ${at}`)).statusCode, 204)
  const some = await write(node, 'acme', `cpu,host=b v=1 ${at}\ncpu,host=c v=1 ${at}\ncpu,host=a v=2 ${at + 1n}`)
  t.match(
    [some.statusCode, some.json()],
    [400, { code: 'PARTIAL_WRITE', written: 2, rejected: 1, error: /line 2: .*namespace "acme".*max_series_count of 2.*PUT/ }],
  )
  const all = await write(node, 'acme', `cpu,host=d v=1 ${at}`)
  t.match([all.statusCode, all.json(), all.headers['retry-after']], [429, { code: 'RATE_LIMITED' }, '1'])
  t.equal((await write(node, 'other', ['a', 'b', 'c'].map((host) => `cpu,host=${host} v=1 ${at}`).join('\n'))).statusCode, 204)
  await call(node, 'PUT', `${PATH}/acme/quota`, { max_series: 10 })
  t.match((await write(node, 'acme', `mem v=1 ${at}\ndisk v=1 ${at}`)).json(), { code: 'PARTIAL_WRITE', written: 1, error: /max_measurements of 2/ })
  const points = (names: string[]) => names.map((measurement) => ({ measurement, fields: { v: 1 } }))
  const json = await call(node, 'POST', '/api/v1/write', points(['net', 'mem', 'net', 'cpu']), { 'x-namespace': 'acme' })
  t.match(json, { status: 400, body: { code: 'PARTIAL_WRITE', written: 2, rejected: 2, error: /points\[0\]: .*max_measurements/ } })
  t.match(await call(node, 'POST', '/api/v1/write', points(['net']), { 'x-namespace': 'acme' }), { status: 429 })
  t.equal(await metric(node, 'svc_namespace_quota_refusals_total{quota="series"}'), 2)
  t.equal(await metric(node, 'svc_namespace_quota_refusals_total{quota="measurements"}'), 4)

  const used = async () => (await call(node, 'GET', `${PATH}/acme/usage`)).body.usage.storage_bytes
  await call(node, 'PUT', `${PATH}/acme/quota`, { max_storage_bytes: await used() })
  t.equal((await write(node, 'acme', `cpu,host=a v=3 ${at + 2n}`)).statusCode, 429, 'as many as it may have are enough')
  await call(node, 'PUT', `${PATH}/acme/quota`, { max_storage_bytes: 1 })
  const full = await write(node, 'acme', `cpu,host=a v=3 ${at + 2n}`)
  t.match([full.statusCode, full.json(), full.headers['retry-after']], [429, { code: 'RATE_LIMITED', error: /"acme".*max_storage_bytes of 1/ }, '60'])
})

t.test('the ingestion rate is bounded, and every write passes some day', async (t) => {
  let ms = 1_000_000
  const clock = { ...systemClock, now: () => Date.now(), nowNanos: now, monotonic: () => ms }
  const node = await started(t, TENANTS, { clock })
  await call(node, 'POST', PATH, { name: 'acme', max_ingestion_rate: 2 })
  const lines = (n: number) => Array.from({ length: n }, (_, i) => `cpu v=1 ${now() + BigInt(i)}`).join('\n')
  t.equal((await write(node, 'acme', lines(30))).statusCode, 204, 'more than the bucket holds')
  const refused = await write(node, 'acme', lines(1))
  t.match(
    [refused.statusCode, refused.json(), refused.headers['retry-after']],
    [429, { code: 'RATE_LIMITED', error: /max_ingestion_rate of 2 points a second/ }, '5'],
  )
  t.equal((await write(node, 'acme', 'no line at all,')).statusCode, 429, 'it is not read')
  ms += 5001
  t.equal((await write(node, 'acme', 'no line at all,')).statusCode, 400)
  t.equal((await write(node, 'acme', lines(1))).statusCode, 204)
  t.equal((await write(node, 'other', lines(50))).statusCode, 204)
  t.equal((await call(node, 'GET', `${PATH}/acme/usage`)).body.usage.ingestion_rate, 3)
  t.equal(await metric(node, 'svc_namespace_quota_refusals_total{quota="ingestion_rate"}'), 2)
  ms += 86_400_000
  t.equal((await write(node, 'acme', lines(30))).statusCode, 204)
  t.equal((await write(node, 'acme', lines(1))).statusCode, 429, 'a day without writes gives no more than the burst')
})

t.test('a node that keeps no namespaces apart refuses nothing that it took before', async (t) => {
  const node = await started(t, {
    namespaces: { default_max_series: 1, default_max_measurements: 1, default_max_ingestion_rate: 1, default_max_storage_bytes: 1 },
  })
  const at = now()
  for (const namespace of ['default', 'fresh'])
    for (let i = 0; i < 20; i++) t.equal((await write(node, namespace, `m${i},host=h${i} v=1 ${at}`)).statusCode, 204)
  const unbounded = Object.fromEntries(Object.keys(DEFAULTS).map((member) => [member, 0]))
  t.match((await call(node, 'GET', `${PATH}/default`)).body, { quota: unbounded, usage: { series_count: 20, measurements: 20 } })
  t.match((await call(node, 'GET', `${PATH}/fresh`)).body, { quota: unbounded, usage: { series_count: 0, measurements: 0 } }, 'its data is not its own')
  await call(node, 'PUT', `${PATH}/default/quota`, { max_series_count: 21 })
  t.match(
    (await write(node, 'fresh', `m,host=a v=1 ${at}\nm,host=b v=1 ${at}`)).json(),
    { written: 1, error: /namespace "default"/ },
    'what was asked for holds',
  )
  t.match(await call(node, 'DELETE', `${PATH}/fresh`), { status: 200, body: { message: /its data is kept/ } })
  t.equal((await node.storage.measurements('')).length, 21)
})

t.test('what happens is recorded, and does not happen when it cannot be', async (t) => {
  const records: AuditRecord[] = []
  let broken = false
  const auditLog = definePlugin({
    id: 'audit_log',
    summary: 'x',
    stability: 'stable',
    provides: [AUDIT_LOG],
    setup: (svc) =>
      svc.provide(AUDIT_LOG, {
        async record(record: AuditRecord) {
          if (broken) throw new Error('the audit log is broken')
          records.push(record)
        },
      }),
  })
  const node = await started(t, TENANTS, { plugins: [plugin, line, auditLog] })
  await call(node, 'POST', PATH, { name: 'acme', max_series: 4 })
  await call(node, 'PUT', `${PATH}/acme/quota`, { max_measurements: 3 })
  broken = true
  t.equal((await call(node, 'DELETE', `${PATH}/acme`)).status, 500)
  t.equal((await call(node, 'POST', PATH, { name: 'other' })).status, 500)
  t.equal((await call(node, 'PUT', `${PATH}/acme/quota`, { max_measurements: 4 })).status, 500)
  const list = (await call(node, 'GET', PATH)).body
  t.match(list, { count: 2, namespaces: [{ name: 'acme', quota: { max_measurements: 3 } }, { name: 'default' }] })
  broken = false
  await call(node, 'DELETE', `${PATH}/acme`)
  const by = { principal: 'anonymous' }
  t.match(records, [
    { action: 'namespace_create', resource: 'acme', decision: 'allow', by, metadata: { max_series_count: '4' } },
    { action: 'quota_change', resource: 'acme', by, metadata: { max_measurements: '3' } },
    { action: 'namespace_delete', resource: 'acme', by },
  ])
})

t.test('definitions outlive the process, and an entry that cannot be read ends the start', async (t) => {
  const dataDir = temporaryFolder(t)
  const open = () => openNode(dataDir)
  let at = await open()
  await at.inject('POST', PATH, { name: 'acme', owner: 'ann', max_series: 2 })
  await at.inject('POST', '/write', `cpu,host=a v=1 ${now()}`, 'auto')
  await at.inject('POST', '/write', `cpu,host=a v=1 ${now()}`, 'acme')
  const before = (await at.inject('GET', PATH)).json()
  await at.node.stop()
  at = await open()
  const after = (await at.inject('GET', PATH)).json()
  const still = ({ namespaces }: { namespaces: { usage: object }[] }) => namespaces.map(({ usage: _, ...rest }) => rest)
  t.same(still(after), still(before))
  t.match(after.namespaces[0], { name: 'acme', owner: 'ann', usage: { series_count: 1, measurements: 1 } })
  t.match((await at.inject('POST', '/write', `cpu,host=b v=1 ${now()}\ncpu,host=c v=1 ${now()}`, 'acme')).json(), { written: 1, rejected: 1 })

  const stateOf = ({ node }: FolderNode) => (node.storage as NonNullable<typeof node.storage>).state('namespaces')
  const kept = stateOf(at).get('namespace/acme') as object
  for (const wrong of [[], { ...kept, name: 'other' }, { ...kept, color: 'red' }, { ...kept, name: '../x' }]) {
    await stateOf(at).transaction((tx) => tx.put('namespace/acme', wrong))
    await at.node.stop()
    await t.rejects(open(), { message: /cannot open namespaces: entry "namespace\/acme" of the state store: / }, JSON.stringify(wrong))
    at = await openNode(dataDir, {}, [], [line])
    await stateOf(at).transaction((tx) => tx.put('namespace/acme', kept))
  }
  await at.node.stop()
})

t.test('the file of an older version is imported, once', async (t) => {
  const dataDir = temporaryFolder(t)
  const file = join(dataDir, 'namespaces.json')
  const acme = { name: 'acme', description: '', owner: 'ann', created_at: 1, quota: { max_series_count: 2 } }
  const left = { name: 'left', description: '', owner: 'admin', auto: true, created_at: 1, quota: {}, deleting: true }
  const kept = JSON.stringify({ version: 1, namespaces: [acme, left] }, null, 1)
  const open = () => openNode(dataDir)
  for (const text of [
    '',
    kept.slice(0, -20),
    kept.replace('"version": 1', '"version": 2'),
    '[]',
    kept.replace('"acme"', '"../x"'),
    kept.replace('"left"', '"acme"'),
  ]) {
    writeFileSync(file, text)
    await t.rejects(open(), { message: new RegExp(`cannot import namespaces file "${file.replaceAll('/', '\\/')}"`) }, text.slice(0, 60))
    t.equal(readFileSync(file, 'utf8'), text)
  }
  writeFileSync(file, kept)
  let at = await open()
  t.notOk(existsSync(file))
  t.equal(readFileSync(`${file}.imported`, 'utf8'), kept)
  const names = async () => (await at.inject('GET', PATH)).json().namespaces.map(({ name }: { name: string }) => name)
  t.same(await names(), ['acme', 'default'], 'a delete that was under way is finished')
  t.match((await at.inject('GET', `${PATH}/acme`)).json(), { owner: 'ann', quota: { max_series_count: 2 } })
  t.equal((await at.inject('DELETE', `${PATH}/acme`)).statusCode, 200)
  await at.node.stop()
  writeFileSync(file, kept) // as after a power cut that took the rename back
  at = await open()
  t.same(await names(), ['default'], 'what was deleted since stays deleted')
  await at.node.stop()
  writeFileSync(file, `${kept} `)
  await t.rejects(open(), { message: /this database has a state of its own/ })
})

t.test('other plugins ask for what there is', async (t) => {
  let seen: NamespaceDirectory | undefined
  const reader = definePlugin({
    id: 'reader',
    summary: 'x',
    stability: 'stable',
    setup: (svc) => svc.ready(() => void (seen = svc.find<NamespaceDirectory>(NAMESPACES))),
  })
  const node = await started(t, TENANTS, { plugins: [plugin, reader] })
  await call(node, 'POST', PATH, { name: 'acme', max_measurements: 5, max_models: 6 })
  t.match(seen?.get('acme'), { name: 'acme', quota: { max_measurements: 5, max_models: 6 } })
  t.equal(seen?.get('nope'), undefined)
  t.same(
    seen?.list().map(({ name }) => name),
    ['acme', 'default'],
  )
})

t.test('limits on requests are refused where nothing enforces them', async (t) => {
  const config = (enabled?: boolean) => ({
    ...TENANTS,
    ...(enabled === undefined ? {} : { rate_limit: { enabled, requests_per_second: 0, track_auth_failures: false } }),
  })
  for (const [plugins, enabled, why] of [
    [[plugin], undefined, /add the plugin "rate_limit" to plugins/],
    [[plugin, rateLimit], false, /rate_limit\.enabled is false/],
  ] as const) {
    const node = await started(t, config(enabled), { plugins: [...plugins] })
    for (const quota of [{ max_request_rps: 5 }, { max_request_burst: 5 }]) {
      t.match(await call(node, 'POST', PATH, { name: 'acme', ...quota }), { status: 400, body: { code: 'INVALID_REQUEST', error: why } })
      t.match(await call(node, 'PUT', `${PATH}/default/quota`, quota), { status: 400, body: { error: why } })
    }
    t.equal((await call(node, 'GET', `${PATH}/acme`)).status, 404, 'nothing was made')
    t.equal((await call(node, 'POST', PATH, { name: 'acme', max_request_rps: 0 })).status, 201)
    const set = { ...config(enabled), namespaces: { default_max_request_rps: 5 } }
    await t.rejects(boot({ plugins: [...plugins], config: set as never }), { message: why })
  }
  const node = await started(t, { ...config(true), namespaces: { default_max_request_rps: 500 } }, { plugins: [plugin, rateLimit] })
  t.match(await call(node, 'POST', PATH, { name: 'acme', max_request_rps: 1, max_request_burst: 1 }), { status: 201 })
  const as = { 'x-namespace': 'acme' }
  const answers = [await call(node, 'GET', `${PATH}/acme`, undefined, as), await call(node, 'GET', `${PATH}/acme`, undefined, as)]
  t.same(
    answers.map(({ status }) => status),
    [200, 429],
    'and here it is',
  )
})
