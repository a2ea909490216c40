/** The pool over threads that say what a test has them say. */
import { EventEmitter } from 'node:events'
import t, { type Test } from 'tap'
import { Places } from '../../../common/places.ts'
import { realTimers } from '../../../common/timers.ts'
import type { EngineWorker } from '../../environment.ts'
import type { FromWorker, ToWorker, WorkerConfig } from '../messages.ts'
import { Readers } from '../publishing/readers.ts'
import { Shared } from '../shared-header.ts'
import { WorkerPool } from './pool.ts'

const MODULE = new URL('file:///job.js')
const ERROR = { code: 'INTERNAL_ERROR', message: 'not this one' }
const SLICE = { jobs: [], ms: 20, trim: false }

class StubThread extends EventEmitter implements EngineWorker {
  readonly messages: ToWorker[] = []
  /** It does not end when it is told to. */
  lingers = false

  postMessage(message: ToWorker): void {
    this.messages.push(message)
    if (message.kind === 'close' && !this.lingers) this.emit('exit', 0)
  }

  async terminate(): Promise<void> {
    this.emit('exit', 1)
  }

  say(message: FromWorker): void {
    this.emit('message', message)
  }

  /** The last message of a kind. */
  last<K extends ToWorker['kind']>(kind: K): Extract<ToWorker, { kind: K }> {
    return this.messages.findLast((message) => message.kind === kind) as Extract<ToWorker, { kind: K }>
  }
}

function world(t: Test) {
  const threads: StubThread[] = []
  const startThread = (): EngineWorker => {
    const thread = new StubThread()
    threads.push(thread)
    return thread
  }
  const readers = new Readers()
  const none = (): void => {}
  const options = {
    dataDir: '',
    shared: new Int32Array(new SharedArrayBuffer(Shared.SLOTS * 4)),
    config: { query: {}, maintenance: {}, background: {} } as Record<'query' | 'maintenance' | 'background', WorkerConfig>,
    state: () => [],
    scrubber: { trust: undefined, report: none },
    readers,
    processes: { query: new Places(1, 1), maintenance: new Places(1, 1), background: new Places(1, 1) },
    archived: { fetch: async () => {}, jobEnded: none },
    metrics: {},
    publisher: { flush: none, add: () => none },
    log: { error: none, warn: none, info: none, debug: none },
    environment: { startThread, timers: realTimers },
    queryThreads: 1,
    maxJobs: 10,
    maintenanceDied: () => true,
    results: {},
  }
  const pool = new WorkerPool(options as unknown as ConstructorParameters<typeof WorkerPool>[0])
  t.teardown(() => pool.close())
  return { pool, threads, readers }
}

/** What has become of it, some turns later. */
async function outcome(promise: Promise<unknown>): Promise<unknown> {
  let found: unknown = 'nothing'
  promise.then(
    (value) => (found = value),
    (error: unknown) => (found = error),
  )
  for (let turn = 0; turn < 10; turn++) await new Promise((resolve) => setImmediate(resolve))
  return found
}

t.test('a job that fails ends no task of its number', async (t) => {
  const { pool, threads } = world(t)
  const job = pool.run(MODULE, undefined)
  const [thread] = threads
  const slice = pool.coldThread()!.warmUp(SLICE)
  t.equal(thread.last('job').id, thread.last('warm-up').id)
  thread.say({ kind: 'failed', id: thread.last('job').id, error: ERROR })
  t.match(await outcome(job.result), ERROR)
  t.equal(await outcome(slice), 'nothing')
  thread.say({ kind: 'warmed-up', id: thread.last('warm-up').id, outcome: { jobs: 1, ms: 2 } })
  t.same(await outcome(slice), { jobs: 1, ms: 2 })
})

t.test('a task that fails ends no job of its number, and gives back nothing that it holds', async (t) => {
  const { pool, threads, readers } = world(t)
  const job = pool.run(MODULE, undefined)
  const [thread] = threads
  const slice = pool.coldThread()!.warmUp(SLICE)
  thread.say({ kind: 'task-failed', id: thread.last('warm-up').id, error: ERROR })
  t.match(await outcome(slice), ERROR)
  t.equal(await outcome(job.result), 'nothing')
  t.equal(readers.count, 1)
  thread.say({ kind: 'done', id: thread.last('job').id, result: 5 })
  t.equal(await outcome(job.result), 5)
  t.equal(readers.count, 0)
})

t.test('a slice of the warm-up is refused by a thread that has ended since the one before, or is about to', async (t) => {
  for (const end of ['ends', 'is closed'] as const) {
    const { pool, threads } = world(t)
    const cold = pool.coldThread()!
    const [thread] = threads
    const first = cold.warmUp(SLICE)
    thread.say({ kind: 'warmed-up', id: thread.last('warm-up').id, outcome: { jobs: 1, ms: 2 } })
    t.same(await outcome(first), { jobs: 1, ms: 2 })
    if (end === 'ends') thread.emit('exit', 1)
    else {
      thread.lingers = true
      pool.readArchive('archive')
      t.ok(thread.last('close'))
    }
    t.type(await outcome(cold.warmUp(SLICE)), Error, end)
    thread.emit('exit', 0)
  }
})
