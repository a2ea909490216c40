/** What other nodes over the same state do to the definitions. */
import type { StateStore } from 'svcdb'
import { mapState } from 'svcdb/testkit'
import t from 'tap'
import { until } from '../../test/support/until.ts'
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
