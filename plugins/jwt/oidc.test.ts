/** With a real issuer in a process of its own. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { decodeJwt, decodeProtectedHeader } from 'jose'
import t from 'tap'
import { startNode } from './testing.ts'
import { CLIENT, RESOURCE } from './testing-oidc.ts'

const HOUR = 3600

async function told(issuer: ChildProcess): Promise<string> {
  const exited = once(issuer, 'exit').then(([code]) => Promise.reject(new Error(`the issuer ended with ${code}`)))
  exited.catch(() => {}) // it ends some time
  const [message] = (await Promise.race([once(issuer, 'message'), exited])) as [{ issuer: string }]
  return message.issuer
}

async function rotate(issuer: ChildProcess, ...kids: string[]): Promise<void> {
  issuer.send(kids)
  await told(issuer)
}

async function fetchToken(issuer: string, resource = RESOURCE): Promise<string> {
  const answer = await fetch(`${issuer}/token`, {
    method: 'POST',
    headers: { authorization: `Basic ${Buffer.from(`${CLIENT.id}:${encodeURIComponent(CLIENT.secret)}`).toString('base64')}` },
    body: new URLSearchParams({ grant_type: 'client_credentials', scope: 'write', resource }),
  })
  const body = (await answer.json()) as { access_token?: string }
  if (body.access_token === undefined) throw new Error(`no token: ${answer.status} ${JSON.stringify(body)}`)
  return body.access_token
}

t.test('client credentials of oidc-provider, found by discovery, over a rotation of its keys', async (t) => {
  const process = fork(new URL('./testing-oidc.ts', import.meta.url), { stdio: ['ignore', 'ignore', 'ignore', 'ipc'], execArgv: [] })
  t.teardown(async () => {
    if (!process.connected) return
    process.disconnect()
    await once(process, 'exit')
  })
  const issuer = await told(process)
  await rotate(process, 'one')

  const { who, clock, metric } = await startNode(t, { issuer, audience: RESOURCE, jwks_cache_ttl_secs: HOUR })
  const first = await fetchToken(issuer)
  t.match(decodeProtectedHeader(first), { alg: 'ES256', kid: 'one', typ: 'at+jwt' })
  const { exp } = decodeJwt(first)
  t.match(await who(first), {
    status: 200,
    principal: CLIENT.id,
    method: 'jwt',
    namespaces: ['red'],
    namespace: 'red',
    roles: ['writer'],
    admin: false,
    expiresAt: (exp as number) * 1000,
    claims: { iss: issuer, aud: RESOURCE, client_id: CLIENT.id },
  })
  t.match(await who(first, { 'x-namespace': 'blue' }), { status: 403 })
  t.match(await who(await fetchToken(issuer, 'https://other.example')), { status: 401, error: /another audience/ })

  await rotate(process, 'two', 'one')
  const second = await fetchToken(issuer)
  t.match(decodeProtectedHeader(second), { kid: 'two' })
  t.match(await who(second), { status: 200 }, 'a new key is fetched')
  t.match(await who(first), { status: 200 }, 'the old one is still there')
  t.equal(await metric('svc_jwt_keys'), 2)

  await rotate(process, 'two')
  clock.forward(11)
  t.match(await who(first), { status: 200 }, 'withdrawn, but the set is good for its time')
  await rotate(process, 'three', 'two')
  const third = await fetchToken(issuer)
  t.match(await who(third), { status: 200 })
  t.match(await who(first), { status: 401, error: /no key that this server trusts/ }, 'withdrawn, and the set is a new one')
  t.match(await who(second), { status: 200 })

  process.kill()
  await once(process, 'exit')
  t.match(await who(third), { status: 200 }, 'the issuer is down')
  clock.forward(330)
  t.match(await who(third), { status: 401, error: /expired/ })
})
