import t from 'tap'
import { LaneHarness, type Tried } from './testing/lane.ts'

const { SVC_SEED } = process.env
const first = SVC_SEED === undefined ? Date.now() % 1e9 : Number(SVC_SEED)

t.test('statements are answered from samples as DuckDB answers them', { timeout: 60_000 }, async (t) => {
  const counts: Record<Tried['outcome'], number> = { samples: 0, duckdb: 0, refused: 0 }
  for (let seed = first; seed < first + 4; seed++) {
    const harness = new LaneHarness(seed)
    try {
      await harness.change()
      for (let i = 0; i < 25; i++) {
        const { problem, sql, namespace, outcome } = await harness.tryOne()
        counts[outcome]++
        if (problem !== undefined) return t.fail(`SVC_SEED=${seed} in "${namespace}", ${outcome}: ${problem}\n${sql}`)
      }
    } finally {
      harness.close()
    }
  }
  t.ok(counts.samples > 0, `SVC_SEED=${first} ${JSON.stringify(counts)}`)
})
