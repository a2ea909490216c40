import { tableFromIPC } from 'apache-arrow'
import t from 'tap'
import { until } from '../../test/support/until.ts'
import { writeAny, writeTicket } from './commands.ts'
import { command, descriptor, field, infoOf, message, one, startFlight, tableOf } from './testing.ts'

const HOUR = 3_600_000_000_000n
const now = BigInt(Date.now()) * 1_000_000n
const base = now - (now % HOUR) - HOUR

t.test('queries', async (t) => {
  const { flight, write, node } = await startFlight(t, { config: { server: { sql_max_rows: 500, sql_query_timeout_secs: 60 } } })
  await write(
    Array.from(
      { length: 600 },
      (_, i) =>
        `cpu,host=h${i % 3} user=${i % 10},idle=${i}i,big=${9007199254740993n + BigInt(i)}u,ok=${i % 2 === 0},note="n${i}",price=1.25d ${base + BigInt(i) * 1_000_000_000n}`,
    ).join('\n'),
  )

  t.test('the schema of the info is that of the data, values are exact', async (t) => {
    const { schema, rows } = await flight.sql(`SELECT _time, host, "user", idle, big, ok, note, price FROM cpu WHERE _time = ${base}`)
    t.same(schema, [
      '_time: Timestamp<NANOSECOND>',
      'host: Utf8',
      'user: Float64',
      'idle: Int64',
      'big: Uint64',
      'ok: Bool',
      'note: Utf8',
      'price: Decimal[38e+2]',
    ])
    const [{ price, ...row }] = rows
    t.same(row, { _time: base, host: 'h0', user: 0, idle: 0n, big: 9007199254740993n, ok: true, note: 'n0' })
    t.equal((price as Uint32Array)[0], 125)
  })

  t.test('without FROM, without rows, without a name of its own', async (t) => {
    t.same((await flight.sql('select 1')).rows, [{ 1: 1n }])
    const none = await flight.sql('SELECT host, idle FROM cpu WHERE false')
    t.same(none.schema, ['host: Utf8', 'idle: Int64'])
    t.same(none.rows, [])
    t.same((await flight.sql('SHOW TABLES')).rows, [{ name: 'cpu' }])
    t.same(
      (await flight.sql('SELECT count(*) AS n FROM "svc"."main"."cpu" AS c WHERE c.host = \'h0\'')).rows,
      [{ n: 200n }],
      'the whole name, as tools write it',
    )
    await t.rejects(flight.sql('SELECT 1 FROM other.main.cpu'), { code: 3, details: /there are no other databases here/ })
  })

  t.test('nulls, groups, and types that are widened', async (t) => {
    const { schema, rows } = await flight.sql(
      `SELECT 1::TINYINT a, -2::SMALLINT b, 3::UINTEGER c, 1.5::FLOAT d, TIMESTAMP '1970-01-01 00:00:01' e, NULL::INTEGER f, [1, NULL] g`,
    )
    t.same(schema, ['a: Int64', 'b: Int64', 'c: Int64', 'd: Float64', 'e: Timestamp<NANOSECOND>', 'f: Int64', 'g: List<Int32>'])
    t.same(rows, [{ a: 1n, b: -2n, c: 3n, d: 1.5, e: 1_000_000_000n, f: null, g: [1, null] }])
    const grouped = await flight.sql('SELECT host, count(*) AS n FROM cpu GROUP BY host ORDER BY host')
    t.same(
      grouped.rows.map((row) => [row.host, row.n]),
      ['h0', 'h1', 'h2'].map((host) => [host, 200n]),
    )
    await t.rejects(flight.sql(`SELECT TIMESTAMP '9999-01-01'`), { code: 3, details: /before 1677 or after 2262/ })
  })

  t.test('an integer that no decimal of 38 digits holds is text, with all its digits', async (t) => {
    const most = String(2n ** 128n - 1n)
    const { schema, rows } = await flight.sql(`SELECT ${most}::UHUGEINT AS u, [NULL, ${most}::UHUGEINT] AS l, NULL::UHUGEINT AS n`)
    t.same(schema, ['u: Utf8', 'l: List<Utf8>', 'n: Utf8'])
    t.equal(rows[0].u, most)
    t.same([...(rows[0].l as Iterable<unknown>)], [null, most])
    t.equal(rows[0].n, null)
  })

  t.test('text comes as dictionaries for those who ask for them', async (t) => {
    const { schema, rows } = await flight.sql('SELECT host, idle FROM cpu WHERE idle < 4 ORDER BY idle', { 'x-arrow-dictionaries': 'true' })
    t.same(schema, ['host: Dictionary<Int32, Utf8>', 'idle: Int64'])
    t.same(
      rows.map(({ host }) => host),
      ['h0', 'h1', 'h2', 'h0'],
    )
    await t.rejects(flight.sql('SELECT 1', { 'x-arrow-dictionaries': 'maybe' }), { code: 3, details: /x-arrow-dictionaries "maybe": it is true or false/ })
  })

  t.test('a path is a measurement', async (t) => {
    const info = infoOf(one(await flight.call('GetFlightInfo', descriptor('cpu'))))
    t.equal(info.tickets.length, 1)
    t.same(
      tableFromIPC(info.schema).schema.fields.map(({ name }) => name),
      ['_time', 'host', 'user', 'idle', 'big', 'ok', 'note', 'price'],
    )
    const flights = await flight.call('ListFlights', new Uint8Array(0))
    t.equal(flights.messages.length, 1)
    t.same(infoOf(flights.messages[0]).schema, info.schema)
    t.same((await flight.call('ListFlights', message({ 1: 'mem%' }))).messages, [])
    const schema = one(await flight.call('GetSchema', descriptor('cpu')))
    t.same(field(schema, 1), info.schema)
    const poll = one(await flight.call('PollFlightInfo', descriptor('cpu')))
    t.same(infoOf(field(poll, 1) as Uint8Array).schema, info.schema)
    t.equal(field(poll, 2), undefined, 'complete: there is nothing to poll again')
    t.equal((await flight.call('GetFlightInfo', descriptor('nope'))).error?.code, 3)
  })

  t.test('more rows than allowed are refused, not cut', async (t) => {
    await t.rejects(flight.sql('SELECT idle FROM cpu'), { code: 8, details: /more rows than server.sql_max_rows = 500; add a LIMIT/ })
    t.equal((await flight.sql('SELECT idle FROM cpu LIMIT 500')).rows.length, 500)
  })

  t.test('a query that takes too long is ended, and so is one whose client leaves', async (t) => {
    const { flight } = await startFlight(t, { config: { server: { sql_query_timeout_secs: 6 } } })
    const heavy = 'SELECT sum(a.i * b.i % 7) FROM range(10000000) a(i), range(10000000) b(i)'
    await t.rejects(flight.sql(heavy), { code: 4, details: /sql_query_timeout_secs/ })
    const { tickets } = infoOf(one(await flight.call('GetFlightInfo', descriptor(command('CommandStatementQuery', { 1: heavy })))))
    const call = flight.begin('DoGet', message({ 1: tickets[0] }))
    const ended = new Promise<{ code: number }>((resolve) => call.on('error', resolve as never))
    call.resume()
    setTimeout(() => call.cancel(), 100)
    t.equal((await ended).code, 1)
    const answers = (): Promise<boolean> =>
      flight.sql('SELECT 600 AS n').then(
        ({ rows }) => Number(rows[0].n) === 600,
        () => false,
      )
    await until('the engine goes on', answers)
  })

  t.test('CancelFlightInfo and CancelQuery end what is being answered', async (t) => {
    const heavy = 'SELECT sum(a.i * b.i % 11) FROM range(10000000) a(i), range(10000000) b(i)'
    for (const [type, body, result] of [
      ['CancelFlightInfo', (info: Uint8Array) => message({ 1: info }), (answer: Uint8Array) => answer],
      ['CancelQuery', (info: Uint8Array) => command('ActionCancelQueryRequest', { 1: info }), (answer: Uint8Array) => field(answer, 2) as Uint8Array],
    ] as const) {
      const info = one(await flight.call('GetFlightInfo', descriptor(command('CommandStatementQuery', { 1: heavy }))))
      await t.rejects(flight.action(type, body(info)), { code: 5, details: /cannot cancel the query: it is not being answered/ })
      const answer = flight.call('DoGet', message({ 1: infoOf(info).tickets[0] }))
      const [status] = await until('it is being answered', () =>
        flight.action(type, body(info)).catch((error: { code: number }) => {
          if (error.code !== 5) throw error
          return undefined
        }),
      )
      t.same(result(status), message({ 1: 1 }), type)
      t.match((await answer).error, { code: 1, details: /was cancelled as CancelFlightInfo asked for/ })
    }
  })

  t.test('what ListFlights tells cancels nothing but itself', async (t) => {
    const heavy = 'SELECT sum(a.i * b.i % 13) FROM range(10000000) a(i), range(10000000) b(i)'
    const call = flight.begin('DoGet', message({ 1: command('CommandStatementQuery', { 1: heavy }) }))
    const begun = new Promise((resolve) => call.on('data', resolve))
    const ended = new Promise<{ code: number }>((resolve) => call.on('error', resolve as never))
    await begun
    const infos = async () => (await flight.call('ListFlights', message({}))).messages
    const [info] = await infos()
    const ticket = writeTicket({ id: '', query: heavy, prepared: '', dictionaries: false })
    const withoutId = message({ 3: message({ 1: message({ 1: ticket }) }) })
    await t.rejects(flight.action('CancelFlightInfo', message({ 1: info })), { code: 5, details: /it is not being answered/ })
    await t.rejects(
      flight.action('CancelFlightInfo', message({ 1: withoutId })),
      { code: 5, details: /it is not being answered/ },
      'nor does a ticket without an id',
    )
    t.not(infoOf((await infos())[0]).tickets[0].toString(), infoOf(info).tickets[0].toString(), 'each has an id')
    call.cancel()
    t.match(await ended, { code: 1, details: 'Cancelled on client' })
  })

  t.test('what is wrong is said', async (t) => {
    for (const [query, details] of [
      ['SELEC 1', /cannot parse the query/],
      ['SELECT * FROM nope', /nope/],
      ['DROP TABLE cpu', /only queries are allowed/],
      [`SELECT * FROM read_text('/etc/passwd')`, /read_text/],
    ] as const) {
      await t.rejects(flight.sql(query), { code: 3, details }, query)
    }
    await t.rejects(flight.sql('SELECT idle / (idle - idle) FROM cpu'), { code: 3 })
    const wrong = async (bytes: Uint8Array, details: RegExp, code = 3) => {
      for (const [method, request] of [
        ['GetFlightInfo', descriptor(bytes)],
        ['DoGet', message({ 1: bytes })],
      ] as const) {
        t.match((await flight.call(method, request)).error, { code, details }, `${method}: ${details}`)
      }
    }
    await wrong(command('CommandStatementUpdate', { 1: 'cpu' }), /of kind update, which is for DoPut/)
    await wrong(command('CommandStatementSubstraitPlan', { 1: 'x' }), /Substrait plans are not supported/)
    await wrong(command('CommandNoSuch'), /CommandNoSuch": it is none of Flight SQL/)
    await wrong(command('CommandStatementQuery', { 1: 'select 1', 2: Buffer.from('tx') }), /there are no transactions/)
    await wrong(command('CommandPreparedStatementQuery', { 1: 'gone' }), /cannot find prepared statement "gone"/, 5)
    await wrong(Buffer.from('SELECT 1'), /it is no message of Flight SQL; send SQL by a client of Flight SQL/)
    t.match((await flight.call('GetFlightInfo', message({ 1: 1 }))).error, { code: 3, details: /neither a command nor a path/ })
    t.match((await flight.call('DoExchange', new Uint8Array(0))).error, { code: 12 })
  })

  t.test('metrics', async (t) => {
    const text = (await node.inject('/metrics')).body
    t.ok(Number(/^svc_flight_sql_queries_total (\d+)$/m.exec(text)?.[1]) > 5)
    t.ok(Number(/^svc_flight_sql_rows_sent_total (\d+)$/m.exec(text)?.[1]) > 500)
    t.match(text, /svc_flight_sql_calls_total\{method="\/arrow.flight.protocol.FlightService\/DoGet",status="OK"\} \d+/)
  })
})

t.test('large answers come in batches of the configured size', async (t) => {
  const { flight } = await startFlight(t, { section: { batch_rows: 1000 }, config: { server: { sql_max_rows: 1_000_000 } } })
  const { table, rows } = await flight.sql(`SELECT range AS n, 'text ' || range AS s FROM range(10500)`)
  t.ok(table.batches.length >= 11)
  t.ok(table.batches.every(({ numRows }) => numRows <= 1000))
  t.same(
    rows.map(({ n }) => n),
    Array.from({ length: 10_500 }, (_, i) => BigInt(i)),
  )
  t.equal(rows[10_499].s, 'text 10499')
})

t.test('a client that does not read holds its query back, and does not keep it beyond its time', async (t) => {
  const { flight, node } = await startFlight(t, { config: { server: { sql_max_rows: 100_000_000, sql_query_timeout_secs: 10 } } })
  const before = process.memoryUsage().arrayBuffers
  const call = flight.begin('DoGet', message({ 1: command('CommandStatementQuery', { 1: 'SELECT range AS a, range AS b FROM range(100000000)' }) }))
  const ended = new Promise<{ code: number }>((resolve) => call.on('error', resolve as never))
  let came = false
  call.on('data', () => {
    came = true
    call.pause()
  })
  const running = async () => /^svc_flight_sql_calls_running (\d+)$/m.exec((await node.inject('/metrics')).body)?.[1]
  await until('data comes', () => came)
  t.equal(await running(), '1')
  let most = 0
  await until('its time is over', async () => {
    most = Math.max(most, process.memoryUsage().arrayBuffers)
    return (await running()) === '0'
  })
  t.ok(most - before < 128 << 20, `of 1.6 GB ${Math.round((most - before) / 2 ** 20)} MiB wait`)
  call.on('data', () => {}).resume()
  t.ok([1, 4, 13, 14].includes((await ended).code), 'it does not pass for the whole answer')
})

t.test("Grafana's data source: save and test, the builder, a query", async (t) => {
  const { flight, write } = await startFlight(t)
  await write(`cpu,host=a usage=1.5,n=3i ${base}\nmem,host=a used=2 ${base}`)
  const login = await flight.put('Handshake', [], { authorization: `Basic ${Buffer.from('grafana:secret').toString('base64')}` })
  const token = { authorization: String(login.header.get('authorization')[0]) }
  t.same((await flight.sql('select 1', token)).rows, [{ 1: 1n }])
  const tables = await flight.read(command('CommandGetTables', { 4: ['BASE TABLE', 'table'] }), token)
  t.same(
    tables.rows.map((row) => row.table_name),
    ['cpu', 'mem'],
  )
  const columns = await flight.read(command('CommandGetTables', { 3: 'cpu', 4: ['BASE TABLE', 'table'], 5: true }), token)
  t.equal(columns.rows.length, 1)
  t.same(
    tableFromIPC(columns.rows[0].table_schema as Uint8Array).schema.fields.map(({ name, type }) => `${name}: ${type}`),
    ['_time: Timestamp<NANOSECOND>', 'host: Utf8', 'usage: Float64', 'n: Int64'],
  )
  const info = await flight.read(command('CommandGetSqlInfo'), token)
  t.ok(info.rows.length > 80)
  const series = await flight.sql(`SELECT _time AS time, usage, host FROM cpu WHERE _time >= ${base} ORDER BY time`, token)
  t.same(series.schema, ['time: Timestamp<NANOSECOND>', 'usage: Float64', 'host: Utf8'])
  t.same(series.rows, [{ time: base, usage: 1.5, host: 'a' }])
})

t.test('the answer to a command may also be had with the command as the ticket', async (t) => {
  const { flight } = await startFlight(t)
  for (const ticket of [command('CommandStatementQuery', { 1: 'select 7 as n' })]) {
    t.same(tableOf((await flight.call('DoGet', message({ 1: ticket }))).messages).toArray()[0].n, 7n)
  }
})

t.test('a message of very many fields is refused before each of them is answered', async (t) => {
  const { flight } = await startFlight(t)
  const many = (bytes: Uint8Array, count: number): Uint8Array => Buffer.alloc(bytes.length * count, bytes)
  const option = message({ 1: message({ 1: 'a' }) })
  const ticket = message({ 3: message({ 1: message({ 1: writeTicket({ id: 'x', query: '', prepared: '', dictionaries: false }) }) }) })
  const action = (type: string, body: Uint8Array) => flight.call('DoAction', message({ 1: type, 2: body }))
  const get = (name: string, value: Uint8Array) => flight.call('DoGet', message({ 1: writeAny(name, value) }))
  for (const [what, answer] of Object.entries({
    options: action('SetSessionOptions', many(option, 2000)),
    endpoints: action('CancelFlightInfo', message({ 1: many(ticket, 2000) })),
    types: get('CommandGetTables', many(message({ 4: 'TABLE' }), 2000)),
    numbers: get('CommandGetSqlInfo', many(message({ 1: 3 }), 2000)),
    'packed numbers': get('CommandGetSqlInfo', message({ 1: many(Uint8Array.of(3), 2000) })),
  }))
    t.match((await answer).error, { code: 3, details: /cannot read the message: it has more than 1024 (fields|numbers)/ }, what)
  t.equal((await action('SetSessionOptions', many(option, 1000))).error, undefined)
  t.equal((await get('CommandGetSqlInfo', message({ 1: many(Uint8Array.of(3), 1000) }))).error, undefined)
})

t.end()
