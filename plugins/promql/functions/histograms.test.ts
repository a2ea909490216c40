import t, { type Test } from 'tap'
import type { FloatHistogram } from '../histogram/float-histogram.ts'
import { apply, argument, buckets, customBuckets, every10s, lines, overWindow, Recorder, type Sample, vector, type WindowOptions } from '../testing/calls.ts'

const gauge = (...counts: number[]): FloatHistogram => buckets(counts, { counterReset: 'gauge' })
const counts = (value: unknown): number[] => [...(value as FloatHistogram).positive.counts]
const closeTo = (t: Test, actual: number[], expected: number[], message?: string): void => {
  t.ok(actual.length === expected.length && actual.every((value, i) => Math.abs(value - expected[i]) < 1e-9), message ?? `${actual} is ${expected}`)
}

t.test('rate, increase and delta of native histograms', async (t) => {
  const samples: Sample[] = [
    [10, buckets([4, 2])],
    [20, buckets([6, 2])],
    [30, buckets([10, 4])],
  ]
  const options = { from: 10, to: 30 }
  closeTo(t, counts(overWindow('increase', samples, options)), [6, 2])
  closeTo(t, counts(overWindow('rate', samples, options)), [0.3, 0.1])
  const annotations = new Recorder()
  closeTo(t, counts(overWindow('delta', samples, { ...options, annotations })), [6, 2])
  t.same(annotations.texts, ['warning: this native histogram metric is not a gauge: "m" @20'])
  t.match(overWindow('increase', samples, options), { counterReset: 'gauge' })
  // 14 observations rose from 6: zero lies 15 s before the first sample, further than the 5 s to the boundary.
  closeTo(t, counts(overWindow('increase', samples, { from: 5, to: 30 })), [6 * 1.25, 2 * 1.25])
  // From zero on there is nothing before the first sample.
  closeTo(t, counts(overWindow('increase', every10s(buckets([0]), buckets([3]), buckets([6])), { from: -5, to: 20 })), [6])
})

t.test('resets add what the histogram had reached', async (t) => {
  const samples = every10s(buckets([4, 2]), buckets([6, 3]), buckets([1, 0]), buckets([2, 2]))
  closeTo(t, counts(overWindow('increase', samples)), [2 - 4 + 6, 2 - 2 + 3])
  const told = every10s(buckets([4]), buckets([5], { counterReset: 'reset' }))
  closeTo(t, counts(overWindow('increase', told)), [5], 'what the sample says counts')
  t.equal(overWindow('resets', told), 1)
})

t.test('gauges among counters and the other way round', async (t) => {
  const annotations = new Recorder()
  overWindow('rate', every10s(gauge(1), gauge(2)), { annotations })
  overWindow('irate', every10s(gauge(1), gauge(2)), { annotations })
  t.same(annotations.texts, ['warning: this native histogram metric is not a counter: "m" @20'])
  const silent = new Recorder()
  closeTo(t, counts(overWindow('delta', every10s(gauge(4, 9), gauge(2, 8)), { annotations: silent })), [-2, -1])
  closeTo(t, counts(overWindow('idelta', every10s(gauge(1, 1), gauge(4, 9), gauge(2, 8)), { annotations: silent })), [-2, -1])
  t.same(silent.texts, [])
})

t.test('exponential and custom buckets do not mix', async (t) => {
  const samples = every10s(customBuckets([1, 2], [1, 2]), buckets([3]), customBuckets([1, 2], [4, 5]))
  for (const fn of ['rate', 'sum_over_time', 'avg_over_time', 'idelta']) {
    const annotations = new Recorder()
    t.equal(overWindow(fn, samples, { annotations }), undefined, fn)
    const text = 'vector contains a mix of histograms with exponential and custom buckets schemas for metric name "m"'
    t.ok(annotations.texts.includes(`warning: ${text} @20`), fn)
  }
})

t.test('custom bounds that differ are reconciled', async (t) => {
  const samples = every10s(customBuckets([1, 2, 4], [1, 1, 1]), customBuckets([1, 4], [2, 3]))
  const told = (fn: string): string[] => {
    const annotations = new Recorder()
    overWindow(fn, samples, { annotations })
    return annotations.texts
  }
  t.same(told('increase'), ['info: mismatched custom buckets were reconciled during subtraction @20'])
  t.same(told('sum_over_time'), ['info: mismatched custom buckets were reconciled during aggregation @20'])
})

t.test('sums and means', async (t) => {
  const samples = every10s(buckets([1, 2]), buckets([3, 4]), buckets([5, 0]))
  closeTo(t, counts(overWindow('sum_over_time', samples)), [9, 6])
  closeTo(t, counts(overWindow('avg_over_time', samples)), [3, 2])
  const huge = every10s(buckets([1.5e308]), buckets([1.5e308]), buckets([1.5e308]))
  for (const [, value] of huge) (value as FloatHistogram).sum = 1
  t.equal(counts(overWindow('avg_over_time', huge))[0], 1.5e308, 'beyond what a sum could hold')
  const annotations = new Recorder()
  overWindow('sum_over_time', every10s(buckets([1], { counterReset: 'reset' }), buckets([2], { counterReset: 'not_reset' })), { annotations })
  t.same(annotations.texts, ['warning: conflicting counter resets during histogram aggregation @20'])
})

t.test('samples are not changed', async (t) => {
  const samples = every10s(buckets([4, 2]), buckets([6, 3]), buckets([1, 0]))
  const before = samples.map(([, value]) => counts(value))
  for (const fn of ['rate', 'delta', 'irate', 'sum_over_time', 'avg_over_time', 'last_over_time', 'first_over_time']) {
    const result = overWindow(fn, samples) as FloatHistogram
    result.mul(100)
  }
  t.same(
    samples.map(([, value]) => counts(value)),
    before,
  )
})

t.test('anchored and smoothed', async (t) => {
  const samples = every10s(buckets([2]), buckets([4]), buckets([1]), buckets([5]))
  const over = (fn: string, options: WindowOptions): number[] => counts(overWindow(fn, samples, options))
  closeTo(t, over('increase', { from: 5, to: 30, modifier: 'anchored' }), [5 - 2 + 4])
  closeTo(t, over('increase', { from: 5, to: 25, modifier: 'smoothed' }), [3 - 3 + 4])
  closeTo(t, over('rate', { from: 15, to: 25, modifier: 'smoothed' }), [(3 - 0.5) / 10], 'a reset across the boundary')
  t.equal(overWindow('increase', samples, { from: 30, to: 40, modifier: 'anchored' }), undefined)
})

t.test('what native histograms hold', async (t) => {
  const values = vector([{ __name__: 'm' }, buckets([3, 1]), 7])
  t.same(lines(await apply('histogram_count', [values])), ['-{__name__=m} 4 _'])
  t.same(lines(await apply('histogram_sum', [values])), ['-{__name__=m} 8 _'])
  t.same(lines(await apply('histogram_avg', [values])), ['-{__name__=m} 2 _'])
  const variance = (3 * (Math.SQRT2 - 2) ** 2 + (Math.sqrt(8) - 2) ** 2) / 4
  const value = await apply('histogram_stdvar', [values])
  t.ok(value.type === 'vector' && Math.abs(value.values[0] - variance) < 1e-12)
  const deviation = await apply('histogram_stddev', [values])
  t.ok(deviation.type === 'vector' && Math.abs(deviation.values[0] - Math.sqrt(variance)) < 1e-12)
})

const CLASSIC = vector(
  [{ __name__: 'm_bucket', job: 'a', le: '+Inf' }, 10, 20],
  [{ __name__: 'm_bucket', job: 'a', le: '1' }, 4, undefined],
  [{ __name__: 'm_bucket', job: 'a', le: '2.0' }, 8, 20],
  [{ __name__: 'm_bucket', job: 'b', le: '1' }, 1, 1],
)

t.test('quantiles of classic and native histograms', async (t) => {
  t.same(lines(await apply('histogram_quantile', [argument(0.5, 2), CLASSIC])), ['-{__name__=m_bucket,job=a} 1.25 1', '-{__name__=m_bucket,job=b} NaN NaN'])
  const native = vector([{ __name__: 'm', job: 'a' }, buckets([2, 2])])
  t.same(lines(await apply('histogram_quantile', [argument(0.5), native])), ['-{__name__=m,job=a} 2'])
  t.same(lines(await apply('histogram_fraction', [argument(0, 2), argument(1, 2), CLASSIC])), [
    '-{__name__=m_bucket,job=a} 0.4 0.5',
    '-{__name__=m_bucket,job=b} NaN NaN',
  ])
  t.same(lines(await apply('histogram_fraction', [argument(0), argument(2), native])), ['-{__name__=m,job=a} 0.5'])
})

t.test('several quantiles at once', async (t) => {
  const one = vector([{ __name__: 'm', job: 'a' }, buckets([2, 2])])
  t.same(lines(await apply('histogram_quantiles', [one, argument('q'), argument(0.5), argument(1)])), [
    '-{__name__=m,job=a,q=0.5} 2',
    '-{__name__=m,job=a,q=1.0} 4',
  ])
  const two = vector([{ job: 'a' }, buckets([2, 2]), buckets([2, 2])])
  t.same(lines(await apply('histogram_quantiles', [two, argument('q'), argument([0.5, 1])])), ['-{job=a,q=0.5} 2 _', '-{job=a,q=1.0} _ 4'])
})

t.test('what is wrong with histograms is told', async (t) => {
  const told = async (fn: string, args: Parameters<typeof apply>[1]): Promise<string[]> => {
    const annotations = new Recorder()
    await apply(fn, args, { annotations })
    return annotations.texts
  }
  t.same(await told('histogram_quantile', [argument(1.5, 2), CLASSIC]), ['warning: quantile value should be between 0 and 1, got 1.5 @10'])
  t.same(await told('histogram_quantile', [argument(0.5), vector([{ __name__: 'm', le: 'x' }, 1], [{ __name__: 'n' }, 1])]), [
    'warning: bucket label "le" is missing or has a malformed value of "x" for metric name "m" @20',
    'warning: bucket label "le" is missing or has a malformed value of "" for metric name "n" @20',
  ])
  const falling = vector([{ __name__: 'm', le: '1' }, 5], [{ __name__: 'm', le: '2' }, 3], [{ __name__: 'm', le: '+Inf' }, 6])
  t.same(await told('histogram_quantile', [argument(0.5), falling]), ['monotonicity: m 2 2 2 at 0 @20'])
  const unsure = vector([{ __name__: 'm' }, buckets([2, 2], { count: 6, sum: NaN })])
  t.same(await told('histogram_quantile', [argument(1), unsure]), [
    'info: input to histogram_quantile has NaN observations, result is NaN for metric name "m" @20',
  ])
  t.same(await told('histogram_quantile', [argument(0.1), unsure]), [
    'info: input to histogram_quantile has NaN observations, result is skewed higher for metric name "m" @20',
  ])
  t.same(await told('histogram_fraction', [argument(0), argument(1), unsure]), [
    'info: input to histogram_fraction has NaN observations, which are excluded from all fractions for metric name "m" @30',
  ])
})

t.test('a native and a classic histogram of the same labels stand in each other’s way', async (t) => {
  const annotations = new Recorder()
  const both = vector(
    [{ __name__: 'm' }, buckets([2, 2]), buckets([2, 2])],
    [{ __name__: 'm', le: '+Inf' }, 1, undefined],
    [{ __name__: 'm', le: '1' }, 1, undefined],
  )
  t.same(lines(await apply('histogram_quantile', [argument(0.5, 2), both], { annotations })), ['-{__name__=m} _ 2'])
  t.same(annotations.texts, ['warning: vector contains a mix of classic and native histograms for metric name "m" @20'])
})

t.test('a native histogram may have a label le of its own', async (t) => {
  const odd = vector([{ __name__: 'm', le: 'x' }, buckets([2, 2])], [{ __name__: 'm', le: '+Inf' }, 2], [{ __name__: 'm', le: '1' }, 2])
  t.same(lines(await apply('histogram_quantile', [argument(0.5), odd])), ['-{__name__=m} 0.5', '-{__name__=m,le=x} 2'])
})
