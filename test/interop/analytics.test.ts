/** Forecasts, detectors and decompositions beside statsmodels and scikit-learn: a hundred generated series of ten kinds, and series that statsmodels ships. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { chooseModel } from '../../plugins/analytics/forecast/automatic.ts'
import { forecastErrors } from '../../plugins/analytics/forecast/errors.ts'
import { predict } from '../../plugins/analytics/forecast/forecaster.ts'
import { decompositionCases, forecastCases, HORIZON, type ReferenceCase, rowCases, rowsOf } from '../../plugins/analytics/testing-reference.ts'
import { KIND_NAMES, SEASONAL, seriesOf } from '../../plugins/analytics/testing-series.ts'
import { answersOf } from './analytics-python.ts'
import { lackingPython, PYTHON } from './program.ts'

const skip = lackingPython('statsmodels')
const DATASETS = { nile: 1, sunspots: 1, co2: 12, elnino: 12, realgdp: 1 }
/** Of ten series of a kind: each takes statsmodels some seconds. */
const WITH_SARIMA = 2
const seed = Number(process.env.SVC_INTEROP_SEED ?? Math.floor(Math.random() * 1e6) + 1)

function datasets(): [string, number, Float64Array][] {
  const answers = answersOf(
    PYTHON,
    Object.keys(DATASETS).map((name) => ({ task: 'dataset', name })),
  )
  return Object.entries(DATASETS).map(([name, period], i) => [name, period, Float64Array.from(answers[i].values as number[])])
}

/** Of searches, which may miss the greatest maximum once in a hundred. */
const searches = { count: 0, missed: [] as string[] }
const MISSED = 0.01

function compare(cases: readonly ReferenceCase[]): void {
  const answers = answersOf(
    PYTHON,
    cases.map(({ task }) => task),
  )
  const problems = cases.flatMap(({ name, problem, search }, i) => {
    // What the reference cannot fit says nothing of ours.
    if ('error' in answers[i]) return []
    const found = problem(answers[i])
    if (search) searches.count++
    if (found === undefined) return []
    if (search) searches.missed.push(`${name}: ${found}`)
    return search ? [] : [`${name}: ${found}`]
  })
  const answered = answers.filter((answer) => !('error' in answer)).length
  console.log(`${answered} of ${cases.length} answers compared, seed ${seed}`)
  assert.ok(answered > 0.9 * cases.length)
  assert.deepEqual(problems, [])
}

for (const [i, kind] of KIND_NAMES.entries()) {
  test(`ten series of the kind ${kind}`, { skip }, () => {
    const series = Array.from({ length: 10 }, (_, k) => seriesOf(kind, 100 + 6 * k, seed + 17 * i + k))
    compare(
      series.flatMap((values, k) => [
        ...forecastCases(`${kind} ${k}`, values, SEASONAL.has(kind), SEASONAL.has(kind) && k < WITH_SARIMA),
        ...decompositionCases(`${kind} ${k}`, values),
      ]),
    )
  })
}

test('series that statsmodels ships', { skip }, () => {
  compare(datasets().flatMap(([name, period, values]) => forecastCases(name, values.subarray(0, 400), period === 12)))
})

test('of a hundred fits of arima one at most misses the maximum that statsmodels finds', { skip }, () => {
  console.log(`${searches.missed.length} of ${searches.count}, seed ${seed}`, searches.missed)
  assert.ok(searches.count > 300)
  assert.ok(searches.missed.length <= MISSED * searches.count, searches.missed.join('\n'))
})

test('rows of several columns', { skip }, () => {
  compare([0, 1, 2, 3].flatMap((k) => rowCases(`rows ${k}`, rowsOf(200 + 100 * k, seed + k))))
})

test('the automatic choice forecasts as well as ETS by its criterion, and better than the last season', { skip }, () => {
  const series: [string, number, Float64Array][] = [
    ...KIND_NAMES.flatMap((kind) =>
      [0, 1, 2].map((k): [string, number, Float64Array] => [kind, SEASONAL.has(kind) ? 12 : 1, seriesOf(kind, 120 + 20 * k, seed + 300 + k)]),
    ),
    ...datasets(),
  ]
  const training = series.map(([, , values]) => values.subarray(0, values.length - HORIZON))
  const asked = (task: string) =>
    answersOf(
      PYTHON,
      series.map(([, period], i) => ({ task, values: Array.from(training[i]), period, horizon: HORIZON })),
    )
  // The first is there wherever statsmodels is.
  const others = Object.entries({ ETS: asked('auto'), AutoETS: asked('auto_ets'), AutoARIMA: asked('auto_arima'), Prophet: asked('prophet') }).filter(
    ([, answers]) => !('error' in answers[0]),
  )
  const table = new Map<string, number[][]>()
  for (const [i, [name, period, values]] of series.entries()) {
    const truth = values.subarray(values.length - HORIZON)
    const past = training[i]
    const { model } = chooseModel(
      { values: past, start: 0n, interval: 1n, samples: past.length, used: past.length, bridged: 0, moved: 0 },
      { horizon: HORIZON },
    )
    const naive = truth.map((_, h) => past[past.length - period + (h % period)])
    const forecasts = [predict(model, HORIZON).values, naive, ...others.map(([, answers]) => Float64Array.from(answers[i].forecast as number[]))]
    const errors = forecasts.map((each) => forecastErrors(truth, each).smape)
    table.set(name, [...(table.get(name) ?? []), errors])
  }
  const mean = (rows: number[][], column: number): number => rows.reduce((sum, row) => sum + row[column], 0) / rows.length
  const all = [...table.values()].flat()
  const columns = ['svc', 'naive', ...others.map(([name]) => name)]
  console.log(`sMAPE in %, seed ${seed}`.padEnd(28), ...columns.map((name) => name.padStart(10)))
  for (const [name, rows] of [...table, ['all', all] as const])
    console.log(name.padEnd(28), ...columns.map((_, column) => (100 * mean(rows, column)).toFixed(2).padStart(10)))
  assert.ok(mean(all, 0) <= 1.15 * mean(all, 2), 'as ETS')
  assert.ok(mean(all, 0) < mean(all, 1), 'better than the last season')
})
