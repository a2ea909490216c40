import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { RecentMap } from './recent-map.ts'

t.test('what was used longest ago makes room', async (t) => {
  const map = new RecentMap<string, number>(2)
  map.set('a', 1)
  map.set('b', 2)
  t.equal(map.get('a'), 1)
  map.set('c', 3)
  t.equal(map.get('b'), undefined)
  t.equal(map.get('a'), 1)
  t.equal(map.size, 2)
})

t.test('what is larger than the room is not kept, and takes nothing else with it', async (t) => {
  const map = new RecentMap<string, string>(10, (value, key) => value.length + key.length)
  map.set('a', '1234')
  map.set('b', '12345678901')
  t.equal(map.get('b'), undefined)
  t.equal(map.get('a'), '1234')
  map.set('a', '12345678901')
  t.equal(map.get('a'), undefined, 'not the value from before')
  t.equal(map.taken, 0)
})

t.test('as a list in order of use', async (t) => {
  const seed = Number(process.env.SVC_SEED ?? Date.now() % 1e9)
  const random = seeded(seed)
  const below = (n: number): number => Math.floor(random() * n)
  const room = 40
  const map = new RecentMap<number, number>(room, (value) => value)
  let list: [key: number, value: number][] = []
  const taken = (): number => list.reduce((sum, [, value]) => sum + value, 0)
  for (let i = 0; i < 2000; i++) {
    const key = below(12)
    const known = list.find(([one]) => one === key)
    const others = list.filter(([one]) => one !== key)
    switch (below(3)) {
      case 0:
        if (map.get(key) !== known?.[1]) return t.fail(`SVC_SEED=${seed} get ${key} after ${i} steps`)
        if (known !== undefined) list = [...others, known]
        break
      case 1: {
        const value = 1 + below(45)
        map.set(key, value)
        list = others
        if (value <= room) {
          list.push([key, value])
          while (taken() > room) list.shift()
        }
        break
      }
      default:
        map.delete(key)
        list = others
    }
    if (map.size !== list.length || map.taken !== taken()) return t.fail(`SVC_SEED=${seed} after ${i} steps`)
  }
  t.same(
    Array.from({ length: 12 }, (_, key) => map.get(key)),
    Array.from({ length: 12 }, (_, key) => list.find(([one]) => one === key)?.[1]),
    `SVC_SEED=${seed}`,
  )
})
