import t from 'tap'
import { Unstored } from './unstored.ts'

const kept = (unstored: Unstored) => [...unstored.copy()].flatMap(([kind, ids]) => [...ids.keys()].map((id) => `${kind} ${id}`)).sort()

t.test('a commit that fails leaves all marks; one that is durable ends those that it stored, and no others', async (t) => {
  const unstored = new Unstored()
  unstored.mark('measurement', 1)
  unstored.mark('tombstone', 1)
  unstored.mark('retention')
  const first = unstored.copy()
  t.same(kept(unstored), ['measurement 1', 'retention 0', 'tombstone 1'], 'taking a copy takes nothing out')
  unstored.mark('tombstone', 1)
  unstored.mark('tombstone', 2)
  const second = unstored.copy()
  unstored.settle(first)
  t.same(kept(unstored), ['tombstone 1', 'tombstone 2'], 'marked again, or after it')
  unstored.settle(second)
  t.same(kept(unstored), [])
})

t.test('definitions alone do not wait for a commit of their own', async (t) => {
  const unstored = new Unstored()
  unstored.mark('measurement', 1)
  unstored.mark('table', 1)
  t.equal(unstored.waiting, false)
  for (const kind of ['tombstone', 'drop', 'series', 'retention', 'ended-drops'] as const) {
    unstored.mark(kind)
    t.equal(unstored.waiting, true, kind)
    unstored.settle(unstored.copy())
    t.equal(unstored.waiting, false)
  }
})

t.test('the first marks that have so much weight together, or one that has more', async (t) => {
  const unstored = new Unstored()
  for (const id of [1, 2, 3, 4]) unstored.mark('table', id)
  const weights = new Map([
    [1, 9],
    [3, 2],
    [4, 3],
  ])
  const upTo = (most: number) => [...unstored.upTo('table', most, (id) => weights.get(id)).keys()]
  t.same(upTo(5), [1], 'an entry is never too large')
  t.same(upTo(11), [1, 3], 'those without a weight are passed over')
  t.same(upTo(13), [1, 3])
  t.same(upTo(14), [1, 3, 4])
  t.same(upTo(0), [])
  t.same([...unstored.some('table', 2).keys()], [1, 2])
})
