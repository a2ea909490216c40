/**
 * What an effect costs: alone and with many runs at one time, in memory and on disk, and when a journal is replayed. An effect itself does nothing.
 * Then what runs that wait take: memory of the process beside the store's file, and a look for those whose time has come.
 * node --expose-gc plugins/agent_plane/plane.bench.ts [memory|embedded] [effects a run] [runs at one time] [runs that wait]
 */
import { performance } from 'node:perf_hooks'
import { definePlugin, type StateStore } from 'svcdb'
import { defineSkill, type Json } from 'svcdb/agents'
import { Type } from 'svcdb/lib/schema'
import { boot } from 'svcdb/testkit'
import { Driver } from './drive/driver.ts'

const SKILL = defineSkill({
  capability: 'bench.effects',
  summary: 'Does so many effects, one after the other',
  input: Type.Object({ effects: Type.Integer() }),
  output: Type.Any(),
  async invoke(context, { effects }): Promise<Json> {
    for (let n = 0; n < effects; n++)
      await context.effect({ kind: 'bench.nothing', args: { order: `o-${n}`, cents: n }, mutates: true, recovery: 'idempotent' }, async () => ({ ok: true, n }))
    return effects
  },
})

const NAP = defineSkill({
  capability: 'bench.nap',
  summary: 'Sleeps for an hour',
  input: Type.Object({}),
  output: Type.Any(),
  invoke: (context) => context.sleep(3_600_000),
})

const REPLAYS = 20

let hours = 0

function driverOver(state: StateStore): Driver {
  return new Driver({
    state,
    skills: new Map([SKILL, NAP].map((skill) => [skill.capability, skill])),
    calendars: new Map(),
    holder: 'bench',
    leaseMs: 30_000,
    limits: { maxSteps: 1e9, maxEffects: 1e9 },
    now: () => Date.now() + hours * 3_600_000,
    random: Math.random,
    sleep: () => Promise.resolve(),
    soon: () => new Promise((resolve) => void setImmediate(resolve)),
    every: () => () => {},
    performed: () => {},
  })
}

interface Cost {
  runs: string[]
  wallMs: number
  processorMs: number
}

async function drive(driver: Driver, runs: number, effects: number): Promise<Cost> {
  const before = process.cpuUsage()
  const start = performance.now()
  const ids = await Promise.all(
    Array.from({ length: runs }, async () => {
      const { run, epoch } = await driver.admit({ capability: SKILL.capability, input: { effects }, actor: 'bench' })
      const status = await driver.drive(run, epoch)
      if (status !== 'succeeded') throw new Error(`the run is ${status}`)
      return run
    }),
  )
  const wallMs = performance.now() - start
  const { user, system } = process.cpuUsage(before)
  return { runs: ids, wallMs, processorMs: (user + system) / 1000 }
}

async function waiting(storage: string, driver: Driver, runs: number): Promise<void> {
  const heap = (): number => {
    globalThis.gc?.()
    return process.memoryUsage().heapUsed / 2 ** 20
  }
  const before = heap()
  for (let begun = 0; begun < runs; begun += 500)
    await Promise.all(
      Array.from({ length: Math.min(500, runs - begun) }, async () => {
        const { run, epoch } = await driver.admit({ capability: NAP.capability, input: {}, actor: 'bench' })
        if ((await driver.drive(run, epoch)) !== 'suspended') throw new Error('the run does not wait')
      }),
    )
  const taken = heap() - before
  const timed = async (): Promise<number> => {
    const start = performance.now()
    await driver.due(256)
    return performance.now() - start
  }
  const early = await timed()
  hours += 2
  const late = await timed()
  hours -= 2
  process.stdout.write(
    `${storage}, ${runs} runs that wait: ${taken.toFixed(1)} MiB of heap; a look ${early.toFixed(1)} ms, ${late.toFixed(1)} ms where the time of all has come, which finds 256\n`,
  )
}

async function measure(storage: string, effects: number, atOnce: number, runsThatWait: number): Promise<void> {
  const held: { state?: StateStore } = {}
  const owner = definePlugin({
    id: 'owner',
    summary: 'Has a state store',
    stability: 'experimental',
    capabilities: ['state'],
    setup: (svc) => svc.ready(() => void (held.state = svc.storage.state('plane'))),
  })
  const node = await boot({ plugins: [owner], storage })
  const driver = driverOver(held.state as StateStore)
  const print = (what: string, { wallMs, processorMs }: Cost, count: number) =>
    process.stdout.write(
      `${storage}, ${what}: ${Math.round((count / wallMs) * 1000)} effects/s, ${(wallMs / count).toFixed(4)} ms an effect, ${(processorMs / count).toFixed(4)} ms of processor\n`,
    )
  await drive(driver, 2, Math.min(effects, 50))
  const alone = await drive(driver, 1, effects)
  print('alone', alone, effects)
  print(`${atOnce} runs at one time`, await drive(driver, atOnce, Math.ceil(effects / 8)), atOnce * Math.ceil(effects / 8))
  const [run] = alone.runs
  const replayed = async (): Promise<number> => {
    const start = performance.now()
    const { divergences, output } = await driver.replay(run)
    if (divergences.length > 0 || output !== effects) throw new Error(`a replay differs: ${divergences.join()}`)
    return ((performance.now() - start) / effects) * 1000
  }
  const rounds: number[] = []
  for (let round = 0; round < REPLAYS; round++) rounds.push(await replayed())
  const before = process.cpuUsage()
  for (let round = 0; round < REPLAYS; round++) rounds.push(await replayed())
  const { user, system } = process.cpuUsage(before)
  process.stdout.write(
    `${storage}, replay: ${Math.min(...rounds).toFixed(2)} µs an effect, the first ${rounds[0].toFixed(2)}; ${((user + system) / REPLAYS / effects).toFixed(2)} µs of processor\n`,
  )
  await waiting(storage, driver, runsThatWait)
  await node.stop()
}

const [only, effects = '400', atOnce = '64', runsThatWait = '10000'] = process.argv.slice(2)
for (const storage of only === undefined ? ['memory', 'embedded'] : [only]) await measure(storage, Number(effects), Number(atOnce), Number(runsThatWait))
