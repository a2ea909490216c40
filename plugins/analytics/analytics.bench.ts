/** Milliseconds of processor time on one core, the median of many runs: node plugins/analytics/analytics.bench.ts [runs] */
import { iqrScores, modifiedZscores, zscores } from './detect/scores.ts'
import { stl } from './detect/stl.ts'
import { fitArima, orderOf } from './forecast/arima.ts'
import { chooseModel } from './forecast/automatic.ts'
import { fitHolt } from './forecast/holt.ts'
import { fitHoltWinters } from './forecast/holt-winters.ts'
import { fitSes } from './forecast/ses.ts'
import { seriesOf } from './testing-series.ts'

const runs = Number(process.argv[2] ?? 15)
const many = seriesOf('noise', 1_000_000, 1)
const level = seriesOf('level', 10_000, 2)
const arima = seriesOf('arima', 10_000, 3)
const season = seriesOf('season_trend', 10_000, 4)
const short = { values: seriesOf('season_trend', 500, 5), start: 0n, interval: 1n, samples: 500, used: 500, bridged: 0, moved: 0 }

/** Name, what is to be undercut where there is such a figure, work. */
const BENCHES: [string, number | undefined, () => unknown][] = [
  ['z-score, 1 M values', 60, () => zscores(many)],
  ['IQR, 1 M values', 100, () => iqrScores(many)],
  ['modified z-score, 1 M values', undefined, () => modifiedZscores(many)],
  ['SES fit, 10,000 values', 0.6, () => fitSes(level)],
  ['Holt fit, 10,000 values', undefined, () => fitHolt(level)],
  ['Holt-Winters fit, 10,000 values, period 12', undefined, () => fitHoltWinters(season, { period: 12 })],
  ['ARIMA(1,1,1) fit, 10,000 values', 30, () => fitArima(arima, orderOf(1, 1, 1))],
  ['ARIMA(1,1,1) fit, 10,000 values, conditional least squares', undefined, () => fitArima(arima, orderOf(1, 1, 1), { quick: true })],
  ['STL, 10,000 values, period 24', 20, () => stl(season, 24, false)],
  ['STL robust, 10,000 values, period 24', undefined, () => stl(season, 24, true)],
  ['automatic choice, 500 values, horizon 12', undefined, () => chooseModel(short, { horizon: 12 })],
]

for (const [name, limit, work] of BENCHES) {
  for (let i = 0; i < 4; i++) work()
  const times = limit !== undefined && limit < 1 ? 20 : 1
  const spent = Array.from({ length: runs }, () => {
    const begin = process.cpuUsage()
    for (let i = 0; i < times; i++) work()
    const { user, system } = process.cpuUsage(begin)
    return (user + system) / 1000 / times
  }).sort((a, b) => a - b)
  const median = spent[runs >> 1]
  console.log(`${name.padEnd(60)} ${median.toFixed(3).padStart(10)} ms${limit === undefined ? '' : `  ${median < limit ? 'under' : 'OVER'} ${limit}`}`)
}
