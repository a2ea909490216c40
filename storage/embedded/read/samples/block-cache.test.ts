import t from 'tap'
import { UnitCache, UnitShelf } from './block-cache.ts'
import { UnitBuilder } from './sample-block.ts'

const unit = () => new UnitBuilder(0).build(true)

t.test('the unit used longest ago goes first', async (t) => {
  const cache = new UnitCache(1000)
  const [a, b] = [new UnitShelf(1), new UnitShelf(2)]
  for (const key of [1, 2, 3, 4]) cache.put(key % 2 === 0 ? a : b, key, unit(), 250)
  t.equal(cache.bytes, 1000)
  t.ok(cache.get(b, 1), 'used again')
  cache.put(a, 5, unit(), 200)
  t.equal(cache.get(a, 2), undefined)
  t.ok(cache.get(b, 1))
  t.equal(cache.bytes, 950)
})

t.test('a unit in place of another, and those too large', async (t) => {
  const cache = new UnitCache(1000)
  const shelf = new UnitShelf(1)
  const [first, second] = [unit(), unit()]
  cache.put(shelf, 1, first, 100)
  cache.put(shelf, 1, second, 200)
  t.equal(cache.get(shelf, 1), second)
  t.equal(cache.bytes, 200)
  cache.put(shelf, 1, unit(), 251)
  t.equal(cache.get(shelf, 1), undefined, 'the old one is void all the same')
  t.equal(cache.bytes, 0)
  t.equal(new UnitCache(0).accepts(1), false)
  t.ok(cache.holds(1000))
  t.notOk(cache.holds(1001))
})

t.test('the units of owners that are gone are dropped', async (t) => {
  const cache = new UnitCache(1000)
  const shelves = [1, -1, 2].map((owner) => new UnitShelf(owner))
  for (const shelf of shelves) for (const key of [1, 2]) cache.put(shelf, key, unit(), 50)
  cache.forget(new Set([1, -1]))
  t.same(
    shelves.map((shelf) => cache.get(shelf, 1) !== undefined),
    [false, false, true],
  )
  t.equal(cache.bytes, 100)
})
