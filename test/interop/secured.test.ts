/** Keys, TLS and namespaces: what clients of gRPC and Flight SQL do with them. */
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { ROOT } from '../support/tree.ts'
import { JDBC, noJdbc } from './jdbc.ts'
import { type Listeners, startListeners } from './listeners.ts'
import { client, lackingPython, PYTHON, runChecks } from './program.ts'

const PROTO = join(ROOT, 'plugins/grpc/svc.proto')
const noOpenssl = spawnSync('openssl', ['version']).error === undefined ? false : 'there is no openssl to make a certificate with'

async function start(t: TestContext): Promise<{ listeners: Listeners; certificate: string }> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-interop-tls-'))
  const [certificate, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')]
  const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1']
  execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-keyout', key, '-out', certificate, ...subject], { stdio: 'ignore' })
  const server = `[tls]\ncert = ${JSON.stringify(certificate)}\nkey = ${JSON.stringify(key)}`
  const listeners = await startListeners(['grpc', 'flight_sql'], { plugins: [join(import.meta.dirname, 'keys.ts')], server })
  t.after(async () => {
    await listeners.stop()
    await rm(folder, { recursive: true, force: true })
  })
  return { listeners, certificate }
}

test('keys and TLS: pyarrow, ADBC, grpcio', { skip: noOpenssl || lackingPython('pyarrow', 'adbc', 'grpcio') }, async (t) => {
  const { listeners, certificate } = await start(t)
  await runChecks(t, PYTHON, [client('secured.py'), listeners.flight, listeners.grpc, certificate, PROTO])
})

test('keys and TLS: JDBC', { skip: noOpenssl || noJdbc }, async (t) => {
  const { listeners, certificate } = await start(t)
  await runChecks(t, 'java', [...JDBC, listeners.flight, certificate])
})

test('namespaces: pyarrow, ADBC, grpcio', { skip: lackingPython('pyarrow', 'adbc', 'grpcio') }, async (t) => {
  const listeners = await startListeners(['grpc', 'flight_sql'], { server: 'multi_tenancy = true' })
  t.after(() => listeners.stop())
  await runChecks(t, PYTHON, [client('namespaces.py'), listeners.flight, listeners.grpc, PROTO])
})
