import t from 'tap'
import { histogram } from './testing.ts'

const h = histogram({
  schema: 1,
  sum: -3e21,
  count: 1234567,
  zeroThreshold: 0.75,
  zeroCount: 2,
  positive: { 0: 1, 1: 0, 4: 3.5 },
  negative: { '-1': 4, 2: 1e-7 },
})

t.test('as the HTTP API answers', async (t) => {
  t.same(JSON.parse(h.toJsonText()), {
    count: '1234567',
    sum: '-3e+21',
    buckets: [
      [1, '-2', '-1.414213562373095', '1e-07'],
      [1, '-0.7071067811865475', '-0.75', '4'],
      [3, '-0.75', '0.75', '2'],
      [0, '0.75', '1', '1'],
      [0, '2.82842712474619', '4', '3.5'],
    ],
  })
  const nothing = histogram({ sum: Number.NaN, count: Number.POSITIVE_INFINITY })
  t.equal(nothing.toJsonText(), '{"count":"+Inf","sum":"NaN"}')
  t.same(JSON.parse(histogram({ bounds: [0, 1], positive: { 0: 1, 1: 2, 2: 3 } }).toJsonText()).buckets, [
    [3, '-Inf', '0', '1'],
    [0, '0', '1', '2'],
    [0, '1', '+Inf', '3'],
  ])
})

t.test('as a label value', async (t) => {
  t.equal(
    `${h}`,
    '{count:1.234567e+06, sum:-3e+21, [-2,-1.414213562373095):1e-07, [-0.7071067811865475,-0.5):4, [-0.75,0.75]:2, (0.7071067811865475,1]:1, (2.82842712474619,4]:3.5}',
  )
  t.equal(`${histogram({})}`, '{count:0, sum:0}')
})
