import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { UseOrder } from './use-order.ts'

const SEED = Number(process.env.SVC_TEST_SEED ?? Math.floor(Math.random() * 2 ** 31))

t.test('it knows which was used longest ago, as a Map does whose keys are set again', async (t) => {
  t.comment(`seed ${SEED}`)
  const random = seeded(SEED)
  const order = new UseOrder<number>()
  const model = new Map<string, number>()
  for (let i = 0; i < 5000; i++) {
    const key = `k${Math.floor(random() * 20)}`
    const known = model.get(key)
    const action = Math.floor(random() * 4)
    if (action === 0) {
      model.delete(key)
      model.set(key, i)
      order.set(key, i)
    } else if (action === 1) {
      if (order.use(key) !== known) t.fail(`step ${i}: use`)
      model.delete(key)
      if (known !== undefined) model.set(key, known)
    } else if (action === 2) {
      if (order.delete(key) !== known) t.fail(`step ${i}: delete`)
      model.delete(key)
    } else if (order.get(key) !== known || order.has(key) !== model.has(key)) t.fail(`step ${i}: get`)
    const [oldest] = model
    if (order.size !== model.size || order.oldest?.key !== oldest?.[0] || order.oldest?.value !== oldest?.[1]) t.fail(`step ${i}`)
    if (i % 100 === 0) t.same([...order.values()], [...model.values()])
  }
})
