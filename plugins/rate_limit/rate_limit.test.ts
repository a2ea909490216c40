import { AUTH_RANK, type Credentials, definePlugin, type Plugin } from 'svcdb'
import { type BootOptions, boot, ManualClock } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import plugin from './index.ts'
import { configOf, directory, keys, routes } from './testing.ts'

type Headers = Record<string, string>
interface Asked {
  headers?: Headers
  from?: string
  url?: string
}

async function setUp(t: Test, section: Record<string, unknown>, others: Plugin[] = [], options: BootOptions = {}) {
  const clock = new ManualClock()
  const node = await boot({ ...options, plugins: [plugin, routes, ...others], config: configOf(section, options.config), clock })
  t.teardown(() => node.stop())
  const ask = ({ headers = {}, from = '192.0.2.1', url = '/who' }: Asked = {}) => node.inject({ url, headers, remoteAddress: from })
  const status = async (asked?: Asked) => (await ask(asked)).statusCode
  /** How many of so many at once are let in. */
  const allowed = async (count: number, asked?: Asked) =>
    (await Promise.all(Array.from({ length: count }, () => status(asked)))).filter((code) => code === 200).length
  const metric = async (name: string) => {
    // Where even the metrics are refused, they are read from inside.
    const text = await node.node.metrics.text()
    return Number(
      text
        .split('\n')
        .find((line) => line.startsWith(`${name} `))
        ?.split(' ')[1],
    )
  }
  return { node, clock, ask, status, allowed, metric }
}

const key = (name: string, more: Headers = {}) => ({ headers: { authorization: `Bearer ${name}`, ...more } })
const OFF = { requests_per_second: 0, default_rps: 0 }

t.test('one address may ask so often, and so much at once', async (t) => {
  const { clock, ask, allowed, status, metric } = await setUp(t, { requests_per_second: 10, burst_size: 20 })
  t.equal(await allowed(50), 20)
  const answer = await ask()
  t.equal(answer.statusCode, 429)
  t.match(answer.headers, { 'retry-after': '1', 'x-ratelimit-limit': '20', 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '2' })
  t.match(answer.json(), { code: 'RATE_LIMITED', error: /^Too Many Requests: cannot take one more from address "192.0.2.1": 10 a second and 20 at once/ })
  t.equal(await allowed(20, { from: '192.0.2.2' }), 20, 'another address has its own')
  clock.skip(99)
  t.equal(await status(), 429)
  clock.skip(1)
  t.equal(await allowed(5), 1)
  clock.skip(60_000)
  t.equal(await allowed(50), 20)
  t.equal(await metric('svc_rate_limited_total{layer="address"}'), 30 + 1 + 1 + 4 + 30)
  t.equal(await metric('svc_rate_limit_tracked_keys{kind="address"}'), 2)
})

t.test('the address of IPv6 is its /64, and IPv4 in IPv6 is IPv4', async (t) => {
  const { allowed } = await setUp(t, { requests_per_second: 10, burst_size: 10 })
  t.equal(await allowed(20, { from: '2001:db8::1' }), 10)
  t.equal(await allowed(20, { from: '2001:db8::2' }), 0)
  t.equal(await allowed(20, { from: '2001:db8:0:1::1' }), 10)
  t.equal(await allowed(20, { from: '::ffff:192.0.2.1' }), 10)
  t.equal(await allowed(20, { from: '192.0.2.1' }), 0)
})

t.test('health and public routes are never limited', async (t) => {
  const { allowed } = await setUp(t, { requests_per_second: 1, burst_size: 1, rate_limit_rps: 1 })
  t.equal(await allowed(3), 1)
  for (const url of ['/health', '/ready', '/ping', '/public'])
    t.ok((await Promise.all(Array.from({ length: 30 }, () => allowed(1, { url })))).length === 30, url)
  t.equal(await allowed(30, { url: '/health' }), 30)
  t.equal(await allowed(30, { url: '/public' }), 30)
})

t.test('0 is no limit, and enabled = false neither', async (t) => {
  for (const section of [OFF, { requests_per_second: 1, burst_size: 1, rate_limit_rps: 1, enabled: false }]) {
    const { allowed } = await setUp(t, section)
    t.equal(await allowed(500), 500)
  }
})

t.test('all callers together', async (t) => {
  const { ask, allowed, metric } = await setUp(t, { ...OFF, rate_limit_rps: 5, rate_limit_burst: 7 })
  t.equal(await allowed(5), 5)
  t.equal(await allowed(10, { from: '192.0.2.2' }), 2)
  const answer = await ask({ from: '192.0.2.3' })
  t.match(answer.json(), { error: /^Too Many Requests: cannot take one more of all callers together/ })
  t.equal(answer.headers['x-ratelimit-limit'], '7')
  t.equal(await metric('svc_rate_limited_total{layer="global"}'), 9)
})

t.test('a namespace, by default ten times what an address may', async (t) => {
  const { ask, allowed } = await setUp(t, { requests_per_second: 10, burst_size: 20, tenants: { blue: 5, free: 0 } })
  const from = (count: number, name: string) =>
    Promise.all(Array.from({ length: count }, (_, i) => allowed(20, { from: `192.0.2.${i}`, headers: { 'x-namespace': name } }))).then((counts) =>
      counts.reduce((sum, one) => sum + one),
    )
  t.equal(await from(15, 'red'), 200)
  const answer = await ask({ from: '198.51.100.1', headers: { 'x-namespace': 'red' } })
  t.match(answer.json(), { code: 'RATE_LIMITED', error: /^Too Many Requests: cannot take one more for namespace "red": 100 a second and 200 at once/ })
  t.equal(await allowed(20, { from: '198.51.100.2' }), 20, 'default is another one')
  t.equal(await allowed(20, { from: '198.51.100.3', headers: { 'x-namespace': 'blue' } }), 10, 'the one that is named, with a burst in proportion')
  t.equal(await allowed(20, { from: '198.51.100.4', headers: { 'x-namespace': 'free' } }), 20)
})

t.test("a namespace's quota counts before the config, and as soon as it changes", async (t) => {
  const quotas = new Map<string, [number, number]>([['red', [2, 4]]])
  const { clock, allowed } = await setUp(t, { requests_per_second: 0, default_rps: 50, tenants: { red: 1000 } }, [directory(quotas)])
  const red = { headers: { 'x-namespace': 'red' } }
  t.equal(await allowed(30, red), 4)
  t.equal(await allowed(60), 50, 'one without a quota')
  quotas.set('red', [100, 0])
  t.equal(await allowed(300, red), 0, 'the bucket is still empty')
  clock.skip(50)
  t.equal(await allowed(300, red), 5, 'and fills at the new rate')
  clock.skip(1000)
  t.equal(await allowed(300, red), 100)
  quotas.set('red', [0, 0])
  clock.skip(1000)
  t.equal(await allowed(1500, red), 1000, 'without a quota the config counts')
})

t.test('a principal, but not anonymous callers', async (t) => {
  const section = { ...OFF, per_user_rate_limit_rps: 3, per_user_rate_limit_burst: 4 }
  const { ask, allowed, metric } = await setUp(t, section, [keys])
  t.equal(await allowed(10, key('ann')), 4)
  t.equal(await allowed(10, { ...key('ann'), from: '192.0.2.2' }), 0, 'wherever it comes from')
  t.equal(await allowed(10, key('bob')), 4)
  const answer = await ask(key('ann'))
  t.match(answer.json(), { error: /^Too Many Requests: cannot take one more of user "ann"/ })
  t.equal(await metric('svc_rate_limited_total{layer="principal"}'), 6 + 10 + 6 + 1)
  const open = await setUp(t, section)
  t.equal(await open.allowed(100), 100)
})

t.test('a key and a token of one name are two principals', async (t) => {
  const tokens = definePlugin({
    id: 'tokens',
    summary: 'Knows tokens',
    stability: 'experimental',
    setup: (svc) =>
      svc.auth.authenticator(({ header }) => {
        const principal = /^Bearer token:(\w+)$/.exec(header('authorization') ?? '')?.[1]
        return principal === undefined ? undefined : { principal, method: 'jwt', claims: {}, namespaces: [], admin: false }
      }, AUTH_RANK.token),
  })
  const { allowed } = await setUp(t, { ...OFF, per_user_rate_limit_rps: 3, per_user_rate_limit_burst: 4 }, [keys, tokens])
  t.equal(await allowed(10, key('ann')), 4)
  t.equal(await allowed(10, { headers: { authorization: 'Bearer token:ann' } }), 4)
})

t.test('with multi_tenancy, one tenant takes nothing of another', async (t) => {
  const config = { server: { multi_tenancy: true } }
  const { ask, allowed } = await setUp(t, { requests_per_second: 0, tenants: { red: 10, blue: 10 } }, [keys], { config })
  t.equal(await allowed(50, key('ann:red')), 10)
  t.equal(await allowed(10, key('ann:red', { 'x-namespace': 'blue' })), 0)
  t.equal((await ask(key('ann:red', { 'x-namespace': 'blue' }))).statusCode, 403, 'a namespace that is not its own is refused before it is counted')
  t.equal(await allowed(50, key('bob:blue')), 10)
  t.match((await ask(key('bob:blue'))).json(), { error: /for namespace "blue"/ })
  t.equal(await allowed(20, key('ann:red,green', { 'x-namespace': 'green' })), 20, 'with 0 for addresses, others are not limited')
})

t.test('many callers at once over sockets: exactly as many as there are tokens', async (t) => {
  const { node } = await setUp(t, { requests_per_second: 10, burst_size: 40 })
  const codes = await Promise.all(Array.from({ length: 200 }, () => fetch(`${node.url}/who`).then(async (answer) => (await answer.text()) && answer.status)))
  t.equal(codes.filter((code) => code === 200).length, 40)
  t.equal(codes.filter((code) => code === 429).length, 160)
})

t.test('a proxy says who calls, to the limits and to everybody else', async (t) => {
  const { ask, allowed } = await setUp(t, { requests_per_second: 5, burst_size: 5, trust_proxy_headers: true, trusted_proxies: ['10.0.0.0/8'] })
  const via = (forwarded: string, from = '10.0.0.1') => ({ from, headers: { 'x-forwarded-for': forwarded } })
  t.match((await ask(via('1.1.1.1, 192.0.2.1, 10.0.0.2'))).json(), { address: '192.0.2.1' })
  t.equal(await allowed(10, via('192.0.2.1')), 4)
  t.equal(await allowed(10, via('6.6.6.6, 192.0.2.1')), 0, 'what the caller claims does not help')
  t.equal(await allowed(10, via('192.0.2.9')), 5)
  t.equal(await allowed(10, via('192.0.2.50', '192.0.2.200')), 5, 'who is no proxy is not believed')
  t.equal(await allowed(10, via('192.0.2.51', '192.0.2.200')), 0)
  t.match((await ask(via('192.0.2.77', '192.0.2.201'))).json(), { address: '192.0.2.201' })
  t.match((await ask({ from: '10.0.0.1', headers: { forwarded: 'for=192.0.2.3', 'x-real-ip': '192.0.2.3' } })).json(), { address: '10.0.0.1' })
  const { ask: plain } = await setUp(t, {})
  t.match((await plain(via('192.0.2.1'))).json(), { address: '10.0.0.1' }, 'by default nobody is believed')
})

t.test('Forwarded and X-Real-IP, where the proxy sets them', async (t) => {
  const forwarded = await setUp(t, { trust_proxy_headers: true, proxy_header: 'forwarded' })
  const headers = { forwarded: 'for="[2001:db8::1]:80";proto=https', 'x-forwarded-for': '6.6.6.6' }
  t.match((await forwarded.ask({ headers })).json(), { address: '2001:db8::1' })
  const real = await setUp(t, { trust_proxy_headers: true, proxy_header: 'x-real-ip', enabled: false }, [keys])
  const asked = await real.ask(key('ann', { 'x-real-ip': '192.0.2.9', 'x-forwarded-for': '6.6.6.6' }))
  t.match(asked.json(), { address: '192.0.2.9' }, 'also without limits')
})

t.test('header lines that a proxy has added count after those of the caller', async (t) => {
  const { node } = await setUp(t, { trust_proxy_headers: true, trusted_proxies: ['127.0.0.1'] })
  const answer = await fetch(`${node.url}/who`, {
    headers: [
      ['X-Forwarded-For', '6.6.6.6'],
      ['X-Forwarded-For', '192.0.2.1'],
    ],
  })
  t.match(await answer.json(), { address: '192.0.2.1' })
})

t.test('memory is bounded, and what is idle is forgotten', async (t) => {
  const { clock, ask, allowed, metric } = await setUp(t, { trust_proxy_headers: true, max_tracked_keys: 50, cleanup_interval_secs: 1 })
  for (let i = 0; i < 300; i++) await ask({ headers: { 'x-forwarded-for': `10.0.${i >> 8}.${i & 255}`, 'x-namespace': `n${i}` } })
  t.equal(await metric('svc_rate_limit_tracked_keys{kind="address"}'), 50)
  t.equal(await metric('svc_rate_limit_tracked_keys{kind="namespace"}'), 50)
  clock.skip(302_000)
  t.equal(await allowed(1), 1)
  await clock.advance(1100)
  t.equal(await metric('svc_rate_limit_tracked_keys{kind="address"}'), 1)
  t.equal(await metric('svc_rate_limit_tracked_keys{kind="namespace"}'), 1)
})

t.test('a config that means something else than it says is refused', async (t) => {
  const refused = (section: Record<string, unknown>, message: RegExp) => t.rejects(boot({ plugins: [plugin], config: { rate_limit: section } }), message)
  await refused({ trusted_proxies: ['10.0.0.1'] }, /cannot use rate_limit.trusted_proxies: rate_limit.trust_proxy_headers is false/)
  await refused({ trust_proxy_headers: true, trusted_proxies: ['proxy.example'] }, /cannot use rate_limit.trusted_proxies "proxy.example"/)
  await refused(
    { trust_proxy_headers: true, trusted_proxies: ['0.0.0.0/0'] },
    /cannot use rate_limit.trusted_proxies "0.0.0.0\/0": callers would be proxies too/,
  )
  await refused({ ban_exempt: ['10.0.0.0/99'] }, /cannot use rate_limit.ban_exempt "10.0.0.0\/99"/)
  await refused({ requests_per_second: -1 }, /rate_limit.requests_per_second/)
  await refused({ tenants: { red: 'many' } }, /rate_limit.tenants/)
  await refused({ proxy_header: 'x-client-ip' }, /must be one of x-forwarded-for, forwarded, x-real-ip/)
  await refused({ requests: 1 }, /there is no such key/)
})

t.test('the start warns of a proxy that is not listed, and of names that nobody has', async (t) => {
  const lines: string[] = []
  await setUp(t, { trust_proxy_headers: true, tenants: { Red_1: 5 } }, [], { log: (line) => lines.push(line) })
  const warned = (text: RegExp) =>
    t.ok(
      lines.some((line) => JSON.parse(line).level === 'warn' && text.test(line)),
      String(text),
    )
  warned(/can claim any address/)
  warned(/cannot use namespace .*Red_1/)
})

t.test('behind a proxy, what other plugins say of the credentials is kept', async (t) => {
  const general = definePlugin({
    id: 'general',
    summary: 'Has calls be about no namespace in particular',
    stability: 'experimental',
    setup: (svc) => svc.auth.source((given): Credentials => ({ ...given, anyNamespace: true })),
  })
  const node = await boot({ plugins: [general, plugin, routes, keys], config: { rate_limit: { trust_proxy_headers: true } } })
  t.teardown(() => node.stop())
  const answer = await node.inject({ url: '/who', headers: { authorization: 'Bearer ann:red,blue', 'x-forwarded-for': '192.0.2.9' } })
  t.match(answer.json(), { principal: 'ann', namespace: 'red', address: '192.0.2.9' })
})
