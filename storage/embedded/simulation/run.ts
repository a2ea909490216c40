/**
 * Runs the simulator: `node storage/embedded/simulation/run.ts [lives] [seed]`. Each database lives several times; the seed of one that fails is
 * printed, and given again it repeats the run event for event.
 *
 *   --trace      prints the events of the first seed, and ends with it
 *   --until n    ends the first seed at event n: the machine stops there
 *   --lives n    lives of each database at most
 *   --jobs n     runs n processes
 *   --stop       ends with the first failure
 */
import { fork } from 'node:child_process'
import { parseArgs } from 'node:util'
import { World } from './world.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    trace: { type: 'boolean', default: false },
    until: { type: 'string' },
    lives: { type: 'string', default: '8' },
    jobs: { type: 'string', default: '1' },
    stop: { type: 'boolean', default: false },
  },
})
const wanted = Number(positionals[0] ?? 1000)
const first = positionals[1] === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(positionals[1])
const jobs = Number(values.jobs)
const began = Date.now()

if (jobs > 1) await inParallel()
else await alone()

async function alone(): Promise<void> {
  // A stack for each refused request would take a tenth of the time.
  Error.stackTraceLimit = values.trace ? 20 : 0
  const single = values.trace || values.until !== undefined
  let lives = 0
  let failed = 0
  for (let seed = first; lives < wanted; seed++) {
    const world = new World(seed, values.trace ? (line) => console.log(line) : undefined)
    if (values.until !== undefined) world.scheduler.until = Number(values.until)
    const outcome = await world.run(Number(values.lives))
    lives += outcome.lives
    if (outcome.problem !== undefined) {
      failed++
      console.log(`seed ${seed}, life ${outcome.lives}, event ${outcome.steps}: ${outcome.problem}`)
    }
    if (single || (values.stop && failed > 0)) break
  }
  const { user, system } = process.cpuUsage()
  const spent = ((user + system) / 1000 / lives).toFixed(1)
  console.log(
    `${lives} lives from seed ${first} on: ${failed} databases failed; ${((Date.now() - began) / 1000).toFixed(0)} s, ${spent} ms of processor a life`,
  )
  process.exitCode = failed > 0 ? 1 : 0
}

async function inParallel(): Promise<void> {
  const ends = Array.from({ length: jobs }, (_, job) => {
    const seed = first + job * Math.ceil(wanted / jobs)
    const child = fork(import.meta.filename, [String(Math.ceil(wanted / jobs)), String(seed), '--lives', values.lives, ...(values.stop ? ['--stop'] : [])])
    return new Promise<number>((resolve) => child.once('exit', (code) => resolve(code ?? 1)))
  })
  process.exitCode = Math.max(...(await Promise.all(ends)))
}
