/** Threads that end, or are ended, while a statement is under way in DuckDB: the process goes on. */
import { rmSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { moduleUrl } from 'svcdb/lib/modules'
import t, { type Test } from 'tap'
import type { EmbeddedEngine } from '../../engine.ts'
import { NOW, openEngine, tempDir, writeFloat } from '../../testing/harness.ts'
import type { StatementArgs } from '../testing/statement-job.ts'

const JOB = moduleUrl('../testing/thread-id-job.ts', import.meta.url)
const STATEMENT = moduleUrl('../testing/statement-job.ts', import.meta.url)
/** It goes to DuckDB, and stays on the thread. */
const QUERY = 'SELECT host, max(v) + 0.5 FROM m GROUP BY host HAVING max(v) > 0 ORDER BY 2 DESC, 1'

async function open(t: Test, config: Record<string, unknown> = {}): Promise<EmbeddedEngine> {
  const dir = tempDir()
  const engine = await openEngine(dir, { ...config, data_dir: dir, query_threads: 1 })
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
