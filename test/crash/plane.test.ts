/** The short form of plane.ts. SVC_RUNS, SVC_KILLS and SVC_SEED set the size and the seed. */
import t from 'tap'
import { plane } from './plane.ts'

t.setTimeout(600_000)
const { SVC_RUNS = '60', SVC_KILLS = '2', SVC_SEED = String(Date.now() % 1e9) } = process.env
t.comment(`SVC_SEED=${SVC_SEED}`)

t.test('runs of agents end, and no attempt of an effect is made twice, over SIGKILL', async (t) => {
  const report = await plane(Number(SVC_RUNS), Number(SVC_KILLS), Number(SVC_SEED), (line) => t.comment(line))
  t.comment(JSON.stringify(report))
  t.equal(report.kills, Number(SVC_KILLS))
  t.equal(report.underWay.first, report.runs, 'all runs are under way when the first process dies')
  t.ok(report.underWay.fewest > 0, `${report.underWay.fewest} are, at least, when any does`)
  t.ok(report.attempts >= report.runs, `${report.attempts} attempts`)
})
