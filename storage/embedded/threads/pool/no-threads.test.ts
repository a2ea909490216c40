/** A system that has no thread to give: Node.js throws it where the thread is made, and tells other failures as events. */
import { rmSync } from 'node:fs'
import { moduleUrl } from 'svcdb/lib/modules'
import { MetricsRegistry } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { eventually } from '../../../../test/support/until.ts'
import { testContext } from '../../../conformance/index.ts'
import { EmbeddedEngine } from '../../engine.ts'
import { realEnvironment } from '../../environment.ts'
import { NOW, NOW_MS, tempDir, writeFloat } from '../../testing/harness.ts'
import type { ThreadRole } from '../messages.ts'

const JOB = moduleUrl('../testing/thread-id-job.ts', import.meta.url)
const TOLD = { code: 'OVERLOADED', message: /cannot start an engine thread: .*EAGAIN; retry/, headers: { 'retry-after': '5' } }

/** An engine with a row. No thread of a role in `without` is to be had. */
async function open(t: Test, config: Record<string, unknown> = {}) {
  const dir = tempDir()
  const without = new Set<ThreadRole>()
  const refused: ThreadRole[] = []
  const registry = new MetricsRegistry()
  const engine = new EmbeddedEngine(
    { ...testContext({ data_dir: dir, query_threads: 1, ...config }, () => NOW_MS), metrics: registry.child('storage') },
    {
      startThread: (data) => {
        if (!without.has(data.role)) return realEnvironment.startThread(data)
        refused.push(data.role)
        throw Object.assign(new Error('Worker initialization failure: EAGAIN'), { code: 'ERR_WORKER_INIT_FAILED' })
      },
    },
  )
  await engine.open()
  t.teardown(async () => {
    await engine.close()
    rmSync(dir, { recursive: true, force: true })
  })
  await writeFloat(engine, 'm', 'h', NOW, { v: 1 })
  const metric = async (name: string): Promise<number> => Number(new RegExp(`^svc_${name} (\\S+)$`, 'm').exec(await registry.text())?.[1])
  return { engine, without, refused, metric }
}

t.test('its warm-up ends, and the process goes on', async (t) => {
  const { engine, without, refused } = await open(t)
  without.add('query')
  engine.warmUp({ module: JOB, args: () => [undefined] })
  await eventually(() => refused.length > 0)
  without.clear()
  t.type(await engine.run<number>(JOB, undefined).result, 'number')
})

t.test('whoever asks is told to try again, and nothing stays of the question', async (t) => {
  const { engine, without, metric } = await open(t, { warm_up_ms: 0 })
  await engine.flush()
  without.add('query').add('background')
  for (const options of [{}, { shared: true }, { shared: true, cacheable: true }, { background: true }])
    await t.rejects((async () => engine.run(JOB, undefined, options).result)(), TOLD, JSON.stringify(options))
  t.equal(await metric('leased_segments'), 0)
  without.clear()
  t.type(await engine.run<number>(JOB, undefined).result, 'number')
})

t.test('a flush is tried again', async (t) => {
  const { engine, without, metric } = await open(t, { warm_up_ms: 0, maintenance_max_deaths: 1 })
  without.add('maintenance')
  await t.rejects(engine.flush(), TOLD)
  t.match(engine.status(), { accepting: true })
  without.clear()
  await engine.flush()
  t.equal(await metric('segments'), 1)
})
