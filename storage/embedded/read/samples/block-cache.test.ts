import t from 'tap'
import { BlockCache, OwnedBlocks } from './block-cache.ts'
import { SampleBlockBuilder } from './sample-block.ts'

const block = () => new SampleBlockBuilder(0).build(true)

t.test('the block used longest ago goes first', async (t) => {
  const cache = new BlockCache(1000)
  const [a, b] = [new OwnedBlocks(1), new OwnedBlocks(2)]
  for (const key of [1, 2, 3, 4]) cache.put(key % 2 === 0 ? a : b, key, block(), 250)
  t.equal(cache.bytes, 1000)
  t.ok(cache.get(b, 1), 'used again')
  cache.put(a, 5, block(), 200)
  t.equal(cache.get(a, 2), undefined)
  t.ok(cache.get(b, 1))
  t.equal(cache.bytes, 950)
})

t.test('a block in place of another, and those too large', async (t) => {
  const cache = new BlockCache(1000)
  const owned = new OwnedBlocks(1)
  const [first, second] = [block(), block()]
  cache.put(owned, 1, first, 100)
  cache.put(owned, 1, second, 200)
  t.equal(cache.get(owned, 1), second)
  t.equal(cache.bytes, 200)
  cache.put(owned, 1, block(), 251)
  t.equal(cache.get(owned, 1), undefined, 'the old one is void all the same')
  t.equal(cache.bytes, 0)
  t.equal(new BlockCache(0).accepts(1), false)
  t.ok(cache.holds(1000))
  t.notOk(cache.holds(1001))
})

t.test('the blocks of owners that are gone are dropped', async (t) => {
  const cache = new BlockCache(1000)
  const owners = [1, -1, 2].map((owner) => new OwnedBlocks(owner))
  for (const owned of owners) for (const key of [1, 2]) cache.put(owned, key, block(), 50)
  cache.forget(new Set([1, -1]))
  t.same(
    owners.map((owned) => cache.get(owned, 1) !== undefined),
    [false, false, true],
  )
  t.equal(cache.bytes, 100)
})
