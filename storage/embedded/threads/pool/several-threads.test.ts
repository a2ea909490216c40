/** How jobs are divided among query threads. */
import { setImmediate as turn } from 'node:timers/promises'
import { definePlugin } from 'svcdb'
import { moduleUrl } from 'svcdb/lib/modules'
import { boot } from 'svcdb/testkit'
import t from 'tap'

const JOB = moduleUrl('../testing/thread-id-job.ts', import.meta.url)
const BUSY = moduleUrl('../testing/busy-job.ts', import.meta.url)
const WAITS = moduleUrl('../testing/waits-job.ts', import.meta.url)
const TURNS = moduleUrl('../testing/turns-job.ts', import.meta.url)
const BEGINS = moduleUrl('../testing/begins-job.ts', import.meta.url)
const DIE = moduleUrl('../testing/die-job.ts', import.meta.url)

const plugin = definePlugin({ id: 'jobs', summary: 'Runs jobs', stability: 'stable', capabilities: ['jobs'], setup: () => {} })

t.test('jobs that come at once go to several threads, as many as there may be', async (t) => {
  const node = await boot({ plugins: [plugin], storage: 'embedded', config: { database: { query_threads: 2 } } })
  t.teardown(() => node.stop())
  const running = [1, 2, 3].map(() => node.storage.run<number>(JOB, undefined).result)
  t.equal(new Set(await Promise.all(running)).size, 2)
})

t.test('namespaces take turns of a thread, however many jobs one of them has', async (t) => {
  const node = await boot({ plugins: [plugin], storage: 'embedded', config: { database: { query_threads: 1 } } })
  t.teardown(() => node.stop())
  const taken = new Int32Array(new SharedArrayBuffer(4))
  const end = new AbortController()
  const many = Array.from({ length: 20 }, () =>
    node.storage.run<number>(TURNS, { turns: 1_000_000, taken }, { namespace: 'many', signal: end.signal }).result.catch((error: Error) => error),
  )
  while (Atomics.load(taken, 0) < 100) await turn()
  const others = await node.storage.run<number>(TURNS, { turns: 50, taken }, { namespace: 'one' }).result
  t.ok(others >= 49 && others <= 2 * 50, `${others} turns of others beside 50`)
  end.abort(new Error('enough'))
  t.match(await Promise.all(many), Array(20).fill(Error))
})

t.test('jobs of one namespace that each end in one go do not hold up another that comes back often', async (t) => {
  const node = await boot({ plugins: [plugin], storage: 'embedded', config: { database: { query_threads: 1 } } })
  t.teardown(() => node.stop())
  const begun = new Int32Array(new SharedArrayBuffer(4))
  const begin = (namespace: string, holds: number, comesBack: number) => node.storage.run<number>(BEGINS, { begun, holds, comesBack }, { namespace }).result
  await begin('many', 0, 0)
  const many = Array.from({ length: 40 }, () => begin('many', 10, 0))
  const before = await begin('one', 0, 10)
  // Itself, the first of all, two before it, and one each time that it comes back.
  t.ok(before <= 4 + 10 * 2, `${before} have begun`)
  await Promise.all(many)
})

t.test('a job that nobody waits for does not take turns with queries, and is replaced like one when its thread dies', async (t) => {
  const node = await boot({ plugins: [plugin], storage: 'embedded', config: { database: { query_threads: 1 } } })
  t.teardown(() => node.stop())
  const { storage } = node
  const background = () => storage.run<number>(JOB, undefined, { background: true }).result
  const first = await background()
  t.not(await storage.run<number>(JOB, undefined).result, first)
  t.equal(await background(), first, 'there is one thread for them')

  // Without a thread of its own it would come to its turn when the query has ended.
  let ended = false
  const query = storage.run<void>(BUSY, 3000).result.finally(() => {
    ended = true
  })
  await background()
  t.notOk(ended)
  await query

  const died = storage.run(DIE, undefined, { background: true })
  await t.rejects(died.result, { code: 'DATABASE_ERROR', message: /engine thread ended with code 3/ })
  t.not(await background(), first)
})

t.test('what runs when the database closes is told that it closes, and not that it took too long', async (t) => {
  const node = await boot({ plugins: [plugin], storage: 'embedded', config: { database: { query_threads: 1 } } })
  const { storage } = node
  await storage.run<number>(JOB, undefined).result
  const job = storage.run(WAITS, undefined)
  const ended = t.rejects(job.result, { code: 'DATABASE_CLOSED', message: /retry after the restart/ })
  // The thread takes its messages in order.
  await storage.run<number>(JOB, undefined).result
  await node.stop()
  await ended
})

t.test('arguments that no thread can be given fail their job, and its thread has one less', async (t) => {
  const node = await boot({ plugins: [plugin], storage: 'embedded', config: { database: { query_threads: 2 } } })
  t.teardown(() => node.stop())
  const { storage } = node
  const first = await storage.run<number>(JOB, undefined).result
  await t.rejects(storage.run(JOB, () => {}).result, { message: /could not be cloned/ })
  t.equal(await storage.run<number>(JOB, undefined).result, first, 'it is idle')
})
