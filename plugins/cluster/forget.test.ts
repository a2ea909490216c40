/** A node whose id was made up, which comes back at the moment when another forgets it. */
import type { StateTransaction } from 'svcdb'
import { boot, ManualClock, SharedState } from 'svcdb/testkit'
import t from 'tap'
import { BEAT, call } from './testing.ts'

t.test('what beats again meanwhile is not forgotten', async (t) => {
  const clock = new ManualClock()
  const shared = new SharedState()
  let reached = true
  let beats = 0
  const kernel = shared.of('kernel')
  const storage = await shared.engine()
  const state = storage.state.bind(storage)
  storage.state = (owner) => {
    const store = state(owner)
    if (owner !== 'kernel') return store
    return {
      ...store,
      // The other node beats just before it would be removed.
      transaction: async (body) => {
        let removes = false
        const look = (tx: StateTransaction) =>
          body({ get: (key) => tx.get(key), list: (range) => tx.list(range), put() {}, delete: () => void (removes = true) })
        if (!reached) await kernel.transaction(look).catch(() => {})
        if (removes)
          await kernel.transaction(async (tx) => {
            for (const { key, value } of await tx.list<{ node_id: number; beat: number }>({ prefix: '' })) {
              if (value.node_id === undefined || value.node_id === 1) continue
              beats++
              tx.put(key, { ...value, beat: value.beat + 1 })
            }
          })
        return store.transaction(body)
      },
    }
  }
  const first = await boot({ plugins: ['cluster'], clock, storage, config: { cluster: { node_id: 1 } } })
  t.teardown(() => first.stop())
  const second = await boot({ plugins: ['cluster'], clock, storage: await shared.engine(() => reached) })
  t.teardown(() => second.stop())
  const listed = async () => (await call(first, 'GET', '/api/v1/admin/nodes')).body.items.length
  await clock.advance(2 * BEAT)
  t.equal(await listed(), 2)
  reached = false
  for (let i = 0; i < 60 && beats === 0; i++) await clock.advance(BEAT)
  t.ok(beats > 0, 'this node was about to forget it')
  await clock.advance(1)
  t.equal(await listed(), 2)
})
