import t from 'tap'
import { seriesOf, uniform } from '../testing-series.ts'
import { DETECTOR_NAMES, DETECTORS, namesOfOne, scoresOf } from './detectors.ts'
import { isolationScores } from './isolation-forest.ts'
import { median, quantile } from './order-statistics.ts'
import { cusumScores, dynamicScores, iqrScores, modifiedZscores, zscores } from './scores.ts'

const NAMES = namesOfOne()
const SINGLE = DETECTOR_NAMES.filter((name) => DETECTORS[name].single !== undefined)

t.test('quantiles are those of the sorted values', async (t) => {
  const chance = uniform(3)
  for (let round = 0; round < 200; round++) {
    const n = 1 + Math.floor(chance() * 3000)
    // Also with many that are the same.
    const values = Float64Array.from({ length: n }, () => (round % 2 === 0 ? chance() : Math.floor(chance() * 4)))
    const sorted = values.toSorted()
    const q = round % 10 === 0 ? round / 200 : chance()
    const place = q * (n - 1)
    const below = Math.floor(place)
    const wanted = sorted[below] + (place - below) * ((sorted[below + 1] ?? sorted[below]) - sorted[below])
    if (Math.abs(quantile(values, q) - wanted) > 1e-12) t.fail(`quantile ${q} of ${n}`)
  }
  t.equal(median(Float64Array.of(3, 1, 2)), 2)
  t.equal(median(Float64Array.of(4, 1, 2, 3)), 2.5)
})

t.test('one value far off is found, by each detector, and few others', async (t) => {
  for (const name of NAMES) {
    const values = seriesOf('noise', 400, 8)
    values[250] = 150
    const scores = scoresOf(name, [values])
    t.ok(scores[250] > DETECTORS[name].threshold, `${name}: ${scores[250]}`)
    const found = scores.filter((v) => v > DETECTORS[name].threshold).length
    t.ok(found <= 20, `${name} finds ${found}`)
  }
})

t.test('one value far off is found among numbers whose squares are no doubles', async (t) => {
  for (const name of DETECTOR_NAMES) {
    const columns = [seriesOf('noise', 400, 8), seriesOf('noise', 400, 9)].slice(0, DETECTORS[name].several === undefined ? 1 : 2)
    const least = scoresOf(name, far(columns, 150))[250]
    for (const unit of [2 ** -1000, 2 ** 1000]) {
      const scores = scoresOf(
        name,
        far(columns, 150).map((column) => column.map((v) => v * unit)),
      )
      t.ok(Math.abs(scores[250] - least) <= 1e-6 * least, `${name} in units of ${unit}: ${scores[250]}, ${least} otherwise`)
    }
    // A program's mark for "no value".
    const marked = scoresOf(name, far(columns, Number.MAX_VALUE))
    t.ok(marked[250] >= Math.min(least, DETECTORS[name].threshold), `${name} finds the largest double: ${marked[250]}`)
  }
})

function far([first, ...others]: readonly Float64Array[], value: number): Float64Array[] {
  return [first.with(250, value), ...others]
}

t.test('what is missing has no score, and counts for nothing', async (t) => {
  for (const name of NAMES) {
    const values = seriesOf('noise', 100, 9)
    const without = scoresOf(name, [values])
    const holes = Float64Array.from({ length: 103 }, (_, i) =>
      i < 100 ? values[i] : [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY][i - 100],
    )
    const scores = scoresOf(name, [holes])
    t.ok(
      scores.subarray(100).every((v) => Number.isNaN(v)),
      name,
    )
    // It forecasts what is missing as well.
    if (name === 'forecast_residual') continue
    for (let i = 0; i < 100; i++)
      if (!(Math.abs(scores[i] - without[i]) < 1e-9)) return t.fail(`${name}: ${scores[i]} at ${i}, ${without[i]} without the missing ones`)
  }
})

t.test('a constant has nothing unusual', async (t) => {
  for (const name of NAMES) {
    for (const value of [0, 0.1, -1e12]) {
      const scores = scoresOf(name, [new Float64Array(50).fill(value)])
      t.ok(
        scores.every((v) => v >= 0 && v <= DETECTORS[name].threshold),
        `${name} of ${value}: ${scores[0]}`,
      )
    }
  }
  const step = new Float64Array(50).fill(2)
  step[40] = 3
  for (const name of ['zscore', 'modified_zscore', 'iqr', 'dynamic_threshold'])
    t.ok(scoresOf(name, [step])[40] > DETECTORS[name].threshold, `${name} finds the one that differs`)
})

t.test('too few points, unknown names, wrong use', async (t) => {
  for (const name of NAMES) {
    t.throws(() => scoresOf(name, [Float64Array.of(1, 2)]), /needs 3 points; there are 2/)
    t.equal(scoresOf(name, [Float64Array.of(1, 2, 3)]).length, 3)
  }
  t.throws(() => scoresOf('psychic', [new Float64Array(5)]), /no detector "psychic"; use one of zscore/)
  t.throws(() => scoresOf('pca', [new Float64Array(5)]), /several series together/)
  for (const name of SINGLE) t.throws(() => scoresOf(name, [new Float64Array(5), new Float64Array(5)]), /looks at one series/)
})

t.test('by hand', async (t) => {
  const values = Float64Array.of(1, 2, 3, 4, 100)
  const near = (found: number, wanted: number): void => void t.ok(Math.abs(found - wanted) < 1e-9, `${found} for ${wanted}`)
  near(zscores(values)[4], (100 - 22) / Math.sqrt((21 ** 2 + 20 ** 2 + 19 ** 2 + 18 ** 2 + 78 ** 2) / 4))
  near(modifiedZscores(values)[4], 0.6744897501960817 * 97)
  near(iqrScores(values)[4], 96 / 2)
  near(iqrScores(values)[0], 0.5)
  near(dynamicScores(Float64Array.of(1, 2, 3, 8), 3)[3], 6)
  t.same(Array.from(dynamicScores(Float64Array.of(1, 2, 3, 8), 3).subarray(0, 3)), [0, 0, 0])
})

t.test('a shift that no single value shows', async (t) => {
  const values = seriesOf('noise', 300, 10).map((v, i) => v + (i >= 200 ? 7 : 0))
  const scores = cusumScores(values)
  t.ok(scores.subarray(230).some((v) => v > DETECTORS.cusum.threshold))
  t.ok(Math.max(...zscores(values)) < 3.5)
})

t.test('chance is the same each time', async (t) => {
  const columns = [seriesOf('noise', 500, 11), seriesOf('walk', 500, 12)]
  t.same(isolationScores(columns), isolationScores(columns))
  t.ok(isolationScores(columns).every((v) => v > 0 && v < 1))
})

t.test('rows that break how columns go together', async (t) => {
  const a = seriesOf('noise', 300, 13)
  const b = a.map((v, i) => 2 * v + seriesOf('noise', 300, 14)[i] * 0.02)
  // Neither is unusual alone.
  b[100] = b.reduce((sum, v) => sum + v, 0) / 300 + (a[100] > 50 ? -6 : 6)
  for (const name of ['mahalanobis', 'pca']) {
    const scores = scoresOf(name, [a, b])
    t.equal(scores.indexOf(Math.max(...scores)), 100, name)
  }
  t.ok(
    scoresOf('mahalanobis', [a, a, b]).every((v) => Number.isFinite(v)),
    'a column that is there twice',
  )
})
