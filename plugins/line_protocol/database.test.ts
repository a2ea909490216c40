/** What db, bucket and rp mean, as `line_protocol.database` has it. */

import { definePlugin } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { boot, type TestNode } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import plugin from './index.ts'

/** The time, and never the same one twice: points of one series and one time are one point. */
let last = 0n
const now = () => {
  const time = BigInt(Date.now()) * 1_000_000n
  last = time > last ? time : last + 1n
  return last
}

interface Setup {
  database?: Record<string, string>
  server?: Record<string, unknown>
  /** A credential `key-<namespace>` for each, when somebody authenticates. */
  keys?: boolean
  exempt?: string[]
  log?: (line: string) => void
  storage?: string
}

const keys = definePlugin({
  id: 'keys',
  summary: 'Takes keys that say which namespace they are for',
  stability: 'beta',
  setup(svc) {
    svc.auth.authenticator((credentials) => {
      const namespace = /^Token key-(\S+)$/.exec(credentials.header('authorization') ?? '')?.[1]
      if (namespace === undefined) return new SvcError('UNAUTHORIZED', 'no key')
      return { principal: `user of ${namespace}`, method: 'key', claims: {}, namespaces: namespace.split('+'), admin: false }
    })
  },
})

async function start(t: Test, { database = {}, server = {}, keys: withKeys = false, exempt, log, storage = 'memory' }: Setup = {}): Promise<TestNode> {
  const node = await boot({
    plugins: withKeys ? [plugin, keys] : [plugin],
    storage,
    config: { line_protocol: database, server, ...(exempt === undefined ? {} : { auth: { exempt_paths: exempt } }) },
    ...(log === undefined ? {} : { log }),
  })
  t.teardown(() => node.stop())
  return node
}

const post = (node: TestNode, url: string, payload: string, headers: Record<string, string> = {}) =>
  node.inject({ method: 'POST', url, payload, headers: { 'content-type': 'text/plain', ...headers } })

/** `measurement tags value` of all points of a namespace. */
async function stored(node: TestNode, namespace = ''): Promise<string[]> {
  const lines: string[] = []
  for (const { name } of await node.storage.measurements(namespace)) {
    for await (const { tags, times, columns } of node.storage.scan({ namespace, measurement: name })) {
      for (const i of times.keys()) lines.push(`${name} ${JSON.stringify(tags)} ${columns[0].values[i]}`)
    }
  }
  return lines.sort()
}

const metric = async (node: TestNode, name: string) => Number(new RegExp(`^svc_${name} (\\d+)$`, 'm').exec((await node.inject('/metrics')).body)?.[1])

t.test('ignored: names change nothing; another one is counted, and warned about once', async (t) => {
  const lines: string[] = []
  const node = await start(t, { log: (line) => lines.push(line) })
  const warnings = () => lines.filter((line) => line.includes('names are ignored'))
  for (const [i, url] of ['/write?db=a', '/api/v2/write?bucket=a&org=o', '/write', '/write?db=&rp=x'].entries())
    t.equal((await post(node, url, `m,n=${i} v=${i} ${now()}`)).statusCode, 204, url)
  t.equal(await metric(node, 'influx_other_database_writes_total'), 0)
  t.equal(warnings().length, 0)
  for (const url of ['/write?db=b', '/api/v2/write?bucket=b', '/write?db=c']) t.equal((await post(node, url, `m,n=9 v=9 ${now()}`)).statusCode, 204, url)
  t.equal(await metric(node, 'influx_other_database_writes_total'), 3)
  t.match(warnings(), [/databases \\"a\\" and \\"b\\"/])
  t.equal(warnings().length, 1)
  t.equal((await stored(node)).length, 4 + 3)
})

t.test('ignored: names of other namespaces are no second name', async (t) => {
  const node = await start(t, { server: { multi_tenancy: true } })
  for (const name of ['a', 'b']) await post(node, `/write?db=${name}`, `m v=1 ${now()}`, { 'x-namespace': name })
  t.equal(await metric(node, 'influx_other_database_writes_total'), 0)
})

t.test('tag: the name is a tag, of equal lines too, whichever name came before', async (t) => {
  // The engine resolves plain keys from their bytes.
  const node = await start(t, { database: { database: 'tag' }, storage: 'embedded' })
  const at = now()
  const body = `cpu,host=a v=1 ${at}\ncpu v=2 ${at}`
  for (const url of ['/write?db=x', '/api/v2/write?bucket=y', '/write', '/write?db=x', '/api/v2/write?bucket=x/autogen'])
    t.equal((await post(node, url, body)).statusCode, 204, url)
  t.same(await stored(node), [
    'cpu {"db":"x","host":"a"} 1',
    'cpu {"db":"x"} 2',
    'cpu {"db":"y","host":"a"} 1',
    'cpu {"db":"y"} 2',
    'cpu {"host":"a"} 1',
    'cpu {} 2',
  ])
})

t.test('tag: keys are configurable, and the retention policy may be one', async (t) => {
  const node = await start(t, { database: { database: 'tag', database_tag: 'source', retention_policy_tag: 'policy' } })
  await post(node, '/write?db=x&rp=week', `cpu v=1 ${now()}`)
  await post(node, '/api/v2/write?bucket=y/day', `cpu v=2 ${now()}`)
  await post(node, '/write?rp=day', `cpu v=3 ${now()}`)
  t.same(await stored(node), ['cpu {"policy":"day","source":"y"} 2', 'cpu {"policy":"day"} 3', 'cpu {"policy":"week","source":"x"} 1'])
})

t.test('tag: a point that has the tag itself is refused when it says another name', async (t) => {
  const node = await start(t, { database: { database: 'tag' } })
  const answer = await post(node, '/write?db=x', `cpu,db=x v=1 ${now()}\ncpu,db=y v=2 ${now()}`)
  t.match(answer.json(), { code: 'PARTIAL_WRITE', written: 1, rejected: 1 })
  t.match(answer.json().error, /tag "db" is "y", and what the points came by says "x"/)
  t.same(await stored(node), ['cpu {"db":"x"} 1'])
})

t.test('tag: names that are no tag values are refused whole', async (t) => {
  const node = await start(t, { database: { database: 'tag' } })
  for (const url of [
    '/write?db=a%00b',
    `/write?db=${'x'.repeat(70_000)}`,
    '/write?db=a&bucket=b',
    '/api/v2/write?bucket=a/r&rp=s',
    '/api/v2/write?bucket=a&bucket=b',
  ]) {
    const answer = await post(node, url, `m v=1 ${now()}`)
    t.ok(answer.statusCode === 400 || answer.statusCode === 414, `${url.slice(0, 40)}: ${answer.body.slice(0, 200)}`)
  }
  t.same(await stored(node), [])
})

t.test('tag: one key cannot stand for two things', async (t) => {
  const config = { line_protocol: { database: 'tag', database_tag: 'x', retention_policy_tag: 'x' } }
  await t.rejects(boot({ plugins: [plugin], config }), /cannot use tag "x" for both/)
  await t.rejects(boot({ plugins: [plugin], config: { line_protocol: { database_tag: '_time' } } }), /database_tag/)
})

const BY_NAME = { database: { database: 'namespace' }, server: { multi_tenancy: true } }

t.test('namespace: the name selects it on every write path, and rp means nothing', async (t) => {
  const node = await start(t, BY_NAME)
  for (const [i, url] of [
    '/write?db=a&rp=x',
    '/api/v2/write?bucket=a&org=o',
    '/api/v1/write/influx?db=a',
    '/api/v2/write?bucket=b/autogen',
    '/write',
  ].entries())
    t.equal((await post(node, url, `m v=${i} ${now()}`)).statusCode, 204, url)
  t.same(await stored(node, 'a'), ['m {} 0', 'm {} 1', 'm {} 2'])
  t.same(await stored(node, 'b'), ['m {} 3'])
  t.same(await stored(node, 'default'), ['m {} 4'])
})

t.test('namespace: names that contradict one another, or cannot be one, are refused', async (t) => {
  const node = await start(t, BY_NAME)
  const refused: [url: string, header: string | undefined, text: RegExp][] = [
    ['/write?db=a', 'b', /cannot use database "a": header X-Namespace says "b"/],
    ['/write?db=a&bucket=b', undefined, /cannot use db "a": bucket says "b"/],
    ['/write?db=My%20Data', undefined, /cannot use namespace "My Data": a name is/],
    ['/write?db=a&db=b', undefined, /db/],
    ['/api/v2/write?bucket=a&bucket=b', undefined, /"bucket": it is there more than once/],
  ]
  for (const [url, header, text] of refused) {
    const answer = await post(node, url, `m v=1 ${now()}`, header === undefined ? {} : { 'x-namespace': header })
    t.equal(answer.statusCode, 400, url)
    t.match(answer.json().error, text, url)
  }
  t.equal((await post(node, '/write?db=a', `m v=1 ${now()}`, { 'x-namespace': 'a' })).statusCode, 204)
  for (const namespace of ['default', 'b']) t.same(await stored(node, namespace), [])
})

t.test('namespace: a credential gets no further than by X-Namespace', async (t) => {
  const node = await start(t, { ...BY_NAME, keys: true })
  const authorization = 'Token key-mine'
  t.equal((await post(node, '/api/v2/write?bucket=mine', `m v=1 ${now()}`, { authorization })).statusCode, 204)
  t.equal((await post(node, '/write', `m v=2 ${now()}`, { authorization })).statusCode, 204, 'the credential names one')
  for (const url of ['/write?db=other', '/api/v2/write?bucket=other', '/query?db=other&q=SHOW%20DATABASES']) {
    const answer = await post(node, url, url.startsWith('/query') ? '' : `m v=3 ${now()}`, { authorization })
    t.equal(answer.statusCode, 403, url)
    t.match(answer.json().error, /cannot use namespace "other" as "user of mine"/)
  }
  t.equal((await post(node, '/write?db=mine', 'm v=4')).statusCode, 401)
  t.same(await stored(node, 'mine'), ['m {} 1', 'm {} 2'])
  t.same(await stored(node, 'other'), [])
})

t.test('namespace: a path spelled otherwise, or that needs no credentials, does not write elsewhere than it says', async (t) => {
  const node = await start(t, BY_NAME)
  const answer = await post(node, '/%77rite?db=a', `m v=1 ${now()}`)
  t.match([answer.statusCode, answer.body], [400, /cannot use database \\"a\\": the call is for namespace \\"default\\"/])
  const exempt = await start(t, { ...BY_NAME, keys: true, exempt: ['/write'] })
  t.equal((await post(exempt, '/write?db=a', `m v=1 ${now()}`)).statusCode, 400)
  for (const each of [node, exempt]) for (const namespace of ['a', 'default']) t.same(await stored(each, namespace), [])
})

t.test('namespace: on other paths the parameters mean nothing', async (t) => {
  const seen: string[] = []
  const other = definePlugin({
    id: 'other',
    summary: 'Has a route',
    stability: 'beta',
    setup: (svc) => svc.http.get('/other', async (request) => void seen.push(svc.context(request).namespace)),
  })
  const node = await boot({ plugins: [plugin, other], config: { line_protocol: BY_NAME.database, server: BY_NAME.server } })
  t.teardown(() => node.stop())
  await node.inject('/other?db=a&bucket=b')
  t.same(seen, ['default'])
})

t.test('namespace: needs multi_tenancy', async (t) => {
  await t.rejects(
    boot({ plugins: [plugin], config: { line_protocol: BY_NAME.database } }),
    /cannot use line_protocol.database "namespace": .*server.multi_tenancy = true/,
  )
})

t.test('CREATE DATABASE refuses what no write could go to', async (t) => {
  const node = await start(t, BY_NAME)
  const create = (name: string) => node.inject({ method: 'POST', url: `/query?q=${encodeURIComponent(`CREATE DATABASE ${name}`)}` })
  for (const name of ['telegraf', '"telegraf"', 'telegraf WITH DURATION 1d', 'telegraf;']) t.equal((await create(name)).statusCode, 200, name)
  for (const name of ['"My Data"', '_internal', 'TELEGRAF']) t.match((await create(name)).json().error, /cannot use namespace/, name)
  t.match((await create('a; CREATE DATABASE TELEGRAF')).json().error, /cannot use namespace/, 'behind another one, too')
  const show = await node.inject(`/query?db=a&q=${encodeURIComponent('SHOW DATABASES')}`)
  t.same(show.json().results[0].series[0].values, [['a']])
  const free = await start(t)
  t.equal((await free.inject(`/query?q=${encodeURIComponent('CREATE DATABASE "My Data"')}`)).statusCode, 200)
})
