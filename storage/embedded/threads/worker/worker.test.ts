/** A real engine thread: state, jobs with backpressure and cancellation, flush and compaction over messages. */
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import t from 'tap'
import { trustTable } from '../../integrity/trust.ts'
import { TestDatabase } from '../../testing/engine-state.ts'
import type { TestJob } from '../../testing/worker-job.ts'
import type { FromWorker, ToWorker, WorkerData } from '../messages.ts'
import { SnapshotPins } from '../snapshot-pins.ts'
import { threadLife } from '../thread-life.ts'

const JOB = new URL('../../testing/worker-job.ts', import.meta.url).href

class Thread {
  readonly messages: FromWorker[] = []
  readonly pins = new SnapshotPins(64)
  private readonly worker: Worker
  private readonly waiting: { test: (m: FromWorker) => boolean; resolve: (m: FromWorker) => void }[] = []

  constructor(db: TestDatabase, overrides: Partial<WorkerData['config']> = {}) {
    const workerData: WorkerData = {
      role: 'query',
      dataDir: db.dataDir,
      shared: db.shared,
      config: { ...db.config, ...overrides },
      state: [...db.events],
      eventsPublished: db.events.length,
      trust: trustTable([]),
      pins: this.pins.words,
      life: threadLife(),
    }
    this.worker = new Worker(new URL('./main.ts', import.meta.url), { workerData })
    db.listener = (event) => this.send({ kind: 'state', events: [event] })
    this.worker.on('message', (message: FromWorker) => {
      this.messages.push(message)
      for (const [i, { test, resolve }] of this.waiting.entries()) {
        if (!test(message)) continue
        this.waiting.splice(i, 1)
        resolve(message)
        break
      }
    })
  }

  send(message: ToWorker): void {
    this.worker.postMessage(message)
  }

  job(id: number, args: TestJob): void {
    this.send({ kind: 'job', id, namespace: '', module: JOB, args, slot: this.pins.assign() })
  }

  async wait(test: (m: FromWorker) => boolean): Promise<FromWorker> {
    return this.messages.find(test) ?? new Promise((resolve) => this.waiting.push({ test, resolve }))
  }

  end(id: number): Promise<FromWorker> {
    return this.wait((m) => ['done', 'failed', 'task-failed', 'flushed', 'compacted'].includes(m.kind) && 'id' in m && m.id === id)
  }

  async close(): Promise<number> {
    this.send({ kind: 'close' })
    return new Promise((resolve) => this.worker.once('exit', resolve))
  }
}

t.test('an engine thread runs jobs, flushes and compacts', async (t) => {
  const db = new TestDatabase()
  const m = db.measurement('m', { value: 'float64' })
  const write = (from: number, n: number) =>
    db.write(
      m,
      Array.from({ length: n }, (_, i) => ({ tags: { host: `h${i % 7}` }, time: BigInt(from + i), fields: { value: i } })),
    )
  write(0, 100)
  const thread = new Thread(db, { emitWindowBytes: 3000 })
  await thread.wait((message) => message.kind === 'ready')

  write(100, 50)
  thread.job(1, { kind: 'count' })
  t.match(await thread.end(1), { kind: 'done', result: { rows: 150, measurements: ['m'] } }, 'a job sees what was written before it was sent')

  thread.job(2, { kind: 'fail' })
  t.match(await thread.end(2), { kind: 'failed', error: { code: 'INTERNAL_ERROR', message: 'broken' } })
  thread.job(3, { kind: 'fail', code: 'INVALID_REQUEST' })
  t.match(await thread.end(3), { kind: 'failed', error: { code: 'INVALID_REQUEST', message: 'cannot do it' } })

  thread.job(4, { kind: 'emit', chunks: 10, bytes: 1000 })
  const outputs = () => thread.messages.filter((message) => message.kind === 'output' && message.id === 4).length
  await thread.wait((message) => message.kind === 'output' && message.id === 4)
  thread.job(5, { kind: 'count' })
  await thread.end(5)
  t.equal(outputs(), 3, 'no more output than the window while nothing is taken; other jobs go on')
  for (let taken = 0; taken < 10; taken++) thread.send({ kind: 'taken', id: 4, bytes: 1000 })
  t.match(await thread.end(4), { kind: 'done', result: 10 })
  t.equal(outputs(), 10)
  thread.job(20, { kind: 'emit', chunks: 2, bytes: 1000 })
  t.match(await thread.end(20), { kind: 'done', result: 2, last: { length: 1000 } })
  t.equal(thread.messages.filter((message) => message.kind === 'output' && message.id === 20).length, 1, 'the end of the output comes with the result')

  for (const [id, kind] of [
    [6, 'wait'],
    [7, 'endless'],
  ] as const) {
    thread.job(id, { kind })
    thread.send({ kind: 'cancel', id })
    t.match(await thread.end(id), { kind: 'failed', error: { code: 'QUERY_TIMEOUT' } }, `${kind} is cancelled`)
  }
  thread.job(8, { kind: 'emit', chunks: 10, bytes: 1000 })
  await thread.wait((message) => message.kind === 'output' && message.id === 8)
  thread.send({ kind: 'cancel', id: 8 })
  t.match(await thread.end(8), { kind: 'failed', error: { code: 'QUERY_TIMEOUT' } }, 'a job that waits for its consumer is cancelled')

  const frozen = db.freeze()
  thread.send({ kind: 'flush', id: 9, memtable: frozen, firstSegment: 1 })
  const flushed = (await thread.end(9)) as Extract<FromWorker, { kind: 'flushed' }>
  t.match(flushed.segments, [{ id: 1, rows: 150, minTime: '0', maxTime: '149', sequence: 1, dirty: null }])
  db.publish({ kind: 'segments', added: flushed.segments, removed: [], droppedMemtable: frozen })
  write(150, 50)
  const second = db.freeze()
  thread.send({ kind: 'flush', id: 10, memtable: second, firstSegment: 2 })
  const flushed2 = (await thread.end(10)) as Extract<FromWorker, { kind: 'flushed' }>
  db.publish({ kind: 'segments', added: flushed2.segments, removed: [], droppedMemtable: second })
  thread.job(11, { kind: 'count' })
  t.match(await thread.end(11), { kind: 'done', result: { rows: 200 } })

  thread.send({ kind: 'compact', id: 12, table: m.table.id, segments: [1, 2], segment: 3, sequence: 2, level: 1, deduplicate: false, dirty: null, cleared: 0 })
  const compacted = (await thread.end(12)) as Extract<FromWorker, { kind: 'compacted' }>
  t.match(compacted.segment, { id: 3, rows: 200, level: 1 })
  db.publish({ kind: 'segments', added: [compacted.segment!], removed: [1, 2], droppedMemtable: -1 })
  thread.job(13, { kind: 'count' })
  t.match(await thread.end(13), { kind: 'done', result: { rows: 200 } })
  t.ok(existsSync(join(db.dataDir, compacted.segment!.file)))
  t.strictSame(
    readdirSync(join(db.dataDir, 'segments', 'shard_0')).filter((name) => !name.endsWith('.parquet')),
    [],
    'no unfinished file stays',
  )

  thread.send({ kind: 'compact', id: 14, table: m.table.id, segments: [99], segment: 4, sequence: 2, level: 1, deduplicate: false, dirty: null, cleared: 0 })
  t.match(await thread.end(14), { kind: 'task-failed', error: { code: 'INTERNAL_ERROR' } }, 'an unknown segment fails the compaction, not the thread')
  t.equal(await thread.close(), 0)
  db.close()
})

t.test('jobs see whole batches only, and all that was written before they were asked for', async (t) => {
  const db = new TestDatabase()
  const m = db.measurement('m', { value: 'float64' })
  const thread = new Thread(db)
  await thread.wait((message) => message.kind === 'ready')
  const BATCH = 500
  const expected: number[] = []
  for (let round = 0; round < 60; round++) {
    db.write(
      m,
      Array.from({ length: BATCH }, (_, i) => ({ tags: { host: `h${(round * BATCH + i) % 1700}` }, time: BigInt(round * BATCH + i), fields: { value: i } })),
    )
    expected.push((round + 1) * BATCH)
    thread.job(round, { kind: 'count' })
    // Every few rounds the thread gets the time to run into the writes.
    if (round % 5 === 0) await new Promise((resolve) => setTimeout(resolve, 2))
  }
  for (const [id, min] of expected.entries()) {
    const message = await thread.end(id)
    const { rows } = (message as { result: { rows: number } }).result
    t.ok(rows >= min && rows % BATCH === 0, `${rows} rows, at least ${min}`)
  }
  t.equal(await thread.close(), 0)
  db.close()
})
