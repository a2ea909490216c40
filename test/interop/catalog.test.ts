/** The data catalog with API keys over TLS: PyIceberg and curl. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { type RunningServer, runServer } from '../support/server.ts'
import { ROOT } from '../support/tree.ts'
import { client, lackingPython, PYTHON, runChecks } from './program.ts'

const newKey = () => `svc_${randomBytes(32).toString('base64url')}`
const keys = { admin: newKey(), north: newKey(), both: newKey(), wrong: newKey() }
let folder = ''
let certificate = ''
let server: RunningServer
/** The answer's body and its status. */
const curl = (path: string, ...args: string[]): [body: string, status: string] => {
  const text = execFileSync('curl', ['-sS', '--cacert', certificate, '-w', '\n%{http_code}', ...args, server.url + path], { encoding: 'utf8' })
  const at = text.lastIndexOf('\n')
  return [text.slice(0, at), text.slice(at + 1)]
}
const bearer = (key: string) => ['-H', `Authorization: Bearer ${key}`]

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'svc-interop-'))
  execFileSync(process.execPath, [join(ROOT, 'kernel/main.ts'), 'generate-cert', '--common-name', 'catalog.example', '--out', folder])
  certificate = join(folder, 'cert.pem')
  const key = (name: string, text: string, more: string) => `[[auth.api_keys]]\nname = "${name}"\nkey = "${text}"\n${more}\n`
  const config = [
    'plugins = ["native", "namespaces", "api_keys", "catalog_auth"]',
    '[server]\nmulti_tenancy = true\nlog_level = "debug"',
    `[tls]\ncert = ${JSON.stringify(certificate)}\nkey = ${JSON.stringify(join(folder, 'key.pem'))}`,
    key('root', keys.admin, 'admin = true\nnamespaces = ["*"]'),
    key('nora', keys.north, 'namespaces = ["north"]'),
    key('bo', keys.both, 'namespaces = ["north", "south"]'),
  ]
  await writeFile(join(folder, 'svc.toml'), config.join('\n'))
  server = await runServer(join(folder, 'svc.toml'))
  for (const name of ['north', 'south']) {
    const body = JSON.stringify({ name, description: `the ${name}`, owner: 'nora', max_series_count: 5000 })
    const [answer, status] = curl('/api/v1/namespaces', ...bearer(keys.admin), '-H', 'Content-Type: application/json', '-d', body)
    assert.equal(status, '201', answer)
  }
})

after(async () => {
  await server.stop()
  await rm(folder, { recursive: true, force: true })
})

test('PyIceberg', { skip: lackingPython('pyiceberg') }, async (t) => {
  // One that is set counts more than what the client is told.
  const env = { REQUESTS_CA_BUNDLE: certificate }
  await runChecks(t, PYTHON, [client('catalog_pyiceberg.py'), server.url, certificate, keys.admin, keys.north, keys.both, keys.wrong], env)
})

test('curl: a token in the header, and in the URL', () => {
  const list = '{"namespaces":[["north"]],"next-page-token":null}'
  assert.deepEqual(curl('/v1/namespaces', ...bearer(keys.north)), [list, '200'])
  assert.deepEqual(curl(`/v1/namespaces?token=${keys.north}`), [list, '200'])
  assert.equal(curl('/v1/namespaces/north', '-I', ...bearer(keys.north))[1], '204')
  const [context] = curl(`/auth/context?token=${keys.north}`)
  assert.equal(JSON.parse(context).principal.name, 'nora')
  for (const args of [[], bearer(keys.wrong)]) {
    const [body, status] = curl('/v1/namespaces', ...args)
    assert.equal(status, '401')
    assert.equal(JSON.parse(body).error.type, 'NotAuthenticatedException')
  }
  assert.equal(curl(`/api/v1/measurements?token=${keys.north}`)[1], '401', 'elsewhere a URL carries no token')
})

test('the audit log has every decision, and no output has a key', async () => {
  assert.equal(curl('/v1/config', ...bearer(keys.north), '-H', 'X-Request-Id: the-last')[1], '200')
  // What was written while curl was waited for is still to be read.
  for (let i = 0; i < 500 && !server.output().includes('"request_id":"the-last"'); i++) await setTimeout(10)
  const entries = server
    .output()
    .split('\n')
    .filter((line) => line.startsWith('{"timestamp"'))
    .map((line) => JSON.parse(line))
  const of = (event: string, reason?: string) => entries.filter((entry) => entry.event === event && entry.reason === reason)
  assert.ok(of('auth_success').some(({ principal, tenant_id, method }) => principal === 'nora' && tenant_id === 'north' && method === 'api_key'))
  for (const reason of ['invalid_token', 'missing_credentials', 'forbidden']) assert.ok(of('auth_failure', reason).length > 0, reason)
  for (const key of Object.values(keys)) assert.ok(!server.output().includes(key))
})
