/**
 * Random statements and writes of two tenants, with the same names: nobody sees, changes or fires on what is the other's. And one who does the worst he may holds
 * nobody up. SVC_SEED, SVC_STEPS.
 */
import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { until } from '../../test/support/until.ts'
import { start } from './testing.ts'
import { as, tenants } from './testing-tenants.ts'

const seed = Number(process.env.SVC_SEED ?? Date.now() % 1_000_000)
const steps = Number(process.env.SVC_STEPS ?? 250)
const now = BigInt(Math.floor(Date.now() / 1000)) * 1_000_000_000n

t.setTimeout(300_000)
t.test(`two tenants, seed ${seed}`, async (t) => {
  const { node, run, write, signals, settled } = await start(t, { plugins: [tenants], config: { server: { multi_tenancy: true } } })
  const random = seeded(seed)
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]
  const names = ['acme', 'umbrella']
  const own = new Map(names.map((name) => [name, new Map<string, { enabled: boolean; measurement: string }>()]))
  let written = 0
  for (let step = 0; step < steps; step++) {
    const tenant = pick(names)
    const triggers = own.get(tenant) as Map<string, { enabled: boolean; measurement: string }>
    const name = `t${Math.floor(random() * 6)}`
    const measurement = pick(['m0', 'm1'])
    const known = triggers.get(name)
    const shape = random()
    if (shape < 0.25) {
      const { status } = await run(`CREATE TRIGGER ${name} ON ${measurement} WHEN v > ${Math.floor(random() * 50)} COOLDOWN INTERVAL '0s'`, as(tenant))
      t.equal(status, known === undefined ? 200 : 409, 'a name is taken by oneself only')
      if (known === undefined) triggers.set(name, { enabled: true, measurement })
    } else if (shape < 0.35) {
      const { status } = await run(`DROP TRIGGER ${name}`, as(tenant))
      t.equal(status, known === undefined ? 400 : 200)
      triggers.delete(name)
    } else if (shape < 0.45) {
      const answer = await node.inject({ method: 'DELETE', url: `/api/v1/triggers/${name}`, headers: as(tenant) })
      t.equal(answer.statusCode, known === undefined ? 400 : 200)
      triggers.delete(name)
    } else if (shape < 0.55) {
      const enabled = random() < 0.5
      const { status } = await run(`ALTER TRIGGER ${name} ${enabled ? 'ENABLE' : 'DISABLE'}`, as(tenant))
      t.equal(status, known === undefined ? 400 : 200)
      if (known !== undefined) known.enabled = enabled
    } else if (shape < 0.65) {
      const answer = await node.inject({ url: `/api/v1/triggers/${name}`, headers: as(tenant) })
      t.equal(answer.statusCode, known === undefined ? 404 : 200)
    } else {
      await write(`${measurement},of=${tenant} v=${Math.floor(random() * 100)} ${now + BigInt(++written) * 1_000_000n - 3_000_000_000_000n}`, as(tenant))
    }
    const listed = (await run('SHOW TRIGGERS', as(tenant))).body.triggers as { name: string; enabled: boolean; measurement: string }[]
    t.same(
      listed.map((each) => [each.name, each.measurement, each.enabled]),
      [...triggers].sort(([a], [b]) => (a < b ? -1 : 1)).map(([each, { measurement: on, enabled }]) => [each, on, enabled]),
      tenant,
    )
  }
  for (const tenant of names) {
    const found = await settled(0, as(tenant))
    t.ok(found.length > 0, `${tenant} has ${found.length}`)
    t.same(
      found.filter(({ tags }) => tags.of !== tenant),
      [],
      'of his own points only',
    )
    const annotations = (await node.inject({ url: '/api/v1/annotations', headers: as(tenant) })).json() as { tags: string[] }[]
    t.ok(annotations.length > 0)
    t.same(
      annotations.filter(({ tags }) => !tags.includes(`of=${tenant}`)),
      [],
    )
  }
  t.same(await signals('', as('third')), [])
})

t.test('whoever has a thousand triggers that hold for every row holds nobody up', async (t) => {
  const { run, write, signals, settled } = await start(t, {
    storage: 'embedded',
    plugins: [tenants],
    config: {
      server: { multi_tenancy: true },
      triggers: { max_triggers_per_measurement: 300, max_triggers_per_namespace: 300, max_cooldowns_per_namespace: 2000 },
    },
  })
  const condition = Array.from({ length: 30 }, (_, i) => `v <> -${i + 1}`).join(' AND ')
  for (let i = 0; i < 300; i++) t.equal((await run(`CREATE TRIGGER h${i} ON m WHEN ${condition} COOLDOWN INTERVAL '0s'`, as('hostile'))).status, 200)
  t.match(await run('CREATE TRIGGER more ON m WHEN v > 1', as('hostile')), { status: 429, body: { code: 'RATE_LIMITED' } })
  t.equal((await run('CREATE TRIGGER mine ON m WHEN v > 1', as('good'))).status, 200)
  const many = Array.from({ length: 2000 }, (_, i) => `m,host=h${i} v=${i} ${now - BigInt(i)}`)
  await write(many, as('hostile'))
  const began = performance.now()
  await write(`m,host=a v=5 ${now}`, as('good'))
  const found = await settled(1, as('good'))
  const took = performance.now() - began
  const kept = (await signals('', as('hostile'))).length
  t.equal(found.length, 1)
  t.ok(took < 30_000, `${Math.round(took)} ms`)
  t.comment(`the signal was there after ${Math.round(took)} ms, ${kept} of the other's were kept by then`)
  // Which came first, and which take seconds.
  await until("more of the other's come later", async () => (await signals('', as('hostile'))).length > kept)
})

t.test('a namespace with triggers is not deleted; when they are dropped, its signals go with it', async (t) => {
  const admin = { authorization: 'Bearer root' }
  const { node, run, write, settled } = await start(t, {
    plugins: [tenants, 'namespaces', (await import('./testing-root.ts')).root],
    config: { server: { multi_tenancy: true } },
  })
  await run('CREATE TRIGGER a ON m WHEN v > 1', as('acme'))
  await write(`m v=5 ${now}`, as('acme'))
  t.equal((await settled(1, as('acme'))).length, 1)
  const remove = () => node.inject({ method: 'DELETE', url: '/api/v1/namespaces/acme', headers: admin })
  t.match(await remove(), { statusCode: 409, body: /it has 1 trigger/ })
  await run('DROP TRIGGER a', as('acme'))
  t.equal((await remove()).statusCode, 200)
  t.same(await node.storage.state('triggers').list(), [])
})
