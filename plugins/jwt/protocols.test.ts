/** Tokens over the listeners that are not HTTP. */
import type { ServiceError } from '@grpc/grpc-js'
import t from 'tap'
import { startFlight } from '../flight_sql/testing.ts'
import { point, start, TestClient } from '../grpc/testing.ts'
import jwt from './index.ts'
import { claimsOf, SECRET, sign } from './testing.ts'

const config = { auth: { jwt: { secret: SECRET } } }
const expired = { exp: Math.floor(Date.now() / 1000) - 100 }

t.test('gRPC', async (t) => {
  const { node, port } = await start({ plugins: [jwt], config })
  const client = new TestClient(port)
  t.teardown(async () => {
    client.close()
    await node.stop()
  })
  const call = async (authorization?: string, more: Record<string, string> = {}) => {
    const metadata = authorization === undefined ? {} : { authorization, ...more }
    return client.call('ServerInfo', {}, { metadata }).then(
      () => ({ code: 0, details: '' }),
      ({ code, details }: ServiceError) => ({ code, details }),
    )
  }
  const token = await sign(SECRET)
  t.match(await call(`Bearer ${token}`), { code: 0 })
  t.match(await call(`bearer ${token}`), { code: 0 }, 'from the cache')
  t.match(await call(), { code: 16, details: /no credentials/ })
  t.match(await call(`Bearer ${await sign(SECRET, claimsOf(expired))}`), { code: 16, details: /it has expired/ })
  t.match(await call(`Bearer ${await sign(SECRET, claimsOf({ namespaces: 'red' }))}`, { 'x-namespace': 'blue' }), { code: 7 })
  const long = await sign(SECRET, claimsOf({ padding: 'x'.repeat(13_000) }))
  t.match(await call(`Bearer ${long}`), { code: 16, details: /more than 16384 characters/ })
})

t.test('a token is taken to its end with the skew, also for what is written and for calls that go on', async (t) => {
  const { node, port } = await start({
    plugins: [jwt, 'native'],
    storage: 'embedded',
    config: { auth: { jwt: { secret: SECRET, clock_skew_secs: 300 } } },
  })
  const client = new TestClient(port)
  t.teardown(async () => {
    client.close()
    await node.stop()
  })
  const authorization = `Bearer ${await sign(SECRET, claimsOf(expired))}`
  const payload = [{ measurement: 'm', fields: { v: 1 } }]
  t.equal((await node.inject({ method: 'POST', url: '/api/v1/write', payload, headers: { authorization } })).statusCode, 204)
  const { stream, answer } = client.streamWrite({ metadata: { authorization } })
  stream.write({ points: [point('m', BigInt(Date.now()) * 1_000_000n, {}, { v: 1 })] })
  stream.end()
  t.match(await answer, { total_written: '1' })
})

t.test('Flight SQL: in the metadata, and by a login', async (t) => {
  const { flight } = await startFlight(t, { others: [jwt], config: { ...config, flight_sql: undefined } })
  const token = await sign(SECRET)
  const failed = (headers: Record<string, string>) =>
    flight.sql('SELECT 1 AS one', headers).then(
      () => undefined,
      ({ code, details }: ServiceError) => ({ code, details }),
    )
  t.match((await flight.sql('SELECT 1 AS one', { authorization: `Bearer ${token}` })).rows, [{ one: 1 }])
  t.match(await failed({}), { code: 16, details: /no credentials/ })
  t.match(await failed({ authorization: `Bearer ${await sign(SECRET, claimsOf(expired))}` }), { code: 16, details: /it has expired/ })
  const basic = `Basic ${Buffer.from(`ann:${token}`).toString('base64')}`
  const login = await flight.put('Handshake', [], { authorization: basic })
  t.equal(login.error, undefined)
  const [session] = login.header.get('authorization') as string[]
  t.match(session, /^Bearer /)
  t.match((await flight.sql('SELECT 1 AS one', { authorization: session })).rows, [{ one: 1 }])
})
