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

async function until(condition: () => boolean): Promise<void> {
  for (let i = 0; i < 500 && !condition(); i++) await new Promise((resolve) => setTimeout(resolve, 10))
}
