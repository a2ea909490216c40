/** What every refusal of the server has, the answers in the shape of InfluxDB have, too. */
import { type ErrorCode, SvcError } from 'svcdb/lib/errors'
import { boot } from 'svcdb/testkit'
import t from 'tap'
import { type Refusals, refusing } from '../../test/support/refusing.ts'
import plugin from './index.ts'

/** A node whose writes, or callers, are refused with what is thrown at the time. */
async function refusingNode(log: (line: string) => void = () => {}) {
  const state: Refusals = {}
  const node = await boot({ plugins: [plugin, refusing(state)], log })
  const write = (path = '/api/v2/write') => node.inject({ method: 'POST', url: `${path}?bucket=b`, payload: 'm v=1' })
  return { state, node, write }
}

t.test('status, Retry-After, headers and detail of an error are those of the table', async (t) => {
  const { state, node, write } = await refusingNode()
  t.teardown(() => node.stop())
  const cases: [ErrorCode, number, string | undefined][] = [
    ['STORAGE_FULL', 507, '5'],
    ['BACKPRESSURE', 503, '1'],
    ['CONFLICT', 409, undefined],
  ]
  for (const [code, status, retryAfter] of cases) {
    state.write = new SvcError(code, 'the reason', { detail: { written: 1 } })
    const answer = await write()
    t.equal(answer.statusCode, status, code)
    t.equal(answer.headers['retry-after'], retryAfter, code)
    t.match(answer.headers['x-influxdb-version'], /^1\.8/)
    t.same(answer.json(), { error: 'the reason', code, written: 1, message: 'the reason' }, code)
  }
  state.write = new SvcError('RATE_LIMITED', 'slowly', { headers: { 'retry-after': '7' } })
  t.match(await write('/write'), { statusCode: 429, headers: { 'retry-after': '7', 'x-influxdb-error': 'slowly' } })
  state.write = undefined
  state.caller = new SvcError('UNAUTHORIZED', 'who are you')
  t.match(await write(), { statusCode: 401, headers: { 'www-authenticate': 'Bearer', 'x-influx-error': 'who are you' } })
})

t.test('answers are "application/json" and no more, as those of InfluxDB 1 are: Icinga reads no reason under another Content-Type', async (t) => {
  const { state, node } = await refusingNode()
  t.teardown(() => node.stop())
  const asked = async (method: string, path: string, body?: string) => {
    const answer = await fetch(`${node.node.url}${path}`, { method, body })
    return [answer.status, answer.headers.get('content-type'), typeof ((await answer.json()) as { error?: string }).error] as const
  }
  for (const path of ['/write', '/api/v1/write/influx', '/api/v2/write', '/api/v3/write_lp']) {
    t.same(await asked('POST', path, 'm v='), [400, 'application/json', 'string'], `${path}: a line`)
    t.same(await asked('POST', `${path}?precision=y`, 'm v=1'), [400, 'application/json', 'string'], `${path}: a parameter`)
  }
  t.same(await asked('POST', '/api/v2/delete?bucket=b', '{'), [400, 'application/json', 'string'])
  t.same(await asked('GET', '/query?q=SELECT'), [400, 'application/json', 'string'])
  t.same(await asked('GET', '/query?q=SHOW+DATABASES'), [200, 'application/json', 'undefined'])
  state.caller = new SvcError('UNAUTHORIZED', 'who are you')
  t.same(await asked('POST', '/write', 'm v=1'), [401, 'application/json', 'string'])
})

t.test("what is the server's own fault is logged, and callers read no more than that", async (t) => {
  const lines: string[] = []
  const { state, node, write } = await refusingNode((line) => lines.push(line))
  t.teardown(() => node.stop())
  state.write = new Error('the password is hunter2')
  const answer = await write()
  t.equal(answer.statusCode, 500)
  const text = 'INTERNAL_ERROR: an internal error occurred'
  t.same(answer.json(), { error: text, code: 'INTERNAL_ERROR', message: text })
  t.equal(answer.headers['x-influx-error'], text)
  const [failed] = lines.map((line) => JSON.parse(line)).filter(({ msg }) => msg === 'request failed')
  t.match(failed, { method: 'POST', path: '/api/v2/write', code: 'INTERNAL_ERROR', err: { message: 'the password is hunter2' } })
})
