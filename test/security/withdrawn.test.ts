/** Calls that go on and on, or arrive slowly, end when the authorizers would no longer let them begin: policies change while they are open. */
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { Float64 } from 'apache-arrow'
import { type Decision, definePlugin } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { boot, temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { keyText } from '../../plugins/api_keys/testing.ts'
import { EventClient } from '../../plugins/cdc/testing.ts'
import { command, descriptor } from '../../plugins/flight_sql/testing.ts'
import { flightStream } from '../../plugins/flight_sql/testing-stream.ts'
import { point } from '../../plugins/grpc/testing.ts'
import { clientsOf } from '../support/clients.ts'
import { lateHttp } from './late-requests.ts'

const PERMISSION_DENIED = 7

t.test('what was permitted and is no more', async (t) => {
  let permitted = true
  const asked = new Map<string, number>()
  const decisions: Decision[] = []
  const policies = definePlugin({
    id: 'policies',
    summary: 'Changes its mind',
    stability: 'beta',
    setup(svc) {
      svc.auth.authenticator(() => ({ principal: 'ann', method: 'test', claims: {}, namespaces: [], admin: true }))
      svc.auth.authorizer(({ resource }) => {
        asked.set(resource, (asked.get(resource) ?? 0) + 1)
        return permitted || resource === '/metrics' ? undefined : new SvcError('FORBIDDEN', 'the policies have changed')
      })
      svc.auth.observer((decision) => void decisions.push({ ...decision }))
    },
  })
  const node = await boot({
    storage: 'embedded',
    plugins: ['native', 'grpc', 'flight_sql', 'cdc', policies],
    config: { grpc: { addr: '127.0.0.1:0' }, flight_sql: { addr: '127.0.0.1:0' } },
  })
  const { grpc: client, flight } = clientsOf(t, node)
  const late = await lateHttp(node, {}, '/api/v1/write', 'application/json', '[{"measurement": "late", "fields": {"v": 1}}]')
  const { stream, answer } = client.streamWrite()
  const subscription = await client.subscribe().begun()
  const events = await EventClient.open(`${node.url}/api/v1/cdc/stream`)
  const [schema, row] = flightStream(descriptor(command('CommandStatementUpdate', { 1: 'm' })), [[{ name: 'v', type: new Float64(), values: [1] }]])
  // A client that goes on until it is told to stop.
  const over = new AbortController()
  t.teardown(() => over.abort())
  const put = flight.putAll('DoPut', schema, row, over.signal)
  const writing = setInterval(() => stream.write({ points: [point('m', 1, {}, { v: 1 })] }), 10)
  t.teardown(() => clearInterval(writing))
  while (!(asked.get('/svc.Service/StreamWrite') ?? 0)) await new Promise((resolve) => setTimeout(resolve, 10))
  permitted = false

  await t.rejects(answer, { code: PERMISSION_DENIED, details: /the policies have changed; of the stream \d+ points were written before/ })
  clearInterval(writing)
  t.match((await put).error, { code: PERMISSION_DENIED, details: /the policies have changed/ })
  t.match(await subscription.ended, { code: PERMISSION_DENIED, details: 'the policies have changed' })
  await events.ended
  t.equal(await late.finish(), '403', 'a body that arrives by now')
  const refused = decisions.filter(({ outcome }) => outcome === 'deny').map(({ resource, stage, action }) => `${action} ${resource} ${stage}`)
  t.same(refused.sort(), [
    'read /api/v1/cdc/stream authorization',
    'read /svc.Service/Subscribe authorization',
    'write /api/v1/write authorization',
    'write /arrow.flight.protocol.FlightService/DoPut authorization',
    'write /svc.Service/StreamWrite authorization',
  ])
  const allowed = decisions.filter(({ outcome, resource }) => outcome === 'allow' && resource === '/svc.Service/StreamWrite')
  t.equal(allowed.length, 1, 'what goes on is not reported anew')
})

t.test('a key that others take away, with nobody asking', async (t) => {
  const objects = temporaryFolder(t)
  const stored = { auth: { persistent_api_keys: true }, storage: { object_store_url: String(pathToFileURL(objects)) } }
  const losses = [
    { how: 'its object is removed', config: stored, lose: (_dir: string, id: string) => rm(join(objects, 'auth/keys', `${id}.json`)) },
    {
      how: 'a file revokes it',
      config: {},
      async lose(dir: string, id: string) {
        const folder = join(dir, 'auth/keys')
        await mkdir(folder, { recursive: true })
        await writeFile(join(folder, `${id}.revoked`), '')
      },
    },
  ]
  for (const { how, config, lose } of losses) {
    const root = keyText()
    const auth = { ...('auth' in config ? config.auth : {}), api_keys: [{ name: 'root', key: root, admin: true }], api_key: { cache_ttl_secs: 1 } }
    const node = await boot({ storage: 'embedded', plugins: ['native', 'cdc', 'api_keys'], config: { ...config, auth } })
    const headers = { authorization: `Bearer ${root}` }
    const made = (await node.inject({ method: 'POST', url: '/api/v1/admin/auth/keys', headers, payload: { name: 'reader' } })).json()
    const events = await EventClient.open(`${node.url}/api/v1/cdc/stream`, { authorization: `Bearer ${made.key}` })
    await lose(node.dataDir, made.id)
    await events.ended
    t.match(events.events, [{ event: 'end', data: { reason: 'credential', message: /"reader".*was revoked or has expired/ } }], how)
    await node.stop()
  }
})
