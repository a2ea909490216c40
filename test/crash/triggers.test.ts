/** The short form of trigger-loop.ts. SVC_CRASH_ITERATIONS and SVC_CRASH_SEED set the length and the seed. */
import t from 'tap'
import { triggerLoop } from './trigger-loop.ts'

t.setTimeout(600_000)
const { SVC_CRASH_ITERATIONS = '4', SVC_CRASH_SEED } = process.env
const seed = Number(SVC_CRASH_SEED ?? Date.now() % 1_000_000)

t.test('triggers fire once for each acknowledged point, over SIGKILL', async (t) => {
  const report = await triggerLoop({ kills: Number(SVC_CRASH_ITERATIONS), seed })
  t.comment(`seed ${seed}: ${report.kills} kills, ${report.acknowledged} points acknowledged, ${report.signals} signals, ${report.doubtful} in doubt`)
  t.ok(report.acknowledged > 50 && report.signals > 20)
})
