/** Jobs beyond database.max_concurrent_queries wait for their turn, and can be called off while they do. */

import { definePlugin } from 'svcdb'
import { boot } from 'svcdb/testkit'
import t from 'tap'

const JOB = new URL('../testing/worker-job.ts', import.meta.url)
const asks = definePlugin({ id: 'asks', summary: 'Needs jobs', stability: 'stable', capabilities: ['jobs'], setup: () => {} })

async function started(max: number) {
  const node = await boot({ plugins: [asks], storage: 'embedded', config: { database: { max_concurrent_queries: max, query_threads: 1 } } })
  t.teardown(() => node.stop())
  const waiting = async () => Number(/^svc_queries_waiting (\d+)$/m.exec((await node.inject('/metrics')).body)?.[1])
  const run = <R>(kind: string, options = {}) => node.storage.run<R>(JOB, { kind, chunks: 1, bytes: 10 }, options)
  return { node, waiting, run }
}

t.test('they run when others have ended, in their order', async (t) => {
  const { waiting, run } = await started(2)
  const [first, second] = [run('wait'), run('wait')]
  const order: number[] = []
  const later = [0, 1, 2].map((i) => {
    const job = run<number>('emit')
    job.result.then(() => order.push(i))
    return job
  })
  t.equal(await waiting(), 3)
  first.cancel()
  for (const job of later) for await (const _ of job.output);
  t.same(await Promise.all(later.map(({ result }) => result)), [1, 1, 1])
  t.same(order, [0, 1, 2])
  t.equal(await waiting(), 0)
  second.cancel()
})

t.test('the time limit counts from the start, and a job that waits can be cancelled', async (t) => {
  const { waiting, run } = await started(1)
  const first = run('wait')
  await t.rejects(run('emit', { timeoutMs: 30 }).result, { code: 'QUERY_TIMEOUT' })
  const given = new AbortController()
  const second = run('emit', { signal: given.signal })
  t.equal(await waiting(), 1)
  given.abort()
  await t.rejects(second.result, { code: 'BAD_REQUEST' })
  t.equal(await waiting(), 0)
  first.cancel()
  await t.rejects(first.result, { code: 'BAD_REQUEST' })
  const third = run<number>('emit')
  for await (const _ of third.output);
  t.equal(await third.result, 1)
})

t.test('a namespace has three quarters at most, and what waits of it does not hold up others', async (t) => {
  const { waiting, run } = await started(4)
  const many = Array.from({ length: 4 }, () => run('wait', { namespace: 'many' }))
  t.equal(await waiting(), 1)
  const first = run('wait', { namespace: 'one' })
  const second = run<number>('emit', { namespace: 'one' })
  t.equal(await waiting(), 2)
  first.cancel()
  for await (const _ of second.output);
  t.equal(await second.result, 1)
  t.equal(await waiting(), 1)
  for (const job of many) job.cancel()
})

t.test('what waits when the node stops is told so', async (t) => {
  const { node, run } = await started(1)
  const jobs = [run('wait'), run('emit')]
  const ended = Promise.allSettled(jobs.map(({ result }) => result))
  await node.stop()
  t.match(await ended, [{ status: 'rejected' }, { status: 'rejected', reason: { code: 'DATABASE_CLOSED' } }])
})
