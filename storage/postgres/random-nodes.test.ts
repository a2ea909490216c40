/**
 * Two processes of svc on one PostgreSQL, each by a link of its own, and changes by chance on either of them: keys, namespaces with their quotas, triggers, rollups. The link of
 * one that changes nothing is cut, stalled or delayed meanwhile, or PostgreSQL ends all sessions, so that notifications are lost. When the link is whole both nodes go by
 * what was changed. SVC_SEED repeats a run, SVC_STEPS says how many there are.
 */
import { setTimeout } from 'node:timers/promises'
import { type Random, seeded } from 'svcdb/lib/random'
import t from 'tap'
import { FaultyLink } from '../../test/support/faulty-link.ts'
import { NO_POSTGRES, startPostgres } from '../../test/support/postgres.ts'
import { type Caller, startNode } from './testing-nodes.ts'

const STEPS = Number(process.env.SVC_STEPS ?? 40)
const SEED = Number(process.env.SVC_SEED ?? Math.floor(Math.random() * 2 ** 31))
const NAMES = ['one', 'two', 'three']
const FAULTS = ['none', 'none', 'none', 'cut', 'cut within', 'stall', 'delay', 'sessions ended'] as const
const LIMIT_MS = 20_000

t.setTimeout(600_000)

/** What was acknowledged, by name. */
class Model {
  readonly keys = new Map<string, string>()
  readonly revoked: string[] = []
  readonly namespaces = new Map<string, number>()
  readonly triggers = new Map<string, boolean>()
  readonly rollups = new Map<string, string>()

  get shown(): string {
    const sorted = (map: Map<string, unknown>): string[] => [...map].map(([name, value]) => `${name} ${value}`).sort()
    const keys = [...this.keys.keys()].sort()
    return JSON.stringify({ keys, namespaces: sorted(this.namespaces), triggers: sorted(this.triggers), rollups: sorted(this.rollups) })
  }
}

interface Change {
  what: string
  status: number
  make(node: Caller): Promise<{ status: number; body: { key?: string } }>
  done(body: { key?: string }): void
}

function changeOf({ keys, revoked, namespaces, triggers, rollups }: Model, kind: number, name: string, random: Random): Change {
  const statement = (what: string, query: string, done: () => void): Change => ({
    ...{ what, status: 200, done },
    make: (node) => node.ask('POST', '/api/v1/triggers', { query }),
  })
  const request = (what: string, status: number, ask: [string, string, unknown?], done: Change['done']): Change => ({
    ...{ what, status, done },
    make: (node) => node.ask(...ask),
  })
  const drop = random() < 0.5
  if (kind === 0) {
    const key = keys.get(name)
    if (key === undefined) return request(`key ${name}`, 201, ['POST', '/api/v1/admin/auth/keys', { name }], (body) => keys.set(name, body.key as string))
    return request(`no key ${name}`, 204, ['DELETE', `/api/v1/admin/auth/keys/${name}`], () => {
      keys.delete(name)
      revoked.push(key)
    })
  }
  if (kind === 1) {
    const quota = Math.floor(random() * 1e6) + 1
    const [path, limit] = [`/api/v1/namespaces/${name}`, { max_series_count: quota }]
    const set = (): unknown => namespaces.set(name, quota)
    if (!namespaces.has(name)) return request(`namespace ${name}`, 201, ['POST', '/api/v1/namespaces', { name, ...limit }], set)
    if (drop) return request(`no namespace ${name}`, 200, ['DELETE', path], () => namespaces.delete(name))
    return request(`quota of ${name}`, 200, ['PUT', `${path}/quota`, limit], set)
  }
  if (kind === 2) {
    const enabled = triggers.get(name)
    if (enabled === undefined) return statement(`trigger ${name}`, `CREATE TRIGGER ${name} ON cpu WHEN value > 90`, () => triggers.set(name, true))
    if (drop) return statement(`no trigger ${name}`, `DROP TRIGGER ${name}`, () => triggers.delete(name))
    return statement(`${enabled ? 'no ' : ''}use of trigger ${name}`, `ALTER TRIGGER ${name} ${enabled ? 'DISABLE' : 'ENABLE'}`, () =>
      triggers.set(name, !enabled),
    )
  }
  if (rollups.has(name)) return request(`no rollup ${name}`, 204, ['DELETE', `/api/v1/rollups/${name}`], () => rollups.delete(name))
  const every = `${Math.floor(random() * 9) + 1}h`
  const rollup = { name, source_measurement: 'cpu', target_measurement: `cpu_${name}`, every, aggregations: ['avg'] }
  return request(`rollup ${name}`, 201, ['POST', '/api/v1/rollups', rollup], () => rollups.set(name, every))
}

/** What a node goes by. */
async function shownBy(node: Caller, { keys, revoked }: Model): Promise<string> {
  // 429: too many wrong keys came from there, which keeps wrong ones out only.
  const isLetIn = async (key: string): Promise<boolean> => ![401, 429].includes((await node.ask('GET', '/api/v1/namespaces', undefined, key)).status)
  const let_in: string[] = []
  for (const [name, key] of keys) if (await isLetIn(key)) let_in.push(name)
  for (const key of revoked.slice(-3)) if (await isLetIn(key)) let_in.push(`${key}, revoked`)
  const triggers = (await node.ask('GET', '/api/v1/triggers')).body.triggers as { name: string; enabled: boolean }[]
  const rollups = (await node.ask('GET', '/api/v1/rollups')).body.items as { name: string; every: string }[]
  const namespaces: string[] = []
  for (const name of NAMES) {
    const { status, body } = await node.ask('GET', `/api/v1/namespaces/${name}`)
    if (status === 200) namespaces.push(`${name} ${/"max_series_count":(\d+)/.exec(JSON.stringify(body))?.[1]}`)
  }
  return JSON.stringify({
    keys: let_in.sort(),
    namespaces: namespaces.sort(),
    triggers: triggers.map(({ name, enabled }) => `${name} ${enabled}`).sort(),
    rollups: rollups.map(({ name, every }) => `${name} ${every}`).sort(),
  })
}

const postgres = await startPostgres()
if (postgres === undefined) t.test('over a real PostgreSQL', { skip: NO_POSTGRES }, async () => {})
else {
  t.teardown(() => postgres.stop())
  t.test('changes by chance are in force on both nodes', async (t) => {
    t.comment(`SVC_SEED=${SEED}`)
    const random = seeded(SEED)
    const below = (n: number): number => Math.floor(random() * n)
    const url = await postgres.database()
    const links = [await FaultyLink.to(postgres.port), await FaultyLink.to(postgres.port)]
    const nodes = await Promise.all(links.map((link) => startNode(t, url.replace(`:${postgres.port}`, `:${link.port}`))))
    t.teardown(async () => {
      for (const link of links) await link.close()
    })
    const model = new Model()
    const late: number[] = []
    for (let step = 0; step < STEPS; step++) {
      const by = below(2)
      const other = links[1 - by]
      const fault = FAULTS[below(FAULTS.length)]
      if (fault === 'cut') other.cut()
      if (fault === 'cut within') other.cut(1 + below(2000))
      if (fault === 'stall') other.stall()
      if (fault === 'delay') other.delay(1 + below(200))
      const ended =
        fault === 'sessions ended'
          ? setTimeout(below(20)).then(() => postgres.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'svc %'"))
          : undefined
      const told: string[] = []
      for (let n = 1 + below(3); n > 0; n--) {
        const change = changeOf(model, below(4), NAMES[below(NAMES.length)], random)
        told.push(change.what)
        const { status, body } = await change.make(nodes[by])
        t.equal(status, change.status, `step ${step}, ${fault}: ${change.what}`)
        change.done(body)
      }
      await ended
      if (fault !== 'none' && fault !== 'delay') await setTimeout(below(1000))
      if (fault !== 'none' && fault !== 'sessions ended') other.mend()
      const since = performance.now()
      for (const [i, node] of nodes.entries()) {
        let shown = await shownBy(node, model)
        while (shown !== model.shown && performance.now() - since < LIMIT_MS) {
          await setTimeout(20)
          shown = await shownBy(node, model)
        }
        if (shown !== model.shown) return void t.equal(shown, model.shown, `step ${step}, ${fault}: ${told.join(', ')}, on node ${i}`)
      }
      late.push(performance.now() - since)
    }
    late.sort((a, b) => a - b)
    t.comment(`in force on both after ${Math.round(late[late.length >> 1])} ms in the median, ${Math.round(late.at(-1) as number)} ms at most`)
  })
}
