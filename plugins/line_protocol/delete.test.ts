/** What the clients of InfluxDB 2 and QuestDB call besides writes. */

import { SvcError } from 'svcdb/lib/errors'
import { type BootOptions, boot, type TestNode } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import plugin from './index.ts'
import { parsePredicate } from './predicate.ts'

const BASE = BigInt(Math.floor(Date.now() / 3_600_000)) * 3_600_000_000_000n
const iso = (nanos: bigint) => `${new Date(Number(nanos / 1_000_000n)).toISOString().slice(0, -5)}.${String(nanos % 1_000_000_000n).padStart(9, '0')}Z`
const ALL = { start: '1970-01-01T00:00:00Z', stop: '2262-01-01T00:00:00Z' }

async function start(t: Test, config: BootOptions['config'] = {}) {
  const node = await boot({ plugins: [plugin], config })
  t.teardown(() => node.stop())
  const headers = (namespace?: string) => (namespace === undefined ? {} : { 'x-namespace': namespace })
  return {
    node,
    async write(bucket: string, lines: string[], namespace?: string) {
      const answer = await node.inject({ method: 'POST', url: `/api/v2/write?bucket=${bucket}&org=o`, payload: lines.join('\n'), headers: headers(namespace) })
      t.equal(answer.statusCode, 204, answer.body)
    },
    async remove(bucket: string, payload: object, namespace?: string) {
      const { statusCode, body } = await node.inject({ method: 'POST', url: `/api/v2/delete?bucket=${bucket}&org=o`, payload, headers: headers(namespace) })
      return { status: statusCode, ...(body === '' ? {} : JSON.parse(body)) }
    },
  }
}

/** Measurement, tags and time after the base of every point. */
async function points(node: TestNode, namespace = ''): Promise<string[]> {
  const found: string[] = []
  for (const { name } of await node.storage.measurements(namespace)) {
    for await (const { tags, times } of node.storage.scan({ namespace, measurement: name })) {
      for (const time of times) found.push([name, ...Object.entries(tags).map((pair) => pair.join('=')), String(time - BASE)].join(' '))
    }
  }
  return found.sort()
}

t.test('points go by time, measurement and tags, and nothing else', async (t) => {
  const { node, write, remove } = await start(t)
  const lines = ['cpu,host=a', 'cpu,host=b', 'cpu,host=b\\ c,rack=1', 'mem,host=a'].flatMap((key) => [1n, 2n, 3n].map((at) => `${key} v=1 ${BASE + at}`))
  await write('b', lines)
  t.same(await remove('b', { start: iso(BASE + 1n), stop: iso(BASE + 2n), predicate: '_measurement="cpu" AND host = "a"' }), { status: 204 })
  const left = (await points(node)).filter((point) => point.includes('host=a'))
  t.same(left, ['cpu host=a 3', 'mem host=a 1', 'mem host=a 2', 'mem host=a 3'], 'both ends are included')
  t.same(await remove('b', { ...ALL, predicate: `(_measurement=cpu) and ("host"='b c' AND rack!=2)` }), { status: 204 })
  t.same(await points(node), ['cpu host=a 3', 'cpu host=b 1', 'cpu host=b 2', 'cpu host=b 3', 'mem host=a 1', 'mem host=a 2', 'mem host=a 3'])
  t.same(await remove('b', { ...ALL, predicate: '_measurement="none"' }), { status: 204 }, 'a measurement that is not there')
  t.same(await remove('b', { ...ALL, predicate: '_measurement="cpu" AND _measurement="mem"' }), { status: 204 }, 'one that cannot be')
  t.equal((await points(node)).length, 7)
  t.match(await remove('b', { ...ALL, predicat: '_measurement="cpu"' }), { status: 422, error: /predicat is not a known member/ }, 'no delete of everything')
  t.equal((await points(node)).length, 7)
  t.same(await remove('b', { start: '0001-01-01T00:00:00Z', stop: '9999-12-31T23:59:59Z', predicate: '_measurement="cpu"' }), { status: 204 })
  t.same(await points(node), ['mem host=a 1', 'mem host=a 2', 'mem host=a 3'])
})

t.test('a measurement that is dropped meanwhile is no failure, and those behind it are deleted', async (t) => {
  const { node, write, remove } = await start(t, { line_protocol: { database: 'tag' } })
  await write(
    'b',
    ['cpu', 'mem'].map((name) => `${name} v=1 ${BASE}`),
  )
  const { storage } = node
  const deleted = storage.delete.bind(storage)
  storage.delete = async (request) => {
    if (request.measurement === 'cpu') await storage.drop(request.namespace, 'cpu', { final: true })
    return deleted(request)
  }
  t.same(await remove('b', { ...ALL, predicate: '' }), { status: 204 })
  t.same(await points(node), [])
})

t.test('what the storage refuses, or has not deleted all of, is not answered as done', async (t) => {
  const { node, write, remove } = await start(t)
  await write('b', [`cpu v=1 ${BASE}`])
  const request = { ...ALL, predicate: '_measurement="cpu"' }
  node.storage.delete = async () => {
    throw new SvcError('BACKPRESSURE', 'later')
  }
  t.match(await remove('b', request), { status: 503, code: 'BACKPRESSURE' })
  node.storage.delete = async () => ({ series: 1, segmentsSkipped: 2 })
  t.match(await remove('b', request), {
    status: 503,
    code: 'OVERLOADED',
    error: /2 segments with points of the range are out of service; send the delete again/,
  })
})

t.test('what a bucket is decides what is deleted', async (t) => {
  const ignored = await start(t)
  await ignored.write('one', [`m v=1 ${BASE}`])
  for (const predicate of [undefined, '', 'host=a', '_measurement!="x"']) {
    t.match(await ignored.remove('one', { ...ALL, predicate }), {
      status: 400,
      message: /^cannot delete from bucket "one" as a whole: line_protocol.database is "ignored"/,
    })
  }
  t.equal((await points(ignored.node)).length, 1)

  const tagged = await start(t, { line_protocol: { database: 'tag' } })
  await tagged.write('one', [`m v=1 ${BASE}`, `n v=1 ${BASE}`])
  await tagged.write('two', [`m v=1 ${BASE}`])
  t.same(await tagged.remove('one', ALL), { status: 204 })
  t.same(await points(tagged.node), ['m db=two 0'])

  const named = await start(t, { server: { multi_tenancy: true }, line_protocol: { database: 'namespace' } })
  await named.write('one', [`m v=1 ${BASE}`])
  await named.write('two', [`m v=1 ${BASE}`])
  t.same(await named.remove('one', ALL), { status: 204 })
  t.same(await points(named.node, 'one'), [])
  t.same(await points(named.node, 'two'), ['m 0'])
  t.match(await named.remove('one', ALL, 'two'), { status: 400, error: /X-Namespace/ })
  t.match(await named.remove('', ALL), { status: 400, error: /"bucket", or "db", is missing/ })
})

t.test('bad deletes are refused whole', async (t) => {
  const { node, write, remove } = await start(t)
  await write('b', [`m v=1 ${BASE}`])
  const predicate = '_measurement="m"'
  const cases: [object, number, RegExp][] = [
    [{ ...ALL, predicate: '_measurement="m" OR host="a"' }, 400, /at character 18, "OR host=\\?"a\\?"": there is no OR/],
    [{ ...ALL, start: '2020-01-01' }, 400, /cannot use start "2020-01-01": it is no time as RFC 3339 has it/],
    [{ ...ALL, stop: '2026-02-30T00:00:00Z', predicate }, 400, /cannot use stop "2026-02-30T00:00:00Z": it is no time/],
    [{ start: ALL.stop, stop: ALL.start, predicate }, 400, /start is after stop/],
    [{ start: ALL.start, predicate }, 422, /stop/],
    [{ ...ALL, predicate: 7 }, 422, /predicate/],
  ]
  for (const [body, status, text] of cases) t.match(await remove('b', body), { status, message: text, error: text }, JSON.stringify(body))
  t.equal((await points(node)).length, 1)
})

t.test('a delete is read whatever its Content-Type is, and null is no predicate', async (t) => {
  const { node, write } = await start(t, { line_protocol: { database: 'tag' } })
  const types = [undefined, '', 'application/x-www-form-urlencoded', 'text/plain; charset=utf-8', 'application/json']
  const post = (type: string | undefined, payload: string) =>
    node.inject({ method: 'POST', url: '/api/v2/delete?bucket=b&org=o', payload, headers: type === undefined ? {} : { 'content-type': type } })
  for (const type of types) {
    await write('b', [`m v=1 ${BASE}`, `n v=1 ${BASE}`])
    t.match(await post(type, JSON.stringify({ ...ALL, predicate: '_measurement="m"' })), { statusCode: 204, body: '' }, String(type))
    t.same(await points(node), ['n db=b 0'])
    t.match(await post(type, JSON.stringify({ ...ALL, predicate: null })), { statusCode: 204, body: '' }, String(type))
    t.same(await points(node), [])
    for (const text of ['', 'start=1&stop=2', '[]']) t.ok([400, 422].includes((await post(type, text)).statusCode), `${type}: ${text}`)
  }
})

t.test('predicates', async (t) => {
  const eq = (tag: string, value: string) => ({ tag, op: '=', value })
  const good: [string, ReturnType<typeof parsePredicate>][] = [
    ['', { measurements: [], matchers: [] }],
    ['  ', { measurements: [], matchers: [] }],
    ['_measurement="a b"', { measurements: [{ equal: true, name: 'a b' }], matchers: [] }],
    ['_measurement != a', { measurements: [{ equal: false, name: 'a' }], matchers: [] }],
    [`a='b' AND c="d" and e=f-1.2:g`, { measurements: [], matchers: [eq('a', 'b'), eq('c', 'd'), eq('e', 'f-1.2:g')] as never }],
    [`((a="\\"q\\\\" AND "k k"='it\\'s'))`, { measurements: [], matchers: [eq('a', '"q\\'), eq('k k', "it's")] as never }],
    ['a="" AND ü="日"', { measurements: [], matchers: [eq('a', ''), eq('ü', '日')] as never }],
    ['"AND"=and', { measurements: [], matchers: [eq('AND', 'and')] as never }],
  ]
  for (const [text, expected] of good) t.same(parsePredicate(text), expected, text)
  const bad: [string, RegExp][] = [
    ['a', /expected = or !=/],
    ['a=', /at character 3: expected a value/],
    ['=b', /at character 1, "=b": expected a tag key/],
    ['a=b c=d', /at character 5, "c=d": expected AND or the end/],
    ['a=b AND', /expected a tag key/],
    ['(a=b', /expected "\)"/],
    ['a=b)', /expected AND or the end/],
    ['a=~/b/', /expected = or !=/],
    ['a>1', /expected = or !=/],
    ['a="b', /begins no key, value or operator/],
    ['_field="v"', /cannot choose by _field/],
    ['_time>1', /expected = or !=/],
    [`${'('.repeat(40)}a=b`, /nested deeper than 32/],
    [Array(1001).fill('a=b').join(' AND '), /more than 1000 comparisons/],
    [`a="${'x'.repeat(70_000)}"`, /more than 65536 characters/],
  ]
  for (const [text, cause] of bad) t.throws(() => parsePredicate(text), { code: 'BAD_REQUEST', message: cause }, text.slice(0, 40))
})

t.test("buckets as InfluxDB 2 lists them, and QuestDB's settings", async (t) => {
  const { node } = await start(t)
  const names = async (url: string) => (await node.inject(url)).json().buckets.map(({ name }: { name: string }) => name)
  t.same(await names('/api/v2/buckets'), ['default'])
  t.same(await names('/api/v2/buckets?name=telegraf&org=o'), ['telegraf'], 'any name can be written to')
  t.match((await node.inject('/api/v2/buckets?name=b')).json().buckets[0], { id: 'b', name: 'b', type: 'user', retentionRules: [] })
  t.same((await node.inject('/settings')).json().config, { 'line.proto.support.versions': [1] })
  const named = await boot({ plugins: [plugin], config: { server: { multi_tenancy: true }, line_protocol: { database: 'namespace' } } })
  t.teardown(() => named.stop())
  const own = async (query: string) => (await named.inject({ url: `/api/v2/buckets${query}`, headers: { 'x-namespace': 'red' } })).json().buckets.length
  t.same([await own(''), await own('?name=red'), await own('?name=blue')], [1, 1, 0])
})
