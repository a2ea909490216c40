import { execFileSync } from 'node:child_process'
import { closeSync, constants, existsSync, mkdtempSync, openSync, readFileSync, readSync, statSync, writeFileSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { MetricsRegistry, systemClock } from 'svcdb/testkit'
import t from 'tap'
import { until } from '../../test/support/until.ts'
import { AuditLog } from './audit-log.ts'
import { FileSink } from './audit-sink.ts'
import { catalogMetrics } from './metrics.ts'
import { bearer, bootCatalog } from './testing.ts'

const LIST = '/v1/namespaces'
const clock = { ...systemClock, now: () => Date.UTC(2026, 0, 2, 3, 4, 5, 6), nowNanos: () => 0n, monotonic: () => performance.now() }
const scratch = () => mkdtempSync(join(tmpdir(), 'svc-catalog-'))
const entries = (file: string) =>
  readFileSync(file, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))

t.test('each decision is one line, with its members in order', async (t) => {
  const file = join(scratch(), 'made', 'audit.jsonl')
  const node = await bootCatalog({ catalog: { audit_sink: 'file', audit_path: file }, clock })
  t.teardown(() => node.stop())
  const call = async (token: string | undefined, id: string, headers: Record<string, string> = {}, url = LIST) => {
    const authorization: Record<string, string> = token === undefined ? {} : bearer(token)
    await node.inject({ url, headers: { ...authorization, 'x-request-id': id, ...headers } })
    return JSON.stringify(entries(file).at(-1))
  }
  const timestamp = '2026-01-02T03:04:05.006Z'
  const ip = '127.0.0.1'
  const success = { timestamp, event: 'auth_success' }
  const failure = { timestamp, event: 'auth_failure' }
  const ann = { principal: 'ann', tenant_id: 'red', method: 'api_key', ip }
  t.equal(await call('red', '1'), JSON.stringify({ ...success, ...ann, request_id: '1' }))
  t.equal(await call(undefined, '2'), JSON.stringify({ ...failure, ip, request_id: '2', reason: 'missing_credentials' }))
  t.equal(await call('wrong', '3'), JSON.stringify({ ...failure, method: 'api_key', ip, request_id: '3', reason: 'invalid_token' }))
  t.equal(await call('a.b.c', '4'), JSON.stringify({ ...failure, method: 'jwt', ip, request_id: '4', reason: 'invalid_token' }))
  t.equal(await call('late', '5'), JSON.stringify({ ...failure, method: 'api_key', ip, request_id: '5', reason: 'expired_token' }))
  t.match(JSON.parse(await call('greedy', '6')), { ...failure, principal: 'gus', reason: 'rate_limited' })
  t.match(JSON.parse(await call('denied', '7')), { ...failure, principal: 'dan', tenant_id: 'red', reason: 'forbidden' })
  t.match(JSON.parse(await call('red', '8', { 'x-namespace': 'blue' })), { ...failure, principal: 'ann', tenant_id: 'red', reason: 'forbidden' })
  t.match(JSON.parse(await call('red', '9', {}, '/v1/namespaces/blue')), { ...failure, principal: 'ann', tenant_id: 'red', reason: 'forbidden' })
  t.match(JSON.parse(await call('red', '10', { 'x-namespace': 'NO' })), { ...failure, reason: 'bad_request' })
  t.match(JSON.parse(await call('broken', '11')), { ...failure, reason: 'server_error' })
  t.match(JSON.parse(await call('user', '12')), { ...success, principal: 'u-17', tenant_id: 'acme', method: 'jwt' })
  t.match(JSON.parse(await call(undefined, '13', {}, `${LIST}?token=red`)), { ...success, principal: 'ann', request_id: '13' })
  t.match(JSON.parse(await call(undefined, '14', {}, `${LIST}?token=wrong`)), { ...failure, reason: 'invalid_token', request_id: '14' })
  const count = entries(file).length
  t.equal(count, 14)
  await node.inject({ url: '/elsewhere', headers: bearer('red') })
  await node.inject({ url: '/elsewhere' })
  t.equal(entries(file).length, count, 'other routes are not in it')
  t.equal(statSync(file).mode & 0o777, 0o600)
  for (const secret of ['wrong', 'Bearer', 'a.b.c']) t.notMatch(readFileSync(file, 'utf8'), secret)
})

t.test('callers without credentials, where they are refused and where they are let in', async (t) => {
  const file = join(scratch(), 'audit.jsonl')
  const run = async (auth: Record<string, unknown>, plugins: [] | undefined) => {
    const node = await bootCatalog({ catalog: { audit_sink: 'file', audit_path: file }, auth, ...(plugins === undefined ? {} : { plugins }) })
    await node.inject(LIST)
    await node.stop()
    return entries(file).at(-1)
  }
  t.match(await run({}, []), { event: 'auth_failure', method: undefined, reason: 'missing_credentials' })
  t.match(await run({ require_authentication: false }, []), { event: 'auth_success', principal: 'anonymous', tenant_id: 'default', method: undefined })
  t.match(await run({ exempt_paths: [LIST] }, undefined), { event: 'auth_failure', method: undefined, reason: 'missing_credentials' })
  t.equal(entries(file).length, 3)
})

t.test('all decisions, and those of authorization, on request', async (t) => {
  const file = join(scratch(), 'audit.jsonl')
  const node = await bootCatalog({ catalog: { audit_sink: 'file', audit_path: file, audit_scope: 'all', audit_authorization: true } })
  t.teardown(() => node.stop())
  const call = async (token: string) => {
    const before = existsSync(file) && statSync(file).size > 0 ? entries(file).length : 0
    await node.inject({ url: '/elsewhere', headers: bearer(token) })
    return entries(file).slice(before)
  }
  t.match(await call('red'), [{ event: 'auth_success' }, { event: 'authz_permit', principal: 'ann', action: 'read', resource: '/elsewhere' }])
  t.match(await call('denied'), [
    { event: 'auth_failure' },
    { event: 'authz_deny', principal: 'dan', action: 'read', resource: '/elsewhere', reason: 'forbidden' },
  ])
  const late = await call('late')
  t.match(late, [{ event: 'auth_failure', reason: 'expired_token' }])
  t.equal(late.length, 1)
})

t.test('the file is in the data directory', async (t) => {
  const node = await bootCatalog({ catalog: { audit_sink: 'file' }, storage: 'embedded', plugins: [(await import('../native/index.ts')).default] })
  t.teardown(() => node.stop())
  await node.inject(LIST)
  t.match(entries(join(node.dataDir, 'auth/catalog-audit.jsonl')), [{ event: 'auth_failure' }])
  await t.rejects(bootCatalog({ catalog: { audit_sink: 'file' } }), /keeps no files on this machine; set catalog_auth.audit_path/)
  await t.rejects(bootCatalog({ catalog: { audit_sink: 'file', audit_path: join(tmpdir(), '/') } }), /cannot open the audit log/)
})

t.test('a disk that is full', { skip: existsSync('/dev/full') ? false : 'there is no /dev/full' }, async (t) => {
  t.test('refuses the calls, those to other routes not', async (t) => {
    const lines: string[] = []
    const node = await bootCatalog({ catalog: { audit_sink: 'file', audit_path: '/dev/full' }, log: (line) => lines.push(line) })
    t.teardown(() => node.stop())
    for (const token of ['red', 'wrong']) {
      const answer = await node.inject({ url: LIST, headers: bearer(token) })
      t.equal(answer.statusCode, 507)
      t.match(answer.json(), { error: { type: 'ServiceException', code: 507 } })
    }
    t.equal((await node.inject({ url: '/elsewhere', headers: bearer('red') })).statusCode, 200)
    t.equal(lines.filter((line) => line.includes('cannot write the audit log')).length, 1, 'one line for all of them')
    t.match((await node.inject({ url: '/metrics', headers: bearer('root') })).body, /^svc_catalog_audit_lost_total\{reason="write_failed"\} 2$/m)
  })

  t.test('is only counted without fail_closed', async (t) => {
    const node = await bootCatalog({ catalog: { audit_sink: 'file', audit_path: '/dev/full', fail_closed: false } })
    t.teardown(() => node.stop())
    t.equal((await node.inject({ url: LIST, headers: bearer('red') })).statusCode, 200)
    const lost = async () => /audit_lost_total\{reason="write_failed"\} (\d+)/.exec((await node.inject({ url: '/metrics', headers: bearer('root') })).body)?.[1]
    await until('it is counted', async () => (await lost()) === '1')
  })
})

t.test('files are renamed at their limit, and the oldest goes', async (t) => {
  const file = join(scratch(), 'audit.jsonl')
  const sink = await FileSink.open(file, 30, 2)
  for (let i = 0; i < 9; i++) await sink.write(`{"number":${i}}\n`)
  await sink.close()
  t.same(entries(file), [{ number: 8 }])
  t.same(entries(`${file}.1`), [{ number: 6 }, { number: 7 }])
  t.same(entries(`${file}.2`), [{ number: 4 }, { number: 5 }])
  t.notOk(existsSync(`${file}.3`))
})

t.test('a line that a crash cut short does not spoil the next', async (t) => {
  const file = join(scratch(), 'audit.jsonl')
  writeFileSync(file, '{"whole":1}\n{"cut":')
  const sink = await FileSink.open(file, 0, 1)
  await sink.write('{"next":1}\n')
  await sink.close()
  t.same(readFileSync(file, 'utf8').split('\n'), ['{"whole":1}', '{"cut":', '{"next":1}', ''])
})

t.test('the queue is bounded, and nothing that was accepted is lost', async (t) => {
  const registry = new MetricsRegistry()
  t.teardown(() => registry.close())
  const metrics = catalogMetrics(registry.child('catalog_auth'), () => 0)
  const audit = new AuditLog({ failClosed: true, maxWaiting: 3, log: pino({ level: 'silent' }), metrics })
  await t.rejects(audit.record({ n: -1 }), { code: 'DATABASE_CLOSED' })
  const written: string[] = []
  let release: () => void = () => {}
  const gate = new Promise<void>((resolve) => {
    release = resolve
  })
  audit.start({
    async write(lines) {
      await gate
      written.push(lines)
    },
    async close() {},
  })
  const accepted = [0, 1, 2].map((n) => audit.record({ n }))
  t.equal(audit.depth, 3)
  await t.rejects(audit.record({ n: 3 }), { code: 'BACKPRESSURE' })
  release()
  await Promise.all(accepted)
  t.equal(audit.depth, 0)
  // One that is given by whoever waited for the one before must begin a round of its own.
  for (let n = 4; n < 50; n++) await audit.record({ n })
  const last = audit.record({ n: 50 })
  await audit.stop()
  await last
  t.same(
    written
      .join('')
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line).n),
    [0, 1, 2, ...Array.from({ length: 47 }, (_, i) => i + 4)],
  )
  await audit.stop()
})

t.test('one namespace leaves a quarter of the queue to the others', async (t) => {
  const registry = new MetricsRegistry()
  t.teardown(() => registry.close())
  const metrics = catalogMetrics(registry.child('catalog_auth'), () => 0)
  const audit = new AuditLog({ failClosed: true, maxWaiting: 4, log: pino({ level: 'silent' }), metrics })
  const { promise, resolve } = Promise.withResolvers<void>()
  audit.start({ write: () => promise, async close() {} })
  const accepted = [0, 1, 2].map((n) => audit.record({ n }, 'red'))
  await t.rejects(audit.record({ n: 3 }, 'red'), { code: 'BACKPRESSURE', message: /3 entries of namespace "red", three quarters of all that may, wait/ })
  accepted.push(audit.record({ n: 4 }, 'blue'))
  await t.rejects(audit.record({ n: 5 }, 'blue'), { code: 'BACKPRESSURE', message: /4 entries wait/ })
  resolve()
  await Promise.all(accepted)
  await audit.record({ n: 6 }, 'red')
  await audit.stop()
})

t.test('calls of one namespace leave a quarter of the queue to those of others', async (t) => {
  const fifo = join(scratch(), 'audit.fifo')
  execFileSync('mkfifo', [fifo])
  // Full, so that the first entry waits to be written until somebody reads.
  const pipe = openSync(fifo, constants.O_RDWR | constants.O_NONBLOCK)
  t.teardown(() => closeSync(pipe))
  t.throws(
    () => {
      for (let i = 0; i < 1000; i++) writeSync(pipe, Buffer.alloc(4096))
    },
    { code: 'EAGAIN' },
  )
  const node = await bootCatalog({ catalog: { audit_sink: 'file', audit_path: fifo, audit_queue_entries: 8 }, server: { multi_tenancy: true } })
  const call = async (token: string, namespace: string) => node.inject({ url: LIST, headers: { ...bearer(token), 'x-namespace': namespace } })
  const waiting = Array.from({ length: 6 }, () => call('red', 'red'))
  const refused = await call('red', 'red')
  t.equal(refused.statusCode, 503)
  waiting.push(call('root', 'blue'))
  const drained = Buffer.alloc(1 << 16)
  const reading = setInterval(() => {
    try {
      readSync(pipe, drained)
    } catch {} // nothing is there
  }, 5)
  t.teardown(() => clearInterval(reading))
  t.same(
    (await Promise.all(waiting)).map(({ statusCode }) => statusCode),
    Array(7).fill(200),
  )
  await node.stop()
})

t.test('entries that could not be written take no room from those behind them', async (t) => {
  const registry = new MetricsRegistry()
  t.teardown(() => registry.close())
  const metrics = catalogMetrics(registry.child('catalog_auth'), () => 0)
  const audit = new AuditLog({ failClosed: true, maxWaiting: 3, log: pino({ level: 'silent' }), metrics })
  let full = true
  audit.start({
    async write() {
      if (full) throw new Error('the disk is full')
    },
    async close() {},
  })
  for (let n = 0; n < 5; n++) await t.rejects(audit.record({ n }), { code: 'IO_ERROR' })
  t.equal(audit.depth, 0)
  full = false
  await audit.record({ n: 5 })
  await audit.stop()
})
