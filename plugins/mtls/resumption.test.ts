/** A TLS session that is resumed is that of the client that began it: no more, no less, and no longer than its certificate counts. */
import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls'
import { systemClock, temporaryFolder } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { until } from '../../test/support/until.ts'
import { Authority, issue, noOpenssl, startMtls } from './testing.ts'

type Version = 'TLSv1.2' | 'TLSv1.3'

interface Visit {
  /** Whose the call was, or code and text of the refusal; undefined = the connection was refused. */
  who: string | undefined
  reused: boolean
  session: Buffer | undefined
}

/** One call of GET /who on a connection of its own. */
async function visit(url: string, options: ConnectionOptions, version: Version): Promise<Visit> {
  const { hostname, port } = new URL(url)
  const socket: TLSSocket = connect({ host: hostname, port: Number(port), minVersion: version, maxVersion: version, ...options })
  let session: Buffer | undefined
  let text = ''
  socket.on('session', (given) => (session = given))
  socket.on('data', (bytes) => (text += bytes))
  socket.on('error', () => {})
  const closed = new Promise<void>((resolve) => socket.on('close', () => resolve()))
  const secure = await Promise.race([new Promise<boolean>((resolve) => socket.on('secureConnect', () => resolve(true))), closed.then(() => false)])
  const reused = secure && socket.isSessionReused()
  if (secure) socket.write('GET /who HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')
  await closed
  const body = /\{.*\}/s.exec(text)?.[0]
  const answer = body === undefined ? undefined : (JSON.parse(body) as { principal?: string; code?: string; error?: string })
  return { who: answer?.principal ?? (answer === undefined ? undefined : `${answer.code}: ${answer.error}`), reused, session }
}

const section = { clients: [{ name: 'ann' }, { name: 'bob' }] }
const setUp = (t: Test) => {
  const folder = temporaryFolder(t)
  return { folder, authority: new Authority(folder, 'authority') }
}

for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
  t.test(version, { skip: noOpenssl }, async (t) => {
    t.test('keeps the identity, and is nobody else', async (t) => {
      const { authority } = setUp(t)
      const { node } = await startMtls(t, { authority, section })
      const ca = authority.own.cert
      const [ann, bob] = ['ann', 'bob'].map((name) => authority.issue({ subject: [`CN=${name}`] }))
      const call = (options: ConnectionOptions) => visit(node.url, { ca, ...options }, version)
      const first = await call({ cert: ann.cert, key: ann.key })
      t.match(first, { who: 'ann', reused: false })
      const again = await call({ cert: ann.cert, key: ann.key, session: first.session })
      t.match(again, { who: 'ann', reused: true })
      t.match(await call({ session: first.session }), { who: 'ann', reused: true }, 'the session stands for the certificate')
      // Whoever has a session's secret began it: another certificate in hand changes nothing.
      t.match(await call({ cert: bob.cert, key: bob.key, session: first.session }), { who: 'ann', reused: true })
      t.match(await call({ cert: bob.cert, key: bob.key }), { who: 'bob', reused: false })
      t.match(await call({}), { who: undefined })
    })

    t.test('a session of one without a certificate, or with one that does not hold, gets none by it', async (t) => {
      const { folder, authority } = setUp(t)
      const { node } = await startMtls(t, { authority, section, tls: { client_auth: 'optional' } })
      const ca = authority.own.cert
      const ann = authority.issue({ subject: ['CN=ann'] })
      const call = (options: ConnectionOptions) => visit(node.url, { ca, ...options }, version)
      const nobody = await call({})
      t.match(nobody, { who: /^UNAUTHORIZED: no credentials were given; show a client certificate$/ })
      t.match(await call({ session: nobody.session }), { who: /^UNAUTHORIZED: no credentials/, reused: true })
      const late = await call({ cert: ann.cert, key: ann.key, session: nobody.session })
      t.match(late.who, late.reused ? /^UNAUTHORIZED: no credentials/ : 'ann')
      const forged = issue(folder, { subject: ['CN=ann'] })
      const bad = await call({ cert: forged.cert, key: forged.key })
      t.match(bad, { who: /^UNAUTHORIZED: InvalidCertificate/ })
      t.match(await call({ session: bad.session }), { who: /^UNAUTHORIZED: (InvalidCertificate|no credentials)/ })
    })

    t.test('ends with the certificate', async (t) => {
      const { authority } = setUp(t)
      let ahead = 0
      const clock = { ...systemClock, now: () => Date.now() + ahead, nowNanos: () => 0n, monotonic: () => performance.now() }
      const { node } = await startMtls(t, { authority, section, clock })
      const { cert, key } = authority.issue({ subject: ['CN=ann'], days: 2 })
      const options = { ca: authority.own.cert, cert, key }
      const first = await visit(node.url, options, version)
      t.match(first, { who: 'ann' })
      ahead = 3 * 86_400_000
      t.match(await visit(node.url, { ...options, session: first.session }, version), { reused: true, who: /InvalidCertificate: .*has expired/ })
    })

    t.test('does not outlive the authority in tls.client_ca, nor lead into another listener', async (t) => {
      const { folder, authority } = setUp(t)
      const client_ca = join(folder, 'client-ca.pem')
      copyFileSync(authority.own.certFile, client_ca)
      const { node, ports, everywhere } = await startMtls(t, { authority, section, tls: { client_ca, reload_interval_secs: 0.02 } })
      const { cert, key } = authority.issue({ subject: ['CN=ann'] })
      const options = { ca: authority.own.cert, cert, key }
      const first = await visit(node.url, options, version)
      t.match(first, { who: 'ann' })
      const elsewhere = await visit(`https://127.0.0.1:${ports.grpc}`, { ca: options.ca, session: first.session, ALPNProtocols: ['h2'] }, version)
      t.equal(elsewhere.reused, false)
      const next = new Authority(folder, 'next')
      copyFileSync(next.own.certFile, client_ca)
      let fresh = await visit(node.url, options, version)
      await until('the new authority counts', async () => {
        fresh = await visit(node.url, options, version)
        return fresh.who !== 'ann'
      })
      t.equal(fresh.who, undefined, 'the old authority counts no more')
      const resumed = await visit(node.url, { ...options, session: first.session }, version)
      t.match(resumed, { who: undefined, reused: false })
      t.equal((await everywhere(next.issue({ subject: ['CN=ann'] })))[0].error, '', 'the new one does')
    })
  })
}
