import t from 'tap'
import { descriptor, message, rowsOf, startFlight, tableOf } from './testing.ts'

const LINES = 'cpu,host=a n=9007199254740993i,f=0.5 1700000000000000001\ncpu,host=b n=2i,f=2 1700000000000000002'
const bytes = (ticket: unknown): Uint8Array => Buffer.from(typeof ticket === 'string' ? ticket : JSON.stringify(ticket))

async function start(t: Parameters<typeof startFlight>[0], options: Parameters<typeof startFlight>[1] = {}) {
  const { flight, write, node } = await startFlight(t, options)
  /** As the clients do: DoGet and nothing before it. */
  const get = async (ticket: unknown, metadata = {}): Promise<Record<string, unknown>[]> => {
    const { messages, error } = await flight.call('DoGet', message({ 1: bytes(ticket) }), metadata)
    if (error !== undefined) throw error
    return rowsOf(tableOf(messages))
  }
  return { flight, write, node, get }
}

t.test('tickets of InfluxDB 3 clients', async (t) => {
  const { flight, node, get } = await start(t)
  const written = await node.inject({ method: 'POST', url: '/api/v3/write_lp?db=d&backfill=true', payload: LINES })
  t.equal(written.statusCode, 204, written.body)
  const sql_query = 'SELECT host, n FROM cpu ORDER BY host'
  const both = [
    { host: 'a', n: 9007199254740993n },
    { host: 'b', n: 2n },
  ]

  t.test('as each of them writes it', async (t) => {
    t.same(await get(`{"database": "d", "sql_query": "${sql_query}", "query_type": "sql"}`), both, 'Python')
    t.same(await get(`{"database":"d","query_type":"sql","sql_query":"${sql_query}"}`), both, 'Go')
    t.same(await get({ database: 'd', sql_query, query_type: 'sql', params: {} }), both, 'JavaScript')
    t.same(await get({ sql_query, params: null }), both)
  })

  t.test('values by name, with all their digits', async (t) => {
    const one = [{ host: 'a' }]
    const where = (condition: string, params: string) => get(`{"sql_query": "SELECT host FROM cpu WHERE ${condition}", "params": ${params}}`)
    t.same(await where('host = $h AND n > $n', '{"n": 1, "unused": [], "h": "a"}'.replace('[]', 'true')), one)
    t.same(await where('n = $n', '{"n": 9007199254740993}'), one)
    t.same(await where('n = $n', '{"n": 9007199254740992}'), [])
    t.same(await where('f < $f', '{"f": 0.75}'), one)
    t.same(await where('_time = $t', '{"t": "2023-11-14T22:13:20.000000001Z"}'), one)
    t.same(await where('$b OR host IS NULL', '{"b": false}'), [])
    t.same(await get(`{"sql_query": "SELECT $x AS x, $x IS NULL AS y", "params": {"x": null}}`), [{ x: null, y: true }])
  })

  t.test('what cannot be answered', async (t) => {
    for (const [ticket, details] of [
      [{ database: 'd', sql_query: 'SHOW MEASUREMENTS', query_type: 'influxql' }, /InfluxDB 3 send it: its "query_type" is "influxql", and only "sql"/],
      [{ database: 'd' }, /no text "sql_query"/],
      [{ sql_query: 1 }, /no text "sql_query"/],
      ['{"sql_query": "SELECT 1"', /cannot read the ticket.*JSON/],
      [{ sql_query, params: [] }, /its "params" is no object/],
      [{ sql_query, params: { a: [1] } }, /its parameter "a" is neither/],
      [{ sql_query: 'SELECT $a', params: { b: 1 } }, /no value was given for its parameter \$a/],
      [{ sql_query: 'SELECT $a' }, /no values were given for its parameter/],
      [{ sql_query: 'SELECT * FROM nope' }, /nope/],
      [{ sql_query: 'DROP TABLE cpu' }, /only queries are allowed/],
    ] as const)
      await t.rejects(get(ticket), { code: 3, details }, String(details))
    t.match((await flight.call('GetFlightInfo', descriptor(bytes({ sql_query })))).error, { code: 3, details: /it is JSON, .* which are for DoGet/ })
  })
})

t.test('where namespaces are kept apart, the database is that of the call', async (t) => {
  const { node, get } = await start(t, { config: { server: { multi_tenancy: true } } })
  for (const [namespace, value] of [
    ['red', 1],
    ['blue', 2],
  ] as const) {
    const headers = { 'x-namespace': namespace }
    t.equal((await node.inject({ method: 'POST', url: '/write', payload: `cpu v=${value}`, headers })).statusCode, 204)
  }
  const sql_query = 'SELECT v FROM cpu'
  t.same(await get({ database: 'red', sql_query }, { 'x-namespace': 'red' }), [{ v: 1 }])
  t.same(await get({ sql_query }, { 'x-namespace': 'blue' }), [{ v: 2 }])
  await t.rejects(get({ database: 'red', sql_query }, { 'x-namespace': 'blue' }), {
    code: 3,
    details: /database is "red", and the namespace of the call "blue"/,
  })
})
