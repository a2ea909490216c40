import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { bare, runServer } from '../support/server.ts'
import { ROOT } from '../support/tree.ts'

const run = promisify(execFile)

t.test('examples/secured: keys, namespaces, policies, limits and the audit log, together', async (t) => {
  const admin = `svc_${randomBytes(32).toString('base64url')}`
  const env = { SVC_ADMIN_KEY: admin, SVC_AUDIT_KEY: randomBytes(32).toString('hex') }
  const server = await runServer('examples/secured/svc.toml', { env, keepData: true })
  t.teardown(() => server.remove())
  const call = (path: string, key: string | undefined, options: { method?: string; body?: unknown; text?: string } = {}) =>
    fetch(server.url + path, {
      method: options.method ?? (options.body === undefined && options.text === undefined ? 'GET' : 'POST'),
      headers: {
        ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
        ...(options.body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(options.body === undefined ? {} : { body: JSON.stringify(options.body) }),
      ...(options.text === undefined ? {} : { body: options.text }),
    })
  const made = async (body: object): Promise<string> => {
    const answer = await call('/api/v1/admin/auth/keys', admin, { body })
    t.equal(answer.status, 201)
    return ((await answer.json()) as { key: string }).key
  }

  t.equal((await call('/api/v1/measurements', undefined)).status, 401)
  t.equal((await call('/health', undefined)).status, 200)
  for (const name of ['plant', 'office']) t.equal((await call('/api/v1/namespaces', admin, { body: { name } })).status, 201)
  const writer = await made({ name: 'gateway', namespaces: ['plant'], roles: ['writer'] })
  const reader = await made({ name: 'dashboard', namespaces: ['plant'], roles: ['reader'] })
  const other = await made({ name: 'office', namespaces: ['office'], roles: ['owner'] })

  t.equal((await call('/write', writer, { text: 'boiler temp=81.5 1700000000000000000' })).status, 204)
  t.equal((await call('/write', reader, { text: 'boiler temp=82 1700000001000000000' })).status, 403, 'a reader does not write')
  const ask = async (key: string) => call('/api/v1/svc/sql', key, { body: { query: 'SELECT temp FROM boiler' } })
  t.match(await (await ask(reader)).json(), { rows: [[81.5]] })
  t.equal((await ask(writer)).status, 403, 'a writer does not read')
  t.equal((await ask(other)).status, 400, 'another namespace has no such table')
  t.equal((await call('/api/v1/measurements/boiler', other, { method: 'DELETE' })).status, 404)
  t.equal((await call('/api/v1/namespaces', reader)).status, 403)
  t.match(await (await call('/api/v1/namespaces/plant/usage', admin)).json(), { usage: { series_count: 1, measurements: 1 } })
  t.equal((await call('/api/v1/admin/auth/keys/dashboard', admin, { method: 'DELETE' })).status, 204)
  t.equal((await ask(reader)).status, 401, 'a key that was taken back is refused at once')
  const wrong: number[] = []
  for (let i = 0; i < 10; i++) wrong.push((await call('/api/v1/measurements', `svc_${'x'.repeat(42)}${i}`)).status)
  t.same(wrong, [...Array(9).fill(401), 429], 'who guesses keys is shut out; the key that was taken back counts')
  t.equal((await ask(writer)).status, 429, 'with good ones too')
  t.equal(await server.stop(), 0)

  const command = [process.execPath, join(ROOT, 'kernel/main.ts'), 'audit', 'verify', join(server.dataDir, 'audit.jsonl'), '--hmac-key-env', 'SVC_AUDIT_KEY']
  const { stdout } = await run('env', bare(env, ...command))
  t.match(stdout, /^whole: \d+ entries, ids 1 to \d+, /)
  const auditLog = await readFile(join(server.dataDir, 'audit.jsonl'), 'utf8')
  for (const recorded of ['"policy_load"', '"namespace_create"', '"api_key_create"', '"api_key_revoke"', '"login_failure"', 'address_banned'])
    t.ok(auditLog.includes(recorded), `${recorded} is recorded`)
  for (const secret of [admin, writer, reader, other, env.SVC_AUDIT_KEY])
    t.notOk(server.output().includes(secret) || stdout.includes(secret) || auditLog.includes(secret), 'no secret is shown')
})
