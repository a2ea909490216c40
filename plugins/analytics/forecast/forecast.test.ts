import t from 'tap'
import { KIND_NAMES, normal, seriesOf } from '../testing-series.ts'
import { chooseModel } from './automatic.ts'
import { forecastErrors } from './errors.ts'
import { followed } from './following.ts'
import { fitModel, MODEL_NAMES, predict } from './forecaster.ts'
import { fitHoltWinters } from './holt-winters.ts'
import { normalWidth } from './model.ts'
import { type RegularSeries, regular } from './regular.ts'
import { fitSes } from './ses.ts'
import { differencesOf, periodOf } from './stationarity.ts'

const MINUTE = 60_000_000_000n
const series = (values: ArrayLike<number>): RegularSeries => {
  const times = BigInt64Array.from({ length: values.length }, (_, i) => BigInt(i) * MINUTE)
  return regular(Float64Array.from(values), times, 1_000_000)
}
const line = (n: number): number[] => Array.from({ length: n }, (_, i) => 10 + 2 * i)

t.test('a constant is forecast as itself, with no width', async (t) => {
  for (const name of MODEL_NAMES) {
    for (const value of [0, 7, -1e9, 0.1]) {
      const { model } = fitModel(name, series(Array(60).fill(value)))
      const { values, std } = predict(model, 5)
      t.ok(
        values.every((v) => Math.abs(v - value) <= 1e-9 * Math.abs(value)),
        `${name} of ${value}: ${values}`,
      )
      t.ok(
        std.every((v) => Math.abs(v) <= 1e-9 * Math.abs(value)),
        `${name} of ${value}: width ${std}`,
      )
    }
  }
  t.same(chooseModel(series(Array(60).fill(3)), { horizon: 4 }).name, 'ses', 'the simplest model, when all are right')
})

t.test('two points are enough, or the refusal says how many are', async (t) => {
  for (const name of ['ses', 'holt', 'linear_regression']) t.ok(Number.isFinite(predict(fitModel(name, series([1, 3])).model, 3).values[2]), name)
  t.same(Array.from(predict(fitModel('linear_regression', series([1, 3])).model, 2).values), [5, 7])
  for (const name of ['holt_winters', 'arima', 'sarima']) t.throws(() => fitModel(name, series([1, 3])), /needs .*\d+ points/, name)
  t.throws(() => series([1]), /at least 2 points are needed; there are 1/)
  t.throws(() => series([]), /there are 0/)
  t.throws(() => chooseModel(series([1, 2, 3]), { horizon: 1 }), /2 \* horizon \+ 4 = 6 points; there are 3/)
  t.ok(chooseModel(series([1, 2, 3, 2, 1, 2]), { horizon: 1 }).candidates.length > 5)
})

t.test('values whose errors are no numbers have no model, rather than one that is sure of itself', async (t) => {
  const values = seriesOf('season', 120, 4)
  for (const far of [1e160, -1e200, Number.MAX_VALUE]) {
    const s = series(values.with(60, far))
    for (const name of MODEL_NAMES) t.throws(() => fitModel(name, s, { period: 12 }), /^its errors are no finite numbers/, `${name} with ${far}`)
    t.throws(() => chooseModel(s, { horizon: 3 }), /^(its errors are no finite numbers|no model could be fitted)/, `auto with ${far}`)
  }
  for (const name of MODEL_NAMES) t.ok(fitModel(name, series(values.with(60, 1e100)), { period: 12 }), name)
})

t.test('wrong arguments are named', async (t) => {
  const s = series(line(50))
  t.throws(() => fitModel('prophet', s), /no model "prophet"; use one of ses, holt/)
  t.throws(() => fitModel('ses', s, { alpha: 1.5 }), /alpha is between 0 and 1, not 1.5/)
  t.throws(() => fitModel('ses', s, { alpha: 0 }), /alpha is above 0/)
  t.throws(() => fitModel('holt_winters', s, { alpha: 0.7, gamma: 0.7 }), /at most 1 together/)
  t.throws(() => fitModel('holt_winters', s, { period: 1 }), /period/)
  t.throws(() => fitModel('arima', s, { order: [1, 3, 1] }), /order is three whole numbers/)
  t.throws(() => fitModel('holt_winters', series(line(50).map((v) => v - 40)), { period: 5, multiplicative: true }), /above 0/)
})

t.test('gaps, disorder, repetition and what is no number', async (t) => {
  const times = BigInt64Array.from([4n, 0n, 1n, 1n, 2n, 5n, 6n, 7n], (v) => v * MINUTE)
  const found = regular(Float64Array.from([40, 0, 99, 10, Number.NaN, 50, Number.POSITIVE_INFINITY, 70]), times, 100)
  t.same(Array.from(found.values), [0, 10, 20, 30, 40, 50, 60, 70], 'by time, the later of two, bridged')
  t.same([found.samples, found.used, found.bridged, found.interval, found.start], [5, 5, 3, MINUTE, 0n])
  const uneven = regular(Float64Array.of(1, 2, 3, 4), BigInt64Array.of(3n, 1000n, 1990n, 3010n), 100)
  t.same(Array.from(uneven.values), [1, 2, 3, 4], 'to the nearest step')
  const burst = regular(Float64Array.of(1, 1, 1, 1, 9), BigInt64Array.of(0n, 1n, 2n, 3n, 1_000_000_000n), 100)
  t.ok(burst.values.length <= 20, `a burst and a long silence make ${burst.values.length} values`)
  const many = regular(
    Float64Array.from({ length: 1000 }, (_, i) => i),
    BigInt64Array.from({ length: 1000 }, (_, i) => BigInt(i)),
    10,
  )
  t.same([many.samples, many.used, many.values[0], many.start], [1000, 10, 990, 990n], 'the newest of too many')
})

t.test('what a series does, its model does', async (t) => {
  const ahead = (name: string, values: ArrayLike<number>, parameters = {}): Float64Array => predict(fitModel(name, series(values), parameters).model, 12).values
  const close = (found: Float64Array, wanted: (h: number) => number, within: number, what: string): void => {
    for (const [h, v] of found.entries()) if (!(Math.abs(v - wanted(h)) <= within)) t.fail(`${what}: step ${h} is ${v}, wanted ${wanted(h)}`)
  }
  close(ahead('holt', line(50), { phi: 1 }), (h) => 10 + 2 * (50 + h), 1e-6, 'holt goes on along a line')
  close(ahead('arima', line(50), { constant: true }), (h) => 10 + 2 * (50 + h), 1e-6, 'arima with a drift as well')
  const damped = ahead('holt', line(50))
  t.ok(damped[11] - damped[10] < damped[1] - damped[0], 'a damped trend levels off')
  const season = (i: number): number => 50 + 0.5 * i + 10 * Math.sin((2 * Math.PI * i) / 12)
  const values = Array.from({ length: 120 }, (_, i) => season(i))
  close(ahead('holt_winters', values, { period: 12 }), (h) => season(120 + h), 0.5, 'holt_winters')
  close(ahead('sarima', values, { period: 12, order: [1, 0, 1], seasonal_order: [0, 1, 1] }), (h) => season(120 + h), 0.5, 'sarima')
  const grown = (i: number): number => (50 + 0.5 * i) * (1 + 0.3 * Math.sin((2 * Math.PI * i) / 12))
  close(
    ahead(
      'holt_winters',
      Array.from({ length: 120 }, (_, i) => grown(i)),
      { period: 12, multiplicative: true },
    ),
    (h) => grown(120 + h),
    1.5,
    'a season that is multiplied',
  )
})

t.test('as many future values lie in the interval as it says', async (t) => {
  t.ok(Math.abs(normalWidth(0.95) - 1.959963984540054) < 1e-12)
  t.ok(Math.abs(normalWidth(0.9999) - 3.890591886413) < 1e-9)
  const width = normalWidth(0.8)
  const inside = new Map<string, number>()
  const seeds = 60
  for (let seed = 1; seed <= seeds; seed++) {
    for (const [name, kind] of [
      ['ses', 'level'],
      ['arima', 'arima'],
      ['linear_regression', 'trend'],
    ] as const) {
      const values = seriesOf(kind, 160, seed)
      const { model } = fitModel(name, series(values.subarray(0, 150)))
      const { values: expected, std } = predict(model, 10)
      for (let h = 0; h < 10; h++) if (Math.abs(values[150 + h] - expected[h]) <= width * std[h]) inside.set(name, (inside.get(name) ?? 0) + 1)
    }
  }
  for (const [name, count] of inside) t.ok(count > 0.68 * seeds * 10 && count < 0.9 * seeds * 10, `${name}: ${count} of ${seeds * 10} in an interval of 80 %`)
})

t.test('the smoothing is the best one', async (t) => {
  for (const kind of KIND_NAMES) {
    const values = seriesOf(kind, 200, 5)
    const sse = (alpha?: number): number => {
      const { fitted } = fitSes(values, alpha)
      return values.reduce((sum, v, i) => sum + (v - fitted[i]) ** 2, 0)
    }
    const best = sse()
    for (let alpha = 0.01; alpha <= 1; alpha += 0.01) if (sse(alpha) < best * (1 - 1e-6)) t.fail(`${kind}: ${alpha} is better`)
  }
  t.ok(fitSes(seriesOf('walk', 5000, 3)).model.alpha > 0.9, 'a random walk is where it is')
})

t.test('a smoothing of the trend that came to its bound on the way is looked for beside it', async (t) => {
  const values = seriesOf('season_trend', 124, 84_885)
  const sse = (given: object): number => {
    const { fitted } = fitHoltWinters(values, { period: 12, multiplicative: true, ...given })
    return values.reduce((sum, v, i) => sum + (v - fitted[i]) ** 2, 0)
  }
  t.ok(sse({}) <= sse({ alpha: 0.0401, beta: 0.06, gamma: 0.3 }))
})

t.test('a level that hardly moves and a trend that does are looked for, too', async (t) => {
  const values = seriesOf('season_multiplied', 136, 57_904)
  const sse = (given: object): number => {
    const { fitted } = fitHoltWinters(values, { period: 12, multiplicative: true, ...given })
    return values.reduce((sum, v, i) => sum + (v - fitted[i]) ** 2, 0)
  }
  t.ok(sse({}) <= sse({ alpha: 0.05, beta: 0.3, gamma: 0.15 }))
})

t.test('differences and periods', async (t) => {
  t.equal(differencesOf(seriesOf('noise', 200, 1)), 0)
  t.equal(differencesOf(seriesOf('walk', 200, 2)), 1)
  t.equal(differencesOf(Float64Array.from(line(50))), 1)
  t.equal(differencesOf(Float64Array.from({ length: 30 }, () => 5)), 0)
  for (const kind of ['season', 'season_trend', 'season_multiplied'] as const) t.equal(periodOf(seriesOf(kind, 200, 3), 288), 12, kind)
  for (const kind of ['noise', 'walk', 'trend'] as const) t.equal(periodOf(seriesOf(kind, 200, 4), 288), 0, kind)
  t.equal(periodOf(new Float64Array(50), 288), 0)
})

t.test('the automatic choice', async (t) => {
  const names: Record<string, RegExp> = { season_trend: /holt_winters|sarima/, season_multiplied: /holt_winters|sarima/, trend: /./, noise: /./ }
  for (const [kind, wanted] of Object.entries(names)) {
    const found = chooseModel(series(seriesOf(kind as 'noise', 200, 6)), { horizon: 12 })
    t.match(found.name, wanted, kind)
    const [winner, ...losers] = found.candidates
    t.equal(winner.name, found.name)
    t.equal(winner.reason, undefined)
    t.ok(
      losers.every(({ reason }) => (reason ?? '') !== ''),
      'each loser has its reason',
    )
    t.ok(losers.every(({ score }) => score === undefined || score >= winner.score!))
  }
  const few = chooseModel(series(line(24)), { horizon: 4 })
  t.match(few.candidates.find(({ name }) => name === 'arima')?.reason, /30 points/)
  t.match(few.candidates.find(({ name }) => name === 'holt_winters_additive')?.reason, /no period/)
  t.equal(few.folds, 3)
  t.equal(chooseModel(series(line(20)), { horizon: 7 }).folds, 1, 'fewer folds where the series is short')
  t.throws(() => chooseModel(series(line(17)), { horizon: 7 }), /18 points; there are 17/)
  const curved = chooseModel(series(Array.from({ length: 100 }, (_, i) => i * i)), { horizon: 4, max_order: 0 })
  t.match(
    curved.candidates.filter(({ name }) => name === 'arima'),
    [{ reason: 'no order is left' }],
  )
  const negative = chooseModel(series(seriesOf('season', 120, 7).map((v) => v - 100)), { horizon: 6, metric: 'mae' })
  t.match(negative.candidates.find(({ name }) => name === 'holt_winters_multiplicative')?.reason, /above 0/)
  t.match(negative.candidates[1].reason, /^mae /)
})

t.test('errors of forecasts', async (t) => {
  const { rmse, mae, mape, smape, r_squared } = forecastErrors(Float64Array.of(1, 2, 0, 4), Float64Array.of(2, 2, 0, 2))
  t.same([rmse, mae, mape], [Math.sqrt(5 / 4), 0.75, (1 + 0 + 0.5) / 3])
  t.ok(Math.abs(smape - (2 / 3 + 0 + 0 + 4 / 6) / 4) < 1e-12)
  t.ok(Math.abs(r_squared - (1 - 5 / 8.75)) < 1e-12)
})

const close = (a: number, b: number): boolean => Math.abs(a - b) <= 1e-9 * Math.max(1, Math.abs(b))

t.test('a model follows what comes after its training as it would have followed it within', (t) => {
  for (const kind of KIND_NAMES) {
    const all = Array.from(seriesOf(kind, 300, 7)).map((v, i) => v + 100 + (i % 12))
    for (const name of MODEL_NAMES) {
      const parameters = name === 'holt_winters' || name === 'sarima' ? { period: 12 } : {}
      const { model, fitted } = fitModel(name, series(all.slice(0, 240)), parameters)
      const next = followed(model, Float64Array.from(all.slice(240)))
      t.ok(close(next.fitted[0], predict(model, 1).values[0]), `${kind} ${name}: the first forecast is the model's own`)
      const inSteps = followed(followed(model, Float64Array.from(all.slice(240, 270))).model, Float64Array.from(all.slice(270)))
      t.ok(
        predict(inSteps.model, 5).values.every((v, i) => close(v, predict(next.model, 5).values[i])),
        `${kind} ${name}: at once or in two steps`,
      )
      const rmse = forecastErrors(Float64Array.from(all.slice(240)), next.fitted).rmse
      const within = forecastErrors(Float64Array.from(all.slice(0, 240)).subarray(30), fitted.subarray(30)).rmse
      // A line does not follow anything.
      if (name !== 'linear_regression') t.ok(rmse < 3 * within + 1e-6, `${kind} ${name}: errors of ${rmse} after, ${within} before`)
      const missing = followed(model, new Float64Array(3).fill(Number.NaN))
      t.ok(
        missing.fitted.every((v, i) => close(v, predict(model, 3).values[i])),
        `${kind} ${name}: what is missing is as it was forecast`,
      )
    }
  }
  t.end()
})

t.test('the state of arima after following is that of a filter over all', (t) => {
  const all = Array.from(seriesOf('walk', 400, 3))
  const { model, fitted } = fitModel('arima', series(all.slice(0, 200)))
  const next = followed(model, Float64Array.from(all.slice(200)))
  t.equal(fitted.length, 200)
  // One step at a time by forecasts alone.
  let at = model
  for (let i = 200; i < 210; i++) {
    t.ok(close(predict(at, 1).values[0], next.fitted[i - 200]), `step ${i}`)
    at = followed(at, Float64Array.of(all[i])).model
  }
  t.end()
})

t.test('a multiplied season outlives zeros and values below, and no model goes on from a state that is no number', (t) => {
  const period = 6
  const season = (i: number): number => (20 + i / 10) * (1 + 0.5 * Math.sin((2 * Math.PI * i) / period))
  const values = Float64Array.from({ length: 60 }, (_, i) => season(i))
  const { model } = fitModel('holt_winters', series(Array.from(values)), { period, multiplicative: true })
  for (const wrong of [0, -5]) {
    // Zeros for two days, then as before.
    const coming = Float64Array.from({ length: 200 }, (_, i) => (i < 12 ? wrong : season(60 + i)))
    const next = followed(model, coming)
    const asMissing = followed(
      model,
      coming.map((v) => (v > 0 ? v : Number.NaN)),
    )
    t.same(next.fitted, asMissing.fitted, `${wrong} is missing to it`)
    t.ok(Math.abs(next.fitted[199] / coming[199] - 1) < 0.05, `after ${wrong}: ${next.fitted[199]} for ${coming[199]}`)
  }
  // A level that falls through 0 while nothing is measured.
  const falling = fitModel('holt_winters', series(Array.from(values, (_, i) => season(0) * 40 - 13 * i + 3 * (i % 6))), { period, multiplicative: true }).model
  const back = Float64Array.from({ length: 300 }, (_, i) => (i < 40 ? Number.NaN : 50 + 10 * Math.sin((2 * Math.PI * i) / period)))
  const after = followed(falling, back)
  t.ok(after.fitted.every(Number.isFinite))
  t.ok(
    (after.model as { seasonal: number[] }).seasonal.every((v) => v > 0),
    'no season below 0',
  )
  const huge = fitModel('holt', series([1, 2, 3, 4, 5, 6])).model
  t.throws(
    () => followed(huge, Float64Array.of(1e308, -1e308, 1e308, -1e308)),
    /its (level|trend) is no finite number after the 4 steps since its training; retrain it/,
  )
  t.end()
})

t.test('a season of local time is found again after the clock has changed', (t) => {
  // Hours of days of 24 steps; from a day of 23 hours on everything comes an hour earlier.
  const hours = 24 * 42
  const change = 24 * 21
  const random = normal(11)
  const values = Float64Array.from({ length: hours }, (_, i) => 100 + 20 * Math.sin((2 * Math.PI * (i + (i >= change ? 1 : 0))) / 24) + random())
  const { model } = fitModel('holt_winters', series(values.subarray(0, change)), { period: 24 })
  const { fitted } = followed(model, values.subarray(change))
  const rmse = (day: number): number =>
    forecastErrors(values.subarray(change + 24 * day, change + 24 * (day + 1)), fitted.subarray(24 * day, 24 * (day + 1))).rmse
  t.ok(rmse(0) > 2, `the first day is off: ${rmse(0)}`)
  // Retrained on what came, it is as good as before.
  const again = fitModel('holt_winters', series(values.subarray(change, change + 24 * 14)), { period: 24 }).model
  const after = followed(again, values.subarray(change + 24 * 14)).fitted
  const rest = forecastErrors(values.subarray(change + 24 * 14), after).rmse
  t.ok(rest < 1.6, `after a retraining: ${rest}`)
  t.end()
})

t.test('a leap second makes no gap: time is that of POSIX', (t) => {
  // 2016-12-31T23:59:58Z to 2017-01-01T00:00:02Z, with a leap second between.
  const times = BigInt64Array.from([1_483_228_798n, 1_483_228_799n, 1_483_228_800n, 1_483_228_801n], (seconds) => seconds * 1_000_000_000n)
  t.match(regular(Float64Array.of(1, 2, 3, 4), times, 10), { interval: 1_000_000_000n, bridged: 0, moved: 0 })
  t.end()
})
