/** What is counted for all listeners: writes that fail before any of them is asked of the storage, and SQL results that were cut. */
import { Float64 } from 'apache-arrow'
import { boot } from 'svcdb/testkit'
import t from 'tap'
import { command, descriptor } from '../../plugins/flight_sql/testing.ts'
import { flightStream } from '../../plugins/flight_sql/testing-stream.ts'
import { clientsOf } from '../support/clients.ts'

const node = await boot({
  plugins: ['native', 'line_protocol', 'remote_write', 'otlp', 'grpc', 'flight_sql', 'sql'],
  storage: 'embedded',
  config: {
    server: { max_body_size: 4096, sql_max_rows: 2 },
    grpc: { addr: '127.0.0.1:0' },
    flight_sql: { addr: '127.0.0.1:0' },
  },
})
const { grpc, flight } = clientsOf(t, node)

async function metric(line: string): Promise<number> {
  const { body } = await node.inject('/metrics')
  return Number(
    body
      .split('\n')
      .find((each) => each.startsWith(`${line} `))
      ?.slice(line.length + 1),
  )
}

const REJECTED = 'svc_write_errors_total{reason="rejected"}'
const JSON_TYPE = 'application/json'
const PROTOBUF = 'application/x-protobuf'

t.test('a body that is refused is a failed write, over HTTP', async (t) => {
  const large = 'x'.repeat(5000)
  for (const [url, type, payload, status] of [
    ['/api/v1/write', JSON_TYPE, '[{"measurement":"m"', 400],
    ['/api/v1/write', JSON_TYPE, '[{"measurement":"m","fields":{"v":1}},{"measurement":"m","fields":{"v":"text"}}]', 400],
    ['/api/v1/write', 'text/css', '[]', 415],
    ['/api/v1/write', JSON_TYPE, large, 413],
    ['/write', 'text/plain', 'no line', 400],
    ['/api/v2/write?precision=days', 'text/plain', 'm v=1', 400],
    ['/api/v1/write/influx', 'text/plain', large, 413],
    ['/api/v1/prom/write', PROTOBUF, 'not snappy', 400],
    ['/api/v1/prom/write', 'text/plain', 'x', 415],
    ['/api/v1/prom/write', PROTOBUF, large, 413],
    ['/v1/metrics', JSON_TYPE, '{"resourceMetrics":1}', 400],
    ['/api/v1/otlp/metrics', PROTOBUF, '\u0001', 400],
    ['/v1/metrics', 'text/plain', 'x', 415],
    ['/v1/metrics', PROTOBUF, large, 413],
  ] as const) {
    const before = await metric(REJECTED)
    const answer = await node.inject({ method: 'POST', url, payload, headers: { 'content-type': type } })
    t.equal(answer.statusCode, status, `${url}: ${answer.body}`)
    t.equal((await metric(REJECTED)) - before, 1, `${url} ${type} ${status}`)
  }
})

t.test('and over gRPC and Flight SQL', async (t) => {
  const before = await metric(REJECTED)
  await t.rejects(grpc.call('Write', { points: [{ measurement: '', timestamp: '1', tags: [], fields: [] }] }))
  t.equal((await metric(REJECTED)) - before, 1, 'Write')
  const query = descriptor(command('CommandStatementUpdate', { 1: 'SELECT 1' }))
  const { error } = await flight.put('DoPut', flightStream(query, [[{ name: 'v', type: new Float64(), values: [1] }]], []))
  t.match(error?.details, /SQL only reads here/)
  t.equal((await metric(REJECTED)) - before, 2, 'DoPut')
})

t.test('nobody who may not write has a write that fails', async (t) => {
  const before = await metric(REJECTED)
  t.equal((await node.inject({ method: 'DELETE', url: '/write' })).statusCode, 405)
  t.equal((await node.inject({ method: 'POST', url: '/write', headers: { 'x-namespace': 'NO' }, payload: 'm v=1' })).statusCode, 400)
  t.equal(await metric(REJECTED), before)
})

t.test('SQL results that were cut', async (t) => {
  const TRUNCATED = 'svc_sql_results_truncated_total'
  t.equal(await metric(TRUNCATED), 0)
  for (const [query, more] of [
    ['SELECT * FROM range(2)', 0],
    ['SELECT * FROM range(3)', 1],
  ] as const) {
    const before = await metric(TRUNCATED)
    t.equal((await node.inject({ method: 'POST', url: '/api/v1/svc/sql', payload: { query } })).json().truncated, more === 1)
    t.equal((await metric(TRUNCATED)) - before, more, 'over HTTP')
    t.equal((await grpc.call('ExecuteSql', { query })).truncated, more === 1)
    t.equal((await metric(TRUNCATED)) - before, more * 2, 'over gRPC')
  }
})
