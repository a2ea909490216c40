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

t.test('what was not used for some rounds is dropped', async (t) => {
  const cache = new BlockCache(10_000)
  const [a, b] = [new OwnedBlocks(1), new OwnedBlocks(2)]
  for (const key of [1, 2, 3]) cache.put(a, key, block(), 250, 1)
  cache.put(b, 1, block(), 100, 1)
  t.equal(cache.rest(2), 0)
  t.ok(cache.get(a, 1, 2), 'used by another question')
  t.ok(cache.get(a, 2, 1), 'and by the same')
  t.equal(cache.rest(2), 0)
  t.equal(cache.rest(2), 350)
  t.same([...a.entries.keys()], [1, 2])
  cache.put(a, 3, block(), 100, 3)
  t.equal(cache.rest(2), 500)
  t.equal(cache.bytes, 100)
  t.equal(cache.rest(2), 0)
  t.equal(cache.rest(2), 100)
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

t.test('a question that needs more than there is room for keeps what it has read first', async (t) => {
  const cache = new BlockCache(1000)
  const owned = new OwnedBlocks(1)
  const scan = (question: number): number => {
    let found = 0
    for (let key = 0; key < 20; key++) {
      if (cache.get(owned, key, question) !== undefined) found++
      else if (cache.admits(100, question)) cache.put(owned, key, block(), 100, question)
    }
    return found
  }
  t.equal(scan(1), 0)
  t.equal(cache.bytes, 1000)
  t.equal(scan(2), 10, 'a half is found again')
  t.equal(scan(3), 10)
})

t.test('what several questions have used stays when a large one comes', async (t) => {
  const cache = new BlockCache(1000)
  const [small, large] = [new OwnedBlocks(1), new OwnedBlocks(2)]
  cache.put(small, 0, block(), 100, 1)
  t.ok(cache.get(small, 0, 2))
  for (let key = 0; key < 100; key++) if (cache.admits(100, 3)) cache.put(large, key, block(), 100, 3)
  t.ok(cache.get(small, 0, 4), 'still there')
  t.equal(large.entries.size, 9)
  for (let key = 100; key < 200; key++) if (cache.admits(100, 5)) cache.put(large, key, block(), 100, 5)
  t.ok(cache.get(small, 0, 6))
  t.equal([...large.entries.keys()].filter((key) => key >= 100).length, 9, 'the scan before it goes')
})

t.test('what is shared grows old, too', async (t) => {
  const cache = new BlockCache(1000)
  const owned = new OwnedBlocks(1)
  for (let key = 0; key < 10; key++) cache.put(owned, key, block(), 100, key)
  for (let round = 0; round < 2; round++) for (let key = 0; key < 10; key++) t.ok(cache.get(owned, key, 100 + round))
  for (let key = 10; key < 20; key++) {
    cache.put(owned, key, block(), 100, key)
    cache.get(owned, key, 1000 + key)
  }
  t.equal(cache.bytes, 1000)
  t.same([...owned.entries.keys()].filter((key) => key < 10).length <= 2, true, 'those used now have taken their place')
})
