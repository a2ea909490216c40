/** An OpenID Connect provider: its discovery document, keys of each kind, and tokens of the machine-to-machine grant. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { startNode } from './node.ts'

// Not typed here: the packages are installed by `run` only.
const provider = await import('oidc-provider' as string).catch(() => undefined)
const jose = await import('jose' as string).catch(() => undefined)
const skip = provider === undefined || jose === undefined ? 'the packages are not installed' : false

const ALGORITHMS = ['RS256', 'PS256', 'ES256', 'EdDSA']

async function keyOf(alg: string): Promise<object> {
  const { privateKey } = await jose.generateKeyPair(alg, { extractable: true, ...(alg === 'EdDSA' && { crv: 'Ed25519' }) })
  return { ...(await jose.exportJWK(privateKey)), alg, use: 'sig', kid: alg }
}

/** Each client has the algorithm that its tokens are signed with as its name. */
async function startProvider(): Promise<{ issuer: string; close(): void; token(client: string, resource?: string): Promise<string> }> {
  const server = createServer((request, response) => void handler(request, response)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const issuer = `http://localhost:${(server.address() as AddressInfo).port}`
  const resource = (_: unknown, audience: string, { clientId }: { clientId: string }): object => ({
    scope: 'write',
    audience,
    accessTokenFormat: 'jwt',
    accessTokenTTL: 60,
    jwt: { sign: { alg: clientId } },
  })
  const instance = new provider.default(issuer, {
    jwks: { keys: await Promise.all(ALGORITHMS.map(keyOf)) },
    clients: ALGORITHMS.map((id) => ({ client_id: id, client_secret: 'secret', grant_types: ['client_credentials'], redirect_uris: [], response_types: [] })),
    enabledJWA: { idTokenSigningAlgValues: ALGORITHMS },
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: false },
      resourceIndicators: { enabled: true, getResourceServerInfo: resource },
    },
    extraTokenClaims: () => ({ namespaces: ['default'], roles: ['writer'] }),
  })
  const handler = instance.callback() as (request: unknown, response: unknown) => Promise<void>
  return {
    issuer,
    close: () => server.close(),
    async token(client, audience = 'urn:svc') {
      const headers = { authorization: `Basic ${Buffer.from(`${client}:secret`).toString('base64')}` }
      const body = new URLSearchParams({ grant_type: 'client_credentials', resource: audience })
      const answer = await fetch(`${issuer}/token`, { method: 'POST', headers, body })
      assert.equal(answer.status, 200, await answer.clone().text())
      return ((await answer.json()) as { access_token: string }).access_token
    },
  }
}

test('tokens of an OpenID Connect provider', { skip }, async (t) => {
  const issuer = await startProvider()
  t.after(() => issuer.close())
  const node = await startNode({ plugins: ['line_protocol', 'jwt'], sections: `[auth.jwt]\nissuer = "${issuer.issuer}"\naudience = "urn:svc"` })
  t.after(() => node.stop())
  const write = async (token: string): Promise<[number, string]> => {
    const answer = await fetch(`${node.url}/write`, { method: 'POST', headers: { authorization: `Bearer ${token}` }, body: 'm v=1' })
    return [answer.status, await answer.text()]
  }
  for (const algorithm of ALGORITHMS) await t.test(algorithm, async () => assert.deepEqual(await write(await issuer.token(algorithm)), [204, '']))
  await t.test('one for another audience is refused', async () => {
    const [status, text] = await write(await issuer.token('RS256', 'urn:other'))
    assert.equal(status, 401)
    assert.match(text, /aud/)
  })
})
