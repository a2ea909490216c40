/** Random statements, answered from samples and by DuckDB. node storage/embedded/sql/lane.fuzz.ts [seconds] [seed] */
import { LaneHarness } from './testing/lane.ts'

const seconds = Number(process.argv[2] ?? 60)
const first = Number(process.argv[3] ?? Math.floor(Math.random() * 2 ** 31))
console.log(`${seconds} s, seed ${first}`)
const end = performance.now() + seconds * 1000
const counts = { samples: 0, duckdb: 0, refused: 0 }
for (let seed = first; performance.now() < end && process.exitCode === undefined; seed++) {
  const harness = new LaneHarness(seed)
  try {
    for (let round = 0; round < 6 && performance.now() < end && process.exitCode === undefined; round++) {
      await harness.change()
      for (let i = 0; i < 50; i++) {
        const tried = await harness.tryOne()
        counts[tried.outcome]++
        if (tried.problem === undefined) continue
        console.error(`seed ${seed}, round ${round}, statement ${i}, in "${tried.namespace}", ${tried.outcome}: ${tried.problem}\n${tried.sql}`)
        process.exitCode = 1
        break
      }
    }
  } finally {
    harness.close()
  }
}
console.log(`${counts.samples} answered from samples, ${counts.duckdb} by DuckDB, ${counts.refused} refused`)
