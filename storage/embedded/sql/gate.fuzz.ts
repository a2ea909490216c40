/** Random statements against the gate: what is read is the caller's. node storage/embedded/sql/gate.fuzz.ts [seconds] [seed] */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Random } from '../../conformance/random.ts'
import { GateHarness } from './testing/gate.ts'

const seconds = Number(process.argv[2] ?? 60)
const seed = Number(process.argv[3] ?? Math.floor(Math.random() * 2 ** 31))
console.log(`${seconds} s, seed ${seed}`)
const dir = mkdtempSync(join(tmpdir(), 'svc-gate-fuzz-'))
const harness = await GateHarness.open(dir)
const random = new Random(seed)
const end = performance.now() + seconds * 1000
const counts = { answered: 0, refused: 0 }
try {
  for (let i = 0; performance.now() < end; i++) {
    const tried = await harness.tryOne(random, i % 2 === 0)
    counts[tried.outcome]++
    if (tried.problem === undefined) continue
    console.error(`statement ${i} of seed ${seed}: ${tried.problem}\n${tried.sql}`)
    process.exitCode = 1
    break
  }
} finally {
  harness.close()
  rmSync(dir, { recursive: true })
}
console.log(`${counts.answered + counts.refused} statements: ${counts.answered} answered, ${counts.refused} refused`)
