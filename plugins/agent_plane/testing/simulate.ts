/**
 * The long form of simulation.test.ts.
 *
 *   node plugins/agent_plane/testing/simulate.ts [lives] [first seed]
 *
 * Each life is a seed, with chances of death, of failing effects and of a failing store that follow from it; every tenth is lived again with a death at each of
 * its calls. A step is a call of the store, or another moment at which a process may die.
 */
import { seeded } from 'svcdb/lib/random'
import { live } from './life.ts'

const [lives = 2000, first = Date.now() % 1_000_000_000] = process.argv.slice(2).map(Number)
const total = { lives: 0, steps: 0, deaths: 0, refused: 0, performed: 0, records: 0, tasks: 0, commissioned: 0, recalled: 0, failed: 0 }
const one = async (seed: number, dieAt?: number): Promise<number> => {
  const random = seeded(seed)
  const chances =
    dieAt === undefined
      ? { death: random() * 0.05, failure: random() * 0.4, rivals: random() < 0.5, store: random() < 0.5 ? random() * 0.05 : 0 }
      : { death: 0, failure: 0.1, rivals: false, store: 0, dieAt }
  total.lives++
  try {
    const { calls, deaths, failed, performed, records, tasks, commissioned, recalled } = await live(seed, chances)
    total.steps += calls
    total.deaths += deaths
    total.refused += failed
    total.performed += performed
    total.records += records
    total.tasks += tasks
    total.commissioned += commissioned
    total.recalled += recalled
    return calls
  } catch (error) {
    total.failed++
    process.stdout.write(`seed ${seed}${dieAt === undefined ? '' : `, death at call ${dieAt}`}: ${(error as Error).stack}\n`)
    return 0
  }
}
process.stdout.write(`${lives} lives from seed ${first}\n`)
for (let seed = first; seed < first + lives; seed++) {
  await one(seed)
  if (seed % 10 !== 0) continue
  const calls = await one(seed, -1)
  for (let dieAt = 1; dieAt <= calls; dieAt++) await one(seed, dieAt)
}
process.stdout.write(`${JSON.stringify(total)}\n`)
process.exit(total.failed === 0 ? 0 : 1)
