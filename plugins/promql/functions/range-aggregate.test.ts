import t from 'tap'
import { buckets, every10s, overWindow, Recorder } from '../testing/calls.ts'

const { random } = seeded(7)

function seeded(seed: number): { random(): number } {
  let state = seed
  return {
    random() {
      state = (state * 48_271) % 2_147_483_647
      return state / 2_147_483_647
    },
  }
}

t.test('sums and means keep what rounding loses', async (t) => {
  t.equal(overWindow('sum_over_time', every10s(1, 1e100, 1, -1e100)), 2)
  t.equal(overWindow('avg_over_time', every10s(1, 1e100, 1, -1e100)), 0.5)
  t.equal(overWindow('sum_over_time', every10s(1, Infinity, 1)), Infinity)
  t.ok(Number.isNaN(overWindow('sum_over_time', every10s(Infinity, -Infinity))))
})

t.test('integers before others change nothing of a sum or a mean', async (t) => {
  const sum = (values: readonly number[]): [number, number] => {
    let [total, lost] = [values[0], 0]
    for (const value of values.slice(1)) {
      const next = total + value
      lost += Math.abs(total) >= Math.abs(value) ? total - next + value : value - next + total
      total = next
    }
    return [total, lost]
  }
  const kinds = [() => Math.floor(random() * 100), () => 2 ** 31 - Math.floor(random() * 3), () => -(2 ** 31), () => -0, () => random() * 1e6, () => 2 ** 40]
  for (let round = 0; round < 500; round++) {
    const some = kinds.filter(() => random() < 0.4)
    const pick = () => (some.length === 0 ? kinds[0] : some[Math.floor(random() * some.length)])()
    const whole = Math.floor(random() * 20)
    const values = Array.from({ length: 1 + Math.floor(random() * 30) }, (_, i) => (i < whole ? Math.floor(random() * 1000) : pick()))
    const [total, lost] = sum(values)
    t.equal(overWindow('sum_over_time', every10s(...values)), total + lost + 0, values.join())
    t.equal(overWindow('avg_over_time', every10s(...values)), total / values.length + lost / values.length, values.join())
  }
})

t.test('a mean stays among its values when their sum does not', async (t) => {
  t.equal(overWindow('avg_over_time', every10s(1e308, 1e308, 1e308)), 1e308)
  t.ok(Math.abs(overWindow('avg_over_time', every10s(-1.7e308, -1.7e308, 1.7e308, 1.7e308)) as number) < 1e293)
  t.equal(overWindow('avg_over_time', every10s(1, -Infinity)), -Infinity)
})

t.test('extremes, their times, and NaN', async (t) => {
  const samples = every10s(3, 1, NaN, 5, 1, 5, 2)
  t.equal(overWindow('min_over_time', samples), 1)
  t.equal(overWindow('max_over_time', samples), 5)
  t.equal(overWindow('ts_of_min_over_time', samples), 40, 'the last of equal ones')
  t.equal(overWindow('ts_of_max_over_time', samples), 50)
  t.equal(overWindow('ts_of_first_over_time', samples), 0)
  t.equal(overWindow('ts_of_last_over_time', samples), 60)
  t.equal(overWindow('max_over_time', every10s(NaN, 2)), 2)
  t.ok(Number.isNaN(overWindow('max_over_time', every10s(NaN, NaN))))
})

t.test('counts, ends and presence', async (t) => {
  const samples = every10s(3, 1, 2)
  t.equal(overWindow('count_over_time', samples), 3)
  t.equal(overWindow('first_over_time', samples), 3)
  t.equal(overWindow('last_over_time', samples), 2)
  t.equal(overWindow('present_over_time', samples), 1)
})

t.test('variance', async (t) => {
  const samples = every10s(2, 4, 4, 4, 5, 5, 7, 9)
  t.equal(overWindow('stdvar_over_time', samples), 4)
  t.equal(overWindow('stddev_over_time', samples), 2)
  t.equal(overWindow('stdvar_over_time', every10s(1e15 + 1, 1e15 + 2, 1e15 + 3)), 2 / 3)
  t.ok(Number.isNaN(overWindow('stdvar_over_time', every10s(1, Infinity))))
})

t.test('quantiles agree with sorting', async (t) => {
  for (let round = 0; round < 200; round++) {
    const values = Array.from({ length: 1 + Math.floor(random() * 40) }, () => (random() < 0.1 ? NaN : Math.floor(random() * 10)))
    const q = random()
    const sorted = [...values].sort((a, b) => (Number.isNaN(a) ? (Number.isNaN(b) ? 0 : -1) : Number.isNaN(b) ? 1 : a - b))
    const rank = q * (values.length - 1)
    const low = Math.floor(rank)
    const high = Math.min(values.length - 1, low + 1)
    const expected = sorted[low] * (1 - (rank - low)) + sorted[high] * (rank - low)
    const actual = overWindow('quantile_over_time', every10s(...values), { scalars: [q] })
    if (!Object.is(actual, expected)) t.fail(`quantile ${q} of ${values}: ${actual} is not ${expected}`)
  }
  t.equal(overWindow('quantile_over_time', every10s(1, 2, 3, 4), { scalars: [0.5] }), 2.5)
  t.equal(overWindow('quantile_over_time', every10s(1, Infinity, 2), { scalars: [0.5] }), 2, 'a sample that it falls on, whatever lies beside it')
  t.equal(overWindow('quantile_over_time', every10s(Infinity, 1), { scalars: [0] }), 1)
  t.equal(overWindow('quantile_over_time', every10s(Infinity, Infinity), { scalars: [1] }), Infinity)
})

t.test('quantiles out of range are told', async (t) => {
  const annotations = new Recorder()
  t.equal(overWindow('quantile_over_time', every10s(1, 2), { scalars: [-1], annotations }), -Infinity)
  t.equal(overWindow('quantile_over_time', every10s(1, 2), { scalars: [1e7], annotations }), Infinity)
  t.ok(Number.isNaN(overWindow('quantile_over_time', every10s(1, 2), { scalars: [NaN], annotations })))
  t.same(
    annotations.texts,
    ['-1', '1e+07', 'NaN'].map((q) => `warning: quantile value should be between 0 and 1, got ${q} @10`),
  )
})

t.test('the median of distances from the median', async (t) => {
  t.equal(overWindow('mad_over_time', every10s(4, 6, 2, 1, 999, 1, 2)), 1)
  t.ok(Number.isNaN(overWindow('mad_over_time', every10s(4, NaN, 2))))
})

t.test('changes', async (t) => {
  t.equal(overWindow('changes', every10s(1, 1, 2, NaN, NaN, 2)), 3)
  t.equal(overWindow('changes', every10s(1, buckets([1]), buckets([1]), buckets([2]))), 2)
  t.equal(overWindow('resets', every10s(1, buckets([5]), buckets([1]), 7, 8, 3)), 4)
})

t.test('trends', async (t) => {
  const line = every10s(5, 7, 9, 11)
  t.equal(overWindow('deriv', line), 0.2)
  t.ok(Math.abs((overWindow('predict_linear', line, { scalars: [60] }) as number) - 23) < 1e-12)
  t.equal(overWindow('deriv', every10s(3, 3, 3)), 0)
  t.ok(Number.isNaN(overWindow('deriv', every10s(Infinity, Infinity))))
  t.equal(overWindow('deriv', every10s(1)), undefined)
  t.equal(overWindow('double_exponential_smoothing', line, { scalars: [0.5, 0.5] }), 11)
  t.throws(() => overWindow('double_exponential_smoothing', line, { scalars: [0, 0.5] }), {
    message: 'invalid smoothing factor. Expected: 0 < sf < 1, got: 0.000000',
  })
  t.throws(() => overWindow('double_exponential_smoothing', line, { scalars: [0.1, 1] }), {
    message: 'invalid trend factor. Expected: 0 < tf < 1, got: 1.000000',
  })
})

t.test('functions of floats leave histograms out and say so', async (t) => {
  for (const fn of ['min_over_time', 'max_over_time', 'stddev_over_time', 'mad_over_time', 'ts_of_max_over_time', 'deriv']) {
    const annotations = new Recorder()
    const mixed = overWindow(fn, every10s(1, buckets([1]), 3), { annotations })
    const floats = overWindow(fn, [
      [0, 1],
      [20, 3],
    ])
    t.equal(mixed, floats, fn)
    t.same(annotations.texts, ['info: ignored histograms in a range containing both floats and histograms for metric name "m" @20'], fn)
    const silent = new Recorder()
    t.equal(overWindow(fn, every10s(buckets([1]), buckets([2])), { annotations: silent }), undefined, fn)
    t.same(silent.texts, [], fn)
  }
})

t.test('functions of either refuse a mix', async (t) => {
  for (const fn of ['sum_over_time', 'avg_over_time', 'rate', 'increase', 'delta', 'irate', 'idelta']) {
    const annotations = new Recorder()
    t.equal(overWindow(fn, every10s(1, buckets([1])), { annotations }), undefined, fn)
    t.same(annotations.texts, ['warning: encountered a mix of histograms and floats for metric name "m" @20'], fn)
  }
})

t.test('counting and ends take samples of both kinds', async (t) => {
  const samples = every10s(buckets([7]), 1, buckets([8]))
  t.equal(overWindow('count_over_time', samples), 3)
  t.match(overWindow('first_over_time', samples), { count: 7 })
  t.match(overWindow('last_over_time', samples), { count: 8 })
})
