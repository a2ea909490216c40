/** Auth as a gRPC listener has it. */

import { Metadata } from '@grpc/grpc-js'
import t from 'tap'
import type { Credentials, Decision, Identity } from '../../auth/auth.ts'
import type { CallContext } from '../../index.ts'
import { definePlugin, type PluginAuth } from '../../plugin.ts'
import type { BootOptions } from '../../testkit/index.ts'
import { SvcError } from '../errors/index.ts'
import type { GrpcMethod } from './method.ts'
import { echo, start, unary } from './testing.ts'

const adding = (declare: (auth: PluginAuth) => void) => definePlugin({ id: 'adding', summary: 's', stability: 'stable', setup: (svc) => declare(svc.auth) })
const identity: Identity = { principal: 'ann', method: 'test', claims: {}, namespaces: [], admin: false }
const metadataOf = (values: Record<string, string>): Metadata => {
  const metadata = new Metadata()
  for (const [key, value] of Object.entries(values)) metadata.set(key, value)
  return metadata
}
const call = (client: Parameters<typeof unary>[0], path = '/t.S/Echo', metadata: Record<string, string> = {}) =>
  unary(client, path, Buffer.alloc(1), metadataOf(metadata))

t.test("a limiter's headers are trailing metadata, with the delay among the details", async (t) => {
  const decisions: Decision[] = []
  const plugin = adding((auth) => {
    auth.limiter({
      arrival: ({ header }) =>
        header('x-early') === undefined ? undefined : new SvcError('RATE_LIMITED', 'too many', { headers: { 'retry-after': '42', 'x-ratelimit-limit': '20' } }),
      admitted: ({ resource }) => (resource === '/t.S/Full' ? new SvcError('RATE_LIMITED', 'enough') : undefined),
    })
    auth.authenticator(() => identity)
    auth.observer((decision) => void decisions.push({ ...decision }))
  })
  const full: GrpcMethod<CallContext> = { ...echo, path: '/t.S/Full' } as GrpcMethod<CallContext>
  const { client } = await start(t, [echo, full], { plugins: [plugin] })
  const { error } = await call(client, '/t.S/Echo', { 'x-early': '1' })
  t.match(error, { code: 8, details: 'too many' })
  t.same([error?.metadata.get('retry-after'), error?.metadata.get('x-ratelimit-limit'), error?.metadata.get('svc-code')], [['42'], ['20'], ['RATE_LIMITED']])
  const details = error?.metadata.get('grpc-status-details-bin')[0] as Buffer
  // google.rpc.RetryInfo { retry_delay: { seconds: 42 } }
  t.ok(details.includes(Buffer.from([0x0a, 0x02, 0x08, 42])) && details.includes('google.rpc.RetryInfo'))
  t.match((await call(client, '/t.S/Full')).error, { code: 8, details: 'enough' })
  t.equal((await call(client)).error, undefined)
  t.match(decisions, [
    { outcome: 'deny', stage: 'arrival', credentials: { protocol: 'grpc', path: '/t.S/Echo', address: '127.0.0.1' } },
    { outcome: 'deny', stage: 'limit', resource: '/t.S/Full' },
    { outcome: 'allow', action: 'read', resource: '/t.S/Echo' },
  ])
})

t.test('methods are exempt by their paths', async (t) => {
  const nobody = adding((auth) => auth.authenticator(() => undefined))
  const other: GrpcMethod<CallContext> = { ...echo, path: '/t.T/Echo' } as GrpcMethod<CallContext>
  const codes = async (exempt: string[]): Promise<(number | undefined)[]> => {
    const config: BootOptions['config'] = { auth: { exempt_paths: exempt } }
    const { client } = await start(t, [echo, other], { plugins: [nobody], config })
    return [(await call(client, '/t.S/Echo')).error?.code, (await call(client, '/t.T/Echo')).error?.code]
  }
  t.same(await codes([]), [16, 16])
  t.same(await codes(['/t.S/Echo']), [undefined, 16])
  t.same(await codes(['/t.T/*']), [16, undefined])
  t.same(await codes(['/t.S', '/Echo', '/T.S/Echo']), [16, 16])
})

t.test('names of namespaces are checked', async (t) => {
  const { client } = await start(t, [echo])
  for (const name of ['Red', 'red_1', '../red', 'red,blue', '*', 'x'.repeat(64)])
    t.match((await call(client, '/t.S/Echo', { 'x-namespace': name })).error, { code: 3, details: /cannot use namespace/ }, name)
  t.equal((await call(client, '/t.S/Echo', { 'x-namespace': 'red' })).error, undefined)
})

t.test('credentials stay readable when the client has gone away meanwhile', async (t) => {
  const seen: (Credentials['address'] | boolean)[] = []
  let asked: () => void = () => {}
  const wasAsked = new Promise<void>((resolve) => (asked = resolve))
  const { promise: mayGoOn, resolve: goOn } = Promise.withResolvers<void>()
  const { promise: told, resolve: tell } = Promise.withResolvers<void>()
  const plugin = adding((auth) => {
    auth.authenticator(async () => {
      asked()
      await mayGoOn
      return identity
    })
    auth.observer(({ credentials, outcome }) => {
      seen.push(credentials.address, credentials.certificate === undefined, outcome === 'allow')
      tell()
    })
  })
  const { client, listener } = await start(t, [echo], { plugins: [plugin] })
  void call(client)
  await wasAsked
  client.close()
  await listener.stop()
  goOn()
  await told
  t.same(seen, ['127.0.0.1', true, true])
})
