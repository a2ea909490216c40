/** Threads that fit: whose turn it is, what ends a task, and what a thread leaves behind that ends. */
import t, { type Test } from 'tap'
import { lookUntil } from '../../../test/support/until.ts'
import type { Task } from './compute.ts'
import { ComputeThreads, type Run, type ThreadSettings } from './compute-threads.ts'

type Train = Extract<Task, { kind: 'train' }>

const opened = (t: Test, settings: Partial<ThreadSettings> = {}): ComputeThreads => {
  const threads = new ComputeThreads({ threads: 1, memoryMb: 64, timeoutSecs: 30, maxWaiting: 2, ...settings })
  t.teardown(() => threads.stop())
  return threads
}
const turn = (more: object = {}) => ({ namespace: '', asked: true, signal: new AbortController().signal, ...more })
const samples = (length = 10) => ({ times: BigInt64Array.from({ length }, (_, i) => BigInt(i)), values: Float64Array.from({ length }, (_, i) => i) })
const train = (spec: object = {}): Train => ({ kind: 'train', samples: samples(), spec: { model: 'ses', parameters: {}, horizon: 1, ...spec }, most: 1000 })
const kind = (name: string, parameters = {}) => train({ model: name, module: new URL(`./testing-${name}.ts`, import.meta.url).href, parameters })
const settled = async (done: () => boolean): Promise<void> =>
  void (await lookUntil(
    async () => done(),
    (found) => found,
  ))

t.test('a thread that ends while it works fails its task, and the next has another', async (t) => {
  const threads = opened(t)
  await t.rejects(
    threads.turn(turn(), (run) => run(kind('ending', { when: 'now' }))),
    /its thread ended/,
  )
  t.equal((await threads.turn(turn(), (run) => run(train()))).trained.points, 10)
})

t.test('a thread that ends between two tasks is noticed, within a turn and after it', async (t) => {
  for (const when of ['exited', 'thrown']) {
    const threads = opened(t)
    const endAfter = async (run: Run): Promise<void> => {
      const gate = new SharedArrayBuffer(4)
      await run(kind('ending', { when, gate }))
      Atomics.store(new Int32Array(gate), 0, 1)
      await settled(() => threads.started === 0)
    }
    await threads.turn(turn(), async (run) => {
      await endAfter(run)
      t.equal((await run(train())).trained.points, 10, `${when}: the same turn`)
      await endAfter(run)
    })
    t.equal((await threads.turn(turn(), (run) => run(train()))).trained.points, 10, `${when}: the next turn`)
    t.equal(threads.started, 1)
  }
})

t.test('the memory of a thread is bounded, in objects and in buffers, and the next task has another thread', async (t) => {
  const threads = opened(t, { memoryMb: 48, timeoutSecs: 60 })
  for (const where of ['objects', 'buffers']) {
    const heavy = threads.turn(turn(), (run) => run(kind('heavy', { where, megabytes: 400 })))
    await t.rejects(heavy, { code: 'OVERLOADED', message: /more than the 48 MiB of analytics.compute_memory_mb/ }, where)
  }
  // What is within the bound may be in buffers, and the samples do not count.
  const large = { ...train(), samples: samples(4_000_000), most: 4_000_000 }
  t.equal((await opened(t, { memoryMb: 256, timeoutSecs: 60 }).turn(turn(), (run) => run(large))).trained.points, 4_000_000)
  await t.rejects(
    threads.turn(turn(), (run) => run(kind('heavy', { where: 'state', megabytes: 5 }))),
    /has a state of 5242891 characters, and at most 4194304 are kept/,
  )
  t.match(await threads.turn(turn(), (run) => run(kind('heavy', { where: 'state', megabytes: 3 }))), { trained: { state: { kind: 'Custom(heavy)' } } })
})

t.test('what does not fit keeps its thread', async (t) => {
  const threads = opened(t)
  await threads.turn(turn(), async (run) => {
    await t.rejects(run(train({ model: 'no' })), /there is no model "no"/)
    t.equal(threads.started, 1)
    t.equal((await run(train())).trained.points, 10)
  })
  t.equal(threads.started, 1)
})

t.test('a task is ended by its time limit and by whoever waits for it, and the next one runs', async (t) => {
  const threads = opened(t, { timeoutSecs: 1 })
  await t.rejects(
    threads.turn(turn(), (run) => run(kind('endless'))),
    { code: 'QUERY_TIMEOUT', message: /more than 1 s/ },
  )
  const gone = new AbortController()
  const reason = new Error('gone')
  const ended = t.rejects(
    threads.turn(turn({ signal: gone.signal }), (run) => {
      const running = run(kind('endless'))
      gone.abort(reason)
      return running
    }),
    reason,
  )
  await ended
  await settled(() => threads.started === 0)
  t.equal(threads.running, 0)
})

t.test('whoever is asked for comes first, namespaces take turns, and no more than so many wait', async (t) => {
  const threads = opened(t)
  const order: string[] = []
  const gate = Promise.withResolvers<void>()
  const wait = (name: string, more: object) => threads.turn(turn(more), async () => void order.push(name))
  const first = threads.turn(turn({ namespace: 'a' }), () => gate.promise)
  const waiting = [
    wait('a by itself', { namespace: 'a', asked: false }),
    wait('b by itself', { namespace: 'b', asked: false }),
    wait('a asked', { namespace: 'a' }),
    wait('b asked', { namespace: 'b' }),
  ]
  await t.rejects(wait('c asked', { namespace: 'c' }), { code: 'RATE_LIMITED', message: /2 requests wait for a thread, which is analytics.max_waiting/ })
  const left = new AbortController()
  const leaves = t.rejects(wait('d', { namespace: 'd', asked: false, signal: left.signal }), /left/)
  left.abort(new Error('left'))
  await leaves
  t.equal(threads.queued, 4)
  gate.resolve()
  await Promise.all([first, ...waiting])
  t.strictSame(order, ['b asked', 'a asked', 'b by itself', 'a by itself'])
  t.equal(threads.started, 0, 'no thread without a task')
})
