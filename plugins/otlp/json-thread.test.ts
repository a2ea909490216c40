import { EventEmitter } from 'node:events'
import { syncBuiltinESMExports } from 'node:module'
import threads from 'node:worker_threads'
import t, { type Test } from 'tap'
import { JsonThread } from './json-thread.ts'

/** Too large to be read at once. */
const BODY = Buffer.from(JSON.stringify({ resourceMetrics: [], more: 'x'.repeat(40_000) }))

function setUp(t: Test, maxWaiting?: number) {
  const thread = new JsonThread(maxWaiting)
  t.teardown(() => thread.stop())
  const read: string[] = []
  const convert = (namespace: string, name: string, ended?: () => Error | undefined) =>
    Promise.resolve(thread.convert(BODY, { namespace, ...(ended && { ended }) })).then(() => void read.push(name))
  return { thread, read, convert }
}

t.test('namespaces take turns', async (t) => {
  const { read, convert } = setUp(t)
  await Promise.all(['a1', 'a2', 'a3', 'a4', 'b1', 'c1'].map((name) => convert(name[0], name)))
  t.same(read, ['a1', 'a2', 'b1', 'c1', 'a3', 'a4'])
})

t.test('a body that nobody waits for any more is not read', async (t) => {
  const { read, convert } = setUp(t)
  const gone = new Error('gone')
  const all = [convert('a', 'a1'), convert('a', 'a2', () => gone), convert('a', 'a3', () => undefined)]
  await t.rejects(all[1], gone)
  await Promise.all([all[0], all[2]])
  t.same(read, ['a1', 'a3'])
})

t.test('so many bytes of a namespace wait, but always one body', async (t) => {
  const { read, convert } = setUp(t, 100_000)
  const all = ['a1', 'a2', 'a3', 'b1'].map((name) => convert(name[0], name))
  t.throws(() => convert('a', 'a4'), { code: 'BACKPRESSURE' })
  await Promise.all(all)
  await convert('a', 'a5')
  t.equal(read.length, 5)
  const small = setUp(t, 1000)
  const two = [small.convert('a', 'a1'), small.convert('a', 'a2')]
  t.throws(() => small.convert('a', 'a3'), { code: 'BACKPRESSURE' })
  await Promise.all(two)
})

t.test('when it is stopped all that wait are told so', async (t) => {
  const { thread, convert } = setUp(t)
  const all = [convert('a', 'a1'), convert('a', 'a2'), convert('b', 'b1')]
  const settled = Promise.allSettled(all)
  await thread.stop()
  const stopping = { status: 'rejected', reason: { code: 'BACKPRESSURE' } }
  t.match(await settled, [stopping, stopping, stopping])
})

/** As Node.js does it where the system has no thread to give. */
class NoWorker {
  constructor() {
    throw Object.assign(new Error('EAGAIN'), { code: 'ERR_WORKER_INIT_FAILED' })
  }
}

/** It is made, and ends before it has done anything. */
class UnbegunWorker extends EventEmitter {
  constructor() {
    super()
    setImmediate(() => {
      this.emit('error', Object.assign(new Error('Worker initialization failure: EMFILE'), { code: 'ERR_WORKER_INIT_FAILED' }))
      this.emit('exit', 1)
    })
  }
  unref(): void {}
  postMessage(): void {}
  async terminate(): Promise<void> {}
}

for (const [what, Failing] of Object.entries({ thrown: NoWorker, told: UnbegunWorker })) {
  t.test(`no thread is to be had, which is ${what}: bodies are to be sent again, and read once there is one`, async (t) => {
    const { Worker } = threads
    const setWorker = (worker: unknown): void => {
      threads.Worker = worker as typeof Worker
      syncBuiltinESMExports()
    }
    t.teardown(() => setWorker(Worker))
    const { read, convert } = setUp(t)
    setWorker(Failing)
    const all = await Promise.allSettled([convert('a', 'a1'), convert('a', 'a2')])
    const again = { status: 'rejected', reason: { code: 'OVERLOADED', message: /thread.*; send it again/, headers: { 'retry-after': '5' } } }
    t.match(all, [again, again])
    setWorker(Worker)
    await convert('a', 'a3')
    t.same(read, ['a3'])
  })
}
