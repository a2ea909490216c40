import { setImmediate } from 'node:timers/promises'
import { definePlugin, type Logger, NAMESPACES, type NamespaceLifecycle, type Storage } from 'svcdb'
import { temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { eventually } from '../../test/support/until.ts'
import { Deletion } from './deletion.ts'
import type { Directory } from './directory.ts'
import { type FolderNode, openNode } from './testing.ts'

const PATH = '/api/v1/namespaces'
const now = (): bigint => BigInt(Date.now()) * 1_000_000n
const lines = (measurements: number, from = 0) => Array.from({ length: measurements }, (_, i) => `m${from + i},host=a v=1 ${now()}`).join('\n')

const storageOf = ({ node }: FolderNode) => node.storage as NonNullable<typeof node.storage>
const marked = async (at: FolderNode): Promise<boolean> => {
  const entries = await storageOf(at).state('namespaces').list<{ deleting?: boolean }>({ prefix: 'namespace/' })
  return entries.some(({ value }) => value.deleting)
}
/** Has drops fail after so many of them, as a full disk would. */
function failDrops(at: FolderNode, after: number): () => void {
  const storage = storageOf(at)
  const drop = storage.drop.bind(storage)
  let left = after
  storage.drop = (...args) => (left-- > 0 ? drop(...args) : Promise.reject(new Error('the disk is gone')))
  return () => void (storage.drop = drop)
}

t.test('a delete that was cut off is finished by the next start', async (t) => {
  const dir = temporaryFolder(t)
  for (const after of [0, 5, 20]) {
    let at = await openNode(dir)
    t.equal((await at.inject('POST', '/write', lines(20), 'acme')).statusCode, 204)
    t.equal((await at.inject('POST', '/write', lines(3), 'other')).statusCode, 204)
    failDrops(at, after)
    const cut = await at.inject('DELETE', `${PATH}/acme`)
    if (after < 20) {
      t.equal(cut.statusCode, 500)
      t.ok(await marked(at))
      const left = (await storageOf(at).measurements('acme')).length
      t.ok(left > 0 && left <= 20 - after, `${left} measurements are left`)
      t.match((await at.inject('POST', '/write', lines(1), 'acme')).json(), { code: 'NOT_FOUND', error: /being deleted/ })
      t.equal((await at.inject('POST', '/api/v1/measurements/n/schema/fields', { name: 'f', type: 'bool' }, 'acme')).statusCode, 404)
      t.equal((await at.inject('GET', `${PATH}/acme`)).statusCode, 404)
      t.match((await at.inject('POST', PATH, { name: 'acme' })).json(), { code: 'CONFLICT', error: /being deleted/ })
    } else t.equal(cut.statusCode, 200)
    await at.node.stop()
    at = await openNode(dir)
    await eventually(async () => !(await marked(at)))
    t.same(await storageOf(at).namespaces(), ['other'])
    t.same(await storageOf(at).usage('acme'), { series: 0, measurements: 0, bytes: 0 })
    t.equal((await storageOf(at).measurements('other')).length, 3)
    t.same(
      (await at.inject('GET', PATH)).json().namespaces.map(({ name }: { name: string }) => name),
      ['default', 'other'],
    )
    await at.node.stop()
  }
})

t.test('a namespace that has the name of a deleted one takes any history, after a restart too', async (t) => {
  const dir = temporaryFolder(t)
  const old = (name: string) => `${name},host=a v=1 ${now() - 200n * 86_400_000_000_000n}`
  let at = await openNode(dir)
  const write = async (namespace: string, text: string) => (await at.inject('POST', '/write', text, namespace)).statusCode
  const remove = async (namespace: string) => t.equal((await at.inject('DELETE', `${PATH}/${namespace}`)).statusCode, 200)
  for (const name of ['one', 'two', 'kept']) t.equal(await write(name, lines(2)), 204)
  t.equal(await write('one', old('m0')), 400, 'outside the window')
  // Stored with the times of all three.
  await storageOf(at).flush()
  await remove('one')
  await remove('two')
  t.equal(await write('one', old('m0')), 204, 'the next owner of the name')
  await at.node.stop()
  at = await openNode(dir)
  t.equal(await write('two', old('m0')), 204)
  t.equal(await write('kept', old('m0')), 400)
  await at.node.stop()
})

t.test('a delete that failed is tried again without being asked for', async (t) => {
  const definitions = new Map([['acme', { name: 'acme', deleting: true }]])
  const done = Promise.withResolvers<string>()
  let failures = 1
  const directory = {
    registry: { isEnding: () => false, values: () => definitions.values(), commit: async (change: (all: typeof definitions) => void) => change(definitions) },
    forgets: [async () => void (failures-- > 0 && (await Promise.reject(new Error('the disk is gone'))))],
  }
  const deletion = new Deletion({
    directory: directory as unknown as Directory,
    multiTenancy: true,
    storage: () => ({ measurements: () => [], usage: () => ({ measurements: 0 }) }) as unknown as Storage,
    log: { info() {}, error() {} } as unknown as Logger,
    gone: (name) => done.resolve(name),
    retryMs: 1,
  })
  t.teardown(() => deletion.stop())
  await deletion.resume()
  t.equal(definitions.size, 1)
  // The timer alone does not keep the process.
  const alive = setInterval(() => {}, 1000)
  t.equal(await done.promise, 'acme')
  clearInterval(alive)
  t.equal(definitions.size, 0)
})

t.test('a delete waits for what writes on their way begin', async (t) => {
  const definitions = new Map([['acme', { name: 'acme', deleting: true }]])
  const directory = {
    registry: { isEnding: () => false, values: () => definitions.values(), commit: async (change: (all: typeof definitions) => void) => change(definitions) },
    forgets: [],
  }
  // The log has not taken it at the first two looks, and refuses the second one.
  const states = ['on its way', 'on its way', 'durable', 'dropped', 'on its way', 'refused']
  const storage = {
    measurements: async () => (states[0] === 'durable' ? [{ name: 'm' }] : []),
    usage: async () => ({ measurements: states.shift() === 'on its way' ? 1 : 0 }),
    drop: async () => void states.splice(0, 2),
  }
  const deletion = new Deletion({
    directory: directory as unknown as Directory,
    multiTenancy: true,
    storage: () => storage as unknown as Storage,
    log: { info() {}, error() {} } as unknown as Logger,
    gone() {},
  })
  await deletion.resume()
  t.same(states, [], 'until nothing is left that could come')
  t.equal(definitions.size, 0)
})

t.test('a delete that failed can be asked for again', async (t) => {
  const at = await openNode(temporaryFolder(t))
  t.teardown(() => at.node.stop())
  await at.inject('POST', '/write', lines(4), 'acme')
  const heal = failDrops(at, 1)
  t.equal((await at.inject('DELETE', `${PATH}/acme`)).statusCode, 500)
  heal()
  const both = await Promise.all([at.inject('DELETE', `${PATH}/acme`), at.inject('DELETE', `${PATH}/acme`)])
  t.same(
    both.map(({ statusCode }) => statusCode),
    [200, 200],
  )
  t.same(await storageOf(at).namespaces(), [])
})

t.test('writes that race with a delete leave nothing under a name that is gone', async (t) => {
  for (const auto_create of [true, false]) {
    const dir = temporaryFolder(t)
    const at = await openNode(dir, { namespaces: { auto_create } })
    for (let round = 0; round < 5; round++) {
      await at.inject('POST', PATH, { name: 'acme', description: `${round}` })
      let going = true
      const statuses = new Set<number>()
      const writers = Array.from({ length: 4 }, async (_, writer) => {
        for (let i = 0; going; i++) {
          const url = i % 3 === 2 ? `/api/v1/measurements/d${writer}_${i}/schema/fields` : '/write'
          const { statusCode } = await at.inject('POST', url, i % 3 === 2 ? { name: 'f', type: 'bool' } : lines(3, writer * 1000 + i * 3), 'acme')
          statuses.add(statusCode)
          await setImmediate() // a refusal waits for nothing, and would leave no turn to anything else
        }
      })
      await eventually(async () => (await storageOf(at).measurements('acme')).length > 50)
      t.equal((await at.inject('DELETE', `${PATH}/acme`)).statusCode, 200)
      going = false
      await Promise.all(writers)
      t.ok(
        [...statuses].every((status) => [200, 204, 404].includes(status)),
        [...statuses].join(),
      )
      const known = (await at.inject('GET', `${PATH}/acme`)).statusCode === 200
      const holds = (await storageOf(at).namespaces()).includes('acme')
      if (auto_create) t.ok(known || !holds, 'what was written afterwards began a namespace of its own')
      else t.notOk(known || holds)
      if (known) await at.inject('DELETE', `${PATH}/acme`)
      t.same(await storageOf(at).namespaces(), [])
    }
    await at.node.stop()
    const again = await openNode(dir, { namespaces: { auto_create } })
    t.same(await storageOf(again).namespaces(), [])
    await again.node.stop()
  }
})

t.test('others keep a namespace, and forget what they keep for it', async (t) => {
  const forgotten: string[] = []
  let held: string | undefined = 'it has 2 rollups'
  let broken = true
  const keeper = definePlugin({
    id: 'keeper',
    summary: 'x',
    stability: 'stable',
    setup: (svc) =>
      svc.start(() => {
        const namespaces = svc.find<NamespaceLifecycle>(NAMESPACES)
        namespaces?.holdDelete((name) => (name === 'acme' ? held : undefined))
        namespaces?.onDelete((name) => {
          if (broken) throw new Error('cannot forget')
          forgotten.push(name)
        })
      }),
  })
  const dir = temporaryFolder(t)
  let at = await openNode(dir, {}, [keeper])
  await at.inject('POST', '/write', lines(1), 'acme')
  t.match((await at.inject('DELETE', `${PATH}/acme`)).json(), { code: 'CONFLICT', error: /it has 2 rollups/ })
  t.equal((await at.inject('POST', '/write', lines(1), 'acme')).statusCode, 204)
  held = undefined
  t.equal((await at.inject('DELETE', `${PATH}/acme`)).statusCode, 500)
  await at.node.stop()
  broken = false
  at = await openNode(dir, {}, [keeper])
  await eventually(async () => !(await marked(at)))
  await at.node.stop()
  t.same(forgotten, ['acme'])
})
