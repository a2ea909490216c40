import t from 'tap'
import { histogram } from '../histogram/testing.ts'
import { Labels } from '../labels.ts'
import { load, MemorySource, parseLabels } from '../testing/memory-source.ts'
import { at, over } from '../testing/run-query.ts'
import { Annotations } from './annotations.ts'
import { rangeOf } from './parameter.ts'
import { sampleOffset, xxh64 } from './ratio.ts'

const MINUTE = 60_000
const HOSTS = `
  x{host="a",region="r"} 1 2 _
  x{host="b",region="r"} 3 _ _
  x{host="c",region="s"} 5 6 7
  x{host="d"}            8 8 _
`

t.test('groups by labels, without labels, and of all series', async (t) => {
  const source = load(HOSTS, MINUTE)
  const options = { lookback: 1 }
  t.same(await over(0, 2, 'sum by (region) (x)', source, options), ['{region="r"} 4 2 _', '{region="s"} 5 6 7', '{} 8 8 _'])
  t.same(await over(0, 2, 'sum without (host) (x)', source, options), ['{region="r"} 4 2 _', '{region="s"} 5 6 7', '{} 8 8 _'])
  t.same(await over(0, 2, 'sum(x)', source, options), ['{} 17 16 7'])
  t.same(await over(0, 2, 'sum by (__name__) (x)', source, options), ['x 17 16 7'])
  t.same(await over(0, 2, 'sum by (none) (x)', source, options), ['{} 17 16 7'])
})

t.test('what is kept of a group', async (t) => {
  const source = load('x{i="1"} 2 NaN\nx{i="2"} 4 5\nx{i="3"} 9 7', MINUTE)
  for (const [op, ...expected] of [
    ['avg', 5, NaN],
    ['min', 2, 5],
    ['max', 9, 7],
    ['count', 3, 3],
    ['group', 1, 1],
    ['stdvar', 26 / 3, NaN],
    ['stddev', Math.sqrt(26 / 3), NaN],
  ] as const) {
    t.same(await over(0, 1, `${op}(x)`, source), [`{} ${expected.join(' ')}`], op)
  }
})

t.test('sums and means lose nothing to rounding, nor to a sum too large', async (t) => {
  const source = load('x{i="1"} 1e100\nx{i="2"} 1\nx{i="3"} -1e100\ny{i="1"} 1.5e308\ny{i="2"} 1.5e308\nz{i="1"} Inf\nz{i="2"} 3', MINUTE)
  t.same(await at(0, 'sum(x)', source), ['{} 1'])
  t.same(await at(0, 'avg(x)', source), [`{} ${1 / 3}`])
  t.same(await at(0, 'sum(y)', source), ['{} Infinity'])
  t.same(await at(0, 'avg(y)', source), ['{} 1.5e+308'])
  t.same(await at(0, 'sum(z) + avg(z)', source), ['{} Infinity'])
})

t.test('topk and bottomk choose at every step', async (t) => {
  const source = load('x{i="1",g="a"} 1 9 5\nx{i="2",g="a"} 2 2 NaN\nx{i="3",g="b"} 3 3 3\nx{i="4",g="b"} 4 0 2.5', MINUTE)
  t.same(await at(0, 'topk(2, x)', source), ['x{g="b",i="4"} 4', 'x{g="b",i="3"} 3'], 'the largest first')
  t.same(await at(0, 'bottomk(2, x)', source), ['x{g="a",i="1"} 1', 'x{g="a",i="2"} 2'])
  t.same(await at(2, 'topk(4, x)', source), ['x{g="a",i="1"} 5', 'x{g="b",i="3"} 3', 'x{g="b",i="4"} 2.5', 'x{g="a",i="2"} NaN'], 'NaN last')
  t.same(await at(2, 'bottomk(1, x{g="a"})', source), ['x{g="a",i="1"} 5'], 'and only where there is nothing else')
  t.same(await over(0, 2, 'topk(1, x)', source), ['x{g="a",i="1"} _ 9 5', 'x{g="b",i="4"} 4 _ _'])
  t.same(await over(0, 2, 'topk by (g) (1, x)', source), ['x{g="a",i="1"} _ 9 5', 'x{g="a",i="2"} 2 _ _', 'x{g="b",i="3"} _ 3 3', 'x{g="b",i="4"} 4 _ _'])
  t.same(await over(0, 1, 'topk(scalar(x{i="1"}), x{i!="1"})', source), ['x{g="a",i="2"} _ 2', 'x{g="b",i="3"} _ 3', 'x{g="b",i="4"} 4 0'])
  t.same(await at(0, 'topk(0, x)', source), [])
  await t.rejects(at(0, 'topk(NaN, x)', source), { message: 'Parameter value is NaN' })
  await t.rejects(at(0, 'topk(1e30, x)', source), { message: 'Scalar value 1e+30 overflows int64' })
})

t.test('quantile', async (t) => {
  const source = load('x{i="1"} 1 NaN\nx{i="2"} 2 2\nx{i="3"} 4 4', MINUTE)
  t.same(await over(0, 1, 'quantile(0.5, x)', source), ['{} 2 2'])
  t.same(await at(0, 'quantile(0.75, x)', source), ['{} 3'])
  t.same(await at(1, 'quantile(0.1, x)', source), ['{} NaN'], 'NaN is the smallest')
  const annotations = new Annotations()
  t.same(await at(0, 'quantile(2, x)', source, { annotations }), ['{} Infinity'])
  t.same(annotations.texts('quantile(2, x)', 0).warnings, ['PromQL warning: quantile value should be between 0 and 1, got 2 (1:10)'])
})

t.test('a quantile that falls on a sample is that sample, whatever lies beside it', async (t) => {
  const source = load('x{i="1"} 1 -Inf\nx{i="2"} 2 2\nx{i="3"} Inf Inf', MINUTE)
  t.same(await over(0, 1, 'quantile(0.5, x)', source), ['{} 2 2'])
  t.same(await over(0, 1, 'quantile(0, x)', source), ['{} 1 -Infinity'])
  t.same(await over(0, 1, 'quantile(1, x)', source), ['{} Infinity Infinity'])
  t.same(await at(0, 'quantile(0.75, x)', source), ['{} Infinity'], 'between two it is weighed')
})

t.test('the parameter over all steps', async (t) => {
  t.same(rangeOf(Float64Array.of(3, 1, 2)), { high: 3, low: 1, anyNaN: false })
  t.same(rangeOf(Float64Array.of(3, NaN, 2)), { high: NaN, low: NaN, anyNaN: true })
  t.same(rangeOf(Float64Array.of(NaN, Infinity, 2)), { high: Infinity, low: NaN, anyNaN: true })
})

t.test('count_values', async (t) => {
  const source = load('x{i="1",v="old"} 1 1e9\nx{i="2",v="old"} 1 0.000001\nx{i="3",v="old"} 2 -Inf', MINUTE)
  t.same(await over(0, 1, 'count_values("v", x)', source), ['{v="-Inf"} _ 1', '{v="0.000001"} _ 1', '{v="1"} 2 _', '{v="1000000000"} _ 1', '{v="2"} 1 _'])
  t.same((await at(0, 'count_values by (i) ("v", x)', source)).sort(), ['{i="1",v="1"} 1', '{i="2",v="1"} 1', '{i="3",v="2"} 1'])
  t.same((await at(0, 'count_values without (i) ("n", x)', source)).sort(), ['{n="1",v="old"} 2', '{n="2",v="old"} 1'])
  await t.rejects(at(0, 'count_values("", x)', source), { message: 'invalid label name ""' })
})

t.test('limitk takes the first of a group, limit_ratio what its hash says', async (t) => {
  const series = Array.from({ length: 40 }, (_, i) => `x{i="${i}"} ${i} ${i}`).join('\n')
  const source = load(series, MINUTE)
  t.same(await at(0, 'limitk(2, x)', source), ['x{i="0"} 0', 'x{i="1"} 1'])
  const part = await at(0, 'limit_ratio(0.3, x)', source)
  const rest = await at(0, 'limit_ratio(-0.7, x)', source)
  t.equal(part.length + rest.length, 40)
  t.same([...part, ...rest].sort(), await over(0, 0, 'x', source), 'both together are all')
  t.same(await over(0, 1, 'count(limit_ratio(0.3, x))', source), [`{} ${part.length} ${part.length}`])
  const annotations = new Annotations()
  t.same((await at(0, 'limit_ratio(1.5, x)', source, { annotations })).length, 40)
  t.same(annotations.texts('limit_ratio(1.5, x)', 0).warnings, ['PromQL warning: ratio value should be between -1 and 1, got 1.5, capping to 1 (1:13)'])
})

t.test('the hash of limit_ratio is XXH64', async (t) => {
  t.equal(xxh64(Buffer.from('')), 0xef46db3751d8e999n)
  t.equal(xxh64(Buffer.from('a')), 0xd24ec4f1a98c6e5bn)
  t.equal(xxh64(Buffer.from('as')), 0x1c330fb2d66be179n)
  t.equal(xxh64(Buffer.from('asdf')), 0x415872f599cea71en)
  t.equal(xxh64(Buffer.from('Call me Ishmael. Some years ago--never mind how long precisely-')), 0x02a2e85470d6fd96n)
  const offset = sampleOffset(Labels.of({ __name__: 'x', long: 'y'.repeat(300) }))
  t.ok(offset >= 0 && offset < 1)
})

t.test('histograms', async (t) => {
  const source = new MemorySource()
  const sample = (time: number, count: number, more = {}) => ({
    time,
    value: NaN,
    histogram: histogram({ count, sum: count, positive: { 1: count }, ...more }),
  })
  source.add(parseLabels('x{i="1"}'), [sample(0, 1), sample(MINUTE, 1)])
  source.add(parseLabels('x{i="2"}'), [sample(0, 3), { time: MINUTE, value: 5 }])
  const annotations = new Annotations()
  t.same(await at(0, 'histogram_count(sum(x))', source), ['{} 4'])
  t.same(await at(0, 'histogram_sum(avg(x))', source), ['{} 2'])
  t.same(await at(0, 'count(x)', source), ['{} 2'])
  t.same(await over(0, 1, 'histogram_count(sum(x))', source, { annotations }), ['{} 4 _'])
  t.same(annotations.texts('histogram_count(sum(x))', 0).warnings, ['PromQL warning: encountered a mix of histograms and floats for aggregation (1:21)'])
  const ignored = new Annotations()
  t.same(await at(1, 'max(x)', source, { annotations: ignored }), ['{} 5'])
  t.same(ignored.texts('max(x)', 0).infos, ['PromQL info: ignored histogram in max aggregation (1:5)'])
})
