import { generateKeyPairSync, X509Certificate } from 'node:crypto'
import { copyFileSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type ConnectionOptions, connect } from 'node:tls'
import t, { type Test } from 'tap'
import { eventually } from '../../../test/support/until.ts'
import { boot, ManualClock } from '../../testkit/index.ts'
import { echo, pluginOf } from '../grpc/testing.ts'

const fixture = (name: string) => new URL(`../../../test/support/certificates/${name}`, import.meta.url)
const DAY_MS = 86_400_000
const ca = readFileSync(fixture('ca.pem'))

/** Resolves to the common name of the server's certificate. */
function ask(url: string, options: object = {}): Promise<string> {
  return new Promise((resolve, reject) => {
    const call = request(`${url}/health`, { ca, agent: false, ...options }, (answer) => {
      const name = (answer.socket as unknown as { getPeerCertificate(): { subject: { CN: string } } }).getPeerCertificate().subject.CN
      answer.resume().on('end', () => resolve(name))
    })
    call.on('error', reject).end()
  })
}

function files(): { cert: string; key: string; use(name: string): void } {
  const folder = mkdtempSync(join(tmpdir(), 'svc-tls-'))
  const paths = { cert: join(folder, 'cert.pem'), key: join(folder, 'cert.key') }
  const use = (name: string) => {
    copyFileSync(fixture(`${name}.pem`), paths.cert)
    copyFileSync(fixture(`${name}.key`), paths.key)
  }
  use('first')
  return { ...paths, use }
}

t.test('serves TLS, and takes a changed certificate without a restart', async (t) => {
  const { cert, key, use } = files()
  const lines: string[] = []
  const node = await boot({ config: { tls: { cert, key, reload_interval_secs: 0.02 } }, log: (line) => lines.push(line) })
  t.teardown(() => node.stop())
  t.match(node.url, /^https:/)
  t.equal(await ask(node.url), 'first')

  writeFileSync(cert, 'not a certificate')
  await eventually(() => lines.some((line) => line.includes('cannot reload the TLS certificate')))
  t.equal(await ask(node.url), 'first', 'a certificate that does not load leaves the old one in use')

  use('second')
  await eventually(() => lines.some((line) => line.includes('TLS certificate reloaded')))
  t.equal(await ask(node.url), 'second')
})

t.test('a certificate without its key is a failure until there is one, and told once', async (t) => {
  const { cert, key, use } = files()
  const lines: string[] = []
  const node = await boot({ config: { tls: { cert, key, reload_interval_secs: 0.02 } }, log: (line) => lines.push(line) })
  t.teardown(() => node.stop())
  const status = async () => (await node.inject('/api/v1/admin/schedules')).json().schedules.find((each: { name: string }) => each.name === 'tls_reload')
  copyFileSync(fixture('second.pem'), cert)
  let failing = await status()
  for (; failing.failures < 3; failing = await status()) await new Promise((resolve) => setTimeout(resolve, 10))
  t.equal(lines.filter((line) => line.includes('a scheduled run failed')).length, 1)
  t.equal(lines.filter((line) => line.includes('succeeds again')).length, 0)
  use('second')
  await eventually(() => lines.some((line) => line.includes('TLS certificate reloaded')))
  await eventually(() => lines.some((line) => line.includes('succeeds again')))
})

t.test('with client_ca a client must show a certificate', async (t) => {
  const { cert, key } = files()
  const node = await boot({ config: { tls: { cert, key, client_ca: fixture('ca.pem').pathname } } })
  t.teardown(() => node.stop())
  await t.rejects(ask(node.url))
  t.equal(await ask(node.url, { cert: readFileSync(fixture('client.pem')), key: readFileSync(fixture('client.key')) }), 'first')
})

t.test('a missing file stops the start, naming it', async (t) => {
  await t.rejects(boot({ config: { tls: { cert: '/no/such.pem', key: '/no/such.key' } } }), {
    code: 'TLS_ERROR',
    message: /cannot read tls.cert "\/no\/such.pem"/,
  })
})

t.test('a certificate or key that cannot be used stops the start, naming the file and what it should hold', async (t) => {
  const { cert, key } = files()
  const refused = async (message: RegExp): Promise<void> => void (await t.rejects(boot({ config: { tls: { cert, key } } }), { code: 'TLS_ERROR', message }))
  writeFileSync(cert, 'nonsense')
  await refused(/cannot use tls\.cert "\S+cert\.pem": .*; it is to hold the certificate of the server/)
  copyFileSync(fixture('second.pem'), cert)
  await refused(/cannot use tls\.key "\S+cert\.key": it is not the key of tls\.cert "\S+cert\.pem"; name the two that belong together$/)
  writeFileSync(key, 'nonsense')
  await refused(/cannot use tls\.key "\S+cert\.key": .*; it is to hold the private key/)
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  writeFileSync(key, privateKey.export({ type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'x' }))
  await refused(/cannot use tls\.key "\S+cert\.key": .*; it is to hold .* without a passphrase$/)
})

t.test('a certificate that is over, or soon will be, is told of at the start and when that comes; a metric says when it expires', async (t) => {
  const { cert, key, use } = files()
  const endsAt = new X509Certificate(readFileSync(cert)).validToDate.getTime()
  const lines: string[] = []
  const clock = new ManualClock(endsAt - 15 * DAY_MS)
  const node = await boot({ config: { tls: { cert, key, reload_interval_secs: 3600 } }, log: (line) => lines.push(line), clock })
  t.teardown(() => node.stop())
  const told = () => lines.filter((line) => line.includes('the certificate of tls.cert')).length
  t.equal(told(), 0)
  const expires = async () => Number(/^svc_tls_certificate_expires_seconds\{file="[^"]+"\} (\d+)$/m.exec((await node.inject('/metrics')).body)?.[1])
  t.equal(await expires(), endsAt / 1000)
  // Files are read meanwhile, which no clock makes faster.
  const hours = async (count: number): Promise<void> => {
    for (let hour = 0; hour < count; hour++) {
      await clock.advance(3_600_000)
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
  }
  const until = async (holds: () => boolean): Promise<void> => {
    for (let tries = 0; !holds() && tries < 500; tries++) await hours(1)
  }
  await hours(60)
  t.equal(told(), 1, 'once, however often it is looked at')
  t.match(
    lines.find((line) => line.includes('the certificate of tls.cert')),
    /expires at \d{4}-.*; put a renewed one in its place/,
  )
  use('second')
  const reloaded = () => lines.some((line) => line.includes('TLS certificate reloaded'))
  await until(reloaded)
  t.ok(reloaded())
  t.equal(await expires(), new X509Certificate(readFileSync(cert)).validToDate.getTime() / 1000)
  await until(() => told() === 2)
  await hours(3)
  t.equal(told(), 2, 'and of the one that took its place')

  for (const [now, why] of [
    [endsAt + DAY_MS, /expired at .*, and clients refuse it/],
    [
      new X509Certificate(readFileSync(fixture('first.pem'))).validFromDate.getTime() - DAY_MS,
      /holds from .* only, and clients refuse it; look whether the clock/,
    ],
  ] as const) {
    use('first')
    const seen: string[] = []
    const other = await boot({ config: { tls: { cert, key } }, log: (line) => seen.push(line), clock: new ManualClock(now) })
    t.equal(seen.filter((line) => why.test(line)).length, 1)
    await other.stop()
  }
})

t.test('authorities that cannot be read are refused whole, at the start and later', async (t) => {
  const { cert, key } = files()
  const client_ca = join(mkdtempSync(join(tmpdir(), 'svc-tls-')), 'clients.pem')
  const half = Buffer.concat([ca, ca.subarray(0, ca.length >> 1)])
  for (const [text, why] of [
    ['', /it has no certificate/],
    ['nonsense', /it has no certificate/],
    [readFileSync(fixture('first.key')), /it has no certificate/],
    [half, /its certificate 2 of 2 cannot be read/],
  ] as const) {
    writeFileSync(client_ca, text)
    await t.rejects(boot({ config: { tls: { cert, key, client_ca } } }), { code: 'TLS_ERROR', message: why })
  }
  writeFileSync(client_ca, Buffer.concat([Buffer.from('An authority:\n'), ca, Buffer.from('\n# and again\n'), ca]))
  const lines: string[] = []
  const node = await boot({ config: { tls: { cert, key, client_ca, reload_interval_secs: 0.02 } }, log: (line) => lines.push(line) })
  t.teardown(() => node.stop())
  writeFileSync(client_ca, half)
  await eventually(() => lines.some((line) => line.includes('cannot reload the TLS certificate')))
  t.equal(await ask(node.url, { cert: readFileSync(fixture('client.pem')), key: readFileSync(fixture('client.key')) }), 'first')
})

t.test('with client_auth "optional" a client may come without a certificate, or with any', async (t) => {
  const { cert, key } = files()
  const node = await boot({ config: { tls: { cert, key, client_ca: fixture('ca.pem').pathname, client_auth: 'optional' } } })
  t.teardown(() => node.stop())
  t.equal(await ask(node.url), 'first')
  t.equal(await ask(node.url, { cert: readFileSync(fixture('client.pem')), key: readFileSync(fixture('client.key')) }), 'first')
  t.equal(
    await ask(node.url, { cert: readFileSync(fixture('first.pem')), key: readFileSync(fixture('first.key')) }),
    'first',
    'whether it holds is looked at in each call',
  )
})

/** @returns protocol and cipher suite, or the reason why there was no handshake. */
function handshake(port: number, options: ConnectionOptions): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect({
      host: '127.0.0.1',
      port,
      servername: 'localhost',
      ca,
      checkServerIdentity: () => undefined,
      ALPNProtocols: ['h2', 'http/1.1'],
      ...options,
    })
    socket.on('secureConnect', () => {
      resolve(`${socket.getProtocol()} ${socket.getCipher().standardName}`)
      socket.destroy()
    })
    socket.on('error', (error: NodeJS.ErrnoException) => resolve(String(error.code)))
  })
}

async function listeners(t: Test, tls: object): Promise<[string, number][]> {
  const held: { listener?: { port: number } } = {}
  const node = await boot({ plugins: [pluginOf(() => [echo], held as never)], config: { tls, echo: { addr: '127.0.0.1:0' } } })
  t.teardown(() => node.stop())
  return [
    ['HTTP', Number(new URL(node.url).port)],
    ['gRPC', held.listener?.port as number],
  ]
}

t.test('suites without forward secrecy or authenticated encryption, and older versions, are refused on every listener', async (t) => {
  const { cert, key, use } = files()
  const v12 = { maxVersion: 'TLSv1.2' } as const
  for (const [name, port] of await listeners(t, { cert, key, reload_interval_secs: 0.02 })) {
    const check = async (when: string): Promise<void> => {
      t.match(await handshake(port, {}), /^TLSv1\.3 TLS_AES/, `${name} ${when}`)
      t.match(await handshake(port, v12), /^TLSv1\.2 TLS_ECDHE_\w+_GCM_/, `${name} ${when}`)
      for (const ciphers of [
        'ECDHE-RSA-AES128-SHA:ECDHE-ECDSA-AES128-SHA',
        'ECDHE-RSA-AES256-SHA384:ECDHE-ECDSA-AES256-SHA384',
        'AES128-GCM-SHA256:AES128-SHA',
        'DHE-RSA-AES128-GCM-SHA256',
      ])
        t.match(await handshake(port, { ...v12, ciphers }), /HANDSHAKE_FAILURE/, `${name} ${when}: ${ciphers}`)
      t.match(await handshake(port, { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'ALL:@SECLEVEL=0' }), /^ERR_SSL_/, `${name} ${when}: TLS 1.1`)
    }
    await check('at the start')
    const before = await serial(port)
    use(name === 'HTTP' ? 'second' : 'first')
    let now = before
    for (let i = 0; i < 10_000 && now === before; i++) now = await serial(port)
    t.not(now, before, 'the certificate was read again')
    await check('with a renewed certificate')
  }
})

function serial(port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port, ca, checkServerIdentity: () => undefined, ALPNProtocols: ['h2', 'http/1.1'] }, () => {
      resolve(socket.getPeerX509Certificate()?.subject ?? '')
      socket.destroy()
    })
    socket.on('error', reject)
  })
}

t.test('tls.min_version narrows and tls.ciphers widens what is spoken', async (t) => {
  const { cert, key } = files()
  for (const [name, port] of await listeners(t, { cert, key, min_version: '1.3' })) {
    t.match(await handshake(port, {}), /^TLSv1\.3 /, name)
    t.match(await handshake(port, { maxVersion: 'TLSv1.2' }), /PROTOCOL_VERSION/, name)
  }
  const old = 'ECDHE-RSA-AES128-SHA:ECDHE-ECDSA-AES128-SHA'
  const [[, port]] = await listeners(t, { cert, key, ciphers: `TLS_AES_128_GCM_SHA256:${old}` })
  t.match(await handshake(port, { maxVersion: 'TLSv1.2', ciphers: old }), /^TLSv1\.2 TLS_ECDHE_\w+_AES_128_CBC_SHA$/)
  t.equal(await handshake(port, {}), 'TLSv1.3 TLS_AES_128_GCM_SHA256')
  await t.rejects(boot({ config: { tls: { cert, key, ciphers: 'nonsense' } } }), { code: 'TLS_ERROR', message: /cannot use tls\.ciphers "nonsense"/ })
  await t.rejects(boot({ config: { tls: { cert, key, min_version: '1.3', ciphers: old } } }), { code: 'TLS_ERROR', message: /no suite of TLS 1\.3/ })
})
