import { copyFileSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { boot } from '../testkit/index.ts'

const fixture = (name: string) => new URL(`./fixtures/${name}`, import.meta.url)
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
  await until(() => lines.some((line) => line.includes('cannot reload the TLS certificate')))
  t.equal(await ask(node.url), 'first', 'a certificate that does not load leaves the old one in use')

  use('second')
  await until(() => lines.some((line) => line.includes('TLS certificate reloaded')))
  t.equal(await ask(node.url), 'second')
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
  await until(() => lines.some((line) => line.includes('cannot reload the TLS certificate')))
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

async function until(condition: () => boolean): Promise<void> {
  for (let i = 0; i < 500 && !condition(); i++) await new Promise((resolve) => setTimeout(resolve, 10))
}
