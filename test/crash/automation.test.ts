/** The short form of automation.ts. SVC_KILLS and SVC_SEED set the length and the seed. */
import t from 'tap'
import { automation } from './automation.ts'

t.setTimeout(600_000)
const { SVC_KILLS = '4', SVC_SEED = String(Date.now() % 1e9) } = process.env
t.comment(`SVC_SEED=${SVC_SEED}`)

t.test('triggers, webhooks, rollups and change streams miss nothing and double nothing, over SIGKILL', async (t) => {
  const report = await automation(Number(SVC_KILLS), Number(SVC_SEED), (line) => t.comment(line))
  t.comment(JSON.stringify(report))
  for (const count of ['acknowledged', 'signals', 'events', 'repeated', 'deliveries', 'buckets'] as const) t.ok(report[count] > 0, count)
})
