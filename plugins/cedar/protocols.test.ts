import t from 'tap'
import { startFlight } from '../flight_sql/testing.ts'
import { start, TestClient } from '../grpc/testing.ts'
import plugin from './index.ts'
import { believer, policyFolder, tokenFor } from './testing.ts'

const POLICIES = 'permit(principal == Svc::User::"reader", action == Svc::Action::"Read", resource == Svc::Namespace::"red");'
const PERMISSION_DENIED = 7
const text = /cannot authorize "(Write|Read)" on namespace "(red|blue)" for "reader": the policies do not permit it/

t.test('gRPC', async (t) => {
  const config = { authorization: { policy_dir: policyFolder(t, { 'all.cedar': POLICIES }) } }
  const { node, port } = await start({ plugins: [plugin, believer], config })
  const client = new TestClient(port)
  t.teardown(async () => {
    client.close()
    await node.stop()
  })
  const metadata = (namespace: string) => ({ metadata: { authorization: tokenFor({ principal: 'reader' }), 'x-namespace': namespace } })
  t.match(await client.call('ListMeasurements', {}, metadata('red')), {})
  await t.rejects(client.call('Write', {}, metadata('red')), { code: PERMISSION_DENIED, details: text })
  await t.rejects(client.call('ListMeasurements', {}, metadata('blue')), { code: PERMISSION_DENIED, details: text })
})

t.test('Flight SQL', async (t) => {
  const config = { authorization: { policy_dir: policyFolder(t, { 'all.cedar': POLICIES }) } }
  const { flight } = await startFlight(t, { others: [plugin, believer], config })
  const metadata = (namespace: string) => ({ authorization: tokenFor({ principal: 'reader' }), 'x-namespace': namespace })
  t.same((await flight.sql('SELECT 1 AS one', metadata('red'))).rows.length, 1)
  await t.rejects(flight.sql('SELECT 1 AS one', metadata('blue')), { code: PERMISSION_DENIED, details: text })
})
