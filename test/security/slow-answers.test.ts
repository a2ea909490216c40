/** Answers that their clients take slowly, on all listeners: when the key is revoked, what is not sent yet stays here. */
import { connect as connectHttp2 } from 'node:http2'
import { connect } from 'node:net'
import { boot } from 'svcdb/testkit'
import t from 'tap'
import { keyText } from '../../plugins/api_keys/testing.ts'
import { command, message } from '../../plugins/flight_sql/testing.ts'
import { until } from '../support/until.ts'

t.setTimeout(120_000)

const ROWS = 300_000
/** What sockets, windows and buffers hold of an answer. */
const AHEAD = 12 << 20
const TEXT = 'x'.repeat(60)
const root = { authorization: `Bearer ${keyText()}` }

interface SlowAnswer {
  bytes(): number
  /** Takes what comes from now on. @returns what says how it ended. */
  rest(): Promise<string>
}

/** Takes nothing behind the begin. */
async function slowHttp(url: string, authorization: string, path: string, body: string): Promise<SlowAnswer> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  const head = ['Host: localhost', 'Connection: close', `Authorization: ${authorization}`, 'Content-Type: application/json', `Content-Length: ${body.length}`]
  socket.write(`POST ${path} HTTP/1.1\r\n${head.join('\r\n')}\r\n\r\n${body}`)
  let bytes = 0
  let end = ''
  socket.on('data', (chunk) => {
    if (bytes === 0) socket.pause()
    bytes += chunk.length
    end = (end + chunk.toString('latin1')).slice(-16)
  })
  socket.on('error', () => {})
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
  await until('the answer begins', () => bytes > 0)
  return {
    bytes: () => bytes,
    async rest() {
      socket.resume()
      await closed
      return end.endsWith('0\r\n\r\n') ? 'whole' : 'cut'
    },
  }
}

async function slowGrpc(port: number, authorization: string, path: string, request: Uint8Array): Promise<SlowAnswer> {
  const session = connectHttp2(`http://127.0.0.1:${port}`)
  const stream = session.request({ ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers', authorization })
  const head = Buffer.alloc(5)
  head.writeUInt32BE(request.length, 1)
  stream.end(Buffer.concat([head, request]))
  let bytes = 0
  stream.on('data', (chunk) => {
    if (bytes === 0) stream.pause()
    bytes += chunk.length
  })
  const status = new Promise<string>((resolve) => stream.on('trailers', (trailers) => resolve(`status ${trailers['grpc-status']}`)))
  await until('the answer begins', () => bytes > 0)
  return {
    bytes: () => bytes,
    async rest() {
      stream.resume()
      const ended = await status
      session.destroy()
      return ended
    },
  }
}

t.test('answers that are under way when their key is revoked', async (t) => {
  const node = await boot({
    storage: 'embedded',
    plugins: ['api_keys', 'line_protocol', 'native', 'sql', 'grpc', 'flight_sql'],
    config: {
      server: { sql_max_rows: 2 * ROWS },
      auth: { api_keys: [{ name: 'root', key: root.authorization.slice(7), admin: true }] },
      grpc: { addr: '127.0.0.1:0' },
      flight_sql: { addr: '127.0.0.1:0' },
    },
  })
  t.teardown(() => node.stop())
  const now = BigInt(Date.now()) * 1_000_000n
  for (let from = 0; from < ROWS; from += 50_000) {
    const lines = Array.from({ length: 50_000 }, (_, i) => `big a=${from + i},s="${TEXT}${from + i}" ${now - BigInt(from + i) * 1000n}`)
    const { statusCode } = await node.inject({ method: 'POST', url: '/write', payload: lines.join('\n'), headers: { ...root, 'content-type': 'text/plain' } })
    t.equal(statusCode, 204)
  }
  const sql = 'SELECT * FROM big'
  const [grpc, flight] = [node.port('grpc'), node.port('flight_sql')]
  const answers: [string, ended: string, (authorization: string) => Promise<SlowAnswer>][] = [
    ['SQL over HTTP', 'cut', (key) => slowHttp(node.url, key, '/api/v1/svc/sql', JSON.stringify({ query: sql }))],
    ['a native query', 'cut', (key) => slowHttp(node.url, key, '/api/v1/svc/query', JSON.stringify({ measurement: 'big', limit: ROWS }))],
    ['Query', 'status 16', (key) => slowGrpc(grpc, key, '/svc.Service/Query', message({ 1: 'big' }))],
    [
      'DoGet',
      'status 16',
      (key) => slowGrpc(flight, key, '/arrow.flight.protocol.FlightService/DoGet', message({ 1: command('CommandStatementQuery', { 1: sql }) })),
    ],
  ]
  for (const [what, ended, begin] of answers) {
    const made = await node.inject({ method: 'POST', url: '/api/v1/admin/auth/keys', payload: { name: what, admin: true, namespaces: ['*'] }, headers: root })
    t.equal(made.statusCode, 201)
    const answer = await begin(`Bearer ${made.json().key}`)
    const revoked = await node.inject({ method: 'DELETE', url: `/api/v1/admin/auth/keys/${encodeURIComponent(what)}`, headers: root })
    t.equal(revoked.statusCode, 204)
    t.equal(await answer.rest(), ended, what)
    t.ok(answer.bytes() < AHEAD, `${what}: ${answer.bytes()} bytes`)
  }
})
