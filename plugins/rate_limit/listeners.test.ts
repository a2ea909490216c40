/** The same limits over gRPC and Flight SQL. */
import { Metadata, type ServiceError } from '@grpc/grpc-js'
import t from 'tap'
import { descriptor, startFlight } from '../flight_sql/testing.ts'
import { start, TestClient } from '../grpc/testing.ts'
import plugin from './index.ts'
import { keys } from './testing.ts'

const RESOURCE_EXHAUSTED = 8
const UNAUTHENTICATED = 16

/** The error that a call ends with, or undefined. */
const errorOf = (answer: Promise<unknown>): Promise<ServiceError | undefined> =>
  answer.then(
    () => undefined,
    (error) => error,
  )

const told = (metadata: Metadata | undefined) =>
  Object.fromEntries(['retry-after', 'x-ratelimit-limit', 'x-ratelimit-remaining', 'svc-code'].map((name) => [name, metadata?.get(name)[0]]))

t.test('gRPC', async (t) => {
  const rate_limit = { requests_per_second: 1, burst_size: 6, trust_proxy_headers: true, max_auth_failures: 3 }
  const server = { per_user_rate_limit_rps: 1, per_user_rate_limit_burst: 2 }
  const { node, port } = await start({ plugins: [plugin, keys], config: { rate_limit, server } })
  const client = new TestClient(port)
  t.teardown(async () => {
    client.close()
    await node.stop()
  })
  const ask = (name: string, from: string) =>
    errorOf(client.query({ sql: 'select 1', format: 'ROWS' }, { metadata: { authorization: `Bearer ${name}`, 'x-forwarded-for': from } }))

  const first = await Promise.all(Array.from({ length: 12 }, (_, i) => ask(`p${i}`, '192.0.2.1')))
  const refused = first.filter((error) => error?.code === RESOURCE_EXHAUSTED)
  t.ok(refused.length >= 5 && refused.length <= 6, `${refused.length} of 12 are refused`)
  t.match(refused[0]?.details, /^Too Many Requests: cannot take one more from address "192.0.2.1"/)
  t.match(told(refused[0]?.metadata), { 'retry-after': '1', 'x-ratelimit-limit': '6', 'x-ratelimit-remaining': '0', 'svc-code': 'RATE_LIMITED' })

  const user = (await Promise.all(Array.from({ length: 6 }, () => ask('ann', '192.0.2.2')))).filter((error) => error?.code === RESOURCE_EXHAUSTED)
  t.ok(user.length >= 3, 'a principal')
  t.match(user[0]?.details, /of user "ann"/)

  for (let i = 0; i < 3; i++) t.equal((await ask('wrong', '192.0.2.3'))?.code, UNAUTHENTICATED)
  const banned = await ask('bob', '192.0.2.3')
  t.equal(banned?.code, RESOURCE_EXHAUSTED)
  t.match(banned?.details, /its credentials were refused 3 times/)
  t.ok(Number(told(banned?.metadata)['retry-after']) > 290)
  const overHttp = await node.inject({ url: '/metrics', headers: { authorization: 'Bearer bob', 'x-forwarded-for': '192.0.2.3' } })
  t.equal(overHttp.statusCode, 429, 'on every listener')
  t.equal(await errorOf(client.call('Health/Check', { service: '' })), undefined, 'health is not limited')
})

t.test('a proxy that adds a line of its own to those of the caller, over gRPC', async (t) => {
  const { node, port } = await start({ plugins: [plugin, keys], config: { rate_limit: { trust_proxy_headers: true, max_auth_failures: 2 } } })
  const client = new TestClient(port)
  t.teardown(async () => {
    client.close()
    await node.stop()
  })
  const ask = (name: string, claimed: string) => {
    const metadata = new Metadata()
    metadata.set('authorization', `Bearer ${name}`)
    for (const line of [claimed, '192.0.2.9']) metadata.add('x-forwarded-for', line)
    return new Promise<ServiceError | null>((resolve) => void client.service.ListMeasurements({}, metadata, resolve))
  }
  for (const claimed of ['192.0.2.1', '192.0.2.2']) t.equal((await ask('wrong', claimed))?.code, UNAUTHENTICATED)
  t.match((await ask('ann', '192.0.2.3'))?.details, /from address "192.0.2.9": its credentials were refused 2 times/)
})

t.test('Flight SQL', async (t) => {
  const config = { rate_limit: { requests_per_second: 1, burst_size: 3, max_auth_failures: 2, trust_proxy_headers: true } }
  const { flight } = await startFlight(t, { others: [plugin, keys], config })
  const ask = async (name: string, from: string) =>
    (await flight.call('GetFlightInfo', descriptor('select 1'), { authorization: `Bearer ${name}`, 'x-forwarded-for': from })).error
  const errors = []
  for (let i = 0; i < 8; i++) errors.push(await ask('ann', '192.0.2.1'))
  const refused = errors.filter((error) => error?.code === RESOURCE_EXHAUSTED)
  t.ok(refused.length >= 2, `${refused.length} of 8 are refused`)
  t.match(refused[0]?.details, /^Too Many Requests/)
  t.equal((await ask('wrong', '192.0.2.2'))?.code, UNAUTHENTICATED)
  t.equal((await ask('wrong', '192.0.2.2'))?.code, UNAUTHENTICATED)
  t.match((await ask('ann', '192.0.2.2'))?.details, /its credentials were refused 2 times/)
})
