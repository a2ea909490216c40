import { collect } from 'svcdb/lib/heap'
import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { FifoMap } from './fifo-map.ts'

t.test('the oldest, as of a list', async (t) => {
  const seed = Number(process.env.SVC_SEED ?? Date.now() % 1e9)
  const random = seeded(seed)
  const below = (n: number): number => Math.floor(random() * n)
  const map = new FifoMap<number, number>()
  let list: number[] = []
  for (let i = 0; i < 100_000; i++) {
    const key = below(200)
    switch (below(8)) {
      case 0:
      case 1:
      case 2:
        map.set(key, i)
        if (!list.includes(key)) list.push(key)
        break
      case 3:
        map.delete(key)
        list = list.filter((each) => each !== key)
        break
      case 4:
      case 5:
        if (list.length > 0) map.delete(list.shift() as number)
        break
      case 6:
        if (below(1000) > 0) break
        map.clear()
        list = []
        break
      default:
        if (map.oldest() !== list[0]) return t.fail(`SVC_SEED=${seed} after ${i} steps`)
    }
    if (map.size !== list.length) return t.fail(`SVC_SEED=${seed} after ${i} steps`)
  }
  t.same([...map.keys()], list, `SVC_SEED=${seed}`)
})

t.test('it is not looked for from the beginning each time', async (t) => {
  let begun = 0
  class Counted extends FifoMap<number, number> {
    override keys() {
      begun++
      return super.keys()
    }
  }
  const map = new Counted()
  for (let i = 0; i < 10_000; i++) map.set(i, i)
  for (let i = 10_000; i < 100_000; i++) {
    const oldest = map.oldest() as number
    if (oldest !== i - 10_000) return t.fail(`${oldest} at ${i}`)
    map.delete(oldest)
    map.set(i, i)
  }
  t.equal(begun, 1)
})

t.test('what comes and goes behind the oldest takes no memory', async (t) => {
  const map = new FifoMap<number, number>()
  map.set(-1, 0)
  const churn = (): number => {
    for (let i = 0; i < 400_000; i++) {
      map.set(i, i)
      if (map.oldest() !== -1) t.fail(`${i}`)
      map.delete(i)
    }
    collect()
    return process.memoryUsage().heapUsed
  }
  const before = churn()
  t.ok(churn() - before < 4_000_000, 'ten bytes each')
})
