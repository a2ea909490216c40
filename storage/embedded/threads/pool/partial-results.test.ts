/** Jobs with one key are given what the last of them has kept, and what has changed since; whoever asks after a change is not answered by a job that does not know of it. */
import { definePlugin, type JobOptions } from 'svcdb'
import { moduleUrl } from 'svcdb/lib/modules'
import { boot } from 'svcdb/testkit'
import t from 'tap'
import { INT64_MAX, INT64_MIN } from '../../../common/time.ts'
import type { PartialArgs, PartialOutcome } from '../testing/partial-job.ts'

const JOB = moduleUrl('../testing/partial-job.ts', import.meta.url)
const HELD = moduleUrl('../testing/held-job.ts', import.meta.url)
const BASE = 1_700_000_000_000_000_000n
const EVER = [String(INT64_MIN), String(INT64_MAX)]

const asks = definePlugin({ id: 'asks', summary: 'Runs jobs', stability: 'stable', capabilities: ['jobs'], setup: () => {} })

async function started(database: Record<string, unknown> = {}) {
  const node = await boot({ plugins: [asks, 'line_protocol'], storage: 'embedded', config: { database: { query_threads: 1, ...database } } })
  const write = async (...lines: string[]): Promise<void> => {
    const { statusCode, body } = await node.inject({ method: 'POST', url: '/write?backfill=true', payload: lines.join('\n') })
    if (statusCode !== 204) throw new Error(body)
  }
  const ask = async ({ partialKey = 'k', namespace = '', ...args }: Partial<PartialArgs & JobOptions> = {}): Promise<PartialOutcome> => {
    const all = { namespace, start: String(BASE), end: String(BASE + 1000n), keep: 'kept', ...args }
    const job = node.storage.run<PartialOutcome>(JOB, all, { namespace, shared: true, cacheable: true, partialKey })
    for await (const _ of job.output);
    return job.result
  }
  await write(`m,host=a v=1 ${BASE + 5n}`)
  return { node, write, ask }
}

/** Each has a range of its own, as if it followed the clock. */
const ranges = (() => {
  let asked = 0n
  return (): Pick<PartialArgs, 'start'> => ({ start: String(BASE - asked++) })
})()

t.test('what is kept is for later jobs with the key, of the same namespace', async (t) => {
  const { node, ask } = await started()
  t.teardown(() => node.stop())
  t.same(await ask({ ...ranges(), keep: 'one' }), { rows: 1, changed: [] }, 'what is asked once keeps nothing')
  t.same(await ask({ ...ranges(), keep: 'two' }), { rows: 1, changed: [], found: '' })
  t.same(await ask({ ...ranges(), keep: 'three' }), { rows: 1, changed: [], found: 'two' })
  t.same(await ask({ ...ranges(), keep: 'four' }), { rows: 1, changed: [], found: 'three' })
  t.same(await ask({ ...ranges(), partialKey: 'other' }), { rows: 1, changed: [] })
  t.same((await ask({ ...ranges(), namespace: 'b' }).catch(() => ({ found: undefined }))).found, undefined)
})

t.test('changes since then are told by the times of their rows', async (t) => {
  const { node, write, ask } = await started()
  t.teardown(() => node.stop())
  const told = async (change: () => Promise<unknown>): Promise<unknown> => {
    await ask({ ...ranges(), keep: 'a' })
    await ask({ ...ranges(), keep: 'b' })
    await change()
    return (await ask(ranges())).changed
  }
  const at = (...times: bigint[]): string[] => times.map((time) => String(BASE + time))
  t.same(await told(async () => {}), [])
  t.same(await told(() => write(`m,host=a v=1 ${BASE + 7n}`)), [at(7n, 7n)])
  t.same(await told(() => write(`m,host=new v=1 ${BASE + 9n}`)), [at(9n, 9n)], 'a new series has its rows alone')
  t.same(await told(() => write(`m,host=a v=1,w=2 ${BASE + 3n}`, `n v=1 ${BASE + 8n}`)), [at(3n, 8n)], 'as have new fields and measurements')
  t.same(await told(() => node.storage.delete({ namespace: '', measurement: 'm', start: BASE, end: BASE + 4n, matchers: [] })), [at(0n, 3n)])
  t.same(await told(() => node.storage.drop('', 'n')), [EVER])
  t.same(await told(() => node.storage.declareField('', 'm', { name: 'x', type: 'int64' })), [EVER])
})

t.test('nobody is answered by a waiting job that goes on from what has changed since it was asked for', async (t) => {
  const { node, write, ask } = await started()
  t.teardown(() => node.stop())
  for (const keep of ['a', 'b']) await ask({ ...ranges(), keep })
  const gate = new Int32Array(new SharedArrayBuffer(4))
  node.storage.run(HELD, gate).result.catch(() => {})
  const args = ranges()
  const first = ask(args)
  const joined = ask(args)
  await write(`m,host=a v=1 ${BASE + 6n}`)
  const after = ask(args)
  Atomics.store(gate, 0, 1)
  Atomics.notify(gate, 0)
  t.same((await first).changed, [])
  t.same((await joined).changed, [])
  t.same((await after).changed, [[String(BASE + 6n), String(BASE + 6n)]])
})

t.test('nor by one whose namespace makes way for others meanwhile', async (t) => {
  const { node, write, ask } = await started({ result_cache_size: 1 << 20 })
  t.teardown(() => node.stop())
  for (const keep of ['a', 'b']) await ask({ ...ranges(), keep })
  const gate = new Int32Array(new SharedArrayBuffer(4))
  node.storage.run(HELD, gate).result.catch(() => {})
  const args = ranges()
  const first = ask(args)
  // That they have asked is remembered at once, and takes a kilobyte of each.
  const others = Array.from({ length: 1100 }, (_, i) => ask({ ...args, namespace: `other${i}` }).catch(() => {}))
  await write(`m,host=a v=1 ${BASE + 6n}`)
  const after = ask(args)
  Atomics.store(gate, 0, 1)
  Atomics.notify(gate, 0)
  t.same((await first).found, 'b')
  t.same((await after).found, undefined, 'it goes on from nothing')
  await Promise.all(others)
})

t.test('a kept result ends with a change of what its job went on from', async (t) => {
  const { node, write, ask } = await started()
  t.teardown(() => node.stop())
  const early = { start: String(BASE), end: String(BASE + 100n) }
  const late = { start: String(BASE + 200n), end: String(BASE + 300n) }
  for (const name of ['1', '2']) await ask({ ...early, name })
  for (let i = 0; i < 2; i++) await ask(late)
  const kept = await ask(late)
  await write(`m,host=a v=1 ${BASE + 350n}`)
  t.same(await ask(late), kept, 'nobody has read that time')
  await ask(ranges()) // so that changes are told apart
  await write(`m,host=a v=1 ${BASE + 50n}`)
  t.not((await ask(late)).changed.length, kept.changed.length)
})

t.test('nothing is kept beyond the room there is', async (t) => {
  const { node, ask } = await started({ result_cache_size: 1 << 20 })
  t.teardown(() => node.stop())
  for (let i = 0; i < 2; i++) await ask({ ...ranges(), keep: 'x'.repeat(1 << 16) })
  t.equal((await ask({ ...ranges(), keep: 'x'.repeat((1 << 16) + 1) })).found?.length, 1 << 16)
  t.equal((await ask(ranges())).found?.length, 1 << 16, 'what is too large does not take its place')
  const without = await started({ result_cache_size: 0 })
  t.teardown(() => without.node.stop())
  for (let i = 0; i < 3; i++) t.notOk('found' in (await without.ask(ranges())))
})
