/** The short form of bit-flips.ts. SVC_CRASH_ROUNDS and SVC_CRASH_SEED set the length and the seed. */
import t from 'tap'
import { bitFlips } from './bit-flips.ts'

t.setTimeout(600_000)
const { SVC_CRASH_ROUNDS = '1', SVC_CRASH_SEED } = process.env
const seed = Number(SVC_CRASH_SEED ?? Date.now() % 1_000_000)

t.test('corruption is named or changes nothing, whatever it hits', async (t) => {
  const counts = await bitFlips({ rounds: Number(SVC_CRASH_ROUNDS), seed })
  t.comment(`seed ${seed}: ${JSON.stringify(counts)}`)
  t.ok(counts.segments.named > 0 && counts.segments.refused > 0, 'segments: at once and when they are needed')
  t.ok(counts.catalog.refused > 0 && counts.catalog.named === 0)
  t.ok(counts.log.refused > 0 && counts.log.harmless === 0)
  t.ok(counts.backup.refused > 0 && counts.backup.harmless === 0)
})
