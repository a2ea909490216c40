/** What a keeper on another node is owed: it forgets by itself, each namespace once, one at a time. */
import type { StateStore } from 'svcdb'
import { ManualClock, mapState } from 'svcdb/testkit'
import t from 'tap'
import { until } from '../../test/support/until.ts'
import { Directory, type DirectoryDependencies } from './directory.ts'
import { Owed } from './owed.ts'
import { Registry } from './registry.ts'

t.test('a keeper forgets what goes on another node, and not twice', async (t) => {
  const state: StateStore = mapState()
  const tell: ((keys: readonly string[] | undefined) => void)[] = []
  let watching = 0
  state.watch = async (_prefixes, told) => {
    tell.push(told)
    watching++
    return () => void watching--
  }
  const [here, there] = [new Owed(() => state), new Owed(() => state)]
  const forgotten: string[] = []
  const held = Promise.withResolvers<void>()
  let broken = true
  const failures: string[] = []
  await there.begin('points-there', async (name) => {
    forgotten.push(name)
    if (name === 'slow') await held.promise
    if (name === 'bad' && broken) throw new Error('cannot forget')
  })
  await there.open((error) => failures.push(error.message))
  const owed = async () => (await state.list({ prefix: 'owed/' })).map(({ key }) => key)

  await here.leave('slow')
  tell[0](await owed())
  await until('it is asked', () => forgotten.length === 1)
  const settled = there.settleAll()
  await new Promise((resolve) => setImmediate(resolve))
  t.same(forgotten, ['slow'], 'not while it is at it')
  held.resolve()
  await settled
  t.same([forgotten, await owed()], [['slow'], []])

  await here.leave('bad')
  tell[0](await owed())
  await until('it is said', () => failures.length > 0)
  t.same(await owed(), ['owed/points-there/bad'], 'what failed is owed still')
  broken = false
  tell[0](undefined)
  await until('it is forgotten', async () => (await owed()).length === 0)
  await there.leave('own')
  t.same(await owed(), [], 'nothing is owed to a keeper that is there')
  await there.close()
  t.equal(watching, 0)
})

t.test('a name is taken only when nothing is owed for who had it before', async (t) => {
  const state: StateStore = mapState()
  const [here, there] = [new Owed(() => state), new Owed(() => state)]
  const held = Promise.withResolvers<void>()
  const forgotten: string[] = []
  await there.begin('points', async (name) => {
    await held.promise
    forgotten.push(name)
  })
  const registry = new Registry()
  await registry.open(state, undefined, { settle: () => there.settleAll(), gone: () => {}, failed: (error) => t.fail(String(error)) })
  t.teardown(() => registry.close())
  const directory = new Directory({
    registry,
    owed: there,
    config: { max_namespaces: 10 } as DirectoryDependencies['config'],
    multiTenancy: true,
    clock: new ManualClock(),
    settle: () => there.settleAll(),
    full: () => {},
  })
  await here.leave('acme')
  const created = directory.create({ name: 'acme', description: '', owner: 'next', auto: false, quota: {} })
  await new Promise((resolve) => setImmediate(resolve))
  t.equal(registry.get('acme'), undefined)
  held.resolve()
  await created
  t.same([forgotten, registry.get('acme')?.owner], [['acme'], 'next'])
})
