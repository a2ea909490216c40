/** What other nodes over the same state do to the definitions, and what a change costs. */
import { type StateStore, UNFINISHED } from 'svcdb'
import { seeded } from 'svcdb/lib/random'
import { mapState } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { until } from '../../test/support/until.ts'
import type { Definition } from './definition.ts'
import { Registry } from './registry.ts'

t.test('what another node has removed is gone here, whether it is told of by name or all is read anew', async (t) => {
  const { state, tell } = watchedState()
  const gone: string[] = []
  const registry = new Registry()
  await registry.open(state, undefined, { settle: async () => {}, gone: (name) => void gone.push(name), failed: (error) => t.fail(String(error)) })
  t.teardown(() => registry.close())
  await registry.commit((definitions) => {
    for (const name of ['a', 'b', 'c']) definitions.set(name, definition(name))
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

/** A store, and who watches it, to be told of what has changed. */
function watchedState(): { state: StateStore; tell: ((keys: readonly string[] | undefined) => void)[] } {
  const state: StateStore = mapState()
  const tell: ((keys: readonly string[] | undefined) => void)[] = []
  state.watch = async (_prefixes, told) => {
    tell.push(told)
    return () => {}
  }
  return { state, tell }
}

const definition = (name: string): Definition => ({ name, description: '', owner: 'admin', auto: false, createdAt: 1, quota: {}, deleting: false })

async function opened(t: Test, state: StateStore = mapState()): Promise<Registry> {
  const registry = new Registry()
  await registry.open(state, undefined, { settle: async () => {}, gone: () => {}, failed: (error) => t.fail(String(error)) })
  t.teardown(() => registry.close())
  return registry
}

t.test('one that another node has removed, or made anew, is closed here until nothing of the former is left', async (t) => {
  const { state, tell } = watchedState()
  const gone: string[] = []
  let settling: PromiseWithResolvers<void> | undefined
  const registry = new Registry()
  await registry.open(state, undefined, {
    settle: () => (settling = Promise.withResolvers()).promise,
    gone: (name) => void gone.push(name),
    failed: (error) => t.fail(String(error)),
  })
  t.teardown(() => registry.close())
  await registry.commit((definitions) => {
    for (const name of ['kept', 'removed', 'anew']) definitions.set(name, definition(name))
  })
  await state.transaction((tx) => {
    tx.delete('namespace/removed')
    tx.put('namespace/anew', { name: 'anew', description: '', owner: 'other', created_at: 2, quota: {} })
  })
  tell[0](['namespace/removed', 'namespace/anew', 'namespace/kept'])
  await until('it is seen', () => settling !== undefined)
  const closed = () => ['kept', 'removed', 'anew'].map((name) => [registry.get(name)?.deleting, registry.isEnding(name)])
  t.same(closed(), [
    [false, false],
    [true, true],
    [true, true],
  ])
  await new Promise((resolve) => setImmediate(resolve))
  t.same([gone, registry.names()], [[], ['default', 'kept']], 'while something of it may be left')
  settling?.resolve()
  await until('the name is free', () => registry.get('removed') === undefined)
  t.same(closed(), [
    [false, false],
    [undefined, false],
    [false, false],
  ])
  t.same([gone, registry.get('anew')?.owner, registry.names()], [['removed', 'anew'], 'other', ['anew', 'default', 'kept']])
})

t.test('a change is made to what another node has made meanwhile, though nobody has told of it', async (t) => {
  const state: StateStore = mapState()
  state.watch = async () => () => {}
  const [one, other] = [await opened(t, state), await opened(t, state)]
  await one.commit((definitions) => definitions.set('a', { ...definition('a'), description: 'of one' }))
  let tries = 0
  await other.commit((definitions) => {
    if (++tries > 5) throw new Error('it is tried for ever')
    definitions.set('a', { ...(definitions.get('a') ?? definition('a')), owner: 'other' })
  })
  t.match(other.get('a'), { description: 'of one', owner: 'other' })
  // It knows only what it has made itself: to go on from there would bring back what is being deleted.
  await other.commit((definitions) => definitions.set('a', { ...(definitions.get('a') as Definition), deleting: true }))
  await t.rejects(
    one.commit((definitions) => {
      if (definitions.get('a')?.deleting) throw new Error('it is being deleted')
      definitions.set('a', { ...definition('a'), quota: { max_measurements: 1 } })
    }),
    { message: 'it is being deleted' },
  )
  t.match(await state.get('namespace/a'), { deleting: true, quota: {} })
})

t.test('what a change finds removed, or made anew, is closed and forgotten as what is heard of', async (t) => {
  const state: StateStore = mapState()
  state.watch = async () => () => {}
  const registry = new Registry()
  const seen: unknown[] = []
  const seeing = (what: string) => seen.push([what, registry.get('a')?.deleting, registry.get('a')?.createdAt])
  let failures = 1
  const gone = () => {
    seeing('gone')
    if (failures-- > 0) throw new Error('not now')
  }
  await registry.open(state, undefined, { settle: async () => void seeing('settle'), gone, failed: (error) => t.fail(String(error)) })
  t.teardown(() => registry.close())
  await registry.commit((definitions) => definitions.set('a', definition('a')))
  await state.transaction((tx) => tx.put('namespace/a', { name: 'a', description: '', owner: 'other', created_at: 2, quota: {} }))
  const describe = () => registry.commit((definitions) => definitions.set('a', { ...(definitions.get('a') as Definition), description: 'of the next one' }))
  await t.rejects(describe(), { message: 'not now' })
  t.equal(registry.isEnding('a'), true)
  await describe()
  const closed = ['settle', 'gone', 'settle', 'gone'].map((what) => [what, true, 1])
  t.same(seen, closed)
  t.match(registry.get('a'), { owner: 'other', createdAt: 2, deleting: false, description: 'of the next one' })
  t.equal(registry.isEnding('a'), false)
})

t.test('a deletion is unfinished from its mark to its end: no start without the plugin would take writes meanwhile', async (t) => {
  const state: StateStore = mapState()
  const registry = await opened(t, state)
  const unfinished = async () => (await state.list({ prefix: UNFINISHED })).map(({ value }) => value)
  await registry.commit((definitions) => {
    for (const name of ['a', 'b']) definitions.set(name, definition(name))
  })
  t.same(await unfinished(), [])
  await registry.commit((definitions) => definitions.set('a', { ...definition('a'), deleting: true }))
  t.same(await unfinished(), ['the deletion of namespace "a"'])
  await registry.commit((definitions) => {
    for (const name of ['a', 'b']) definitions.delete(name)
  })
  t.same(await unfinished(), [])
})

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
