import t from 'tap'
import { boundOf, coarserIndex, exponentialBound } from './bounds.ts'

const NONE = new Float64Array(0)

t.test('exponential bounds', async (t) => {
  t.same(
    [-1, 0, 1, 2].map((i) => exponentialBound(0, i)),
    [0.5, 1, 2, 4],
  )
  t.same(
    [-1, 0, 1, 2].map((i) => exponentialBound(-2, i)),
    [1 / 16, 1, 16, 256],
  )
  t.same([exponentialBound(1, 1), exponentialBound(8, 255)].map(String), ['1.414213562373095', '1.9945921121709396'], 'the digits that Prometheus has')
  for (let schema = 1; schema <= 8; schema++) {
    for (let i = -300; i < 300; i++) {
      const exact = 2 ** (i / 2 ** schema)
      if (Math.abs(exponentialBound(schema, i) - exact) > exact * 1e-15) t.fail(`schema ${schema}, bucket ${i}`)
      if (exponentialBound(schema, i * 2) !== exponentialBound(schema - 1, i)) t.fail(`schemas ${schema} and ${schema - 1} share a bound`)
    }
  }
})

t.test('at the ends of what doubles hold', async (t) => {
  for (const [schema, last] of [
    [0, 1024],
    [8, 1024 * 256],
    [-4, 64],
  ]) {
    t.equal(exponentialBound(schema, last), Number.MAX_VALUE)
    t.equal(exponentialBound(schema, last + 1), Number.POSITIVE_INFINITY, 'where infinite observations are')
  }
  t.equal(exponentialBound(0, -1074), Number.MIN_VALUE)
  t.equal(exponentialBound(0, -1075), 0)
})

t.test('custom bounds', async (t) => {
  const bounds = Float64Array.of(1, 5)
  t.same(
    [-1, 0, 1, 2].map((i) => boundOf(-53, i, bounds)),
    [Number.NEGATIVE_INFINITY, 1, 5, Number.POSITIVE_INFINITY],
  )
  t.equal(boundOf(0, 3, NONE), 8)
})

t.test('a coarser schema', async (t) => {
  t.same(
    [-3, -2, -1, 0, 1, 2, 3, 4].map((i) => coarserIndex(i, 1)),
    [-1, -1, 0, 0, 1, 1, 2, 2],
  )
  for (const i of [-9, -8, 0, 1, 7, 8, 9])
    t.ok(exponentialBound(3, i) <= exponentialBound(0, coarserIndex(i, 3)) && exponentialBound(3, i - 1) >= exponentialBound(0, coarserIndex(i, 3) - 1))
})
