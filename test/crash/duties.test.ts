/** The short form of duties.ts. SVC_KILLS and SVC_SEED set the size and the seed. */
import t from 'tap'
import { duties } from './duties.ts'

t.setTimeout(600_000)
const { SVC_KILLS = '2', SVC_SEED = String(Date.now() % 1e9) } = process.env
t.comment(`SVC_SEED=${SVC_SEED}`)

t.test('what is due, spent, asked and answered happens once, over SIGKILL, jumps of the clock and other bounds', async (t) => {
  const { kills, counts, statuses } = await duties(Number(SVC_KILLS), Number(SVC_SEED), (line) => t.comment(line))
  t.comment(JSON.stringify({ counts, statuses }))
  t.equal(kills, Number(SVC_KILLS))
  t.ok(counts.begun > 0, `${counts.begun} runs were begun`)
  t.ok(statuses.succeeded > 0, `${statuses.succeeded} have succeeded`)
})
