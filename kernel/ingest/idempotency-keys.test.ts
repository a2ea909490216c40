import t from 'tap'
import { IdempotencyKeys } from './idempotency-keys.ts'

t.test('a key is free again when its window has passed, not before', async (t) => {
  let now = 1000
  const keys = new IdempotencyKeys(500, 10, () => now)
  t.ok(keys.claim('a'))
  now += 499
  t.notOk(keys.claim('a'))
  now += 1
  t.ok(keys.claim('a'))
})

t.test('a refused claim does not lengthen the window', async (t) => {
  let now = 0
  const keys = new IdempotencyKeys(500, 10, () => now)
  keys.claim('a')
  now = 400
  keys.claim('a')
  now = 500
  t.ok(keys.claim('a'))
})

t.test('the oldest quarter goes when there are too many', async (t) => {
  const keys = new IdempotencyKeys(500, 4, () => 0)
  for (const key of ['a', 'b', 'c', 'd', 'e']) t.ok(keys.claim(key))
  t.equal(keys.size, 4)
  t.ok(keys.claim('a'))
  t.notOk(keys.claim('e'))
})
