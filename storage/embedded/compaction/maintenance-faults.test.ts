import { EventEmitter } from 'node:events'
import { readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { MetricsRegistry } from 'svcdb/testkit'
import t from 'tap'
import { eventually } from '../../../test/support/until.ts'
import { testContext } from '../../conformance/index.ts'
import { EmbeddedEngine } from '../engine.ts'
import { type EngineWorker, realEnvironment, threadsRunning } from '../environment.ts'
import { inside } from '../testing/catalog-faults.ts'
import { closeAndRemove, NOW, NOW_MS, openEngine, rowsOf, tempDir, writeFloat } from '../testing/harness.ts'
import type { Pressure } from '../write/pressure.ts'

const FAULTY = new URL('../testing/faulty-worker.ts', import.meta.url)

/** An engine whose threads do what the file `faults` says. */
async function faultyEngine(dir: string, config: Record<string, unknown> = {}): Promise<{ engine: EmbeddedEngine; metric(name: string): Promise<number> }> {
  const registry = new MetricsRegistry()
  const context = testContext({ ...config, data_dir: dir }, () => NOW_MS)
  const engine = new EmbeddedEngine({ ...context, metrics: registry.child('storage') }, { startThread: threadsRunning(FAULTY) })
  await engine.open()
  const metric = async (name: string): Promise<number> => Number(new RegExp(`^svc_${name} (\\S+)$`, 'm').exec(await registry.text())?.[1])
  return { engine, metric }
}

const segmentFiles = (dir: string): string[] =>
  readdirSync(join(dir, 'segments'), { recursive: true, withFileTypes: true }).flatMap((entry) => (entry.isFile() ? [entry.name] : []))

t.test('a maintenance thread that dies is started again and the flush repeated', async (t) => {
  const dir = tempDir()
  const { engine, metric } = await faultyEngine(dir)
  await writeFloat(engine, 'm', 'a', NOW, { v: 1 })
  writeFileSync(join(dir, 'faults'), 'die once')
  await t.rejects(engine.flush(), { message: /struck dead/ })
  await engine.flush()
  await eventually(() => segmentFiles(dir).length === 1)
  t.equal(await metric('maintenance_panics_total'), 1)
  t.equal(await metric('maintenance_running'), 1)
  t.match(engine.status(), { accepting: true })
  await writeFloat(engine, 'm', 'a', NOW + 1n, { v: 2 })
  t.same(await rowsOf(engine, 'm'), [`a ${NOW} v=1`, `a ${NOW + 1n} v=2`])
  await closeAndRemove(engine, dir)
})

t.test('one that dies again and again is given up: writes fail at once with the reason, reads go on, a restart recovers', async (t) => {
  const dir = tempDir()
  const { engine, metric } = await faultyEngine(dir, { maintenance_max_deaths: 3 })
  await writeFloat(engine, 'm', 'a', NOW, { v: 1 })
  writeFileSync(join(dir, 'faults'), 'die')
  await t.rejects(engine.flush())
  await eventually(async () => (await metric('maintenance_running')) === 0)
  t.equal(await metric('maintenance_panics_total'), 3)
  const reason = /maintenance thread died 3 times within 300 s, the last time because: .*struck dead.*restart/
  await t.rejects(writeFloat(engine, 'm', 'a', NOW + 1n, { v: 2 }), { code: 'OVERLOADED', message: reason })
  await t.rejects(engine.flush(), { code: 'OVERLOADED' }, 'nobody waits for a flush that never comes')
  t.match(engine.status(), { accepting: false, reason })
  t.same(await rowsOf(engine, 'm'), [`a ${NOW} v=1`])
  await engine.close()
  rmSync(join(dir, 'faults'))
  const again = await openEngine(dir)
  t.same(await rowsOf(again, 'm'), [`a ${NOW} v=1`])
  await writeFloat(again, 'm', 'a', NOW + 1n, { v: 2 })
  await closeAndRemove(again, dir)
})

t.test('threads for which there is no file handle have not died: they are started again however often, and nothing waits for a restart', async (t) => {
  const dir = tempDir()
  const { engine, metric } = await faultyEngine(dir, { maintenance_max_deaths: 1, warm_up_ms: 0 })
  await writeFloat(engine, 'm', 'a', NOW, { v: 1 })
  writeFileSync(join(dir, 'faults'), 'files')
  const told = { code: 'OVERLOADED', message: /as many files and connections open as it may; retry/, headers: { 'retry-after': '5' } }
  for (let i = 0; i < 3; i++) await t.rejects(engine.flush(), told)
  await t.rejects(engine.delete({ namespace: '', measurement: 'm', matchers: [{ tag: 'host', op: '=', value: 'a' }] }), told, 'nor is it a fault of the server')
  t.match(engine.status(), { accepting: true })
  t.equal(await metric('maintenance_panics_total'), 0)
  await writeFloat(engine, 'm', 'a', NOW + 1n, { v: 2 })
  rmSync(join(dir, 'faults'))
  await engine.flush()
  await eventually(() => segmentFiles(dir).length > 0)
  t.same(await rowsOf(engine, 'm'), [`a ${NOW} v=1`, `a ${NOW + 1n} v=2`])
  await closeAndRemove(engine, dir)
})

t.test('a thread that the system cannot begin has not died either', async (t) => {
  const dir = tempDir()
  let failures = ['EMFILE', 'EAGAIN']
  const startThread: typeof realEnvironment.startThread = (data) => {
    const [why] = data.role === 'maintenance' ? failures : []
    if (why === undefined) return realEnvironment.startThread(data)
    failures = failures.slice(1)
    const events = new EventEmitter()
    const error = Object.assign(new Error(`Worker initialization failure: ${why}`), { code: 'ERR_WORKER_INIT_FAILED' })
    setImmediate(() => {
      events.emit('error', error)
      events.emit('exit', 0)
    })
    return Object.assign(events, { postMessage: () => {}, terminate: async () => {} }) as EngineWorker
  }
  const engine = new EmbeddedEngine(
    testContext({ data_dir: dir, maintenance_max_deaths: 1 }, () => NOW_MS),
    { startThread },
  )
  await engine.open()
  await writeFloat(engine, 'm', 'a', NOW, { v: 1 })
  await t.rejects(engine.flush(), { code: 'OVERLOADED', message: /files and connections/ })
  await t.rejects(engine.flush(), { code: 'OVERLOADED', message: /cannot start an engine thread: .*EAGAIN; retry/ })
  await engine.flush()
  t.equal(segmentFiles(dir).length, 1)
  await closeAndRemove(engine, dir)
})

t.test('who waits for a flush is told when the thread is given up meanwhile', async (t) => {
  const dir = tempDir()
  const { engine } = await faultyEngine(dir)
  await writeFloat(engine, 'm', 'a', NOW, { v: 1 })
  writeFileSync(join(dir, 'faults'), 'die once')
  await t.rejects(engine.flush(), { message: /struck dead/ })
  // The next try comes after a pause, in which another job kills the thread once too often.
  const waiting = engine.flush()
  const maintenance = inside(engine).maintenance as unknown as { waiters: unknown[]; dependencies: { pressure: Pressure } }
  for (let turn = 0; maintenance.waiters.length === 0 && turn < 1000; turn++) await new Promise((resolve) => setImmediate(resolve))
  t.equal(maintenance.waiters.length, 1)
  const { pressure } = maintenance.dependencies
  for (let deaths = 0; pressure.fault === undefined && deaths < 100; deaths++) pressure.died('a merge')
  await t.rejects(waiting, { code: 'OVERLOADED', message: /because: a merge/ })
  await closeAndRemove(engine, dir)
})

t.test('a segment whose sync failed is not used: the flush is repeated with another file', async (t) => {
  const dir = tempDir()
  const { engine, metric } = await faultyEngine(dir)
  await writeFloat(engine, 'm', 'a', NOW, { v: 1 })
  await writeFloat(engine, 'own', 'a', NOW, { v: 1, w: 2 })
  writeFileSync(join(dir, 'faults'), 'sync')
  await t.rejects(engine.flush(), { message: /EIO/ })
  t.same(segmentFiles(dir), [], 'nothing is left of it')
  t.match(engine.status(), { accepting: true }, 'the log still has the rows')
  rmSync(join(dir, 'faults'))
  await engine.flush()
  await eventually(() => segmentFiles(dir).length === 2)
  t.notOk(segmentFiles(dir).includes('0000000001.parquet'), `new files: ${segmentFiles(dir)}`)
  t.ok((await metric('flush_failures_total')) >= 1)
  t.same(await rowsOf(engine, 'm'), [`a ${NOW} v=1`])
  await closeAndRemove(engine, dir)
})

t.test('a merge that fails behind its written files leaves none of them, however often it is tried', async (t) => {
  const dir = tempDir()
  process.env.SVC_TEST_MERGE_KEY = Buffer.alloc(32, 1).toString('base64')
  const encryption = { field_encryption: { columns: { w: 'k' }, keys: { k: 'SVC_TEST_MERGE_KEY' } } }
  const { engine, metric } = await faultyEngine(dir, { maintenance_interval_secs: 3600, compaction_fan_in: 2, ...encryption })
  t.teardown(() => closeAndRemove(engine, dir))
  const { config, maintenance, segments } = inside(engine)
  config.compaction_fan_in = 64
  for (const i of [0n, 1n]) {
    await writeFloat(engine, 'm', 'a', NOW + i, { v: 1, w: 2 })
    await engine.flush()
  }
  const before = segmentFiles(dir).sort()
  t.equal(before.length, 4, 'two segments, each with its encrypted column')
  writeFileSync(join(dir, 'faults'), 'read')
  config.compaction_fan_in = 2
  for (let i = 0; i < 3; i++) {
    await engine.tidy()
    await maintenance.settled()
  }
  t.equal(await metric('compaction_failures_total'), 3)
  t.same(segmentFiles(dir).sort(), before)
  rmSync(join(dir, 'faults'))
  await engine.tidy()
  await maintenance.settled()
  t.equal(segments.all().length, 1, 'the next one goes through')
  t.same(await rowsOf(engine, 'm'), [`a ${NOW} v=1 w=2`, `a ${NOW + 1n} v=1 w=2`])
})

t.test('a catalog that could not be written refuses writes; a restart has everything acknowledged', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir)
  await writeFloat(engine, 'm', 'a', NOW, { v: 1 })
  const { db } = inside(engine).catalog.store as unknown as { db: { batch: unknown } }
  db.batch = () => Promise.reject(Object.assign(new Error('Commit failed'), { commitError: Promise.reject(Object.assign(new Error('EIO'), { code: 5 })) }))
  await t.rejects(engine.flush(), { code: 'OVERLOADED', message: /catalog could not be written/ })
  await t.rejects(writeFloat(engine, 'm', 'a', NOW + 1n, { v: 2 }), { code: 'OVERLOADED', message: /restart/ })
  t.match(engine.status(), { accepting: false, reason: /catalog could not be written/ })
  t.same(await rowsOf(engine, 'm'), [`a ${NOW} v=1`], 'reads go on')
  await engine.close()
  const again = await openEngine(dir)
  t.same(await rowsOf(again, 'm'), [`a ${NOW} v=1`])
  await closeAndRemove(again, dir)
})
