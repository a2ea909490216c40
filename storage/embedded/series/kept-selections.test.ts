import type { Matcher } from 'svcdb'
import t from 'tap'
import { KeptSelections } from './kept-selections.ts'

const host = (value: string, op: Matcher['op'] = '='): Matcher => ({ tag: 'host', op, value })

t.test('a selection is found again while the list is the same', async (t) => {
  const kept = new KeptSelections()
  const key = KeptSelections.key(1, [host('a')])
  const found = Int32Array.of(9, 1, 2, 9).subarray(1, 3)
  kept.set(key, 10, 0, found)
  t.same(kept.get(key, 10, 0), Int32Array.of(1, 2))
  t.equal(kept.get(key, 10, 0)?.buffer.byteLength, 8, 'without the array it was part of')
  t.equal(kept.get(key, 11, 0), undefined, 'more series')
  t.equal(kept.get(key, 10, 1), undefined, 'series were given back')
  kept.set(key, 11, 0, Int32Array.of(1, 2, 10))
  t.same(kept.get(key, 11, 0), Int32Array.of(1, 2, 10))
})

t.test('conditions that differ have keys that differ', async (t) => {
  const keys = [
    KeptSelections.key(1, [host('a')]),
    KeptSelections.key(2, [host('a')]),
    KeptSelections.key(1, [host('a', '=~')]),
    KeptSelections.key(1, [host('a'), host('b')]),
    KeptSelections.key(1, [host('a,4:host=1:b')]),
    KeptSelections.key(1, [{ tag: 'host=1', op: '=', value: 'a' }]),
    KeptSelections.key(11, []),
  ]
  t.equal(new Set(keys).size, keys.length)
})

t.test('those not used for longest make room, and what is too large is not kept', async (t) => {
  const kept = new KeptSelections(200)
  kept.set('a', 1, 0, new Int32Array(20))
  kept.set('b', 1, 0, new Int32Array(20))
  t.ok(kept.get('a', 1, 0))
  kept.set('c', 1, 0, new Int32Array(20))
  t.equal(kept.get('b', 1, 0), undefined)
  t.ok(kept.get('a', 1, 0))
  kept.set('d', 1, 0, new Int32Array(200))
  t.equal(kept.get('d', 1, 0), undefined)
  t.ok(kept.get('c', 1, 0))
})
