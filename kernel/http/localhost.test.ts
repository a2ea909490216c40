/** `localhost` is two addresses on most machines, and both are one listener: with its limits, its certificate and its rules for requests. */
import { copyFileSync, mkdtempSync, readFileSync } from 'node:fs'
import { request } from 'node:https'
import { syncBuiltinESMExports } from 'node:module'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TLSSocket } from 'node:tls'
import { boot } from 'svcdb/testkit'
import t from 'tap'
import { until } from '../../test/support/until.ts'

const ADDRESSES = ['127.0.0.1', '127.0.0.2']

/** Whatever /etc/hosts says here. */
const dns = process.getBuiltinModule('node:dns')
const [single, several] = [dns.lookup, dns.promises.lookup]
const found = ADDRESSES.map((address) => ({ address, family: 4 }))
dns.lookup = ((name: string, options: { all?: boolean }, done: (...answer: unknown[]) => void) => {
  if (name !== 'localhost') single(name, options, done)
  else if (options.all) done(null, found)
  else done(null, ADDRESSES[0], 4)
}) as never
dns.promises.lookup = (async (name: string, options: object) => (name === 'localhost' ? found : several(name, options))) as never
syncBuiltinESMExports()
t.teardown(() => {
  Object.assign(dns, { lookup: single })
  Object.assign(dns.promises, { lookup: several })
  syncBuiltinESMExports()
})

const server = { http_addr: 'localhost:0' }

/** Sends what is given as it is. @returns all that comes back until the connection ends, or what `enough` waits for. */
function exchange(port: number, address: string, text: string, enough: RegExp): Promise<string> {
  return new Promise((resolve, reject) => {
    let answer = ''
    const socket = connect(port, address)
      .setEncoding('latin1')
      .on('data', (part) => {
        answer += part
        if (enough.test(answer)) socket.destroy()
      })
      .on('close', () => resolve(answer))
      .on('error', reject)
    socket.write(text)
  })
}

t.test('requests are treated the same at both, and a stop ends both', async (t) => {
  const node = await boot({ config: { server } })
  const port = Number(new URL(node.url).port)
  for (const address of ADDRESSES) {
    const expecting = `POST /nowhere HTTP/1.1\r\nHost: ${address}\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n`
    t.match(await exchange(port, address, expecting, /no such path/), /^HTTP\/1\.1 404 /, `${address}: a refusal without 100 Continue`)
    const other = `GET /health HTTP/1.1\r\nHost: ${address}\r\nExpect: tea\r\n\r\n`
    t.match(await exchange(port, address, other, /\}/), /^HTTP\/1\.1 417 [\s\S]*\r\n\r\n\{/, `${address}: an expectation that is refused with a reason`)
  }
  const idle = await Promise.all(ADDRESSES.map((address) => open(port, address)))
  await node.stop()
  await until('both idle connections to end', () => idle.every(({ destroyed }) => destroyed))
  for (const address of ADDRESSES) await t.rejects(exchange(port, address, '', /./), { code: 'ECONNREFUSED' }, address)
})

function open(port: number, address: string): Promise<Socket> {
  return new Promise((resolve) => {
    const socket: Socket = connect(port, address, () => resolve(socket))
    socket.on('error', () => {}).resume()
  })
}

t.test('connections of both are bounded', async (t) => {
  const node = await boot({ config: { server: { ...server, max_connections: 4 } } })
  t.teardown(() => node.stop())
  const port = Number(new URL(node.url).port)
  let ended = 0
  for (const address of ADDRESSES) {
    const sockets = await Promise.all(Array.from({ length: 10 }, () => open(port, address)))
    await until('four connections or fewer to be left', () => sockets.filter(({ destroyed }) => !destroyed).length <= 4)
    t.ok(sockets.some(({ destroyed }) => !destroyed))
    ended += sockets.filter(({ destroyed }) => destroyed).length
    for (const socket of sockets) socket.destroy()
  }
  const { body } = await node.inject('/metrics')
  const counted = (name: string): number => Number(new RegExp(`^svc_http_${name}_total (\\d+)$`, 'm').exec(body)?.[1])
  t.ok(counted('connections_refused') + counted('idle_connections_closed') >= ended, 'all that ended are counted')
})

t.test('connections of one do not count for the other', async (t) => {
  const node = await boot({ config: { server: { ...server, max_connections: 8 } } })
  t.teardown(() => node.stop())
  const port = Number(new URL(node.url).port)
  for (const address of ADDRESSES.toReversed()) for (let i = 0; i < 5; i++) await open(port, address)
  t.match((await node.inject('/metrics')).body, /^svc_http_idle_connections_closed_total 0$/m)
})

t.test('a certificate that is renewed is shown at both', async (t) => {
  const fixture = (name: string) => new URL(`../../test/support/certificates/${name}`, import.meta.url)
  const folder = mkdtempSync(join(tmpdir(), 'svc-localhost-'))
  const tls = { cert: join(folder, 'cert.pem'), key: join(folder, 'cert.key'), reload_interval_secs: 0.02 }
  const use = (name: string) => {
    copyFileSync(fixture(`${name}.pem`), tls.cert)
    copyFileSync(fixture(`${name}.key`), tls.key)
  }
  use('first')
  const node = await boot({ config: { server, tls } })
  t.teardown(() => node.stop())
  const shown = (host: string): Promise<string> =>
    new Promise((resolve, reject) => {
      const options = {
        host,
        port: new URL(node.url).port,
        path: '/health',
        agent: false,
        ca: readFileSync(fixture('ca.pem')),
        checkServerIdentity: () => undefined,
      }
      const call = request(options, (answer) => {
        const { CN } = (answer.socket as TLSSocket).getPeerCertificate().subject
        answer.resume().on('end', () => resolve(String(CN)))
      })
      call.on('error', reject).end()
    })
  for (const address of ADDRESSES) t.equal(await shown(address), 'first', address)
  use('second')
  for (const address of ADDRESSES) {
    for (let name = await shown(address); name !== 'second'; name = await shown(address)) await new Promise((resolve) => setTimeout(resolve, 10))
    t.pass(`${address} shows the second`)
  }
})
