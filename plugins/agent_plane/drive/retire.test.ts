/** Events that nobody has waited for become dead letters a few at a time: very many large ones are never all in memory. */
import type { StateStore, StateTransaction } from 'svcdb'
import t from 'tap'
import { controlled } from '../testing/control.ts'

const COUNT = 100
const FEW = 20
const GRACE_MS = 1000

t.test('one transaction reads a few events, however many are due', async (t) => {
  const { driver, state, clock } = await controlled([])
  for (let i = 0; i < COUNT; i++) await driver().deliver({ source: 's', id: `${i}`, kind: 'k', payload: 'x'.repeat(1000) })
  clock.now += GRACE_MS + 1
  let most = 0
  const counting: StateStore = {
    get: (key) => state.get(key),
    list: (range) => state.list(range),
    transaction: (body) =>
      state.transaction((tx) => {
        let read = 0
        const list: StateTransaction['list'] = async (range) => {
          const rows = await tx.list(range)
          read += rows.length
          most = Math.max(most, read)
          return rows as never
        }
        return body({ get: (key) => tx.get(key), list, put: (key, value) => tx.put(key, value), delete: (key) => tx.delete(key) })
      }),
  }
  const over = driver({ state: counting })
  t.equal(await over.retire(GRACE_MS, 50), 50)
  t.equal(await over.retire(GRACE_MS, 1000), COUNT - 50)
  t.equal(await over.retire(GRACE_MS, 1000), 0)
  t.ok(most > 0 && most <= FEW, `${most} of ${COUNT}`)
  t.equal((await state.list({ prefix: 'dead/' })).length, COUNT)
  t.same(await state.list({ prefix: 'buffer/' }), [])
})
