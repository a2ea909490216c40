/**
 * Runs the simulator: `node storage/embedded/simulation/run.ts [lives] [seed]`. Each database lives several times; the seed of one that fails is
 * printed, and given again repeats it event for event.
 *
 *   --trace      prints the events of the first seed, and ends with it
 *   --jobs n     runs n processes
 *   --lives n    lives of each database at most
 */
import { parseArgs } from 'node:util'
import { World } from './world.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { trace: { type: 'boolean' }, jobs: { type: 'string', default: '1' }, lives: { type: 'string', default: '8' } },
})
const wanted = Number(positionals[0] ?? 1000)
const first = positionals[1] === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(positionals[1])
const began = Date.now()
// A stack for each refused request would take a tenth of the time.
Error.stackTraceLimit = values.trace ? 20 : 0
let lives = 0
let failed = 0
for (let seed = first; lives < wanted; seed++) {
  const world = new World(seed, values.trace ? (line) => console.log(line) : undefined)
  const outcome = await world.run(Number(values.lives))
  lives += outcome.lives
  if (outcome.problem !== undefined) {
    failed++
    console.log(`seed ${seed}, life ${outcome.lives}, step ${outcome.steps}: ${outcome.problem}`)
  }
  if (values.trace) break
}
const { user, system } = process.cpuUsage()
console.log(`${((user + system) / 1000 / lives).toFixed(1)} ms of processor a life`)
console.log(`${lives} lives from seed ${first} on, ${failed} databases failed, ${((Date.now() - began) / 1000).toFixed(1)} s`)
process.exitCode = failed > 0 ? 1 : 0
