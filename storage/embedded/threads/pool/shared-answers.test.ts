/** Equal jobs that wait for a busy thread are answered by one of them; nobody gets less or older data for it, or waits for another's caller. */
import { setTimeout as sleep } from 'node:timers/promises'
import { definePlugin, type RunningJob } from 'svcdb'
import { moduleUrl } from 'svcdb/lib/modules'
import { seeded } from 'svcdb/lib/random'
import { boot } from 'svcdb/testkit'
import t from 'tap'
import type { Counted, CountedArgs } from '../testing/counted-job.ts'
import { SharedAnswers, type SharedJob } from './shared-answers.ts'
import type { ThreadJob } from './thread-job.ts'

const JOB = moduleUrl('../testing/counted-job.ts', import.meta.url)
const BUSY = moduleUrl('../testing/busy-job.ts', import.meta.url)
const HELD = moduleUrl('../testing/held-job.ts', import.meta.url)
const DIE = moduleUrl('../testing/die-job.ts', import.meta.url)
const MIB = 1 << 20

const asks = definePlugin({ id: 'asks', summary: 'Runs jobs', stability: 'stable', capabilities: ['jobs'], setup: () => {} })

async function started(maxJobs = 64) {
  const database = { query_threads: 1, max_concurrent_queries: maxJobs }
  const node = await boot({ plugins: [asks, 'line_protocol'], storage: 'embedded', config: { database } })
  let written = 0
  const write = async (): Promise<void> => {
    const { statusCode, body } = await node.inject({ method: 'POST', url: '/write', payload: `m v=1 ${1_700_000_000_000_000_000n + BigInt(written)}` })
    if (statusCode !== 204) throw new Error(body)
    written++
  }
  await write()
  const args = (more: Partial<CountedArgs>): CountedArgs => ({ namespace: '', measurement: 'm', ...more })
  return {
    node,
    write,
    acknowledged: () => written,
    /** Its thread is in the midst of something until the returned function is called. */
    held: (): (() => void) => {
      const gate = new Int32Array(new SharedArrayBuffer(4))
      node.storage.run(HELD, gate).result.catch(() => {})
      return () => {
        Atomics.store(gate, 0, 1)
        Atomics.notify(gate, 0)
      }
    },
    /** The same, for so long. */
    busy: (ms: number): void => void node.storage.run(BUSY, ms).result.catch(() => {}),
    ask: (more: Partial<CountedArgs> = {}, options = {}): RunningJob<Counted> => node.storage.run<Counted>(JOB, args(more), { shared: true, ...options }),
    alone: (more: Partial<CountedArgs> = {}): RunningJob<Counted> => node.storage.run<Counted>(JOB, args(more)),
    shared: async () => Number(/^svc_queries_shared_total (\d+)$/m.exec((await node.inject('/metrics')).body)?.[1] ?? 0),
  }
}

/** All output, and the result. */
async function answer(job: RunningJob<Counted>): Promise<Counted & { bytes: number }> {
  const parts: Uint8Array[] = []
  for await (const part of job.output) {
    parts.push(part.slice())
    ;(part.buffer as ArrayBuffer).transfer(0) // it belongs to the caller
  }
  const result = await job.result
  const all = Buffer.concat(parts)
  const text = all.subarray(all.indexOf('{"rows"')).toString()
  t.same(JSON.parse(text), result, 'output and result are of one job')
  t.ok(all.subarray(0, all.length - text.length).every((byte) => byte === result.before))
  return { ...result, bytes: all.length - text.length }
}

const roomy = await started()
t.teardown(() => roomy.node.stop())

/** How many jobs have run: the next one says so. */
const before = async (): Promise<number> => (await answer(roomy.alone())).before + 1

t.test('equal jobs are answered by one, others not', async (t) => {
  const { held, ask, alone, shared } = roomy
  const sharedBefore = await shared()
  const open = held()
  const equal = [ask(), ask(), ask({}, { timeoutMs: 60_000 })].map(answer)
  const others = [ask({ name: 'b' }), ask({ bytes: 1 }), ask({}, { namespace: 'other' }), alone()].map(answer)
  open()
  const [first, ...copies] = await Promise.all(equal)
  t.equal(first.rows, roomy.acknowledged())
  t.same(copies, [first, first])
  t.same(new Set([first, ...(await Promise.all(others))].map(({ before }) => before)).size, 5)
  t.equal((await shared()) - sharedBefore, 2)
})

t.test('so many wait for one that copies for all of them take no long turn', async (t) => {
  const { held, ask } = roomy
  const open = held()
  const answers = Array.from({ length: 150 }, () => answer(ask()))
  open()
  const runs = new Map<number, number>()
  for (const { before } of await Promise.all(answers)) runs.set(before, (runs.get(before) ?? 0) + 1)
  t.same([...runs.values()], [65, 65, 20])
})

t.test('jobs that wait because enough are under way are shared, too', async (t) => {
  const { node, held, ask } = await started(1)
  t.teardown(() => node.stop())
  const open = held()
  const answers = [ask(), ask(), ask()].map(answer)
  open()
  const [first, ...copies] = await Promise.all(answers)
  t.same(copies, [first, first])
})

t.test('whoever is answered by a job of another sees what had been acknowledged when he asked', async (t) => {
  const { write, acknowledged, busy, ask, shared } = roomy
  const sharedBefore = await shared()
  const seed = Math.floor(Math.random() * 2 ** 31)
  t.comment(`seed ${seed}`)
  const random = seeded(seed)
  const behind: string[] = []
  const asked: Promise<void>[] = []
  for (let i = 0; i < 400; i++) {
    const what = random()
    if (what < 0.15) busy(Math.floor(random() * 20))
    else if (what < 0.5) await write()
    else if (what < 0.55) await sleep(random() * 10)
    else {
      const least = acknowledged()
      const job = ask()
      if (random() < 0.2) setTimeout(() => job.cancel(), random() * 20)
      asked.push(
        answer(job).then(
          ({ rows }) => void (rows < least && behind.push(`${rows} of ${least}`)),
          (error: Error) => void (/cancelled/.test(error.message) || behind.push(error.message)),
        ),
      )
    }
  }
  await Promise.all(asked)
  t.same(behind, [])
  t.ok((await shared()) > sharedBefore, 'some were shared')
})

t.test('a job goes on while somebody waits for it, and ends with the last', async (t) => {
  const { held, ask } = roomy
  const run = await before()
  const go = held()
  const [first, second, third] = [ask(), ask(), ask({}, { timeoutMs: 50 })]
  first.cancel()
  await t.rejects(first.result, { message: 'the query was cancelled' })
  await t.rejects(third.result, { code: 'QUERY_TIMEOUT' })
  go()
  t.equal((await answer(second)).before, run)

  // Left by all before it begins, it is nobody's to join.
  for (const count of [1, 2]) {
    const open = held()
    const left = Array.from({ length: count }, () => ask({ end: 'wait' }))
    for (const job of left) job.cancel()
    const next = ask({ end: 'wait' })
    open()
    t.equal(await Promise.race([next.result.catch(({ message }: Error) => message), sleep(500, 'it waits')]), 'it waits')
    next.cancel()
  }
})

t.test('a job that all have left makes way for others', async (t) => {
  const { node, ask } = await started(1)
  t.teardown(() => node.stop())
  const first = ask({ bytes: 10, end: 'wait' })
  const copy = ask({ bytes: 10, end: 'wait' })
  for await (const _ of first.output) break
  first.cancel()
  copy.cancel()
  for (const { result } of [first, copy]) await t.rejects(result, { message: 'the query was cancelled' })
  t.equal((await answer(ask())).rows, 1)
})

t.test('who does not read his answer, or leaves in the midst of it, holds up nobody', async (t) => {
  const { held, ask } = roomy
  for (const size of [1, 2, 3, 4, 5]) {
    const open = held()
    const bytes = size * MIB - 40_000
    const first = ask({ bytes })
    const copies = [ask({ bytes }), ask({ bytes })].map(answer)
    open()
    if (size % 2 === 1) for await (const _ of first.output) break
    for (const copy of await Promise.all(copies)) t.equal(copy.bytes, bytes)
    first.cancel()
  }
})

t.test('what the first one frees of his answer, the others have as it was', async (t) => {
  const { held, ask } = roomy
  const open = held()
  const bytes = MIB - 40_000
  const [first, ...copies] = [ask({ bytes }), ask({ bytes }), ask({ bytes })].map(answer)
  open()
  t.equal((await first).bytes, bytes)
  t.same(await Promise.all(copies), [await first, await first])
})

t.test('an answer that is too large to be kept is read by each on his own, whether the first one reads or not', async (t) => {
  const { held, ask } = roomy
  const run = await before()
  const open = held()
  const first = ask({ bytes: 9 * MIB })
  const left = ask({ bytes: 9 * MIB })
  const others = [ask({ bytes: 9 * MIB }), ask({ bytes: 9 * MIB })].map(answer)
  left.cancel()
  open()
  const answers = await Promise.all(others)
  t.same(new Set(answers.map(({ before }) => before)), new Set([run + 1, run + 2]))
  for (const { bytes } of [...answers, await answer(first)]) t.equal(bytes, 9 * MIB)
  t.equal(await before(), run + 4, 'who had left has none')
})

t.test('nor does it go on for nobody', async (t) => {
  const { node, held, ask } = await started(1)
  t.teardown(() => node.stop())
  const open = held()
  const first = ask({ bytes: 9 * MIB })
  const other = answer(ask({ bytes: 9 * MIB }))
  first.cancel()
  open()
  t.equal((await other).bytes, 9 * MIB)
})

t.test("one that cannot be begun is nobody's to wait for", async (t) => {
  const answers = new SharedAnswers(() => t.fail('joined'))
  const job = {} as ThreadJob
  let begun = 0
  const shared = (begin: () => void): SharedJob => ({ begin, begun: () => false, cancel: () => {} })
  const refused = (): never => {
    throw new Error('no thread')
  }
  t.throws(() => answers.ask('a', job, shared(refused)), { message: 'no thread' })
  answers.ask(
    'a',
    job,
    shared(() => void begun++),
  )
  t.equal(begun, 1)
})

t.test('all are told when it fails', async (t) => {
  const { held, ask } = roomy
  let open = held()
  const failing = [ask({ end: 'fail' }), ask({ end: 'fail' })]
  open()
  for (const { result } of failing) await t.rejects(result, { message: /^job \d+ fails$/ })
  open = held()
  const died = roomy.node.storage.run(DIE, undefined)
  const waiting = [ask(), ask()]
  open()
  for (const { result } of [died, ...waiting]) await t.rejects(result, { code: 'DATABASE_ERROR' })
  t.equal((await answer(ask())).before, 0, 'the next one has a new thread')
})

t.test('what is asked for when the node stops is told so', async (t) => {
  const { node, ask } = await started(1)
  ask({ end: 'wait' }).result.catch(() => {})
  const waiting = [ask(), ask()].map(({ result }) => result)
  const ended = Promise.allSettled(waiting)
  await node.stop()
  for (const one of await ended) t.match(one, { status: 'rejected', reason: { code: 'DATABASE_CLOSED' } })
})
