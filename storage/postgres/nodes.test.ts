/** Two processes of svc on one PostgreSQL: what one changes is in force on the other within a second, and what was changed while it was cut off when it is back. */
import { rm } from 'node:fs/promises'
import t from 'tap'
import { FaultyLink } from '../../test/support/faulty-link.ts'
import { NO_POSTGRES, startPostgres, type TestPostgres } from '../../test/support/postgres.ts'
import { type Answer, type Caller, CONFIGURED, startNode } from './testing-nodes.ts'

t.setTimeout(300_000)
const postgres = await startPostgres()
if (postgres === undefined) t.test('over a real PostgreSQL', { skip: NO_POSTGRES }, async () => {})
else {
  t.teardown(() => postgres.stop())
  real(postgres)
}

function real(postgres: TestPostgres): void {
  t.test('what one node changes is in force on the other', async (t) => {
    const url = await postgres.database()
    const [a, b] = await Promise.all([startNode(t, url), startNode(t, url)])

    const made = await a.ask('POST', '/api/v1/admin/auth/keys', { name: 'ci' })
    t.equal(made.status, 201)
    const key = made.body.key as string
    const isLetIn = (token: string) => async () => (await b.ask('GET', '/api/v1/namespaces', undefined, token)).status !== 401
    const isOut = (token: string) => async () => !(await isLetIn(token)())
    await b.soon(t, 'a key', isLetIn(key))
    t.equal((await b.ask('POST', '/api/v1/admin/auth/keys', { name: 'ci' })).status, 409, 'its name is taken')
    t.equal((await a.ask('DELETE', '/api/v1/admin/auth/keys/ci')).status, 204)
    await b.soon(t, 'its revocation', isOut(key))
    t.ok(await isLetIn(CONFIGURED)())
    t.equal((await a.ask('DELETE', '/api/v1/admin/auth/keys/configured')).status, 204)
    await b.soon(t, 'the revocation of a key of the config', isOut(CONFIGURED))

    const write = (namespace: string) => b.ask('POST', `/write?db=${namespace}`, 'cpu value=1')
    const one = (node: Caller) => node.ask('GET', '/api/v1/namespaces/acme')
    t.equal((await one(b)).status, 404)
    t.equal((await a.ask('POST', '/api/v1/namespaces', { name: 'acme', max_series_count: 5 })).status, 201)
    await b.soon(t, 'a namespace', async () => (await one(b)).status === 200)
    t.equal((await b.ask('POST', '/api/v1/namespaces', { name: 'acme' })).status, 409)
    t.equal((await a.ask('PUT', '/api/v1/namespaces/acme/quota', { max_series_count: 7 })).status, 200)
    await b.soon(t, 'its quota', async () => JSON.stringify((await one(b)).body).includes('"max_series_count":7'))
    t.equal((await a.ask('DELETE', '/api/v1/namespaces/acme')).status, 200)
    await b.soon(t, 'its end', async () => (await one(b)).status === 404)
    t.equal((await write('default')).status, 204)

    const statement = (node: Caller, text: string) => node.ask('POST', '/api/v1/triggers', { query: text })
    const triggers = async (node: Caller) => JSON.stringify((await node.ask('GET', '/api/v1/triggers')).body)
    t.equal((await statement(a, 'CREATE TRIGGER hot ON cpu WHEN value > 90')).status, 200)
    await b.soon(t, 'a trigger', async () => (await triggers(b)).includes('"hot"'))
    t.equal((await b.ask('POST', '/write', 'cpu value=99')).status, 204)
    await b.soon(t, 'it fires there', async () => JSON.stringify((await b.ask('GET', '/api/v1/signals')).body).includes('hot'))
    t.equal((await statement(a, 'ALTER TRIGGER hot DISABLE')).status, 200)
    await b.soon(t, 'disabled', async () => (await triggers(b)).includes('"enabled":false'))
    t.equal((await statement(a, 'DROP TRIGGER hot')).status, 200)
    await b.soon(t, 'its end', async () => !(await triggers(b)).includes('"hot"'))

    const rollups = async () =>
      ((await b.ask('GET', '/api/v1/rollups')).body.items as { name: string; every: string }[]).map(({ name, every }) => `${name} ${every}`)
    const rollup = { name: 'hourly', source_measurement: 'cpu', target_measurement: 'cpu_1h', every: '1h', aggregations: ['avg'] }
    t.equal((await a.ask('POST', '/api/v1/rollups', rollup)).status, 201)
    await b.soon(t, 'a rollup', async () => (await rollups()).includes('hourly 1h'))
    t.equal((await b.ask('POST', '/api/v1/rollups', rollup)).status, 409)
    t.equal((await a.ask('DELETE', '/api/v1/rollups/hourly')).status, 204)
    t.equal((await a.ask('POST', '/api/v1/rollups', { ...rollup, every: '2h' })).status, 201)
    await b.soon(t, 'another in its place', async () => (await rollups()).includes('hourly 2h'))
    t.equal((await b.ask('DELETE', '/api/v1/rollups/hourly')).status, 204)
    await a.soon(t, 'its end, the other way round', async () => (await a.ask('GET', '/api/v1/rollups')).body.total === 0)

    for (const node of [a, b])
      t.match(await node.command('audit', 'verify'), { code: 0, out: /the last entry that the state store has, \d+, is there/ }, 'each has its own audit log')
  })

  t.test('what both make at one time is made once', async (t) => {
    const url = await postgres.database()
    const [a, b] = await Promise.all([startNode(t, url), startNode(t, url)])
    const names = Array.from({ length: 10 }, (_, n) => `n${n}`)
    const both = (make: (node: Caller, name: string) => Promise<Answer>) =>
      Promise.all(names.map(async (name) => (await Promise.all([make(a, name), make(b, name)])).map(({ status }) => status).sort()))
    const once = (statuses: number[][], good: number) =>
      t.same(
        statuses,
        names.map(() => [good, 409]),
      )
    once(await both((node, name) => node.ask('POST', '/api/v1/namespaces', { name })), 201)
    once(await both((node, name) => node.ask('POST', '/api/v1/admin/auth/keys', { name })), 201)
    once(
      await both((node, name) =>
        node.ask('POST', '/api/v1/rollups', { name, source_measurement: 'cpu', target_measurement: `to_${name}`, every: '1h', aggregations: ['avg'] }),
      ),
      201,
    )
    once(await both((node, name) => node.ask('POST', '/api/v1/triggers', { query: `CREATE TRIGGER ${name} ON cpu WHEN value > 90` })), 200)
  })

  t.test('each node judges its own points, from where it has left off, also when it is killed', async (t) => {
    const url = await postgres.database()
    const [a, b] = await Promise.all([startNode(t, url, { keepData: true }), startNode(t, url, { keepData: true })])
    const base = Math.floor(Date.now() / 1000) - 3600
    const write = async (node: Caller, host: string, second: number) =>
      t.equal((await node.ask('POST', '/write', `cpu,host=${host} value=99 ${BigInt(base + second) * 1_000_000_000n}`)).status, 204)
    const fired = async (node: Caller): Promise<string[]> =>
      (await node.ask('GET', '/api/v1/signals')).body.map(
        ({ trigger_name, tags, timestamp }: { trigger_name: string; tags: { host: string }; timestamp: number }) =>
          `${trigger_name} ${tags.host} ${Math.round(timestamp / 1e9) - base}`,
      )
    const shows = async (node: Caller, expected: string[], what: string) => {
      await node.soon(t, what, async () => (await fired(node)).length >= expected.length)
      t.same(await fired(node), expected, what)
    }
    await write(b, 'old', 1)
    t.equal((await a.ask('POST', '/api/v1/triggers', { query: "CREATE TRIGGER hot ON cpu WHEN value > 90 COOLDOWN INTERVAL '60s'" })).status, 200)
    await b.soon(t, 'a trigger', async () => JSON.stringify((await b.ask('GET', '/api/v1/triggers')).body).includes('"hot"'))
    await write(a, 'a', 2)
    await shows(a, ['hot a 2'], 'one fires here')
    await write(b, 'b', 3)
    await shows(b, ['hot a 2', 'hot b 3'], 'the other there, and nothing of before the trigger')
    await b.stop('SIGTERM')
    t.equal((await a.ask('POST', '/api/v1/triggers', { query: "CREATE TRIGGER late ON cpu WHEN value > 95 COOLDOWN INTERVAL '60s'" })).status, 200)
    await write(a, 'a', 200)
    await shows(a, ['hot a 2', 'hot b 3', 'hot a 200', 'late a 200'], 'the other is away')
    for (const [round, signal] of (['SIGKILL', 'SIGTERM'] as const).entries()) {
      const again = await startNode(t, url, { keepData: true, dataDir: b.dataDir })
      // Within the cooldown of what fired on the other node; and one that is new.
      await write(again, 'a', 205 + round)
      await write(again, `c${round}`, 300 + round)
      const expected = ['hot a 2', 'hot b 3', 'hot a 200', 'late a 200', ...['hot c0 300', 'late c0 300', 'hot c1 301', 'late c1 301'].slice(0, 2 + round * 2)]
      await shows(again, expected, 'and back')
      await again.stop(signal)
    }
    await write(a, 'd', 400)
    await shows(
      a,
      ['hot a 2', 'hot b 3', 'hot a 200', 'late a 200', 'hot c0 300', 'late c0 300', 'hot c1 301', 'late c1 301', 'hot d 400', 'late d 400'],
      'at last',
    )
    await rm(b.dataDir, { recursive: true, force: true })
  })

  t.test('what was changed while a node was cut off is in force when it is back', async (t) => {
    const url = await postgres.database()
    const link = await FaultyLink.to(postgres.port)
    t.teardown(() => link.close())
    const [a, b] = await Promise.all([startNode(t, url), startNode(t, url.replace(`:${postgres.port}`, `:${link.port}`))])
    const { key } = (await a.ask('POST', '/api/v1/admin/auth/keys', { name: 'ci' })).body
    const status = async () => (await b.ask('GET', '/api/v1/namespaces', undefined, key)).status
    await b.soon(t, 'a key', async () => (await status()) !== 401)
    for (const fail of ['cut', 'stall'] as const) {
      const before = await a.ask('POST', '/api/v1/namespaces', { name: fail })
      t.equal(before.status, 201)
      link[fail]()
      if (fail === 'cut') t.equal((await a.ask('DELETE', '/api/v1/admin/auth/keys/ci')).status, 204)
      t.equal((await a.ask('DELETE', `/api/v1/namespaces/${fail}`)).status, 200)
      await new Promise((resolve) => setTimeout(resolve, 1000))
      t.not(await status(), 503, 'decisions about callers go on')
      link.mend()
      await b.soon(t, `the key, after ${fail}`, async () => (await status()) === 401)
      await b.soon(t, `the namespace, after ${fail}`, async () => (await b.ask('GET', `/api/v1/namespaces/${fail}`)).status === 404)
    }
  })
}
