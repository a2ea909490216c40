/** Threads that end, or are ended, while a statement is under way in DuckDB, and threads that take no messages: the process goes on. */
import { rmSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { moduleUrl } from 'svcdb/lib/modules'
import t, { type Test } from 'tap'
import { realTimers } from '../../../common/timers.ts'
import { testContext } from '../../../conformance/index.ts'
import { EmbeddedEngine } from '../../engine.ts'
import { NOW, NOW_MS, tempDir, writeFloat } from '../../testing/harness.ts'
import type { StatementArgs } from '../testing/statement-job.ts'
import { LOOK_MS } from './engine-thread.ts'

const JOB = moduleUrl('../testing/thread-id-job.ts', import.meta.url)
const ENDLESS = moduleUrl('../testing/endless-job.ts', import.meta.url)
const WAITS = moduleUrl('../testing/waits-job.ts', import.meta.url)
const STATEMENT = moduleUrl('../testing/statement-job.ts', import.meta.url)
/** It goes to DuckDB, and stays on the thread. */
const QUERY = 'SELECT host, max(v) + 0.5 FROM m GROUP BY host HAVING max(v) > 0 ORDER BY 2 DESC, 1'

/** Looks at threads come two a second. */
const impatient = { ...realTimers, setInterval: (look: () => void, ms: number) => realTimers.setInterval(look, ms === LOOK_MS ? 500 : ms) }

async function open(t: Test, timers = realTimers): Promise<EmbeddedEngine> {
  const dir = tempDir()
  const engine = new EmbeddedEngine(
    testContext({ data_dir: dir, query_threads: 1 }, () => NOW_MS),
    { timers },
  )
  await engine.open()
  t.teardown(async () => {
    await engine.close()
    rmSync(dir, { recursive: true, force: true })
  })
  await writeFloat(engine, 'm', 'h', NOW, { v: 1 })
  return engine
}

/** @returns when the statement is under way. */
async function begun(engine: EmbeddedEngine, then: StatementArgs['then']): Promise<{ result: Promise<unknown>; gate: Int32Array }> {
  const gate = new Int32Array(new SharedArrayBuffer(8))
  const job = engine.run(STATEMENT, { query: QUERY, gate, then } satisfies StatementArgs)
  const result = job.result.catch((error: unknown) => error)
  while (Atomics.load(gate, 1) === 0) await sleep(5)
  return { result, gate }
}

t.test('a thread that does not answer when the database closes is waited for', async (t) => {
  const engine = await open(t)
  const { result, gate } = await begun(engine, 'hold')
  let closed = false
  const closing = engine.close().then(() => {
    closed = true
  })
  // Longer than a flush and a thread that is at rest are waited for.
  await sleep(12_000)
  t.notOk(closed)
  Atomics.store(gate, 0, 1)
  Atomics.notify(gate, 0)
  await closing
  t.match(await result, { code: 'DATABASE_CLOSED' })
})

t.test('an error that nobody catches ends the thread and its jobs, and not the process', async (t) => {
  const engine = await open(t)
  const before = await engine.run<number>(JOB, undefined).result
  const { result } = await begun(engine, 'throw')
  t.match(await result, { code: 'DATABASE_ERROR', message: /the engine thread ended.*struck dead/ })
  for (;;) {
    const now = await engine.run<number>(JOB, undefined).result.catch(() => before)
    if (now !== before) break
    await sleep(20)
  }
  t.pass('jobs go to another thread')
})

t.test('a thread that a job never gives back is replaced: those who wait for it are told', async (t) => {
  const engine = await open(t, impatient)
  const before = await engine.run<number>(JOB, undefined).result
  await t.rejects(engine.run(ENDLESS, undefined, { timeoutMs: 300 }).result, { code: 'QUERY_TIMEOUT' })
  const behind = engine.run<number>(JOB, undefined)
  await t.rejects(behind.result, { code: 'DATABASE_ERROR', message: /has taken no message for \d+ minutes.* was replaced/ })
  t.not(await engine.run<number>(JOB, undefined).result, before)
  t.equal(await engine.run<number>(JOB, undefined).result, await engine.run<number>(JOB, undefined).result)
})

t.test('a thread that is not given back beside a statement of DuckDB is replaced, and left to itself until it comes back', async (t) => {
  const engine = await open(t, impatient)
  const { result, gate } = await begun(engine, 'hold')
  t.match(await result, { code: 'DATABASE_ERROR', message: /was replaced/ })
  t.type(await engine.run<number>(JOB, undefined).result, 'number')
  Atomics.store(gate, 0, 1)
  Atomics.notify(gate, 0)
})

t.test('a thread whose job takes long and hears of messages stays', async (t) => {
  const engine = await open(t, impatient)
  const before = await engine.run<number>(JOB, undefined).result
  const end = new AbortController()
  const waiting = engine.run(WAITS, undefined, { signal: end.signal }).result.catch((error: unknown) => error)
  await sleep(8000)
  t.equal(await engine.run<number>(JOB, undefined).result, before)
  end.abort()
  t.match(await waiting, { code: 'BAD_REQUEST' })
})
