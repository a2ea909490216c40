/** What other nodes over the same state do to the definitions, and what a change costs. */
import type { StateStore } from 'svcdb'
import { seeded } from 'svcdb/lib/random'
import { mapState } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { until } from '../../test/support/until.ts'
import type { Definition } from './definition.ts'
import { Registry } from './registry.ts'

t.test('what another node has removed is gone here, whether it is told of by name or all is read anew', async (t) => {
  const state: StateStore = mapState()
  const tell: ((keys: readonly string[] | undefined) => void)[] = []
  state.watch = async (_prefixes, told) => {
    tell.push(told)
    return () => {}
  }
  const gone: string[] = []
  const registry = new Registry()
  await registry.open(state, undefined, { settle: async () => {}, gone: (name) => gone.push(name), failed: (error) => t.fail(String(error)) })
  t.teardown(() => registry.close())
  await registry.commit((definitions) => {
    for (const name of ['a', 'b', 'c']) definitions.set(name, { name, description: '', owner: 'admin', auto: false, createdAt: 1, quota: {}, deleting: false })
  })
  await state.transaction((tx) => tx.delete('namespace/a'))
  tell[0](['namespace/a'])
  await until('the first is gone', async () => registry.get('a') === undefined)
  t.same([gone, registry.size], [['a'], 2])
  await state.transaction((tx) => tx.delete('namespace/b'))
  tell[0](undefined)
  await until('the second is gone', async () => registry.get('b') === undefined)
  t.same([gone, registry.size], [['a', 'b'], 1])
})

const definition = (name: string): Definition => ({ name, description: '', owner: 'admin', auto: false, createdAt: 1, quota: {}, deleting: false })

async function opened(t: Test): Promise<Registry> {
  const registry = new Registry()
  await registry.open(mapState(), undefined, { settle: async () => {}, gone: () => {}, failed: (error) => t.fail(String(error)) })
  t.teardown(() => registry.close())
  return registry
}

t.test('a change goes through none of the other definitions', async (t) => {
  const registry = await opened(t)
  const all = Array.from({ length: 200 }, (_, i) => `n${i}`)
  await registry.commit((definitions) => {
    for (const name of all) definitions.set(name, definition(name))
  })
  registry.names()
  let walks = 0
  const own = Object.getOwnPropertyDescriptors(Map.prototype)
  t.teardown(() => void Object.defineProperties(Map.prototype, own))
  for (const way of ['entries', 'keys', 'values', 'forEach', Symbol.iterator] as const) {
    const walk = Map.prototype[way] as (...args: unknown[]) => unknown
    Object.defineProperty(Map.prototype, way, {
      configurable: true,
      writable: true,
      value(this: Map<unknown, unknown>, ...args: unknown[]) {
        if (this.size >= all.length - 1 && this.has('n0')) walks++
        return walk.apply(this, args)
      },
    })
  }
  await registry.commit((definitions) => void definitions.set('new', definition('new')))
  await registry.commit((definitions) => void definitions.set('n1', { ...definition('n1'), owner: 'other' }))
  await registry.commit((definitions) => void definitions.delete('n2'))
  t.match([registry.size, registry.names().length, registry.namesAfter('n98', 3)], [200, 201, ['n99', 'new']])
  t.equal(walks, 0)
  t.equal([...registry.values()].length, 200)
  t.equal(walks, 1, 'a walk is seen')
})

t.test('names stay in their order, whatever comes, is marked and goes', async (t) => {
  const seed = Date.now() % 1_000_000
  t.comment(`seed ${seed}`)
  const random = seeded(seed)
  const registry = await opened(t)
  const model = new Map<string, Definition>()
  for (let round = 0; round < 200; round++) {
    const many = random() < 0.05 ? 150 : 3
    await registry.commit((definitions) => {
      for (let i = 0; i < many; i++) {
        const name = random() < 0.05 ? 'default' : `n${Math.floor(random() * 300)}`
        const changed = random() < 0.4 ? undefined : { ...definition(name), deleting: random() < 0.3 }
        if (changed === undefined) definitions.delete(name)
        else definitions.set(name, changed)
        if (changed === undefined) model.delete(name)
        else model.set(name, changed)
        if (definitions.size !== model.size) t.fail(`${definitions.size} in the draft, not ${model.size}`)
      }
    })
    const names = [...model.values()].filter(({ deleting }) => !deleting).map(({ name }) => name)
    if (!model.has('default')) names.push('default')
    names.sort()
    const after = `n${Math.floor(random() * 300)}`
    const behind = names.filter((name) => name > after).slice(0, 5)
    t.strictSame([registry.names(), registry.namesAfter(after, 5), registry.size], [names, behind, model.size])
  }
})
