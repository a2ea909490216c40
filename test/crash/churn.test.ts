/** The short form of churn.ts. SVC_CHURN_SERIES and SVC_CHURN_ROUNDS set the length. */
import t from 'tap'
import { churn, type Round } from './churn.ts'

t.setTimeout(600_000)
const { SVC_CHURN_SERIES = '50000', SVC_CHURN_ROUNDS = '12' } = process.env
/** What the process may take on top of what it had when half of the rounds were over. */
const GROWTH_LIMIT = 120 << 20
/** What a series that was given back still takes until the next start: its number, and its tags' texts. Arrays double when they grow. */
const BYTES_A_SERIES = 200

t.test('series that come and go count against nothing once they are gone', async (t) => {
  const { rounds, restarted } = await churn({ series: Number(SVC_CHURN_SERIES), rounds: Number(SVC_CHURN_ROUNDS), log: (line) => t.comment(line) })
  const last = rounds.at(-1) as Round
  const middle = rounds[Math.floor(rounds.length / 2)]
  t.ok(last.begun > Number(SVC_CHURN_SERIES), 'more series were begun than may live at once')
  t.ok(last.released > 0 && last.released <= last.begun - last.series, 'those that ended were given back')
  t.ok(Math.max(...rounds.map(({ series }) => series)) <= Number(SVC_CHURN_SERIES))
  t.ok(last.rss - middle.rss < GROWTH_LIMIT, `the process grew by ${Math.round((last.rss - middle.rss) / (1 << 20))} MiB in the second half`)
  t.ok(last.interner_memory_bytes < last.begun * BYTES_A_SERIES, 'of what is gone little is kept')
  t.ok(restarted.series <= last.series, 'a restart brings none of them back')
  for (const round of rounds) for (const value of Object.values(round)) if (!Number.isFinite(value)) t.fail('a gauge is missing')
})
