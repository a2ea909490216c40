/** Statements by chance against the gate. node storage/embedded/sql/gate.fuzz.ts [statements] [seed] */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Random } from '../../conformance/random.ts'
import { GateHarness } from './testing-gate.ts'

const statements = Number(process.argv[2] ?? 5000)
const seed = Number(process.argv[3] ?? Math.floor(Math.random() * 2 ** 31))
console.log(`${statements} statements, seed ${seed}`)
const dir = mkdtempSync(join(tmpdir(), 'svc-gate-fuzz-'))
const harness = await GateHarness.open(dir)
const random = new Random(seed)
const counts = { answered: 0, refused: 0 }
try {
  for (let i = 0; i < statements; i++) {
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
console.log(`${counts.answered} answered, ${counts.refused} refused`)
