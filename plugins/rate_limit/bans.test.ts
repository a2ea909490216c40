import { type AuditRecord, definePlugin, type Plugin } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { type BootOptions, boot, ManualClock } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import plugin from './index.ts'
import { auditLog, keys, routes } from './testing.ts'

const BANS = '/api/v1/admin/rate-limit/bans'

async function setUp(t: Test, section: Record<string, unknown> = {}, others: Plugin[] = [], options: BootOptions = {}) {
  const clock = new ManualClock()
  const node = await boot({ ...options, plugins: [plugin, routes, keys, ...others], config: { rate_limit: section }, clock })
  t.teardown(() => node.stop())
  const ask = (name: string | undefined, from = '192.0.2.1', headers: Record<string, string> = {}) =>
    node.inject({ url: '/who', remoteAddress: from, headers: { ...headers, ...(name === undefined ? {} : { authorization: `Bearer ${name}` }) } })
  const status = async (...args: Parameters<typeof ask>) => (await ask(...args)).statusCode
  const fail = async (times: number, from?: string) => {
    for (let i = 0; i < times; i++) await ask(`wrong${i}`, from)
  }
  const admin = (method: 'GET' | 'DELETE', url: string, name = 'root') =>
    node.inject({ method, url, remoteAddress: '198.51.100.1', headers: { authorization: `Bearer ${name}` } })
  const metrics = () => node.node.metrics.text()
  return { node, clock, ask, status, fail, admin, metrics }
}

t.test('an address whose credentials are refused again and again is shut out for a while', async (t) => {
  const records: AuditRecord[] = []
  const { clock, ask, status, fail, metrics } = await setUp(t, {}, [auditLog(records)])
  await fail(4)
  t.equal(await status('wrong'), 401)
  const answer = await ask('ann')
  t.equal(answer.statusCode, 429, 'whatever it brings')
  t.match(answer.headers, { 'retry-after': '300', 'x-ratelimit-limit': '0', 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '300' })
  t.match(answer.json(), {
    code: 'RATE_LIMITED',
    error: /^Too Many Requests: cannot take requests from address "192.0.2.1": its credentials were refused 5 times/,
  })
  t.equal(await status('ann', '192.0.2.2'), 200)
  clock.skip(299_500)
  t.equal((await ask('ann')).headers['retry-after'], '1')
  clock.skip(500)
  t.equal(await status('ann'), 200)
  const text = await metrics()
  t.match(text, /^svc_auth_bans_total 1$/m)
  t.match(text, /^svc_rate_limited_total\{layer="ban"\} 2$/m)
  t.match(text, /^svc_rate_limit_banned_addresses 0$/m)
  t.match(records, [
    { action: 'custom', resource: '192.0.2.1', decision: 'deny', metadata: { event: 'address_banned', failures: '5', lockout_seconds: '300' } },
  ])
  t.equal(records.length, 1)
  t.notMatch(JSON.stringify(records), /wrong/, 'no credentials are recorded')
})

t.test('what does not count: no credentials, being forbidden, what is well', async (t) => {
  const busy = definePlugin({
    id: 'busy',
    summary: 'Cannot say now',
    stability: 'experimental',
    setup: (svc) =>
      svc.auth.authenticator(({ header }) => (header('authorization') === 'Bearer later!' ? new SvcError('OVERLOADED', 'too many at once') : undefined)),
  })
  const { status, ask } = await setUp(t, { max_auth_failures: 2 }, [busy])
  for (let i = 0; i < 20; i++) t.equal(await status('later!'), 503, 'that is no verdict about the credentials')
  for (let i = 0; i < 20; i++) t.equal(await status(undefined), 401)
  for (let i = 0; i < 20; i++) t.equal(await status('ann:red', undefined, { 'x-namespace': 'blue' }), 403)
  for (let i = 0; i < 5; i++) t.equal((await ask('ann', undefined, { 'x-namespace': '!' })).statusCode, 400)
  t.equal(await status('ann'), 200)
})

t.test('credentials that are none of what is known do count', async (t) => {
  const { node, status } = await setUp(t, { max_auth_failures: 2 })
  const basic = () => node.inject({ url: '/who', remoteAddress: '192.0.2.1', headers: { authorization: 'Basic eDp5' } })
  t.equal((await basic()).statusCode, 401)
  t.equal((await basic()).statusCode, 401)
  t.equal(await status('ann'), 429)

  const certificate = { der: new Uint8Array(1), error: 'CERT_HAS_EXPIRED' }
  const shown = { header: () => undefined, query: () => undefined, path: '/who', protocol: 'http', address: '192.0.2.2', requestId: 'r', certificate }
  for (let i = 0; i < 2; i++) await t.rejects(async () => node.node.auth.admit(shown, 'read', '/who'), { code: 'UNAUTHORIZED' })
  t.equal(await status('ann', '192.0.2.2'), 429, 'a certificate that does not hold as well')
})

t.test('a success clears the count, unless it is told not to', async (t) => {
  const trusting = await setUp(t)
  for (let i = 0; i < 10; i++) {
    await trusting.fail(4)
    t.equal(await trusting.status('ann'), 200)
    await trusting.fail(4, '2001:db8::1')
    t.equal(await trusting.status('ann', '2001:db8::2'), 200, 'of all that counts as one caller')
  }
  const wary = await setUp(t, { success_resets_failures: false })
  await wary.fail(4)
  t.equal(await wary.status('ann'), 200)
  await wary.fail(1)
  t.equal(await wary.status('ann'), 429)
})

t.test('success elsewhere clears nothing here, and an hour does', async (t) => {
  const { clock, fail, status } = await setUp(t)
  await fail(4)
  t.equal(await status('ann', '192.0.2.2'), 200)
  clock.skip(3_600_000)
  await fail(4)
  t.equal(await status('ann'), 200)
  await fail(5)
  t.equal(await status('ann'), 429)
})

t.test('a whole /64 is shut out, and tracking can be switched off', async (t) => {
  const { status, fail } = await setUp(t)
  for (let i = 1; i <= 5; i++) await fail(1, `2001:db8::${i}`)
  t.equal(await status('ann', '2001:db8::99'), 429)
  t.equal(await status('ann', '2001:db8:0:1::1'), 200)
  const off = await setUp(t, { track_auth_failures: false })
  await off.fail(50)
  t.equal(await off.status('ann'), 200)
})

t.test('many at once bring one ban', async (t) => {
  const records: AuditRecord[] = []
  const { ask, status, metrics } = await setUp(t, { requests_per_second: 1000, burst_size: 1000 }, [auditLog(records)])
  const codes = await Promise.all(Array.from({ length: 100 }, (_, i) => ask(`wrong${i}`).then(({ statusCode }) => statusCode)))
  t.ok(codes.every((code) => code === 401 || code === 429))
  t.equal(await status('ann'), 429)
  t.match(await metrics(), /^svc_auth_bans_total 1$/m)
  t.equal(records.length, 1)
})

t.test('an admin sees the bans and lifts one', async (t) => {
  const records: AuditRecord[] = []
  let full = false
  const { clock, fail, status, admin } = await setUp(t, { lockout_duration_seconds: 60 }, [auditLog(records, () => full)])
  t.same((await admin('GET', BANS)).json(), { items: [], total: 0, offset: 0, limit: 100 })
  await fail(5)
  await fail(5, '2001:db8::1')
  clock.skip(10_000)
  t.same((await admin('GET', BANS)).json(), {
    items: [
      { address: '192.0.2.1', failures: 5, expires_at: '2023-11-14T22:14:20.000Z', remaining_secs: 50 },
      { address: '2001:db8:0:0::/64', failures: 5, expires_at: '2023-11-14T22:14:20.000Z', remaining_secs: 50 },
    ],
    total: 2,
    offset: 0,
    limit: 100,
  })
  t.match((await admin('GET', `${BANS}?offset=1&limit=1`)).json(), { items: [{ address: '2001:db8:0:0::/64' }], total: 2, offset: 1, limit: 1 })
  t.equal((await admin('GET', `${BANS}?limit=100000`)).statusCode, 400)
  t.equal((await admin('GET', BANS, 'ann')).statusCode, 403)
  t.equal((await admin('DELETE', `${BANS}/192.0.2.1`, 'ann')).statusCode, 403)
  t.equal(await status('ann'), 429)

  full = true
  t.equal((await admin('DELETE', `${BANS}/192.0.2.1`)).statusCode, 507, 'what cannot be recorded is not done')
  t.equal(await status('ann'), 429)
  full = false
  t.match((await admin('DELETE', `${BANS}/192.0.2.1`)).json(), { ok: true, message: 'the ban of 192.0.2.1 is lifted' })
  t.equal(await status('ann'), 200)
  t.equal(await status('ann', '2001:db8::2'), 429)
  t.equal((await admin('DELETE', `${BANS}/${encodeURIComponent('2001:db8:0:0::/64')}`)).statusCode, 200)
  t.equal(await status('ann', '2001:db8::2'), 200)
  t.match((await admin('DELETE', `${BANS}/192.0.2.1`)).json(), { code: 'NOT_FOUND' })
  t.match((await admin('DELETE', `${BANS}/everybody`)).json(), { code: 'BAD_REQUEST' })
  t.match(records.at(-1), {
    action: 'custom',
    resource: '2001:db8:0:0::/64',
    decision: 'allow',
    by: { principal: 'root' },
    metadata: { event: 'address_ban_lifted' },
  })
})

t.test('a ban holds where it cannot be recorded, and the log says so', async (t) => {
  const lines: string[] = []
  const { fail, status } = await setUp(t, {}, [auditLog([], () => true)], { log: (line) => lines.push(line) })
  await fail(5)
  t.equal(await status('ann'), 429)
  t.ok(lines.some((line) => line.includes('a ban is not in the audit log')))
  t.ok(lines.some((line) => JSON.parse(line).level === 'warn' && line.includes('is shut out') && line.includes('192.0.2.1')))
  t.notOk(lines.some((line) => line.includes('wrong')))
})

t.test('exempt addresses and proxies are never shut out, those behind them are', async (t) => {
  const exempt = await setUp(t, { ban_exempt: ['192.0.2.0/24'] })
  await exempt.fail(20)
  t.equal(await exempt.status('ann'), 200)
  const behind = await setUp(t, { trust_proxy_headers: true, trusted_proxies: ['10.0.0.1'] })
  for (let i = 0; i < 5; i++) await behind.ask('wrong', '10.0.0.1', { 'x-forwarded-for': `6.6.6.${i}, 192.0.2.1` })
  t.equal(await behind.status('ann', '10.0.0.1', { 'x-forwarded-for': '192.0.2.1' }), 429)
  t.equal(await behind.status('ann', '10.0.0.1', { 'x-forwarded-for': '192.0.2.2' }), 200)
  await behind.fail(20, '10.0.0.1')
  t.equal(await behind.status('ann', '10.0.0.1'), 200)
})

t.test('a proxy that is not listed is shut out with all behind it, and the log says what to do', async (t) => {
  const lines: string[] = []
  const { ask } = await setUp(t, {}, [], { log: (line) => lines.push(line) })
  for (let i = 0; i < 5; i++) await ask('wrong', '10.0.0.1', { 'x-forwarded-for': '6.6.6.6' })
  t.ok(lines.some((line) => line.includes('set rate_limit.trust_proxy_headers')))
})

t.test('a table full of bans loses none, and says so once', async (t) => {
  const lines: string[] = []
  const { fail, status, metrics } = await setUp(t, { max_tracked_keys: 16, max_auth_failures: 1 }, [], { log: (line) => lines.push(line) })
  for (let i = 0; i < 40; i++) await fail(1, `192.0.2.${i}`)
  t.match(await metrics(), /^svc_rate_limit_banned_addresses 16$/m)
  t.equal(await status('ann', '192.0.2.0'), 429)
  t.equal(await status('ann', '192.0.2.30'), 200)
  t.equal(lines.filter((line) => line.includes('no address can be shut out any more')).length, 1)
})
