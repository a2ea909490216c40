/** A connection is that of the certificate in its only handshake: in a second one the client could show somebody else's. */
import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { connect, type TLSSocket } from 'node:tls'
import { temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { until } from '../../test/support/until.ts'
import { Authority, type Issued, noOpenssl, startMtls } from './testing.ts'

/** What a second handshake on a connection came to. */
function renegotiate(port: number, ALPNProtocols: string[], ca: Buffer, shown: Partial<Issued>): Promise<string> {
  return new Promise((resolve) => {
    const { cert, key } = shown
    const socket: TLSSocket = connect({ host: '127.0.0.1', port, ca, cert, key, maxVersion: 'TLSv1.2', ALPNProtocols }, () => {
      socket.renegotiate({}, () => resolve('a second handshake'))
    })
    socket.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message))
    socket.once('close', () => resolve('closed'))
    t.teardown(() => socket.destroy())
  })
}

for (const client_auth of ['required', 'optional'])
  t.test(`no listener takes a second handshake, with client_auth "${client_auth}", nor after a reload`, { skip: noOpenssl }, async (t) => {
    const folder = temporaryFolder(t)
    const authority = new Authority(folder, 'authority')
    const client_ca = join(folder, 'client-ca.pem')
    copyFileSync(authority.own.certFile, client_ca)
    const { node, ports } = await startMtls(t, {
      authority,
      section: { clients: [{ name: 'ann' }] },
      tls: { client_auth, client_ca, reload_interval_secs: 0.02 },
    })
    const ann = authority.issue({ subject: ['CN=ann'] })
    const everywhere = async (shown: Issued) => {
      const http = await renegotiate(Number(new URL(node.url).port), ['http/1.1'], authority.own.cert, shown)
      return [http, ...(await Promise.all([ports.grpc, ports.flight].map((port) => renegotiate(port, ['h2'], authority.own.cert, shown))))]
    }
    const refused = Array(3).fill('ERR_SSL_NO_RENEGOTIATION')
    t.same(await everywhere(ann), refused)
    if (client_auth !== 'required') return
    // Those that show a certificate of the new authority get to their second handshake only when it counts.
    const next = new Authority(folder, 'next')
    copyFileSync(next.own.certFile, client_ca)
    const bob = next.issue({ subject: ['CN=ann'] })
    let outcomes = await everywhere(bob)
    await until('the new authority counts', async () => {
      outcomes = await everywhere(bob)
      return !outcomes.includes('closed') && !outcomes.some((outcome) => /ALERT|ECONNRESET/.test(outcome))
    })
    t.same(outcomes, refused)
  })
