import t, { type Test } from 'tap'
import { ADD_COLLISION, ADD_INCOMPATIBLE, ADD_RECONCILED, type FloatHistogram } from './float-histogram.ts'
import { bucketsOf, histogram, type Parts } from './testing.ts'

/** What the methods must leave of the histograms they are given. */
function untouched(t: Test, given: FloatHistogram[], body: () => void): void {
  const before = given.map(String)
  body()
  t.same(given.map(String), before, 'operands stay as they were')
}

const a = (): FloatHistogram => histogram({ schema: 1, sum: 10, zeroThreshold: 0.25, zeroCount: 2, positive: { 0: 1, 1: 0, 4: 3 }, negative: { 1: 5 } })

t.test('adding and subtracting in the same buckets, and in others', async (t) => {
  const b = histogram({ schema: 1, sum: 1, zeroThreshold: 0.25, zeroCount: 1, positive: { '-2': 7, 1: 2, 4: 1, 9: 4 } })
  untouched(t, [b], () => {
    const sum = a()
    t.equal(sum.add(b), 0)
    t.same(bucketsOf(sum.positive), { '-2': 7, 0: 1, 1: 2, 4: 4, 9: 4 })
    t.same(bucketsOf(sum.negative), { 1: 5 })
    t.match(sum, { count: 26, sum: 11, zeroCount: 3 })
    t.equal(sum.sub(b), 0)
    t.ok(sum.compact().equals(a().compact()), 'and back')
  })
})

t.test('copies share nothing that changes', async (t) => {
  const h = a()
  const copy = h.copy()
  t.ok(copy.equals(h))
  copy.mul(2).add(histogram({ schema: 1, zeroThreshold: 0.25, positive: { 3: 1 } }))
  t.ok(h.equals(a()))
  t.same(bucketsOf(copy.positive), { 0: 2, 1: 0, 3: 1, 4: 6 })
})

t.test('the coarser schema of two', async (t) => {
  const fine = histogram({ schema: 2, positive: { 1: 1, 2: 2, 3: 4, 5: 8 }, negative: { 4: 1 } })
  const coarse = histogram({ schema: 1, positive: { 2: 10 } })
  untouched(t, [fine, coarse], () => {
    for (const sum of [fine.copy(), coarse.copy()]) {
      sum.add(sum.schema === 2 ? coarse : fine)
      t.match(sum, { schema: 1, count: 26 })
      t.same(bucketsOf(sum.positive), { 1: 3, 2: 14, 3: 8 })
      t.same(bucketsOf(sum.negative), { 2: 1 })
    }
  })
  t.same(bucketsOf(fine.copy().reduceResolution(0).positive), { 1: 7, 2: 8 })
})

t.test('the wider zero bucket of two', async (t) => {
  const narrow = histogram({ zeroThreshold: 0.25, zeroCount: 1, positive: { '-1': 2, 0: 4, 1: 8 }, negative: { '-1': 16, 3: 32 } })
  const wide = histogram({ zeroThreshold: 0.5, zeroCount: 100 })
  untouched(t, [narrow, wide], () => {
    for (const sum of [narrow.copy(), wide.copy()]) {
      sum.add(sum.zeroThreshold === 0.25 ? wide : narrow)
      t.match(sum, { zeroThreshold: 0.5, zeroCount: 119, count: 163 })
      t.same(bucketsOf(sum.positive), { 0: 4, 1: 8 })
      t.same(bucketsOf(sum.negative), { 3: 32 })
    }
  })
  const within = narrow.copy()
  within.add(histogram({ zeroThreshold: 0.75, zeroCount: 1 }))
  t.match(within, { zeroThreshold: 1, zeroCount: 24 }, 'a threshold within a populated bucket moves to its end')
  const negative = histogram({ zeroThreshold: 0, negative: { 2: 1 }, positive: { 0: 1, 1: 1, 2: 1, 3: 1 } })
  negative.add(histogram({ zeroThreshold: 3, zeroCount: 0 }))
  t.match(negative, { zeroThreshold: 4, zeroCount: 4 })
  t.same(bucketsOf(negative.positive), { 3: 1 })
})

t.test('custom bounds that differ meet in those of both', async (t) => {
  const left = histogram({ bounds: [1, 2, 5], positive: { 0: 1, 1: 2, 2: 4, 3: 8 } })
  const right = histogram({ bounds: [2, 3, 5], positive: { 0: 10, 2: 40 } })
  untouched(t, [left, right], () => {
    const sum = left.copy()
    t.equal(sum.add(right), ADD_RECONCILED)
    t.same([...sum.customBounds], [2, 5])
    t.same(bucketsOf(sum.positive), { 0: 13, 1: 44, 2: 8 })
    const same = left.copy()
    t.equal(same.add(left), 0)
    t.same(bucketsOf(same.positive), { 0: 2, 1: 4, 2: 8, 3: 16 })
    const kahan = left.copy()
    const lost = kahan.compensation()
    t.equal(kahan.kahanAdd(right, lost), ADD_RECONCILED)
    kahan.add(lost)
    t.ok(kahan.equals(sum))
  })
  t.equal(left.copy().add(a()), ADD_INCOMPATIBLE)
  t.equal(a().kahanAdd(left, a().compensation()), ADD_INCOMPATIBLE)
})

t.test('counter reset hints', async (t) => {
  const cases = [
    ['reset', 'reset', 'reset', 0],
    ['gauge', 'reset', 'gauge', 0],
    ['not_reset', 'gauge', 'gauge', 0],
    ['unknown', 'reset', 'unknown', 0],
    ['not_reset', 'unknown', 'unknown', 0],
    ['reset', 'not_reset', 'unknown', ADD_COLLISION],
  ] as const
  for (const [own, theirs, wanted, met] of cases) {
    for (const method of ['add', 'sub'] as const) {
      const h = histogram({ hint: own })
      t.equal(h[method](histogram({ hint: theirs })), met, `${own} and ${theirs}`)
      t.equal(h.counterReset, wanted)
    }
  }
  t.equal(histogram({}).mul(-1).counterReset, 'gauge')
  t.equal(histogram({}).div(-1).counterReset, 'gauge')
})

t.test('what rounding loses is kept', async (t) => {
  const big: Parts = { schema: 1, zeroCount: 1e16, positive: { 1: 1e16 }, negative: { 3: 1e16 } }
  const one: Parts = { schema: 2, zeroCount: 1, positive: { 1: 0.5, 2: 0.5, 3: 1 }, negative: { 6: 1 } }
  const h = histogram(big)
  const lost = h.compensation()
  for (let i = 0; i < 10; i++) h.kahanAdd(histogram(one), lost)
  h.add(lost)
  t.match(h, { zeroCount: 1e16 + 10, count: 3e16 + 40 })
  t.same(bucketsOf(h.positive), { 1: 1e16 + 10, 2: 10 })
  t.same(bucketsOf(h.negative), { 3: 1e16 + 10 })
  const reduced = histogram({ schema: 3, positive: { 1: 1e16, 2: 1 } })
  const of = reduced.compensation()
  reduced.kahanAdd(histogram({ schema: 2, positive: { 1: 1 } }), of)
  reduced.add(of)
  t.same(bucketsOf(reduced.positive), { 1: 1e16 + 2 }, 'also when own buckets are merged')
})

t.test('scaling', async (t) => {
  t.match(a().mul(3), { count: 33, sum: 30, zeroCount: 6 })
  t.same(bucketsOf(a().div(2).positive), { 0: 0.5, 1: 0, 4: 1.5 })
  const none = a().div(0)
  t.match(none, { count: Number.POSITIVE_INFINITY, sum: Number.POSITIVE_INFINITY, zeroCount: Number.POSITIVE_INFINITY })
  t.same([bucketsOf(none.positive), bucketsOf(none.negative)], [{}, {}])
  t.ok(none.hasOverflow())
  t.notOk(a().hasOverflow())
  t.ok(histogram({ count: 1, positive: { 1: Number.POSITIVE_INFINITY } }).hasOverflow())
})

t.test('equality is of the data, empty buckets included', async (t) => {
  t.ok(a().equals(a()))
  t.notOk(a().equals(a().compact()))
  for (const change of [
    { sum: 11 },
    { count: 12 },
    { zeroCount: 3 },
    { zeroThreshold: 0.5 },
    { schema: 0 },
    { positive: { 0: 1, 1: 0, 5: 3 } },
    { negative: { 1: 6 } },
  ]) {
    const base: Parts = { schema: 1, count: 11, sum: 10, zeroThreshold: 0.25, zeroCount: 2, positive: { 0: 1, 1: 0, 4: 3 }, negative: { 1: 5 } }
    t.notOk(histogram({ ...base, ...change }).equals(a()), JSON.stringify(change))
  }
  t.ok(histogram({ sum: Number.NaN }).equals(histogram({ sum: Number.NaN })))
  t.notOk(histogram({ bounds: [1] }).equals(histogram({ bounds: [2] })))
})

t.test('counter resets', async (t) => {
  const before = histogram({ schema: 1, zeroThreshold: 0.25, zeroCount: 2, positive: { 0: 1, 1: 0, 4: 3 } })
  const after = (parts: Parts): FloatHistogram => histogram({ schema: 1, count: 100, zeroThreshold: 0.25, zeroCount: 2, positive: { 0: 1, 4: 3 }, ...parts })
  t.notOk(after({}).detectReset(before))
  t.ok(after({ hint: 'reset' }).detectReset(before), 'as the hint says')
  t.notOk(after({ hint: 'not_reset', count: 1 }).detectReset(before))
  t.ok(after({ count: 1 }).detectReset(before), 'the count fell')
  t.ok(after({ zeroCount: 1 }).detectReset(before))
  t.ok(after({ positive: { 0: 1, 4: 2 } }).detectReset(before))
  t.ok(after({ positive: { 0: 1 } }).detectReset(before), 'a populated bucket is gone')
  t.ok(after({ positive: {} }).detectReset(before))
  t.ok(after({ schema: 2 }).detectReset(before), 'a finer schema')
  t.ok(after({ zeroThreshold: 0.1 }).detectReset(before))
  t.notOk(after({ schema: 0, positive: { 0: 1, 2: 3 } }).detectReset(before), 'coarser, with all there was')
  t.ok(after({ schema: 0, positive: { 0: 1, 2: 2 } }).detectReset(before))
  t.notOk(after({ zeroThreshold: 1, zeroCount: 3, positive: { 4: 3 } }).detectReset(before), 'a wider zero bucket')
  t.ok(after({ zeroThreshold: 0.9, zeroCount: 3, positive: { 4: 3 } }).detectReset(before), 'that ends within a populated bucket')
  const below = histogram({ schema: 1, zeroThreshold: 0.25, zeroCount: 2, positive: { 0: 1 }, negative: { 1: 2 } })
  t.notOk(after({ positive: { 0: 5 }, negative: { 1: 2 } }).detectReset(below))
  t.ok(after({ positive: { 0: 5 }, negative: { 1: 1 } }).detectReset(below), 'a negative bucket')
  const custom = histogram({ bounds: [1, 2, 5], positive: { 0: 1, 1: 2, 3: 1 } })
  t.notOk(histogram({ bounds: [2, 5], positive: { 0: 3, 2: 1 } }).detectReset(custom))
  t.ok(histogram({ bounds: [2, 5], positive: { 0: 2, 2: 9 } }).detectReset(custom))
  t.ok(histogram({ bounds: [1, 2, 5], count: 9, positive: { 0: 1, 1: 1, 3: 7 } }).detectReset(custom))
  t.ok(histogram({ bounds: [1], count: 100 }).detectReset(before))
})

t.test('cutting', async (t) => {
  const h = (): FloatHistogram => histogram({ zeroThreshold: 0.5, zeroCount: 4, positive: { 1: 8, 2: 16 }, negative: { 1: 2 } })
  const below = h().trim(2, true)
  t.same([bucketsOf(below.positive), bucketsOf(below.negative), below.zeroCount, below.count], [{ 1: 8 }, { 1: 2 }, 4, 14])
  t.equal(below.sum, 8 * Math.SQRT2 - 2 * Math.SQRT2)
  const above = h().trim(Math.SQRT2, false)
  t.same([bucketsOf(above.negative), above.zeroCount], [{}, 0])
  t.ok(Math.abs(bucketsOf(above.positive)[1] - 4) < 1e-12, 'half of a bucket on a logarithmic scale')
  t.equal(h().trim(0.25, true).zeroCount, 3, 'the zero bucket is linear')
  t.ok(h().trim(100, true).equals(h()), 'nothing was cut: count and sum stay')
  const custom = (): FloatHistogram => histogram({ bounds: [2, 4], positive: { 0: 10, 1: 10, 2: 10 } })
  t.same(bucketsOf(custom().trim(3, true).positive), { 0: 10, 1: 5 })
  t.same(bucketsOf(custom().trim(1, true).positive), { 0: 5 }, 'the first bucket begins at 0')
  t.match(custom().trim(1, false), { count: 25, sum: 5 * 1.5 + 10 * 3 + 10 * 4 })
  t.same(bucketsOf(custom().trim(7, false).positive), { 2: 10 }, 'all above the last bound is taken to be above the cut')
  t.equal(histogram({ zeroCount: 6, negative: { 1: 1 } }).trim(0, false).count, 6)
})
