/** The warm-up's turn: a slice at a time, while no query runs, slowly beside writes, and not after a stop. */
import t from 'tap'
import type { Timer, Timers } from '../../common/timers.ts'
import { type ColdThread, WarmUpSchedule } from './schedule.ts'
import type { WarmUpSlice } from './thread-warm-up.ts'

const MODULE = new URL('file:///job.js')

/** Threads whose jobs take 5 ms each, by a clock that goes as far as it is waited. */
function world(threads = 1, budgetMs = 100) {
  const at = { now: 0, busy: false, utilization: 0, cold: threads, data: true, dying: false, closing: 0, refused: 0, started: 0 }
  const ran: { now: number; thread: number; args: unknown }[] = []
  const slices: WarmUpSlice[] = []
  const ended: number[] = []
  const waits: number[] = []
  const pending = new Map<Timer, () => void>()
  const timers = {
    monotonic: () => at.now,
    setTimeout(callback: () => void, ms: number) {
      waits.push(ms)
      at.now += ms
      const own: Timer = { unref: () => own }
      pending.set(own, callback)
      setImmediate(() => pending.get(own)?.())
      return own
    },
    clearTimeout: (own: Timer) => pending.delete(own),
  } as unknown as Timers
  const coldThread = (): ColdThread | undefined => {
    if (at.cold === 0) return undefined
    const thread = at.cold
    at.started++
    return {
      async warmUp(slice) {
        if (thread === at.closing && at.refused++ < 100) return { jobs: 0, ms: 0, over: true }
        if (at.dying) throw new Error('the engine thread ended')
        slices.push(slice)
        const jobs = Math.min(slice.jobs.length, Math.ceil(slice.ms / 5))
        for (const { args } of slice.jobs.slice(0, jobs)) {
          ran.push({ now: at.now, thread, args })
          at.now += 5
        }
        return { jobs, ms: jobs * 5 }
      },
      endWarmUp() {
        ended.push(thread)
        at.cold--
      },
    }
  }
  const options = { budgetMs, coldThread, wanted: () => at.data, busy: () => at.busy, timers, log: { debug: () => {} }, utilization: () => at.utilization }
  return { at, ran, slices, ended, waits, schedule: new WarmUpSchedule(options) }
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

async function until(done: () => boolean): Promise<void> {
  while (!done()) await turn()
}

t.test('it runs a job of each source in turn, round after round, until the time of a thread is spent', async (t) => {
  const { schedule, ran, ended, slices } = world(2)
  schedule.add({ module: MODULE, args: (round) => [`a${round}`, `b${round}`, `c${round}`] })
  schedule.add({ module: MODULE, args: (round) => [`x${round}`] })
  await until(() => ended.length === 2)
  const texts = (thread: number) => ran.filter((each) => each.thread === thread).map(({ args }) => args)
  t.same(texts(2).slice(0, 6), ['a0', 'x0', 'b0', 'c0', 'a1', 'x1'])
  t.equal(texts(2).length, 20)
  t.same(texts(1), texts(2), 'the next thread is warmed up as well')
  t.equal(slices.filter(({ trim }) => trim).length, 2, 'each thread is collected once on the way')
})

t.test('it waits while queries run', async (t) => {
  const { schedule, at, ran, ended } = world()
  at.busy = true
  schedule.add({ module: MODULE, args: () => [1] })
  for (let i = 0; i < 200; i++) await turn()
  t.equal(ran.length, 0)
  at.busy = false
  await until(() => ended.length === 1)
  t.equal(ran.length, 20)
})

t.test('it waits until there is something to ask about, and then for a rest from writes, half a minute at most', async (t) => {
  const { schedule, at, ran, ended, waits } = world()
  at.data = false
  schedule.add({ module: MODULE, args: () => [1] })
  for (let i = 0; i < 20; i++) await turn()
  t.same([...new Set(waits)], [1000])
  t.equal(ran.length, 0)
  at.data = true
  at.utilization = 1
  const written = at.now
  await until(() => ran.length > 0)
  t.ok(ran[0].now - written >= 30_000)
  t.ok(ran[0].now - written <= 32_000)
  at.utilization = 0
  await until(() => ended.length === 1)
})

t.test('beside writes each job has one turn, in a tenth of the time; the rest waits for them', async (t) => {
  const { schedule, at, ran, ended } = world()
  at.utilization = 1
  const jobs = Array.from({ length: 12 }, (_, job) => job)
  schedule.add({ module: MODULE, args: () => jobs })
  for (let i = 0; i < 200; i++) await turn()
  t.same(
    ran.map(({ args }) => args),
    jobs,
  )
  t.equal(Math.ceil((ran[ran.length - 1].now - ran[0].now) / 100), 5, 'two pauses of nine slices')
  at.utilization = 0
  await until(() => ended.length === 1)
  t.equal(ran.length, 20)
})

t.test('without a budget, and after a stop, nothing runs', async (t) => {
  const none = world(1, 0)
  none.schedule.add({ module: MODULE, args: () => [1] })
  const stopped = world()
  stopped.schedule.add({ module: MODULE, args: () => [1] })
  stopped.schedule.stop()
  for (let i = 0; i < 50; i++) await turn()
  t.equal(none.ran.length + stopped.ran.length, 0)
  t.equal(none.waits.length, 0)
})

t.test('a thread that is gone ends its warm-up, and sources without jobs are none', async (t) => {
  const { schedule, ended, at } = world()
  schedule.add({ module: MODULE, args: () => [] })
  await until(() => ended.length === 1)
  at.cold = 1
  schedule.wake()
  await until(() => ended.length === 2)
  t.equal(at.cold, 0)
})

t.test('a thread that dies is not followed by another, until there is a reason to', async (t) => {
  const { schedule, ended, at } = world()
  at.dying = true
  schedule.add({ module: MODULE, args: () => [1] })
  await until(() => at.started === 1)
  for (let i = 0; i < 50; i++) await turn()
  t.equal(at.started, 1)
  at.dying = false
  schedule.wake()
  await until(() => ended.length === 1)
  t.equal(at.started, 2)
})

t.test('a thread that takes no more slices is left, for the next one', async (t) => {
  const { schedule, at, ran, ended } = world(2)
  at.closing = 2
  schedule.add({ module: MODULE, args: () => [1] })
  await until(() => ended.length === 2)
  t.same(ended, [2, 1])
  t.equal(at.refused, 1)
  t.ok(ran.every(({ thread }) => thread === 1))
})
