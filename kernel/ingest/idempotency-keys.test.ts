import t from 'tap'
import { IdempotencyKeys } from './idempotency-keys.ts'

const keyOf = (given: string, namespace = 'a') => IdempotencyKeys.of({ namespace, principal: 'p' }, given)

t.test('a key is free again when its window has passed, not before', async (t) => {
  let now = 1000
  const keys = new IdempotencyKeys(500, 10, () => now)
  t.ok(keys.claim(keyOf('a')))
  now += 499
  t.notOk(keys.claim(keyOf('a')))
  now += 1
  t.ok(keys.claim(keyOf('a')))
  t.equal(keys.size, 1)
})

t.test('a refused claim does not lengthen the window', async (t) => {
  let now = 0
  const keys = new IdempotencyKeys(500, 10, () => now)
  keys.claim(keyOf('a'))
  now = 400
  keys.claim(keyOf('a'))
  now = 500
  t.ok(keys.claim(keyOf('a')))
})

t.test('the oldest goes when there are too many', async (t) => {
  const keys = new IdempotencyKeys(500, 8, () => 0)
  for (let i = 0; i < 9; i++) t.ok(keys.claim(keyOf(`k${i}`)))
  t.equal(keys.size, 8)
  t.notOk(keys.claim(keyOf('k1')), 'kept')
  t.ok(keys.claim(keyOf('k0')), 'evicted')
})

t.test('what has expired goes a little with each claim, and counts no more meanwhile', async (t) => {
  let now = 0
  const keys = new IdempotencyKeys(500, 100_000, () => now)
  for (const namespace of ['a', 'b']) for (let i = 0; i < 20_000; i++) keys.claim(keyOf(`${i}`, namespace))
  now = 500
  t.ok(keys.claim(keyOf('19999')), 'one that is still there')
  for (let before = keys.size, i = 0; keys.size > 100 && i < 40_000; i++, before = keys.size) {
    keys.claim(keyOf('once'))
    if (before - keys.size > 100) t.fail(`${before - keys.size} keys went with one claim`)
  }
  t.ok(keys.size <= 100, 'of all namespaces')
  t.notOk(keys.claim(keyOf('19999')))
})

t.test('long keys are told apart, and released', async (t) => {
  const keys = new IdempotencyKeys(500, 10, () => 0)
  const long = 'k'.repeat(250)
  t.ok(keys.claim(keyOf(`${long}1`)))
  t.ok(keys.claim(keyOf(`${long}2`)))
  t.notOk(keys.claim(keyOf(`${long}1`)))
  keys.release(keyOf(`${long}1`))
  t.ok(keys.claim(keyOf(`${long}1`)))
  t.equal(keys.size, 2)
})

t.test('callers do not meet, and a namespace is forgotten as a whole', async (t) => {
  const keys = new IdempotencyKeys(500, 10, () => 0)
  t.ok(keys.claim(IdempotencyKeys.of({ namespace: 'a', principal: 'p' }, 'k')))
  t.ok(keys.claim(IdempotencyKeys.of({ namespace: 'a', principal: 'q' }, 'k')))
  t.ok(keys.claim(IdempotencyKeys.of({ namespace: 'ab', principal: 'p' }, 'k')))
  keys.forget('a')
  t.equal(keys.size, 1)
  t.ok(keys.claim(IdempotencyKeys.of({ namespace: 'a', principal: 'q' }, 'k')))
  t.notOk(keys.claim(IdempotencyKeys.of({ namespace: 'ab', principal: 'p' }, 'k')))
})

t.test('no namespace takes the room of others, whoever comes first', async (t) => {
  for (const order of ['first', 'last']) {
    const keys = new IdempotencyKeys(500, 100, () => 0)
    const few = () => {
      for (let i = 0; i < 20; i++) t.ok(keys.claim(keyOf(`${i}`, 'few')))
    }
    if (order === 'first') few()
    for (let i = 0; i < 1000; i++) t.ok(keys.claim(keyOf(`${i}`, 'many')))
    if (order === 'last') few()
    for (let i = 0; i < 1000; i++) keys.claim(keyOf(`more ${i}`, 'many'))
    for (let i = 0; i < 20; i++) t.notOk(keys.claim(keyOf(`${i}`, 'few')), `${order} ${i}`)
    t.ok(keys.size <= 100 && keys.size > 70)
    t.notOk(keys.claim(keyOf('more 999', 'many')), 'its newest')
  }
})

t.test('what has expired gives way before anything else', async (t) => {
  let now = 0
  const keys = new IdempotencyKeys(500, 10, () => now)
  for (let i = 0; i < 8; i++) keys.claim(keyOf(`${i}`, 'old'))
  now = 400
  for (const key of ['x', 'y']) keys.claim(keyOf(key, 'new'))
  now = 500
  t.ok(keys.claim(keyOf('z', 'new')))
  t.equal(keys.size, 3)
  for (const key of ['x', 'y', 'z']) t.notOk(keys.claim(keyOf(key, 'new')), key)
})

t.test('a namespace that has its share gives way to itself, however much another has', async (t) => {
  const keys = new IdempotencyKeys(1000, 100, () => 0)
  const key = (namespace: string, n: number) => IdempotencyKeys.of({ namespace, principal: 'p' }, String(n))
  for (const [namespace, count] of [
    ['most', 50],
    ['some', 40],
    ['few', 10],
  ] as const)
    for (let n = 0; n < count; n++) keys.claim(key(namespace, n))
  t.ok(keys.claim(key('some', 40)))
  t.notOk(Array.from({ length: 50 }, (_, n) => keys.claim(key('most', n))).some(Boolean), 'none of the others is free')
  t.notOk(Array.from({ length: 10 }, (_, n) => keys.claim(key('few', n))).some(Boolean))
  t.ok(keys.claim(key('some', 0)), 'its oldest is')
})
