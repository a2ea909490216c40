import { mock } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import type { Change } from 'svcdb'
import { boot } from 'svcdb/testkit'
import t from 'tap'
import line from '../line_protocol/index.ts'
import { Deletion, type DeletionDependencies } from './deletion.ts'
import plugin from './index.ts'

t.test('a delete that failed is tried again by itself, until it succeeds or the node stops', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const definitions = new Map([['acme', { name: 'acme', deleting: false }]])
  const registry = {
    get: (name: string) => definitions.get(name),
    isEnding: () => false,
    values: () => definitions.values(),
    commit: async (change: (all: typeof definitions) => void) => change(definitions),
  }
  const directory = { registry, forgets: [], held: () => undefined, arrived: async () => {}, isDeleting: (name: string) => definitions.get(name)?.deleting }
  let tries = 0
  const measurements = (): object[] => {
    if (++tries < 4) throw new Error('the disk is gone')
    return []
  }
  const gone: string[] = []
  const dependencies = {
    directory,
    multiTenancy: true,
    storage: () => ({ measurements, usage: async () => ({ measurements: 0 }) }),
    log: { info() {}, error() {} },
    gone: (name: string) => gone.push(name),
  }
  const deletion = new Deletion(dependencies as unknown as DeletionDependencies)
  await t.rejects(
    deletion.delete('acme', async () => {}),
    { message: 'the disk is gone' },
  )
  t.equal(definitions.get('acme')?.deleting, true)
  mock.timers.tick(29_999)
  await setImmediate()
  t.equal(tries, 1)
  for (const expected of [2, 3, 4]) {
    mock.timers.tick(30_000)
    await setImmediate()
    t.equal(tries, expected)
  }
  t.same([gone, definitions.size], [['acme'], 0])
  mock.timers.tick(60_000)
  await setImmediate()
  t.equal(tries, 4, 'nothing is left to be tried')

  definitions.set('other', { name: 'other', deleting: false })
  tries = 0
  await t.rejects(deletion.delete('other', async () => {}))
  await deletion.stop()
  mock.timers.tick(60_000)
  await setImmediate()
  t.equal(tries, 1, 'a node that stops tries nothing again')
})

t.test('its jobs end once nobody can ask for more, and before it is gone', async (t) => {
  const definitions = new Map([['acme', { name: 'acme', deleting: true }]])
  const steps: string[] = []
  const registry = {
    get: (name: string) => definitions.get(name),
    isEnding: () => false,
    commit: async (change: (all: typeof definitions) => void) => change(definitions),
  }
  const forget = async (name: string): Promise<void> => {
    await setImmediate()
    steps.push(`keys of ${name}`)
  }
  const dependencies = {
    directory: { registry, forgets: [forget], held: () => undefined, arrived: async () => {}, isDeleting: () => true },
    multiTenancy: true,
    storage: () => ({
      measurements: async () => [],
      usage: async () => ({ measurements: 0 }),
      forgetChanges: (name: string) => steps.push(`changes of ${name}`),
      endJobs: (name: string) => steps.push(`jobs of ${name}`),
    }),
    log: { info() {}, error() {} },
    gone: (name: string) => steps.push(name),
  }
  await new Deletion(dependencies as unknown as DeletionDependencies).delete('acme', async () => {})
  t.same(steps, ['changes of acme', 'keys of acme', 'jobs of acme', 'acme'])
})

t.test('a node that stops begins no more drops, and the mark stays for the next start', async (t) => {
  const definitions = new Map([['acme', { name: 'acme', deleting: true }]])
  const left = new Set(Array.from({ length: 30 }, (_, i) => `m${i}`))
  const registry = {
    get: (name: string) => definitions.get(name),
    isEnding: () => false,
    commit: async (change: (all: typeof definitions) => void) => change(definitions),
  }
  let stopped: Promise<void> | undefined
  const dependencies = {
    directory: { registry, forgets: [], held: () => undefined, arrived: async () => {}, isDeleting: () => true },
    multiTenancy: true,
    storage: () => ({
      measurements: async () => [...left].map((name) => ({ name })),
      usage: async () => ({ measurements: left.size }),
      drop: async (_: string, name: string) => {
        stopped ??= deletion.stop()
        left.delete(name)
      },
    }),
    log: { info() {}, error() {} },
    gone() {},
  }
  const deletion = new Deletion(dependencies as unknown as DeletionDependencies)
  await t.rejects(
    deletion.delete('acme', async () => {}),
    { code: 'DATABASE_CLOSED' },
  )
  await stopped
  t.same([left.size, definitions.size], [22, 1])
})

t.test('a namespace that a write has begun is deleted when it is there', async (t) => {
  const definitions = new Map<string, { name: string; deleting: boolean }>()
  const registry = {
    isEnding: () => false,
    get: (name: string) => definitions.get(name),
    commit: async (change: (all: typeof definitions) => void) => change(definitions),
  }
  const arrived = async (name: string): Promise<void> => {
    await setImmediate()
    definitions.set(name, { name, deleting: false })
  }
  const directory = { registry, forgets: [], held: () => undefined, arrived, isDeleting: (name: string) => definitions.get(name)?.deleting }
  const gone: string[] = []
  const dependencies = {
    directory,
    multiTenancy: true,
    storage: () => ({ measurements: async () => [], usage: async () => ({ measurements: 0 }) }),
    log: { info() {}, error() {} },
    gone: (name: string) => gone.push(name),
  }
  await new Deletion(dependencies as unknown as DeletionDependencies).delete('acme', async () => {})
  t.same([gone, definitions.size], [['acme'], 0])
})

t.test('one that another node has deleted meanwhile is not removed again: what is there may be of the next of its name', async (t) => {
  let removed = 0
  const commits: string[] = []
  const definition = { name: 'acme', deleting: true }
  const registry = { get: () => definition, values: () => [definition], isEnding: () => true, commit: async () => void commits.push('commit') }
  const forgets = [() => removed++]
  const dependencies = {
    directory: { registry, forgets, held: () => undefined, arrived: async () => {}, isDeleting: () => true },
    multiTenancy: true,
    storage: () => ({
      measurements: async () => (removed++ === 0 ? [{ name: 'next' }] : []),
      usage: async () => ({ measurements: 0 }),
      drop: async () => removed++,
    }),
    log: { info() {}, error() {} },
    gone: (name: string) => commits.push(name),
  }
  const deletion = new Deletion(dependencies as unknown as DeletionDependencies)
  await deletion.resume()
  await deletion.delete('acme', async () => {})
  t.same([removed, commits], [0, []])
})

t.test('who has the name next gets nothing of what was written under it: not by undoing a drop, and not by the changes', async (t) => {
  const node = await boot({
    plugins: [plugin, line],
    config: { server: { multi_tenancy: true }, database: { soft_delete_ttl_secs: 86_400 } } as never,
  })
  t.teardown(() => node.stop())
  const { storage } = node
  const write = async (lines: string) => {
    const headers = { 'content-type': 'text/plain', 'x-namespace': 'acme' }
    t.equal((await node.inject({ method: 'POST', url: '/write', payload: lines, headers })).statusCode, 204)
  }
  const now = BigInt(Date.now()) * 1_000_000n
  const cursor = storage.changes()
  const after = await cursor.position()
  await write(`secret,host=a v=1 ${now}`)
  t.equal((await node.inject({ method: 'DELETE', url: '/api/v1/namespaces/acme' })).statusCode, 200)
  await write(`other,host=a v=2 ${now}`)
  await t.rejects(storage.restore('acme', 'secret'), { code: 'NOT_FOUND' })
  t.same(
    (await storage.measurements('acme')).map(({ name }) => name),
    ['other'],
  )
  const told: string[] = []
  const reader = storage.changes({ namespace: 'acme', kinds: ['rows'], after })
  for (let next: Change | undefined; next?.kind !== 'rows' || next.measurement !== 'other'; ) {
    next = (await reader.next()).value
    if (next === undefined) break
    told.push(next.kind === 'rows' ? next.measurement : next.kind)
  }
  t.same(told, ['other'])
  reader.close()
  cursor.close()
})
