import { type ErrorCode, SvcError } from 'svcdb/lib/errors'
import { boot, Message, type TestNode } from 'svcdb/testkit'
import t from 'tap'
import { type Refusals, refusing } from '../../test/support/refusing.ts'
import { writeMetrics } from './testing-wire.ts'

const now = BigInt(Date.now()) * 1_000_000n
const body = writeMetrics([{ name: 'g', gauge: [{ time: now, value: 1 }] }])

/** A node whose writes, or callers, are refused with what is thrown at the time. */
async function refusingNode() {
  const state: Refusals = {}
  return { state, node: await boot({ plugins: ['otlp', refusing(state)] }) }
}

async function send(node: TestNode, type: string) {
  const json = '{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"g","gauge":{"dataPoints":[{"timeUnixNano":"%","asDouble":1}]}}]}]}]}'
  const payload = type === 'application/json' ? json.replace('%', String(now)) : body
  return node.inject({ method: 'POST', url: '/v1/metrics', headers: { 'content-type': type }, payload })
}

/** What exporters repeat, and nothing else: 429, 502, 503 and 504 (OTLP specification, Retryable Response Codes). */
const ANSWERS: [ErrorCode, number, string | undefined][] = [
  ['STORAGE_FULL', 503, '5'],
  ['BACKPRESSURE', 503, '1'],
  ['OVERLOADED', 503, '60'],
  ['DATABASE_CLOSED', 503, '5'],
  ['WRITE_TIMEOUT', 504, '5'],
  ['RATE_LIMITED', 429, '1'],
  ['DATABASE_ERROR', 503, '5'],
  ['INTERNAL_ERROR', 503, '5'],
  ['IO_ERROR', 503, '5'],
  ['ENCRYPTION_KEY_UNAVAILABLE', 503, '5'],
  ['BAD_REQUEST', 400, undefined],
  ['CARDINALITY_EXCEEDED', 400, undefined],
  ['FORBIDDEN', 403, undefined],
  ['CONFLICT', 409, undefined],
]

t.test('what may be sent again is answered with a status that exporters repeat, in both encodings', async (t) => {
  const { state, node } = await refusingNode()
  t.teardown(() => node.stop())
  for (const [code, status, retryAfter] of ANSWERS) {
    const error = new SvcError(code, 'the reason')
    state.write = error
    const redacted = ['DATABASE_ERROR', 'INTERNAL_ERROR', 'IO_ERROR'].includes(code)
    const message = redacted ? `${code}: an internal error occurred` : `${code}: the reason`
    const json = await send(node, 'application/json')
    t.equal(json.statusCode, status, code)
    t.equal(json.headers['retry-after'], retryAfter, code)
    const details: object[] = [{ '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason: code, domain: 'svc' }]
    if (retryAfter !== undefined) details.push({ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: `${retryAfter}s` })
    t.same(json.json(), { code: error.kind.grpc, message, details }, code)

    const protobuf = await send(node, 'application/x-protobuf')
    t.equal(protobuf.statusCode, status, code)
    t.equal(protobuf.headers['retry-after'], retryAfter, code)
    t.equal(protobuf.headers['content-type'], 'application/x-protobuf', code)
    const any = (type: string, value: Message) => new Message().put(1, `type.googleapis.com/google.rpc.${type}`).put(2, value.done()).done()
    const expected = new Message()
      .int(1, error.kind.grpc)
      .put(2, message)
      .put(3, any('ErrorInfo', new Message().put(1, code).put(2, 'svc')))
    if (retryAfter !== undefined) expected.put(3, any('RetryInfo', new Message().put(1, new Message().int(1, Number(retryAfter)).done())))
    t.same(protobuf.rawPayload, expected.done(), code)
  }
  state.write = Object.assign(new Error('write failed'), { cause: Object.assign(new Error('no space'), { code: 'ENOSPC' }) })
  t.match(await send(node, 'application/json'), { statusCode: 503, headers: { 'retry-after': '5' } })
  state.write = undefined
  t.equal((await send(node, 'application/json')).statusCode, 204, 'and then it is taken')
})

t.test('callers that are refused are told so in the same shape', async (t) => {
  const { state, node } = await refusingNode()
  t.teardown(() => node.stop())
  state.caller = new SvcError('UNAUTHORIZED', 'who are you')
  const nobody = await send(node, 'application/json')
  t.match(nobody, { statusCode: 401, headers: { 'www-authenticate': 'Bearer' } })
  t.match(nobody.json(), { code: 16, message: 'UNAUTHORIZED: who are you' })
  const protobuf = await send(node, 'application/x-protobuf')
  t.match(protobuf, { statusCode: 401, headers: { 'content-type': 'application/x-protobuf' } })
  state.caller = new SvcError('RATE_LIMITED', 'Too Many Requests')
  t.match(await send(node, 'application/json'), { statusCode: 429, headers: { 'retry-after': '1' } })
})
