import t from 'tap'
import { statusOf } from './store/runs.ts'
import { TakeUp } from './take-up.ts'
import { controlled, skill } from './testing/control.ts'
import { Turns } from './turns.ts'

const RUNS = 40
const SLICE = 3

async function setup() {
  const parts = await controlled([skill('nap', (context) => context.sleep(60_000).then(() => null))])
  const driver = parts.driver()
  const runs = await Promise.all(Array.from({ length: RUNS }, async () => (await parts.run(driver, 'nap')).run))
  const turns = new Turns(2)
  const passes = new Map<string, Promise<void>>()
  const told = { taken: 0, looks: 0, mostWaiting: 0, isOpen: true, fails: false }
  const launch = (run: string): void => {
    const turn = new Promise<void>((begin) => turns.take(agents, begin))
    told.mostWaiting = Math.max(told.mostWaiting, turns.waiting)
    const pass = turn.then(async () => void (await driver.drive(run)))
    passes.set(
      run,
      pass.finally(() => {
        passes.delete(run)
        turns.end(agents)
      }),
    )
  }
  const agents = {
    get isOpen() {
      return told.isOpen
    },
    isTaken: (run: string) => passes.has(run),
    launch,
    sealer: { poke() {} } as never,
  }
  const due = (...asked: Parameters<typeof driver.due>) => {
    told.looks++
    if (told.fails) throw new Error('the store is away')
    return driver.due(...asked)
  }
  const running = { driver: { due, sweep: (some: readonly string[]) => driver.sweep(some) } }
  const takeUp = new TakeUp({ plane: { agents, running }, turns, slice: SLICE, taken: () => void told.taken++ })
  const rest = async (): Promise<void> => {
    while (passes.size > 0) {
      await Promise.all(passes.values())
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
  const statuses = async () => new Set(await Promise.all(runs.map((run) => statusOf(parts.state, run))))
  return { ...parts, takeUp, told, rest, statuses }
}

t.test('one look takes up all that is due, slice by slice, and few wait for their turn', async (t) => {
  const { takeUp, told, rest, statuses, clock } = await setup()
  await takeUp.once()
  t.match(told, { taken: 0, looks: 1 }, 'nothing is due')
  clock.now += 60_000
  await takeUp.once()
  await rest()
  t.same(await statuses(), new Set(['succeeded']))
  t.equal(told.taken, RUNS, 'each once')
  t.ok(told.mostWaiting <= 2 * SLICE, `${told.mostWaiting} waited`)
})

t.test('what is closed takes up no more, and what fails is left to the next look', async (t) => {
  const { takeUp, told, rest, statuses, clock } = await setup()
  clock.now += 60_000
  await takeUp.once()
  told.fails = true
  await rest()
  t.ok(told.taken < RUNS)
  t.same(await statuses(), new Set(['succeeded', 'suspended']))
  await t.rejects(takeUp.once(), /the store is away/)
  told.fails = false
  await takeUp.once()
  told.isOpen = false
  await rest()
  t.ok(told.taken < RUNS, 'closed')
  told.isOpen = true
  await takeUp.once()
  await rest()
  t.same(await statuses(), new Set(['succeeded']))
})
