import { mock } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import { Deletion, type DeletionDependencies } from './deletion.ts'

t.test('a delete that failed is tried again by itself, until it succeeds or the node stops', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const definitions = new Map([['acme', { name: 'acme', deleting: false }]])
  const registry = {
    get: (name: string) => definitions.get(name),
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
