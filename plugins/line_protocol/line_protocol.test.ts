import { gunzipSync, gzipSync } from 'node:zlib'
import { collect } from 'svcdb/lib/heap'
import { boot, type TestNode } from 'svcdb/testkit'
import t from 'tap'
import { until } from '../../test/support/until.ts'
import plugin from './index.ts'
import { storedIn } from './testing.ts'

let node: TestNode
t.before(async () => {
  node = await boot({ plugins: [plugin], config: { server: { max_write_batch_size: 100 }, database: { max_series_cardinality: 40 } } })
})
t.after(() => node.stop())

const now = () => BigInt(Date.now()) * 1_000_000n
const write = (payload: string | Buffer, path = '/write', headers: Record<string, string> = {}) =>
  node.inject({ method: 'POST', url: path, payload, headers: { 'content-type': 'text/plain; charset=utf-8', ...headers } })

const stored = (measurement: string) => storedIn(node, measurement)

t.test('each path stores what it is sent and answers 204 with nothing', async (t) => {
  const at = now()
  for (const [i, path] of ['/write?db=x&rp=y&consistency=all', '/api/v2/write?bucket=b&org=o', '/api/v1/write/influx'].entries()) {
    const answer = await write(`paths,n=${i} v=${i}i ${at}\n`, path)
    t.equal(answer.statusCode, 204, answer.body)
    t.equal(answer.body, '')
    t.ok(answer.headers['x-influxdb-version'])
  }
  t.same(
    (await stored('paths')).map((r) => [r.tags, r.time, r.values]),
    [0, 1, 2].map((i) => [{ n: String(i) }, at, { v: BigInt(i) }]),
  )
})

t.test("gzip, precision, and the server's time for points without one", async (t) => {
  const seconds = Math.floor(Date.now() / 1000)
  const answer = await write(gzipSync(`zipped v=1 ${seconds}\nzipped v=2`), '/write?precision=s', { 'content-encoding': 'gzip' })
  t.equal(answer.statusCode, 204, answer.body)
  const rows = await stored('zipped')
  t.equal(rows[0].time, BigInt(seconds) * 1_000_000_000n)
  t.equal(rows.length, 2)
  t.ok(rows[1].time - rows[0].time < 60_000_000_000n)
})

t.test('an empty body and a body of comments are fine', async (t) => {
  for (const body of ['', '\n', '# only a comment\n']) t.equal((await write(body)).statusCode, 204, JSON.stringify(body))
})

t.test('good lines of a partly bad body are stored, the answer says partial write with counts', async (t) => {
  const answer = await write(`part v=1 ${now()}\npart v=\npart v=2 ${now() + 1n}\npart v=3x\n`)
  t.equal(answer.statusCode, 400)
  t.same(answer.json(), {
    error: "partial write: 2 points written, 2 rejected; first: line 2: unable to parse 'part v=': missing field value",
    code: 'PARTIAL_WRITE',
    written: 2,
    rejected: 2,
    // QuestDB's client for Go shows this alone.
    message: answer.json().error,
  })
  // The first is read by clients of InfluxDB 2, the other by those of InfluxDB 1: aioinflux shows nothing else of a refused write.
  t.equal(answer.headers['x-influx-error'], answer.json().error)
  t.equal(answer.headers['x-influxdb-error'], answer.json().error)
  t.equal((await stored('part')).length, 2)
})

t.test('on the v2 path the reason is in the member that v2 clients read, too', async (t) => {
  const answer = await node.inject({ method: 'POST', url: '/api/v2/write?org=o&bucket=b', payload: 'v2 v=' })
  t.equal(answer.statusCode, 400)
  t.match(answer.json().error, /missing field value/)
  t.equal(answer.json().message, answer.json().error)
})

t.test("InfluxDB's own program reads one of InfluxDB's codes, without which it does not show the reason", async (t) => {
  const headers = { 'user-agent': 'influx/2.8.0 (linux) Sha/6fbca48 Date/2026-01-01' }
  const post = (url: string, payload: string) => node.inject({ method: 'POST', url, payload, headers })
  t.match((await post('/api/v2/write?org=o&bucket=b', 'v2 v=')).json(), { code: 'invalid', message: /^unable to parse 'v2 v='/ })
  t.match((await post('/api/v2/delete?org=o&bucket=b', '{"start":"1"}')).json(), { code: 'unprocessable entity', message: /stop/ })
  t.match((await post('/write?db=d', 'v2 v=')).json(), { code: 'invalid' })
})

t.test('a compressed answer has the reason at both places, too', async (t) => {
  const line = `long m="${'\u001b[0m'.repeat(200)}",v=`
  const headers = { 'accept-encoding': 'gzip' }
  const answer = await node.inject({ method: 'POST', url: '/api/v2/write?org=o&bucket=b', payload: line, headers })
  t.equal(answer.statusCode, 400)
  t.equal(answer.headers['content-encoding'], 'gzip')
  const { error, message } = JSON.parse(gunzipSync(answer.rawPayload).toString())
  t.match(error, /missing field value/)
  t.equal(message, error)
  t.match(answer.headers['x-influx-error'], /^unable to parse 'long m="\?\[0m/)
})

t.test('the write of InfluxDB 3: its units, and all lines or none', async (t) => {
  const write3 = (payload: string, query = '') => node.inject({ method: 'POST', url: `/api/v3/write_lp?db=any${query}`, payload })
  const secs = Math.floor(Date.now() / 1000)
  const at = BigInt(secs) * 1_000_000_000n
  const times = async (measurement: string) => (await stored(measurement)).map(({ time }) => time)
  t.equal((await write3(`v3a,h=a v=1 ${secs}\nv3a,h=b v=1 ${secs}000\nv3a,h=c v=1 ${secs}000000\nv3a,h=d v=1 ${at}`)).statusCode, 204)
  t.same(await times('v3a'), [at, at, at, at], 'the unit of each time by its size')
  for (const [precision, digits] of Object.entries({
    second: '',
    s: '',
    millisecond: '000',
    ms: '000',
    microsecond: '000000',
    us: '000000',
    nanosecond: '000000000',
  })) {
    t.equal((await write3(`v3_${precision} v=1 ${secs}${digits}`, `&precision=${precision}&no_sync=true`)).statusCode, 204)
    t.same(await times(`v3_${precision}`), [at], precision)
  }
  const unknown = await write3('m v=1', '&precision=h')
  t.equal(unknown.statusCode, 400)
  t.match(unknown.json().error, /cannot use precision "h": it is one of auto, nanosecond/)
  const part = await write3('v3p v=1\nv3p v=')
  t.equal(part.statusCode, 400)
  t.match(part.json().error, /^partial write: 1 point written, 1 rejected; first: line 2.* \(InfluxDB: partial write of line protocol occurred\)$/)
  t.match(part.json().data, [{ line_number: 2, error_message: /^unable to parse 'v3p v=': missing field value/ }], 'clients read the lines at fault')
  const mixed = await write3('v3p v="text"\n\nv3p v=1\nv3p w=')
  t.match(mixed.json(), { code: 'PARTIAL_WRITE', written: 1, rejected: 2, data: [{ line_number: 1, error_message: /type float64/ }, { line_number: 4 }] })
  const none = await write3('v3p v=')
  t.match(none.json(), { error: /\(InfluxDB: partial write of line protocol occurred\)$/, code: 'INVALID_POINT', data: [{ line_number: 1 }] })
  const whole = await write3('v3w v=1\nv3w v=\nv3w w=', '&accept_partial=false')
  t.equal(whole.statusCode, 400)
  t.match(whole.json(), {
    error:
      /^nothing was written, for accept_partial is false: unable to parse 'v3w v=': .* \(line 2, the first of 2 rejected\) \(InfluxDB: parsing failed for write_lp endpoint\)$/,
    code: 'INVALID_POINT',
    data: [{ line_number: 2 }, { line_number: 3 }],
  })
  t.equal((await write3('v3w v=1', '&accept_partial=false')).statusCode, 204)
  t.equal((await times('v3w')).length, 1)
})

t.test('a body where nothing parses is a plain 400 that names the first failure', async (t) => {
  const answer = await write('cpu value=\ncpu value=1x')
  t.equal(answer.statusCode, 400)
  t.same(answer.json(), {
    error: "unable to parse 'cpu value=': missing field value (line 1, the first of 2 rejected)",
    code: 'INVALID_POINT',
    written: 0,
    rejected: 2,
    message: answer.json().error,
  })
})

t.test('refusals of admission have their own code when they are alone, and are counted together with bad lines', async (t) => {
  const future = await write(`adm v=1 ${now() + 86_400_000_000_000n}`)
  t.equal(future.json().code, 'FUTURE_TIMESTAMP', future.body)
  t.equal(future.statusCode, 400)
  await write(`adm v=1 ${now()}`)
  const schema = await write(`adm v=1i ${now()}`)
  t.equal(schema.json().code, 'SCHEMA_ERROR', schema.body)
  const old = await write(`adm v=1 ${now() - 864_000_000_000_000n}`)
  t.equal(old.json().code, 'PARTIAL_WRITE', old.body)
  t.match(old.json().error, /^partial write: 0 points written, 1 rejected.*backfill/)
  t.equal((await write(`adm v=1 ${now() - 864_000_000_000_000n}`, '/write?backfill=true')).statusCode, 204)
  const mixed = await write(`adm v=\nadm v=1 ${now() + 86_400_000_000_000n}\nadm v=5 ${now()}`)
  t.match(mixed.json(), { code: 'PARTIAL_WRITE', written: 1, rejected: 2 })
  t.match(mixed.json().error, /line 1: unable to parse/)
})

t.test('more points than max_write_batch_size are refused whole', async (t) => {
  const answer = await write(Array.from({ length: 101 }, (_, i) => `big v=${i} ${now()}`).join('\n'))
  t.equal(answer.statusCode, 400)
  t.match(answer.json().error, /max_write_batch_size is 100/)
  t.notOk((await node.storage.measurements('')).some((m) => m.name === 'big'))
})

t.test('an unknown precision is refused', async (t) => {
  const answer = await write('m v=1', '/write?precision=days')
  t.equal(answer.statusCode, 400)
  t.match(answer.json().error, /cannot use precision "days"/)
})

t.test('a repeated Idempotency-Key is a conflict', async (t) => {
  const body = `idem v=1 ${now()}`
  t.equal((await write(body, '/write', { 'idempotency-key': 'k1' })).statusCode, 204)
  t.equal((await write(body, '/write', { 'idempotency-key': 'k1' })).statusCode, 409)
})

t.test('errors that a repeat cannot mend have the words by which InfluxDB 1 clients know that', async (t) => {
  const at = now()
  t.equal((await write(`words v=1i ${at}`)).statusCode, 204)
  const other = `words v="text" ${at}`
  t.match((await write(other)).json(), { code: 'SCHEMA_ERROR', error: /^cannot write field "v".* \(line 1; InfluxDB: field type conflict\)$/ })
  t.match((await write(`${other}\n${other}`)).json().error, /\(line 1, the first of 2 rejected; InfluxDB: field type conflict\)$/)
  t.match(
    (await write(`words v=2i ${at}\n${other}`)).json().error,
    /^partial write: 1 point written, 1 rejected; first: line 2: .* \(InfluxDB: field type conflict\)$/,
  )
  t.match((await write('words v=2i 1')).json().error, /^partial write: .*older than.* \(InfluxDB: points beyond retention policy\)$/)
  const future = `words v=2i ${BigInt(at) + 10n ** 18n}`
  t.match((await write(future)).json(), { code: 'FUTURE_TIMESTAMP', error: / \(line 1; InfluxDB: points beyond retention policy\)$/ })
  t.notMatch((await write('words v=')).json().error, /InfluxDB/, 'has them as it is')
})

t.test('CREATE DATABASE and SHOW DATABASES are answered, by form and by query', async (t) => {
  const form = await node.inject({
    method: 'POST',
    url: '/query',
    payload: `q=${encodeURIComponent('CREATE DATABASE "telegraf"')}`,
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
  })
  t.equal(form.statusCode, 200, form.body)
  t.same(form.json(), { results: [{ statement_id: 0 }] })
  const query = await node.inject({ method: 'POST', url: `/query?q=${encodeURIComponent('create database x')}` })
  t.same(query.json(), { results: [{ statement_id: 0 }] }, query.body)
  const show = await node.inject(`/query?q=${encodeURIComponent('SHOW DATABASES')}`)
  t.same(show.json().results[0].series[0].values, [['default']])
  const named = await node.inject(`/query?db=glances&q=${encodeURIComponent('SHOW DATABASES')}`)
  t.same(named.json().results[0].series[0].values, [['default'], ['glances']], 'clients look for theirs, and write only when it is there')
  const formed = await node.inject({ method: 'POST', url: '/query', payload: 'db=glances&q=SHOW+DATABASES' })
  t.same(formed.json(), named.json())
  const own = await node.inject(`/query?db=default&q=${encodeURIComponent('SHOW DATABASES')}`)
  t.same(own.json(), show.json())
  const both = await node.inject(`/query?q=${encodeURIComponent('CREATE DATABASE "a;b" WITH NAME "c;d"; SHOW DATABASES ;\n')}`)
  t.same(both.json(), { results: [{ statement_id: 0 }, { ...show.json().results[0], statement_id: 1 }] }, 'each of several statements')
  const behind = await node.inject(`/query?q=${encodeURIComponent('SHOW DATABASES CASCADE')}`)
  t.equal(behind.statusCode, 400)
  t.match(behind.json().error, /cannot answer "SHOW DATABASES CASCADE"/)
  const long = await node.inject({ method: 'POST', url: '/query', payload: `q=DROP+${'x'.repeat(5000)}` })
  t.equal(long.statusCode, 400)
  t.ok(long.body.length < 500, 'a long statement is not shown whole')
  const dropped = await node.inject(`/query?q=${encodeURIComponent('CREATE DATABASE a; DROP DATABASE b')}`)
  t.equal(dropped.statusCode, 200)
  t.match(
    dropped.json().results,
    [{ statement_id: 0 }, { statement_id: 1, error: /^cannot answer "DROP DATABASE b": / }],
    'nothing that is not done is told as done',
  )
  const other = await node.inject(`/query?q=${encodeURIComponent('SELECT * FROM cpu')}`)
  t.equal(other.statusCode, 400)
  t.match(other.json().error, /cannot answer "SELECT \* FROM cpu"/)
  t.equal((await node.inject('/query')).json().error, 'missing required parameter "q"')
})

t.test('a request has so many statements, and a database so long a name', async (t) => {
  const ask = (form: string) => node.inject({ method: 'POST', url: '/query', payload: form })
  const most = (await ask(`q=${'SHOW DATABASES;'.repeat(100)}`)).json().results
  t.same([most.length, most.at(-1).series.length], [100, 1])
  const many = await ask(`db=${'x'.repeat(4096)}&q=${'show databases;'.repeat(50_000)}`)
  t.ok(many.body.length < 1e6, `${many.body.length} bytes`)
  const { results } = many.json()
  t.equal(results.length, 101)
  t.match(results.at(-1), {
    statement_id: 100,
    error: /^cannot answer more than 100 statements of one request \(line_protocol\.max_query_statements\): .* send/,
  })
  const few = await boot({ plugins: [plugin], config: { line_protocol: { max_query_statements: 2 } } })
  t.teardown(() => few.stop())
  t.equal((await few.inject(`/query?q=${'SHOW DATABASES;'.repeat(9)}`)).json().results.length, 3, 'two and the error')
  const long = await ask(`db=${'x'.repeat(4097)}&q=SHOW DATABASES`)
  t.match([long.statusCode, long.json().error], [400, /cannot use database "x+": database is longer than 4096 bytes/])
  t.ok(long.body.length < 500)
})

t.test('points are counted', async (t) => {
  const text = (await node.inject('/metrics')).body
  t.match(text, /^svc_influx_points_written_total \d+$/m)
})

t.test('a spent series budget refuses what is new, and only that', async (t) => {
  const many = await write(Array.from({ length: 40 }, (_, i) => `card,n=${i} v=1 ${now()}`).join('\n'))
  t.equal(many.json().code, 'PARTIAL_WRITE')
  t.equal(many.json().written + many.json().rejected, 40)
  const none = await write(`card,n=new v=1 ${now()}`)
  t.equal(none.json().code, 'CARDINALITY_EXCEEDED', none.body)
})

t.end()

t.test('a write of many fields for many points is bounded over all its measurements, and leaves no memory behind', async (t) => {
  const bound = await boot({ plugins: [plugin], config: { database: { max_cells_per_write: 2 ** 20 } } })
  const wide = await boot({ plugins: [plugin] })
  t.teardown(() => Promise.all([bound.stop(), wide.stop()]))
  const post = (payload: string, node = wide) => node.inject({ method: 'POST', url: '/write', payload, headers: { 'content-type': 'text/plain' } })
  /** Each of n lines sets a part of `fields`: so many that they stay in one table. */
  const part = (measurement: string, n: number, fields: number): string =>
    Array.from({ length: n }, (_, i) => `${measurement} ${Array.from({ length: fields / 4 }, (_, k) => `f${(i * 16 + k) % fields}=1`).join(',')}`).join('\n')
  const refused = async (n: number): Promise<void> => {
    const answer = await post(Array.from({ length: 24 }, (_, i) => part(`m${n}_${i}`, 64, 1024)).join('\n'), bound)
    t.equal(answer.statusCode, 400)
    t.match(answer.json(), { code: 'INVALID_POINT', error: /cannot hold \d+ fields of measurement "m\d+_\d+" for \d+ points in one write/ })
  }
  await refused(0)
  collect()
  const { arrayBuffers } = process.memoryUsage()
  for (let n = 1; n <= 8; n++) await refused(n)
  // A cell takes 9 bytes.
  const most = arrayBuffers + 2 * 9 * 2 ** 20
  await until('memory is given back', () => {
    collect()
    return process.memoryUsage().arrayBuffers < most
  })
  /** Each line sets a few of as many fields. */
  const square = (measurement: string, n: number): string =>
    Array.from({ length: n }, (_, i) => `${measurement} f${i}=1,f${(i + 512) % n}=1,f${(i + 1024) % n}=1,f${(i + 1536) % n}=1`).join('\n')
  t.equal((await post(Array.from({ length: 24 }, (_, i) => square(`s${i}`, 1024)).join('\n'))).statusCode, 204, 'points that set few of them are not')
})

t.test('how many fields and cells a write may have is configured, for each engine', async (t) => {
  for (const storage of ['memory', 'embedded'] as const) {
    const bound = await boot({ plugins: [plugin], storage, config: { database: { max_fields_per_write: 1024, max_cells_per_write: 65_536 } } })
    t.teardown(() => bound.stop())
    const post = (payload: string) => bound.inject({ method: 'POST', url: '/write', payload, headers: { 'content-type': 'text/plain' } })
    const fields = (n: number, value = 1): string => Array.from({ length: n }, (_, i) => `f${i}=${value}`).join(',')
    t.equal((await post(`a ${fields(600)}\nb ${fields(424)}`)).statusCode, 204, `${storage}: as many fields as may be`)
    const many = await post(`c ${fields(600)}\nd ${fields(425)}`)
    t.match(many.json(), { code: 'PARTIAL_WRITE', error: /more than 1024 fields of all measurements in one write.*max_fields_per_write/ }, storage)
    const rows = (n: number): string => Array.from({ length: n }, (_, i) => `e,host=h${i} ${fields(i === 0 ? 1000 : 250)}`).join('\n')
    t.equal((await post(rows(64))).statusCode, 204, `${storage}: as many cells as may be`)
    const wide = await post(rows(129))
    t.match(wide.json(), { code: 'INVALID_POINT', error: /cannot hold 1000 fields of measurement "e" for 256 points.*max_cells_per_write/ }, storage)
  }
})

t.test('fields that the write before has left count only where a write sets them, for each engine', async (t) => {
  for (const storage of ['memory', 'embedded'] as const) {
    const bound = await boot({ plugins: [plugin], storage, config: { database: { max_cells_per_write: 65_536 } } })
    t.teardown(() => bound.stop())
    const post = (payload: string) => bound.inject({ method: 'POST', url: '/write', payload, headers: { 'content-type': 'text/plain' } })
    const fields = (n: number): string => Array.from({ length: n }, (_, i) => `f${i}=1`).join(',')
    const rows = (values: (i: number) => string): string => Array.from({ length: 256 }, (_, i) => `e,host=h${i} ${values(i)}`).join('\n')
    t.equal((await post(`e ${fields(900)}`)).statusCode, 204)
    t.equal((await post(rows((i) => `f7=${i}`))).statusCode, 204, `${storage}: one of them`)
    t.equal((await post(`e ${fields(900)}`)).statusCode, 204)
    t.equal((await post(rows((i) => (i < 200 ? `f7=${i}` : `f7=${i},f9=2`)))).statusCode, 204, `${storage}: one that comes late`)
    t.equal((await post(`e ${fields(900)}`)).statusCode, 204)
    const wide = await post(rows((i) => (i < 200 ? `f7=${i}` : fields(900))))
    t.match(wide.json(), { error: /cannot hold \d+ fields of measurement "e" for 256 points.*max_cells_per_write/ }, `${storage}: those that are set do`)
  }
})
