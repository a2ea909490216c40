import type { NanNote } from 'svcdb/lib/histogram'
import t from 'tap'
import { histogram } from './testing.ts'

const near = (a: number, b: number): boolean => Math.abs(a - b) <= 1e-12 * Math.max(1, Math.abs(b))
const { POSITIVE_INFINITY: INF, NEGATIVE_INFINITY: MINUS_INF } = Number

t.test('within exponential buckets the scale is logarithmic', async (t) => {
  const h = histogram({ positive: { 1: 10, 2: 10 } })
  for (const [q, value] of [
    [0, 1],
    [0.25, Math.SQRT2],
    [0.5, 2],
    [0.75, 2 * Math.SQRT2],
    [1, 4],
  ]) {
    t.ok(near(h.quantile(q), value), `${q}`)
    t.ok(near(h.fraction(MINUS_INF, value), q), `${q} is the part below`)
  }
  const negative = histogram({ negative: { 1: 10, 2: 10 } })
  t.ok(near(negative.quantile(0.25), -2 * Math.SQRT2))
  t.ok(near(negative.fraction(MINUS_INF, -Math.SQRT2), 0.75))
})

t.test('the zero bucket is linear, and has the sign of all other buckets', async (t) => {
  const both = histogram({ zeroThreshold: 1, zeroCount: 4, positive: { 1: 1 }, negative: { 1: 1 } })
  t.equal(both.quantile(0.5), 0)
  t.ok(near(both.quantile(2 / 6), -0.5))
  const positive = histogram({ zeroThreshold: 1, zeroCount: 4, positive: { 1: 4 } })
  t.ok(near(positive.quantile(0.25), 0.5))
  t.ok(near(positive.fraction(0, 0.5), 0.25))
  const negative = histogram({ zeroThreshold: 1, zeroCount: 4, negative: { 1: 4 } })
  t.ok(near(negative.quantile(0.75), -0.5))
  t.ok(near(negative.fraction(-0.5, 0), 0.25))
})

t.test('custom buckets are linear', async (t) => {
  const h = histogram({ bounds: [2, 4], positive: { 0: 10, 1: 10, 2: 20 } })
  t.equal(h.quantile(0.125), 1, 'the first begins at 0')
  t.equal(h.quantile(0.375), 3)
  t.equal(h.quantile(0.9), 4, 'nothing is known above the last bound')
  t.equal(h.fraction(1, 3), 0.25)
  t.equal(histogram({ bounds: [-2, 4], positive: { 0: 10, 1: 10 } }).quantile(0.1), -2)
  t.equal(histogram({ bounds: [-2, 4], positive: { 0: 10, 1: 10 } }).fraction(MINUS_INF, -3), 0.5, 'nor within the first')
})

t.test('special arguments', async (t) => {
  const h = histogram({ positive: { 1: 1 } })
  t.same([h.quantile(-0.1), h.quantile(1.1), h.quantile(Number.NaN)], [MINUS_INF, INF, Number.NaN])
  t.same([h.fraction(1, 1), h.fraction(2, 1), h.fraction(Number.NaN, 1), h.fraction(MINUS_INF, INF)], [0, 0, Number.NaN, 1])
  const empty = histogram({})
  t.same([empty.quantile(0.5), empty.quantile(-1), empty.fraction(0, 1)], [Number.NaN, MINUS_INF, Number.NaN])
})

t.test('a sum that is not known, where every observation is in a bucket, changes no quantile', async (t) => {
  const buckets = { bounds: [2, 4, 8], positive: { 0: 10, 1: 10, 2: 20 } }
  for (const q of [0.1, 0.375, 0.5, 0.75, 1]) {
    const note: NanNote = { nan: '' }
    t.equal(histogram({ ...buckets, sum: Number.NaN }).quantile(q, note), histogram(buckets).quantile(q), `${q}`)
    t.equal(note.nan, '')
  }
})

t.test('observations of NaN', async (t) => {
  const note: NanNote = { nan: '' }
  const h = histogram({ count: 15, sum: Number.NaN, positive: { 0: 12 } })
  t.same(h.quantile(0.9, note), Number.NaN)
  t.equal(note.nan, 'result')
  note.nan = ''
  t.ok(near(h.quantile(0.4, note), Math.SQRT1_2))
  t.equal(note.nan, 'skew')
  note.nan = ''
  // Of {1.5, 2.5, 3, 5, NaN} rank 2 lies in the second bucket, not in the last one.
  const several = histogram({ count: 5, sum: Number.NaN, positive: { 1: 1, 2: 2, 3: 1 } })
  t.ok(near(several.quantile(0.4, note), 2 ** 1.5))
  t.equal(note.nan, 'skew')
  note.nan = ''
  t.equal(h.fraction(MINUS_INF, INF, note), 0.8)
  t.equal(note.nan, 'fraction')
  note.nan = ''
  histogram({ sum: Number.NaN, positive: { 0: 12 } }).quantile(0.4, note)
  t.equal(note.nan, '', 'infinite observations of both signs make such a sum too')
})

t.test('mean and variance', async (t) => {
  t.equal(histogram({ sum: 10, positive: { 1: 4 } }).mean(), 2.5)
  const h = histogram({ sum: 0, zeroThreshold: 0.5, zeroCount: 2, positive: { 1: 1 }, negative: { 1: 1 } })
  t.ok(near(h.variance(), (2 + 2) / 4), 'the middle of a bucket is geometric')
  const custom = histogram({ sum: 16, bounds: [2, 4, 8], positive: { 1: 1, 2: 2 }, count: 4 })
  t.equal(custom.variance(), (1 + 4 * 2) / 4)
  t.same(histogram({}).variance(), Number.NaN)
})
