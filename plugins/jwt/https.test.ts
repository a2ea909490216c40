/** An issuer behind TLS. */
import { readFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { boot } from 'svcdb/testkit'
import t from 'tap'
import jwt from './index.ts'
import { claimsOf, jwkOf, makeKey, sign, startIssuer, startNode } from './testing.ts'

const fixture = (name: string): Buffer => readFileSync(new URL(`../../test/support/certificates/${name}`, import.meta.url))

t.test('the issuer must be who its certificate says, and its keys must not come in plain text', async (t) => {
  const key = makeKey('ES256')
  const plain = await startIssuer(t, jwkOf(key))
  let keysAt = ''
  const server = createServer({ cert: fixture('first.pem'), key: fixture('first.key') }, ({ url }, response) => {
    response.end(JSON.stringify(url === '/keys' ? { keys: [jwkOf(key)] } : { issuer, jwks_uri: keysAt }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const issuer = `https://127.0.0.1:${(server.address() as AddressInfo).port}`
  const before = getCACertificates('default')
  t.teardown(() => {
    setDefaultCACertificates(before)
    server.closeAllConnections()
    server.close()
  })
  const failing = () => boot({ plugins: [jwt], config: { auth: { jwt: { issuer } } } })
  await t.rejects(failing(), /cannot discover the keys of the issuer at "https:.*": .*(certificate|self.signed)/i)
  setDefaultCACertificates([...before, fixture('ca.pem').toString()])
  keysAt = plain.jwksUrl
  await t.rejects(failing(), /its jwks_uri is in plain text, and the issuer is not/)
  t.equal(plain.fetches, 0)
  keysAt = `${issuer}/keys`
  const { who } = await startNode(t, { issuer })
  t.match(await who(await sign(key, claimsOf({ iss: issuer }))), { status: 200, principal: 'ann' })
})
