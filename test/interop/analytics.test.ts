/** Forecasts, detectors and decompositions beside statsmodels and scikit-learn: a hundred generated series of ten kinds, and series that statsmodels ships. */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { chooseModel } from '../../plugins/analytics/forecast/automatic.ts'
import { forecastErrors } from '../../plugins/analytics/forecast/errors.ts'
import { predict } from '../../plugins/analytics/forecast/forecaster.ts'
import { decompositionCases, forecastCases, HORIZON, type ReferenceCase, rowCases, rowsOf } from '../../plugins/analytics/testing-reference.ts'
import { KIND_NAMES, SEASONAL, seriesOf } from '../../plugins/analytics/testing-series.ts'
import { answersOf } from './analytics-python.ts'

const python = join(process.env.SVC_INTEROP_CACHE ?? '', 'python/bin/python')
const has = existsSync(python) && answers()
const skip = has ? false : 'there is no Python with statsmodels'
const DATASETS = { nile: 1, sunspots: 1, co2: 12, elnino: 12, realgdp: 1 }
/** Of ten series of a kind: each takes statsmodels some seconds. */
const WITH_SARIMA = 2
const seed = Number(process.env.SVC_INTEROP_SEED ?? Math.floor(Math.random() * 1e6) + 1)

/** There may be a Python without the packages. */
function answers(): boolean {
  try {
    return !('error' in answersOf(python, [{ task: 'dataset', name: 'nile' }])[0])
  } catch {
    return false
  }
}

function datasets(): [string, number, Float64Array][] {
  const answers = answersOf(
    python,
    Object.keys(DATASETS).map((name) => ({ task: 'dataset', name })),
  )
  return Object.entries(DATASETS).map(([name, period], i) => [name, period, Float64Array.from(answers[i].values as number[])])
}

function compare(cases: readonly ReferenceCase[]): void {
  const answers = answersOf(
    python,
    cases.map(({ task }) => task),
  )
  const problems = cases.flatMap(({ name, problem }, i) => {
    // What the reference cannot fit says nothing of ours.
    const found = 'error' in answers[i] ? undefined : problem(answers[i])
    return found === undefined ? [] : [`${name}: ${found}`]
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
  const theirs = answersOf(
    python,
    series.map(([, period], i) => ({ task: 'auto', values: Array.from(training[i]), period, horizon: HORIZON })),
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
    const errors = [predict(model, HORIZON).values, Float64Array.from(theirs[i].forecast as number[]), naive].map((each) => forecastErrors(truth, each).smape)
    table.set(name, [...(table.get(name) ?? []), errors])
  }
  const mean = (rows: number[][], column: number): number => rows.reduce((sum, row) => sum + row[column], 0) / rows.length
  console.log(`sMAPE in %, seed ${seed}`.padEnd(28), 'svc'.padStart(8), 'ETS'.padStart(8), 'naive'.padStart(8))
  for (const [name, rows] of table) console.log(name.padEnd(28), ...[0, 1, 2].map((column) => (100 * mean(rows, column)).toFixed(2).padStart(8)))
  const all = [...table.values()].flat()
  console.log('all'.padEnd(28), ...[0, 1, 2].map((column) => (100 * mean(all, column)).toFixed(2).padStart(8)))
  assert.ok(mean(all, 0) <= 1.15 * mean(all, 1), 'as ETS')
  assert.ok(mean(all, 0) < mean(all, 2), 'better than the last season')
})
