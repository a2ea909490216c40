/** What particular clients send that is not as the documents have it. */
import { gzipSync } from 'node:zlib'
import { boot, type TestNode } from 'svcdb/testkit'
import t from 'tap'
import plugin from './index.ts'
import { storedIn } from './testing.ts'

const node: TestNode = await boot({ plugins: [plugin] })
t.teardown(() => node.stop())

const now = () => BigInt(Date.now()) * 1_000_000n
const write = (payload: string | Buffer, path = '/write', headers: Record<string, string> = {}) => node.inject({ method: 'POST', url: path, payload, headers })

const stored = (measurement: string) => storedIn(node, measurement)

t.test('the Content-Type is not looked at: some clients send it empty, others without sense', async (t) => {
  const at = now()
  const paths = ['/write', '/api/v2/write', '/api/v1/write/influx']
  for (const [i, type] of ['', ' ', 'text', 'undefined', 'application/json', 'text/plain;', '\x80'].entries()) {
    for (const [j, path] of paths.entries()) {
      const answer = await write(`typed,n=${i}.${j} v=1 ${at}`, path, { 'content-type': type })
      t.equal(answer.statusCode, 204, `${JSON.stringify(type)}: ${answer.body}`)
    }
    const query = await node.inject({ method: 'POST', url: '/query', payload: 'q=CREATE+DATABASE+x', headers: { 'content-type': type } })
    t.equal(query.statusCode, 200, query.body)
  }
  t.equal((await stored('typed')).length, 21)
})

t.test('paths of InfluxDB, QuestDB, VictoriaMetrics and OpenTSDB that are not here are told what stands in their place', async (t) => {
  const told = async (url: string) => (await node.inject({ method: 'POST', url })).json()
  for (const path of ['/api/v2/query?org=x', '/api/v3/query_sql', '/exec?query=SELECT+1', '/exp'])
    t.match(await told(path), { code: 'NOT_FOUND', error: /lists them; .*queries are SQL, by POST \/api\/v1\/svc\/sql/ }, path)
  for (const path of ['/api/v2/orgs', '/api/v2/orgs/1/members', '/api/v2/setup'])
    t.match(await told(path), { code: 'NOT_FOUND', error: /; organizations and users are not kept/ }, path)
  for (const path of ['/influx/write?db=x', '/influx/api/v2/write'])
    t.match(await told(path), { code: 'NOT_FOUND', error: /; line protocol is written by POST \/write or \/api\/v2\/write, without a prefix$/ }, path)
  for (const path of ['/api/put', '/opentsdb/api/put']) t.match(await told(path), { code: 'NOT_FOUND', error: /; OpenTSDB is not spoken/ }, path)
  t.match(await told('/executed'), { code: 'NOT_FOUND', error: /lists them$/ }, 'another path')
})

t.test('clients of InfluxDB 2 are told at the places where they look, also of what is not here', async (t) => {
  const headers = { 'user-agent': 'influx/2.8.0 (linux) Sha/6fbca48 Date/2026-01-01' }
  const told = async (method: 'GET' | 'POST' | 'PATCH', url: string, own: object = headers) => {
    const answer = await node.inject({ method, url, headers: { ...own } })
    return { status: answer.statusCode, allow: answer.headers.allow, reason: answer.headers['x-influx-error'], ...answer.json() }
  }
  t.match(await told('POST', '/api/v2/query?org=x'), {
    status: 404,
    code: 'not found',
    message: /Flux is not answered; queries are SQL/,
    reason: /Flux is not/,
  })
  t.match(await told('GET', '/api/v2/orgs'), { status: 404, code: 'not found', message: /organizations and users are not kept/ })
  t.match(await told('GET', '/api/v2/tasks'), { status: 404, code: 'not found', message: /; of InfluxDB 2 writes, deletes/ })
  t.match(await told('PATCH', '/api/v2/buckets/0123'), { status: 404, message: /; buckets are not kept/ })
  t.match(await told('POST', '/api/v2/buckets'), { status: 405, code: 'method not allowed', message: /GET, HEAD; buckets are not kept/, allow: 'GET, HEAD' })
  t.match(await told('GET', '/api/v2/write'), { status: 405, code: 'method not allowed', message: /answers to POST$/, allow: 'POST' })
  t.match(await told('GET', '/api/v2/%zz'), { status: 400, code: 'invalid', message: /cannot decode the path/ })
  t.match(
    await told('GET', '/api/v2/tasks', {}),
    { status: 404, code: 'NOT_FOUND', message: /; of InfluxDB 2 writes, deletes/ },
    "other clients read svc's codes",
  )
})

t.test('a byte order mark before the first line is skipped', async (t) => {
  const body = Buffer.from(`\ufeffmarked v=1 ${now()}\nmarked,\ufeffa=b v=2 ${now()}\n`)
  t.equal((await write(body)).statusCode, 204)
  t.equal((await write(gzipSync(Buffer.from('\ufeff# only a comment\n')), '/write', { 'content-encoding': 'gzip' })).statusCode, 204)
  t.same(
    (await stored('marked')).map((row) => row.tags),
    [{}, { '\ufeffa': 'b' }],
    'elsewhere it is a character',
  )
})

t.test('points without a time that come one right after the other are all kept', async (t) => {
  const answers = await Promise.all(Array.from({ length: 200 }, (_, i) => write(`untimed,host=a v=${i}`)))
  t.ok(answers.every(({ statusCode }) => statusCode === 204))
  t.same(
    (await stored('untimed')).map(({ values }) => values.v).sort((a, b) => (a as number) - (b as number)),
    Array.from({ length: 200 }, (_, i) => i),
  )
})

t.test("a NaN of QuestDB's clients is no value, as in their data frames: the rest of its row is stored", async (t) => {
  const at = now()
  const lines = (table: string) => `${table},n=1 f=NaN,i=2i ${at}\n${table},n=2 i=3i,f=NaN,b=t ${at}\n${table},n=3 f=NaN ${at}\n${table},n=4 f=1.5 ${at}`
  for (const [i, agent] of ['questdb/python/6.0.0', 'QuestDB/java/1.0.1'].entries()) {
    const answer = await write(lines(`frame${i}`), '/write?precision=n', { 'user-agent': agent })
    t.equal(answer.statusCode, 204, answer.body)
    t.same(
      (await stored(`frame${i}`)).map(({ tags, values }) => [tags.n, values]),
      [
        ['1', { i: 2n }],
        ['2', { i: 3n, b: 1 }],
        ['4', { f: 1.5 }],
      ],
    )
    t.equal((await write(`frame${i} f=NaN ${at}`, '/write', { 'user-agent': agent })).statusCode, 204, 'a row without any value')
    t.equal((await stored(`frame${i}`)).length, 3)
    for (const value of ['Infinity', 'nan'])
      t.match((await write(`frame${i} f=${value} ${at}`, '/write', { 'user-agent': agent })).json(), { error: /: NaN and infinities are not stored/ }, value)
  }
  t.match(
    (await write(lines('other'))).json(),
    { written: 1, rejected: 3, error: /: NaN and infinities are not stored/ },
    'of others it is refused, as by InfluxDB',
  )
})

t.test('lines that curl -d has joined are told what keeps their ends', async (t) => {
  const lines = ['cpu,host=a usage=1', 'cpu,host=b usage=2', 'cpu,host=c usage=3']
  for (const end of ['', ' 1700000000000000000'])
    for (const path of ['/write', '/api/v2/write', '/api/v3/write_lp']) {
      const { error } = (await write(lines.map((line) => line + end).join(''), path)).json()
      t.match(error, /^unable to parse '.*': .*\(line 1\); .*curl -d.*--data-binary/, `${path}${end}`)
    }
  for (const payload of [
    'cpu,host=a usage=1 x',
    'cpu,host=a usage=abc',
    'cpu, host=a usage=1',
    'cpu,host=a usage=1, temp=x',
    'cpu,host=a usage = 1',
    'cpu text="a b=c" x=y',
    `${lines[0]} x=1\n`,
    `${lines.join('')}\n${lines[0]}x`,
    ' = = =',
  ])
    t.notMatch((await write(payload)).json().error, /curl/, payload)
})
