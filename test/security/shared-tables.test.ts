/** Tenants whose texts share a file: statements over HTTP, Flight SQL and prepared ones tell nothing of another's values, by errors or by plans. */
import { boot } from 'svcdb/testkit'
import t from 'tap'
import { command, descriptor, FlightClient, field } from '../../plugins/flight_sql/testing.ts'
import keys from './tenant-keys.ts'

const ROWS = 5000
const UNITS = ['day', 'hour']

t.test('texts of another tenant in the same file', { timeout: 120_000 }, async (t) => {
  const node = await boot({
    plugins: [keys, 'namespaces', 'line_protocol', 'sql', 'flight_sql'],
    storage: 'embedded',
    config: {
      server: { multi_tenancy: true },
      namespaces: { default_max_ingestion_rate: 0 },
      database: { warm_up_ms: 0, query_threads: 1 },
      flight_sql: { addr: '127.0.0.1:0' },
    } as never,
  })
  const flight = new FlightClient(node.port('flight_sql'))
  t.teardown(async () => {
    flight.close()
    await node.stop()
  })
  const headers = (who: string) => ({ authorization: `Bearer ${who}` })
  const now = BigInt(Date.now()) * 1_000_000n
  for (const who of ['bob', 'alice']) {
    const payload = Array.from({ length: ROWS }, (_, i) => `units value="${who === 'alice' ? UNITS[i % 2] : `secret-${i % 50}`}" ${now - BigInt(i) * 1000n}`)
    const { statusCode, body } = await node.inject({
      method: 'POST',
      url: '/write',
      headers: { 'content-type': 'text/plain', ...headers(who) },
      payload: payload.join('\n'),
    })
    t.equal(statusCode, 204, body)
  }
  await node.storage.flush()
  const http = async (query: string): Promise<string> =>
    (await node.inject({ method: 'POST', url: '/api/v1/svc/sql', headers: headers('alice'), payload: { query } as never })).body
  const computed = [
    'date_trunc(value, now())',
    "date_diff(value, '2020-01-01'::DATE, '2020-01-02'::DATE)",
    "date_sub(value, _time, '2020-01-01'::TIMESTAMP_NS)",
  ]
  for (const expression of computed) {
    for (const query of [`SELECT count(${expression}) AS n FROM units`, `SELECT count(*) AS n FROM units WHERE (${expression}) IS NOT NULL`]) {
      t.match(await http(query), new RegExp(`\\b${ROWS}\\b`), query)
      t.same((await flight.sql(query, headers('alice'))).rows, [{ n: BigInt(ROWS) }], query)
      const body = command('ActionCreatePreparedStatementRequest', { 1: query })
      const [prepared] = await flight.action('CreatePreparedStatement', body, headers('alice'))
      const handle = field(field(prepared, 2) as Uint8Array, 1) as Uint8Array
      const info = await flight.call('GetFlightInfo', descriptor(command('CommandPreparedStatementQuery', { 1: handle })), headers('alice'))
      t.equal(info.error, undefined, query)
      t.same((await flight.read(command('CommandPreparedStatementQuery', { 1: handle }), headers('alice'))).rows, [{ n: BigInt(ROWS) }], query)
    }
  }
  const plan = (value: string): Promise<string> => http(`EXPLAIN SELECT count(*) FROM units WHERE value > '${value}'`)
  t.equal(/EMPTY_RESULT/.test(await plan('zz')), /EMPTY_RESULT/.test(await plan('j')), 'the plan is the same beyond the values of another')
})
