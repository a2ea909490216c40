/** Names of keys are unique over all nodes of a state store, and a new key is made without a look at all others. */
import { randomBytes } from 'node:crypto'
import type { StateRange, StateTransaction } from 'svcdb'
import { SharedState, temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { lookUntil, until } from '../../test/support/until.ts'
import { aroundTransactions, keyText, start } from './testing.ts'

t.setTimeout(120_000)
const ADMIN = keyText()
const admin = { name: 'root', key: ADMIN, admin: true }
const MASTER = 'SVC_TEST_NAMES_MASTER'
process.env[MASTER] = randomBytes(32).toString('base64')

t.test('a key is made by a look at its own name: the others are not read, nor opened, one by one', async (t) => {
  const cases: [string, Record<string, unknown>][] = [
    ['at run time', {}],
    ['as an object', { persistent_api_keys: true }],
    ['sealed', { persistent_api_keys: true, encryption_key_env: MASTER }],
  ]
  for (const [what, auth] of cases) {
    const lists: (StateRange | undefined)[] = []
    const seen = (tx: StateTransaction): StateTransaction => ({
      get: (key) => tx.get(key),
      put: (key, value) => tx.put(key, value),
      delete: (key) => tx.delete(key),
      list(range) {
        lists.push(range)
        return tx.list(range)
      },
    })
    const watched = aroundTransactions('watched_state', (transaction) => (body) => transaction((tx) => body(seen(tx))))
    const dir = temporaryFolder(t)
    const node = await start({ keys: [admin], dir, auth, before: [watched] })
    t.teardown(() => node.stop())
    for (const name of ['one', 'two']) t.equal((await node.call('POST', ADMIN, '', { name })).status, 201, what)
    t.equal((await node.call('POST', ADMIN, '', { name: 'two' })).status, 409, what)
    t.same(lists, [], what)
    t.equal((await node.call('DELETE', ADMIN, '/two')).status, 204)
    t.equal((await node.call('POST', ADMIN, '', { name: 'two' })).status, 201, `${what}: a name is free again`)
  }
})

t.test('two nodes that do not know of each other yet: one of them gets the name', async (t) => {
  const shared = new SharedState()
  const nodes = await Promise.all([1, 2].map(async () => start({ keys: [admin], storage: await shared.engine() })))
  for (const node of nodes) t.teardown(() => node.stop())
  const [first, second] = nodes
  const made = await Promise.all(nodes.map((node) => node.call('POST', ADMIN, '', { name: 'ci' })))
  t.same(made.map(({ status }) => status).sort(), [201, 409])
  t.match(made.find(({ status }) => status === 409)?.body, { code: 'CONFLICT', error: /another node has just made one of the name/ })
  const holder = made[0].status === 201 ? first : second
  const other = holder === first ? second : first
  t.equal((await holder.call('DELETE', ADMIN, '/ci')).status, 204)
  t.equal((await other.call('POST', ADMIN, '', { name: 'ci' })).status, 201, 'the name of one that is gone')
  t.equal((await holder.call('POST', ADMIN, '', { name: 'ci' })).status, 409)
})

t.test('a key is made anew under its name while another node cannot look: the new one is let in there', async (t) => {
  const shared = new SharedState()
  const engine = await shared.engine(undefined, true)
  const { state } = engine
  let away: Promise<never> | undefined
  let looks = 0
  engine.state = (owner) => {
    const store = state(owner)
    const get: typeof store.get = (key) => {
      if (away === undefined) return store.get(key)
      looks++
      return away
    }
    return { ...store, get }
  }
  const [first, second] = await Promise.all([await shared.engine(), engine].map((storage) => start({ keys: [admin], storage })))
  for (const node of [first, second]) t.teardown(() => node.stop())
  const make = async (): Promise<{ id: string; key: string }> => (await first.call('POST', ADMIN, '', { name: 'ci' })).body
  const known = (wanted: string): Promise<string | undefined> =>
    lookUntil<string | undefined>(
      async () => (await second.call('GET', ADMIN)).body.items.find(({ name }: { name: string }) => name === 'ci')?.id,
      (id) => id === wanted,
      5000,
    )
  const old = await make()
  t.equal(await known(old.id), old.id)
  const cut = Promise.withResolvers<never>()
  away = cut.promise
  t.equal((await first.call('DELETE', ADMIN, '/ci')).status, 204)
  await until('the look at what is gone', () => looks)
  const anew = await make()
  away = undefined
  cut.reject(new Error('the state store is away'))
  t.equal(await known(anew.id), anew.id)
  t.same([(await second.who(anew.key)).status, (await second.who(old.key)).status], [200, 401])
})
