import {
  Binary,
  Bool,
  DataType,
  Date_,
  DateUnit,
  Decimal,
  DenseUnion,
  Dictionary,
  Field,
  Float64,
  Int32,
  Int64,
  makeData,
  RecordBatch,
  Schema,
  Struct,
  TimestampNanosecond,
  tableFromIPC,
  Utf8,
  vectorFromArray,
} from 'apache-arrow'
import { definePlugin, tokenOf } from 'svcdb'
import { ArrowReader } from 'svcdb/lib/arrow'
import { systemClock } from 'svcdb/testkit'
import t from 'tap'
import { readFlightData } from './messages.ts'
import { parametersOf } from './parameters.ts'
import { command, descriptor, type FlightClient, field, message, one, startFlight } from './testing.ts'
import { type Column, flightStream } from './testing-stream.ts'

const now = BigInt(Date.now()) * 1_000_000n

interface Prepared {
  handle: string
  schema: string[] | undefined
  parameters: string[] | undefined
}

async function prepare(flight: FlightClient, query: string, metadata: Record<string, string> = {}): Promise<Prepared> {
  const [result] = await flight.action('CreatePreparedStatement', command('ActionCreatePreparedStatementRequest', { 1: query }), metadata)
  const body = field(result, 2) as Uint8Array
  const columns = (number: number) => {
    const bytes = field(body, number)
    return bytes === undefined ? undefined : tableFromIPC(Uint8Array.from(bytes)).schema.fields.map(({ name, type }) => `${name}: ${type}`)
  }
  return { handle: Buffer.from(field(body, 1) as Uint8Array).toString(), schema: columns(2), parameters: columns(3) }
}

const close = (flight: FlightClient, handle: string) => flight.action('ClosePreparedStatement', command('ActionClosePreparedStatementRequest', { 1: handle }))
const bound = (handle: string) => descriptor(command('CommandPreparedStatementQuery', { 1: handle }))
const run = (flight: FlightClient, handle: string) => flight.read(command('CommandPreparedStatementQuery', { 1: handle }))

async function bind(flight: FlightClient, handle: string, ...columns: Column[][]): Promise<void> {
  const answer = await flight.put('DoPut', flightStream(bound(handle), columns))
  t.equal(Buffer.from(field(field(one(answer), 1) as Uint8Array, 1) as Uint8Array).toString(), handle)
}
const text = (value: string | null): Column => ({ name: '1', type: new Utf8(), values: [value] })

t.test('prepared statements', async (t) => {
  const { flight, write, node } = await startFlight(t)
  await write(Array.from({ length: 10 }, (_, i) => `cpu,host=h${i % 2} usage=${i},n=${i}i,price=${i}.25d ${now + BigInt(i)}`).join('\n'))

  t.test('are described, run several times and closed', async (t) => {
    const { handle, schema, parameters } = await prepare(flight, 'SELECT host, max(usage) AS most FROM cpu GROUP BY host ORDER BY host')
    t.same(schema, ['host: Utf8', 'most: Float64'])
    t.same(parameters, [])
    const expected = [
      { host: 'h0', most: 8 },
      { host: 'h1', most: 9 },
    ]
    t.same((await run(flight, handle)).rows, expected)
    t.same((await run(flight, handle)).rows, expected)
    t.match((await node.inject('/metrics')).body, /^svc_flight_sql_prepared_statements 1$/m)
    t.same(await close(flight, handle), [])
    t.same(await close(flight, handle), [], 'again: that is no fault')
    await t.rejects(run(flight, handle), { code: 5, details: /cannot find prepared statement .*prepare it again/ })
    await t.rejects(prepare(flight, 'SELECT nope FROM cpu'), { code: 3, details: /nope/ })
    await t.rejects(flight.action('CreatePreparedStatement', message({ 1: 'x' })), { code: 3 })
    await t.rejects(flight.action('CreatePreparedStatement', command('ActionCreatePreparedStatementRequest', { 1: 'select 1', 2: Buffer.from('tx') })), {
      code: 3,
      details: /no transactions/,
    })
  })

  t.test('with parameters', async (t) => {
    const { handle, schema, parameters } = await prepare(flight, 'SELECT usage FROM cpu WHERE host = ? AND usage > ? ORDER BY usage')
    t.same(schema, ['usage: Float64'])
    t.same(parameters, ['$1: Utf8', '$2: Float64'])
    await t.rejects(run(flight, handle), { code: 3 }, 'nothing is bound')
    await bind(flight, handle, [text('h1'), { name: '2', type: new Float64(), values: [4] }])
    t.same((await run(flight, handle)).rows, [{ usage: 5 }, { usage: 7 }, { usage: 9 }])
    await bind(flight, handle, [text('h0'), { name: '2', type: new Int64(), values: [6n] }])
    t.same((await run(flight, handle)).rows, [{ usage: 8 }], 'bound anew')
    const two = await flight.put('DoPut', flightStream(bound(handle), [[{ name: '1', type: new Utf8(), values: ['a', 'b'] }]]))
    t.match(two.error, { code: 3, details: /cannot bind 2 rows of values/ })
    t.match((await flight.put('DoPut', flightStream(bound('gone'), [[text('x')]]))).error, { code: 5 })
    await close(flight, handle)
  })

  t.test('values of every type, and none', async (t) => {
    const value = async (expression: string, ...columns: Column[]) => {
      const { handle } = await prepare(flight, `SELECT ${expression} AS v`)
      await bind(flight, handle, columns)
      return (await run(flight, handle)).rows[0].v
    }
    t.equal(await value(`upper(?::VARCHAR)`, text('é"\'; --')), 'É"\'; --')
    t.equal(await value('?::VARCHAR IS NULL', text(null)), true)
    t.equal(await value('?::BIGINT', { name: 'n', type: new Int64(), values: [9007199254740993n] }), 9007199254740993n)
    t.equal(await value('?::BIGINT + 1', { name: 'n', type: new Int32(), values: [-5] }), -4n)
    t.equal(await value('?::DOUBLE', { name: 'n', type: new Float64(), values: [0.1] }), 0.1)
    t.equal(await value('NOT ?::BOOLEAN', { name: 'n', type: new Bool(), values: [true] }), false)
    t.equal(await value('epoch_ns(?::TIMESTAMP_NS)', { name: 'n', type: new TimestampNanosecond(), values: [now] }), now)
    t.equal(await value("strftime(?::DATE, '%Y-%m-%d')", { name: 'n', type: new Date_(DateUnit.DAY), values: [new Date('2026-02-03')] }), '2026-02-03')
    t.equal(await value('(?::DECIMAL(10, 2))::VARCHAR', { name: 'n', type: new Decimal(2, 10, 128), values: [Uint32Array.of(12345, 0, 0, 0)] }), '123.45')
    t.equal(await value(`?::VARCHAR`, { name: 'n', type: new Dictionary(new Utf8(), new Int32()), values: ['x'] }), 'x')
    const limit = await prepare(flight, 'SELECT n FROM cpu ORDER BY n LIMIT ?')
    await bind(flight, limit.handle, [{ name: 'n', type: new Int32(), values: [2] }])
    t.same((await run(flight, limit.handle)).rows, [{ n: 0n }, { n: 1n }])
  })

  t.test('a time that is bound is compared as a time', async (t) => {
    const { handle, parameters } = await prepare(flight, 'SELECT n FROM cpu WHERE _time >= ? AND _time < ? ORDER BY n')
    t.same(parameters, ['$1: Timestamp<MILLISECOND>', '$2: Timestamp<MILLISECOND>'], "as JDBC's driver fills them in")
    const time = (value: bigint): Column => ({ name: 't', type: new TimestampNanosecond(), values: [value] })
    await bind(flight, handle, [time(now + 3n), { ...time(now + 5n), name: 'u' }])
    t.same((await run(flight, handle)).rows, [{ n: 3n }, { n: 4n }])
  })

  t.test('a name alone prepares a bulk write', async (t) => {
    const { handle, schema } = await prepare(flight, 'fresh')
    t.equal(schema, undefined)
    const to = descriptor(command('CommandPreparedStatementUpdate', { 1: handle }))
    const row: Column[] = [{ name: 'v', type: new Float64(), values: [1] }]
    t.equal((await flight.put('DoPut', flightStream(to, [row]))).error, undefined)
    t.same((await flight.sql('SELECT v FROM fresh')).rows, [{ v: 1 }])
    await t.rejects(run(flight, handle), { code: 3, details: /it names a measurement to write to/ })
    const query = await prepare(flight, 'SELECT 1')
    const wrong = await flight.put('DoPut', flightStream(descriptor(command('CommandPreparedStatementUpdate', { 1: query.handle })), [row]))
    t.match(wrong.error, { code: 3, details: /it is a query; run it as one/ })
    // ADBC's way for a mistyped query: it is put, and has nothing to put.
    const mistyped = descriptor(command('CommandPreparedStatementUpdate', { 1: (await prepare(flight, 'selekt')).handle }))
    t.match((await flight.put('DoPut', flightStream(mistyped, [[]]))).error, {
      code: 3,
      details: /a statement of one word is taken for the name of the measurement/,
    })
    for (const word of ['COMMIT', 'INSERT INTO cpu VALUES (1)', 'BEGIN']) await t.rejects(prepare(flight, word), { code: 3 }, word)
  })

  t.test('dictionaries that were asked for when preparing', async (t) => {
    const { handle, schema } = await prepare(flight, 'SELECT host FROM cpu LIMIT 1', { 'x-arrow-dictionaries': 'true' })
    t.same(schema, ['host: Dictionary<Int32, Utf8>'])
    t.ok(DataType.isDictionary((await run(flight, handle)).table.schema.fields[0].type))
  })

  t.test('session options and transactions', async (t) => {
    const option = (name: string, value: Uint8Array) => message({ 1: message({ 1: name, 2: value }) })
    const [accepted] = await flight.action('SetSessionOptions', Buffer.concat([option('catalog', message({ 1: 'svc' })), option('schema', new Uint8Array(0))]))
    t.equal(accepted.length, 0, 'no errors')
    const [refused] = await flight.action('SetSessionOptions', Buffer.concat([option('catalog', message({ 1: 'x' })), option('speed', message({ 2: 1 }))]))
    t.same(refused, message({ 1: [message({ 1: 'catalog', 2: message({ 1: 2 }) }), message({ 1: 'speed', 2: message({ 1: 1 }) })] }))
    const [options] = await flight.action('GetSessionOptions', new Uint8Array(0))
    t.same(options, message({ 1: [message({ 1: 'catalog', 2: message({ 1: 'svc' }) }), message({ 1: 'schema', 2: message({ 1: 'main' }) })] }))
    t.same(await flight.action('CloseSession', new Uint8Array(0)), [message({ 1: 1 })])
    for (const type of ['BeginTransaction', 'EndTransaction', 'BeginSavepoint']) {
      await t.rejects(flight.action(type, new Uint8Array(0)), { code: 12, details: /there are no transactions/ })
    }
    await t.rejects(flight.action('constructor', new Uint8Array(0)), { code: 12, details: /there is none of this name/ })
    const types = (await flight.call('ListActions', new Uint8Array(0))).messages.map((each) => Buffer.from(field(each, 1) as Uint8Array).toString())
    t.ok(types.length > 0)
    for (const type of types) t.notMatch(await flight.action(type, new Uint8Array(0)).catch((error) => error), { code: 12 }, type)
  })
})

t.test('statements are bounded in number, size and time', async (t) => {
  let monotonic = 0
  const clock = { ...systemClock, now: Date.now, nowNanos: () => BigInt(Date.now()) * 1_000_000n, monotonic: () => monotonic }
  const { flight } = await startFlight(t, { clock, section: { max_prepared_statements: 2, max_prepared_bytes: 8192, prepared_lifetime_secs: 10 } })
  const [a, b] = [(await prepare(flight, 'SELECT 1')).handle, (await prepare(flight, 'SELECT 2')).handle]
  await run(flight, a)
  const c = (await prepare(flight, 'SELECT 3')).handle
  await t.rejects(run(flight, b), { code: 5 }, 'the one used longest ago went')
  await t.rejects(prepare(flight, `SELECT '${'x'.repeat(5000)}'`), { code: 8, details: /flight_sql.max_prepared_bytes/ })
  monotonic += 9000
  await run(flight, a)
  monotonic += 9000
  await run(flight, a)
  await t.rejects(run(flight, c), { code: 5 }, 'not used for too long')
})

t.test('one who prepares many takes no room of others', async (t) => {
  const keys = definePlugin({
    id: 'keys',
    summary: 'Believes tokens',
    stability: 'stable',
    setup: (svc) => svc.auth.authenticator((given) => ({ principal: String(tokenOf(given)), method: 'test', claims: {}, namespaces: [], admin: false })),
  })
  const { flight } = await startFlight(t, { others: [keys], section: { max_prepared_statements: 4 } })
  const [ann, bob] = ['ann', 'bob'].map((name) => ({ authorization: `Bearer ${name}` }))
  const { handle } = await prepare(flight, 'SELECT 1', ann)
  for (let i = 0; i < 6; i++) await prepare(flight, `SELECT ${i}`, bob)
  const request = descriptor(command('CommandPreparedStatementQuery', { 1: handle }))
  t.equal((await flight.call('GetFlightInfo', request, ann)).error, undefined)
})

t.test('a bound value is kept without the message it came in', async (t) => {
  const type = new Binary()
  const [schema, row] = flightStream(bound('any'), [[{ name: '1', type, values: [Uint8Array.of(1, 2, 3)] }]]).map((each) => readFlightData(each))
  const message = new Uint8Array(1_000_000)
  message.set(row.body)
  const reader = new ArrowReader(schema.header)
  const batch = await reader.read(row.header, message.subarray(0, row.body.length))
  const [value] = parametersOf(reader.schema, batch as RecordBatch) as Uint8Array[]
  t.same([...value], [1, 2, 3])
  t.equal(value.buffer.byteLength, 3)
})

t.test('values that are bound in unions, as flightsql-dbapi does', (t) => {
  const types = [new Int64(), new Utf8(), new Bool()]
  const type = new DenseUnion(
    types.map((_, i) => i),
    types.map((each) => new Field(String(each), each, true)),
  )
  const members = [vectorFromArray([7n, null], types[0]), vectorFromArray(['x', 'y'], types[1]), vectorFromArray([false, true], types[2])]
  const union = (typeId: number, at: number) =>
    makeData({ type, length: 1, nullCount: 0, typeIds: Int8Array.of(typeId), valueOffsets: Int32Array.of(at), children: members.map(({ data }) => data[0]) })
  const children = [union(0, 0), union(0, 1), union(1, 1), union(2, 1)]
  const schema = new Schema(children.map((_, i) => new Field(`param_${i}`, type, true)))
  const row = new RecordBatch(schema, makeData({ type: new Struct(schema.fields), length: 1, nullCount: 0, children }))
  t.same(parametersOf(schema, row), [7n, null, 'y', true])
  t.end()
})

t.test('a statement is for whoever made it, in its namespace', async (t) => {
  const { flight } = await startFlight(t)
  const { handle } = await prepare(flight, 'SELECT 1', { 'x-namespace': 'red' })
  const request = descriptor(command('CommandPreparedStatementQuery', { 1: handle }))
  t.equal((await flight.call('GetFlightInfo', request, { 'x-namespace': 'red' })).error, undefined)
  t.match((await flight.call('GetFlightInfo', request, { 'x-namespace': 'blue' })).error, { code: 5 })
})

t.end()
