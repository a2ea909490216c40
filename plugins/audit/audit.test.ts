/** The plugin in a node: what of the calls of each listener is in the audit log, and what is not. */
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { connect } from 'node:http2'
import { join } from 'node:path'
import { AUDIT_LOG, type AuditLog, definePlugin, type Identity, type Svc } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { type BootOptions, boot, type TestNode, temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import type { Entry } from './entry.ts'
import { sealBy } from './entry.ts'
import audit from './index.ts'
import { check, entriesOf, FaultyFiles, metadataOf } from './testing.ts'
import { auditPlugin } from './wiring.ts'

const SECRETS = { admin: 'svc-secret-of-the-admin', reader: 'svc-secret-of-the-reader', wrong: 'svc-secret-that-is-wrong' }
const bearer = (token: string) => ({ authorization: `Bearer ${token}` })

/** Accepts two tokens, refuses all others, and forbids the reader to delete. */
const locks = definePlugin({
  id: 'locks',
  summary: 'Authenticates for the tests',
  stability: 'experimental',
  setup(svc) {
    svc.auth.authenticator(({ header, query }) => {
      const token = header('authorization')?.split(' ')[1] ?? query('token')
      const who = (principal: string, admin: boolean): Identity => ({ principal, method: 'test', claims: {}, namespaces: [], admin })
      if (token === SECRETS.admin) return who('ann', true)
      if (token === SECRETS.reader) return who('bob\n|\u001b[31m'.padEnd(400, 'x'), false)
      // As no authenticator should: it says what it was given.
      return token === undefined ? undefined : new SvcError('UNAUTHORIZED', `the token ${token} is not known`)
    })
    svc.auth.authorizer(({ context, action }) => (action === 'delete' && !context.admin ? new SvcError('FORBIDDEN', 'not yours') : undefined))
    const done = async () => ({ done: true })
    svc.http.get('/data', done)
    svc.http.post('/data', done)
    svc.http.delete('/data/:name', done)
    svc.http.post('/admin', { config: { action: 'admin' } }, done)
    svc.http.get('/public', { config: { action: 'public' } }, done)
    svc.http.post('/api/v1/export/parquet', { config: { action: 'read' } }, done)
    for (const path of ['schema/fields', 'restore']) svc.http.post(`/api/v1/measurements/:name/${path}`, { config: { action: 'write' } }, done)
  },
})

interface Started {
  node: TestNode
  path: string
  call(method: 'GET' | 'POST' | 'DELETE' | 'PUT', url: string, headers?: Record<string, string>): Promise<number>
  /** Of the audit log, beginning with those that were not asked for yet. */
  entries(): Entry[]
  logged: string[]
}

async function start(t: Parameters<typeof temporaryFolder>[0], section: Record<string, unknown> = {}, options: BootOptions = {}): Promise<Started> {
  const path = join(temporaryFolder(t), 'audit.jsonl')
  const logged: string[] = []
  const plugins = options.plugins ?? [audit, locks]
  const node = await boot({ ...options, plugins, config: { ...options.config, audit: { path, ...section } }, log: (line) => logged.push(line) })
  t.teardown(() => node.stop())
  let seen = 0
  return {
    node,
    path,
    logged,
    call: async (method, url, headers = {}) =>
      (
        await node.inject({
          method,
          url,
          headers: method === 'GET' ? headers : { 'content-type': 'application/json', ...headers },
          ...(method === 'GET' ? {} : { payload: '{}' }),
        })
      ).statusCode,
    entries: () => {
      const all = entriesOf(path)
      const fresh = all.slice(seen)
      seen = all.length
      return fresh
    },
  }
}

t.test('refusals, deletes, admin calls, exports and changes of the schema are recorded; reads and writes are not', async (t) => {
  const { call, entries, path } = await start(t)
  t.equal(await call('GET', '/data'), 401)
  t.match(entries(), [
    { id: 1n, principal: 'anonymous', action: 'login_failure', resource: '/data', decision: 'deny', sourceIp: '127.0.0.1', prevHash: undefined },
  ])
  t.equal(await call('GET', '/data', { ...bearer(SECRETS.admin), 'x-request-id': 'ticket-7' }), 200)
  t.equal(await call('POST', '/data', bearer(SECRETS.admin)), 200)
  t.equal(await call('GET', '/public'), 200)
  t.equal(await call('GET', '/health'), 200)
  t.equal(await call('GET', '/nowhere'), 404)
  t.equal(await call('GET', '/metrics', bearer(SECRETS.admin)), 200)
  t.same(entries(), [], 'none of these')

  t.equal(await call('DELETE', '/data/cpu', { ...bearer(SECRETS.admin), 'x-request-id': 'ticket-7' }), 200)
  const [deleted] = entries()
  t.match(deleted, { principal: 'ann', action: 'delete', resource: '/data/:name', decision: 'allow', requestId: 'ticket-7' })
  t.match(metadataOf(deleted), { surface: 'http', method: 'test', namespace: 'default', path: '/data/cpu', request_id: 'ticket-7', source_ip: '127.0.0.1' })

  t.equal(await call('POST', '/admin', bearer(SECRETS.admin)), 200)
  t.equal(await call('PUT', '/api/v1/admin/log-level', bearer(SECRETS.admin)), 422, 'a call that is admitted is recorded, whatever becomes of it')
  t.equal(await call('POST', '/api/v1/export/parquet', bearer(SECRETS.reader)), 200)
  t.equal(await call('POST', '/api/v1/measurements/cpu/schema/fields', bearer(SECRETS.reader)), 200)
  t.equal(await call('POST', '/api/v1/measurements/cpu/restore', bearer(SECRETS.reader)), 200)
  t.match(
    entries().map(({ action, resource, decision }) => [action, resource, decision]),
    [
      ['admin', '/admin', 'allow'],
      ['admin', '/api/v1/admin/log-level', 'allow'],
      ['data_export', '/api/v1/export/parquet', 'allow'],
      ['schema_change', '/api/v1/measurements/:name/schema/fields', 'allow'],
      ['schema_change', '/api/v1/measurements/:name/restore', 'allow'],
    ],
  )

  t.equal(await call('POST', '/admin', bearer(SECRETS.reader)), 403)
  t.equal(await call('DELETE', '/data/cpu', bearer(SECRETS.reader)), 403)
  t.equal(await call('GET', '/data', { ...bearer(SECRETS.reader), 'x-namespace': 'No such' }), 400)
  const denied = entries()
  t.match(
    denied.map((entry) => [entry.action, entry.decision, metadataOf(entry).stage, metadataOf(entry).code]),
    [
      ['admin', 'deny', 'authorization', 'FORBIDDEN'],
      ['delete', 'deny', 'authorization', 'FORBIDDEN'],
      ['read', 'deny', 'namespace', 'BAD_REQUEST'],
    ],
  )
  const { principal } = denied[0]
  t.equal(principal.length, 256, 'a principal that somebody chose is bounded')
  t.match(principal, 'bob\n%7C\u001b[31mxxx')
  t.notOk(readFileSync(path, 'latin1').includes('\u001b') || /\n[^{]/.test(readFileSync(path, 'latin1')), 'and does nothing to who reads the file')
  t.match(await check(path), { broken: undefined })
})

t.test('what is recorded is a setting', async (t) => {
  const { call, entries } = await start(t, { record: ['read', 'write', 'denied'], skip: ['/admin'] })
  for (const [method, url] of [
    ['GET', '/data'],
    ['POST', '/data'],
    ['DELETE', '/data/x'],
    ['POST', '/admin'],
  ] as const)
    await call(method, url, bearer(SECRETS.admin))
  t.equal(await call('GET', '/data', bearer(SECRETS.wrong)), 401)
  t.equal(await call('POST', '/admin', bearer(SECRETS.reader)), 403)
  t.match(
    entries().map(({ action, decision }) => `${action} ${decision}`),
    ['read allow', 'write allow', 'admin deny'],
  )
})

t.test('scrapes that are let in are not recorded, whatever the path of the metrics is', async (t) => {
  const config = { server: { multi_tenancy: true, metrics_path: '/figures' } }
  const { call, entries } = await start(t, {}, { config })
  t.equal(await call('GET', '/figures', bearer(SECRETS.admin)), 200)
  t.same(entries(), [])
  t.equal(await call('GET', '/figures'), 401)
  t.match(entries(), [{ action: 'login_failure', resource: '/figures' }], 'one that is refused is')
  const all = await start(t, { skip: [] }, { config })
  t.equal(await all.call('GET', '/figures', bearer(SECRETS.admin)), 200)
  t.match(all.entries(), [{ action: 'admin', resource: '/figures', decision: 'allow' }])
})

t.test('no secret is in the audit log, the log or the answer of the admin route', async (t) => {
  const { call, entries, path, logged, node } = await start(t, { log: true, hmac_key_env: 'SVC_AUDIT_TEST_KEY' }, {})
  const secrets = Object.values(SECRETS)
  const basic = Buffer.from(`user:${SECRETS.wrong}`).toString('base64')
  for (const secret of secrets) {
    for (const headers of [bearer(secret), { authorization: `Token ${secret}` }, { authorization: secret }, { 'x-api-key': secret }, { cookie: secret }])
      await call('DELETE', '/data/x', headers as Record<string, string>)
    await call('GET', `/data?token=${secret}&u=x&p=${secret}`)
    await call('DELETE', `/data/${secret}`, bearer(secret))
  }
  await call('GET', '/data', { authorization: `Basic ${basic}` })
  const found = entries()
  t.ok(found.length > 15)
  t.ok(found.some((entry) => metadataOf(entry).reason === 'the token [redacted] is not known'))
  t.same(
    new Set(found.filter(({ action }) => action === 'login_failure').map((entry) => metadataOf(entry).credential)),
    new Set(['bearer', 'token', 'other', 'x-api-key', 'none', 'query', 'basic']),
  )
  const answer = await node.inject({ url: '/api/v1/admin/audit?limit=1000', headers: bearer(SECRETS.admin) })
  // The kernel logs paths at debug.
  const own = logged.filter((line) => JSON.parse(line).name === 'audit')
  t.ok(own.filter((line) => JSON.parse(line).msg === 'audit').length >= found.length)
  const everything = readFileSync(path, 'utf8') + answer.body + own.join('\n')
  for (const secret of [...secrets, basic, process.env.SVC_AUDIT_TEST_KEY as string]) t.notOk(everything.includes(secret), secret)
  t.match(await check(path, sealBy(Buffer.from(process.env.SVC_AUDIT_TEST_KEY as string))), { broken: undefined })
})
process.env.SVC_AUDIT_TEST_KEY = 'the key of the audit log, which is long enough'

t.test('a variable that is not set stops the start, naming it', async (t) => {
  await t.rejects(boot({ plugins: [audit], config: { audit: { hmac_key_env: 'SVC_NO_SUCH_KEY' } } }), /"SVC_NO_SUCH_KEY": the environment variable is not set/)
})

t.test('many refusals do not fill the disk, and are all counted', async (t) => {
  const ofOne = (entry: Entry): number => Number(metadataOf(entry).count ?? 1)
  const total = (found: readonly Entry[]): number => found.reduce((sum, entry) => sum + ofOne(entry), 0)

  const long = await start(t, { denials_per_address: 5, denial_window_secs: 3600 })
  for (let i = 0; i < 30; i++) t.equal(await long.call('GET', '/data'), 401)
  t.equal(long.entries().length, 5)
  await long.node.stop()
  const [counted, ...more] = long.entries()
  t.same(more, [])
  t.match(counted, { action: 'login_failure', principal: 'anonymous', decision: 'deny', sourceIp: '127.0.0.1' })
  t.match(metadataOf(counted), { event: 'counted', count: '25', code: 'UNAUTHORIZED' }, 'at the stop')

  const short = await start(t, { denials_per_address: 1, denial_window_secs: 1 })
  for (let i = 0; i < 10; i++) await short.call('GET', '/data')
  let found: Entry[] = []
  for (let i = 0; i < 6000 && total(found) < 10; i++) {
    await new Promise((done) => setTimeout(done, 10))
    found = [...found, ...short.entries()]
  }
  t.equal(total(found), 10, 'at the end of the window')
})

t.test('neither does a flood from an address that is banned', async (t) => {
  const FLOOD = 5000
  const options = { plugins: [audit, locks, 'rate_limit'], config: { rate_limit: { requests_per_second: 0, max_auth_failures: 2 } } }
  const { call, entries, node, path } = await start(t, { denial_window_secs: 3600 }, options)
  const statuses = { 401: 0, 429: 0 } as Record<number, number>
  for (let i = 0; i < FLOOD; i++) statuses[await call(i % 2 === 0 ? 'GET' : 'POST', '/data', bearer(SECRETS.wrong))]++
  t.same(statuses, { 401: 2, 429: FLOOD - 2 })
  const during = entries()
  t.equal(during.length, 43, 'two logins that failed, the ban, and twenty each of reads and writes')
  await node.stop()
  const after = entries()
  const counts = after.map((entry) => [entry.action, metadataOf(entry).code, metadataOf(entry).count])
  t.same(counts.sort(), [
    ['read', 'RATE_LIMITED', String(FLOOD / 2 - 1 - 20)],
    ['write', 'RATE_LIMITED', String(FLOOD / 2 - 1 - 20)],
  ])
  t.match(await check(path), { entries: 45, broken: undefined })
})

t.test('refusals of gRPC and Flight SQL are recorded with the method', async (t) => {
  const config = { grpc: { addr: '127.0.0.1:0' }, flight_sql: { addr: '127.0.0.1:0' } }
  const { node, entries, path } = await start(t, {}, { plugins: [audit, locks, 'grpc', 'flight_sql'], config, storage: 'embedded' })
  const [grpc, flight] = [node.port('grpc'), node.port('flight_sql')]
  t.equal(await grpcStatus(grpc, '/svc.Service/Write'), '16')
  t.equal(await grpcStatus(grpc, '/svc.Service/Query', bearer(SECRETS.wrong)), '16')
  t.equal(await grpcStatus(flight, '/arrow.flight.protocol.FlightService/DoGet', bearer(SECRETS.wrong)), '16')
  t.match(
    entries().map((entry) => [entry.action, entry.resource, entry.principal, entry.sourceIp, metadataOf(entry).surface, metadataOf(entry).credential]),
    [
      ['login_failure', '/svc.Service/Write', 'anonymous', '127.0.0.1', 'grpc', 'none'],
      ['login_failure', '/svc.Service/Query', 'anonymous', '127.0.0.1', 'grpc', 'bearer'],
      ['login_failure', '/arrow.flight.protocol.FlightService/DoGet', 'anonymous', '127.0.0.1', 'flight', 'bearer'],
    ],
  )
  t.notMatch(readFileSync(path, 'utf8'), SECRETS.wrong)
})

t.test('plugins record, even before the audit log has started', async (t) => {
  let service: Svc | undefined
  const early = definePlugin({
    id: 'early',
    summary: 'Records while it starts',
    stability: 'experimental',
    setup(svc) {
      service = svc
      svc.start(async () => svc.find<AuditLog>(AUDIT_LOG)?.record({ action: 'policy_load', resource: 'policies', decision: 'allow' }))
    },
  })
  const { entries, node, call } = await start(t, {}, { plugins: [early, audit] })
  t.match(entries(), [{ id: 1n, principal: 'system', action: 'policy_load', resource: 'policies' }])
  const by = { principal: 'ann', address: '192.0.2.7', requestId: 'r7' }
  const auditLog = service?.find<AuditLog>(AUDIT_LOG) as AuditLog
  await auditLog.record({ action: 'api_key_create', resource: 'ci', decision: 'allow', by, metadata: { roles: 'writer' } })
  t.match(entries(), [{ id: 2n, principal: 'ann', action: 'api_key_create', sourceIp: '192.0.2.7', requestId: 'r7' }])
  t.equal(await call('PUT', '/api/v1/admin/log-level'), 422)
  t.match(
    entries(),
    [{ principal: 'anonymous', action: 'admin', metadata: [['method', 'none']] }].map(({ metadata: _, ...rest }) => rest),
    'an open server too',
  )
  await node.stop()
  await t.rejects(auditLog.record({ action: 'custom', resource: 'x', decision: 'allow' }), { code: 'DATABASE_CLOSED' })
})

t.test('an admin reads the newest entries, with exact numbers', async (t) => {
  const { node, call, entries } = await start(t, { memory_entries: 3 })
  for (let i = 0; i < 5; i++) await call('DELETE', `/data/${i}`, bearer(SECRETS.admin))
  const all = entries()
  const ask = (url: string, token = SECRETS.admin) => node.inject({ url, headers: bearer(token) })
  const answer = await ask('/api/v1/admin/audit')
  t.equal(answer.headers['content-type'], 'application/json; charset=utf-8')
  const [own] = entries()
  t.match(answer.json(), { last_hash: own.hash, entries: [{ id: 4 }, { id: 5 }, { id: 6, resource: '/api/v1/admin/audit' }] }, 'the call itself is in it')
  t.match(answer.body, `"timestamp":${all[4].timestamp},`)
  t.equal((await ask('/api/v1/admin/audit?limit=1')).json().entries.length, 1)
  t.equal((await ask('/api/v1/admin/audit?limit=0')).statusCode, 400)
  t.equal((await ask('/api/v1/admin/audit', SECRETS.reader)).statusCode, 403)
})

t.test('the chain and the newest entries go on after a restart, in the data directory', async (t) => {
  const folder = temporaryFolder(t)
  for (let i = 1; i <= 3; i++) {
    const node = await boot({ plugins: [audit, locks], config: { audit: { path: join(folder, 'audit.jsonl') } } })
    await node.inject({ method: 'DELETE', url: '/data/x', headers: bearer(SECRETS.admin) })
    const { entries } = (await node.inject({ url: '/api/v1/admin/audit', headers: bearer(SECRETS.admin) })).json()
    t.equal(entries.length, 2 * i)
    await node.stop()
  }
  t.match(await check(join(folder, 'audit.jsonl')), { entries: 6, broken: undefined })
  const node = await boot({ plugins: [audit, locks, 'line_protocol'], storage: 'embedded' })
  t.teardown(() => node.stop())
  await node.inject('/data')
  t.equal(entriesOf(join(node.dataDir, 'audit.jsonl')).length, 1, 'by default the file lies in the data directory')
})

t.test('an entry that cannot be kept: the call is refused, and goes on by itself when there is room', async (t) => {
  const files = new FaultyFiles()
  const { call, node } = await start(t, {}, { plugins: [auditPlugin(files), locks] })
  files.room = 10
  const refused = await node.inject({ method: 'DELETE', url: '/data/x', headers: bearer(SECRETS.admin) })
  t.match([refused.statusCode, refused.headers['retry-after'], refused.json()], [507, '5', { code: 'STORAGE_FULL', error: /free space/ }])
  t.equal(await call('GET', '/data', bearer(SECRETS.admin)), 200, 'what is not recorded goes on')
  t.equal(await call('GET', '/data'), 401, 'a refusal stays what it is')
  files.room = Number.POSITIVE_INFINITY
  t.equal(await call('DELETE', '/data/x', bearer(SECRETS.admin)), 200)
  const metrics = (await node.inject({ url: '/metrics', headers: bearer(SECRETS.admin) })).body
  t.match(metrics, 'svc_audit_failures_total{code="STORAGE_FULL"} 2')
  t.match(metrics, 'svc_audit_entries_total{decision="allow"} 1')
  t.match(metrics, 'svc_audit_counted_denials_total 1')
  t.match(metrics, 'svc_audit_queue_depth 0')
})

t.test('a folder that is gone is 503; with fail_closed false the call goes on', async (t) => {
  for (const fail_closed of [true, false]) {
    const folder = join(temporaryFolder(t), 'audit_log')
    mkdirSync(folder)
    const { call } = await start(t, { path: join(folder, 'audit.jsonl'), fail_closed })
    renameSync(folder, `${folder}.away`)
    writeFileSync(folder, 'a file in place of the folder')
    t.equal(await call('DELETE', '/data/x', bearer(SECRETS.admin)), fail_closed ? 503 : 200)
  }
})

/** Of a call with an empty message. */
async function grpcStatus(port: number, path: string, headers: Record<string, string> = {}): Promise<string | undefined> {
  const session = connect(`http://127.0.0.1:${port}`)
  try {
    return await new Promise((resolve, reject) => {
      const call = session.request({ ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers', ...headers })
      const look = (given: Record<string, unknown>) => given['grpc-status'] !== undefined && resolve(String(given['grpc-status']))
      call
        .on('response', look)
        .on('trailers', look)
        .on('error', reject)
        .on('close', () => resolve(undefined))
        .resume()
      session.on('error', reject)
      call.end(Buffer.alloc(5))
    })
  } finally {
    session.close()
  }
}
