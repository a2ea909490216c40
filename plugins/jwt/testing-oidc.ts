/**
 * A real OpenID Connect issuer (oidc-provider) as a process of its own, told what to do by messages of its parent: it hands out JSON web tokens
 * to one client, by client credentials, for the resource that the client names.
 */
import { generateKeyPairSync } from 'node:crypto'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Provider } from 'oidc-provider'

export const CLIENT = { id: 'collector', secret: 'collector secret' }
export const RESOURCE = 'https://svc.example'

function jwkOf(kid: string): Record<string, unknown> {
  return { ...generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ format: 'jwk' }), kid, alg: 'ES256', use: 'sig' }
}

function callbackOf(issuer: string, kids: readonly string[]): RequestListener {
  const provider = new Provider(issuer, {
    jwks: { keys: kids.map(keyOf) as never },
    clients: [
      {
        client_id: CLIENT.id,
        client_secret: CLIENT.secret,
        grant_types: ['client_credentials'],
        response_types: [],
        redirect_uris: [],
        id_token_signed_response_alg: 'ES256',
      },
    ],
    extraTokenClaims: async () => ({ namespaces: ['red'], roles: ['writer'] }),
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: async (_context, resource) => ({
          scope: 'write',
          audience: resource,
          accessTokenFormat: 'jwt',
          accessTokenTTL: 300,
          jwt: { sign: { alg: 'ES256' } },
        }),
      },
    },
  })
  return provider.callback()
}

const keys = new Map<string, Record<string, unknown>>()
function keyOf(kid: string): Record<string, unknown> {
  const key = keys.get(kid) ?? jwkOf(kid)
  keys.set(kid, key)
  return key
}

if (process.argv[1] === import.meta.filename) {
  let callback: RequestListener = (_, response) => void response.writeHead(503).end()
  const server = createServer((request, response) => callback(request, response))
  server.listen(0, '127.0.0.1', () => {
    const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    // The first key of those that are named signs.
    process.on('message', (kids: string[]) => {
      callback = callbackOf(issuer, kids)
      process.send?.({ issuer })
    })
    process.send?.({ issuer })
  })
  process.on('disconnect', () => process.exit())
}
