/** Jobs, state, and what a closed engine answers. */
import { setTimeout } from 'node:timers/promises'
import type { Storage } from 'svcdb'
import { jobModule } from './context.ts'
import { f64, lines, NOW, write } from './points.ts'
import type { Rule } from './rules.ts'
import { stateRules } from './state.ts'

async function text(output: AsyncIterable<Uint8Array>): Promise<string> {
  const parts: Uint8Array[] = []
  for await (const part of output) parts.push(part)
  return Buffer.concat(parts).toString()
}

async function drain(items: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of items);
}

const seed = (engine: Storage) =>
  write(engine, [
    { measurement: 'a', tags: { h: '1' }, time: NOW, fields: { v: f64(1) } },
    { measurement: 'b', time: NOW, fields: { v: f64(1) } },
  ])

export const serviceRules: Rule[] = [
  [
    'a job reads one snapshot beside the data',
    async (t, engine) => {
      await seed(engine)
      const job = engine.run<{ rows: number; fields: number }>(jobModule('rows'), { namespace: 'default', measurement: 'a', pauseMs: 50 })
      const output = text(job.output)
      const late = setTimeout(25).then(() => write(engine, [{ measurement: 'a', tags: { h: '2' }, time: NOW, fields: { v: f64(2) } }]))
      t.equal(await output, 'a\nb\n')
      const first = await job.result
      await late
      t.equal(first.fields, 1)
      t.ok(first.rows === 1 || first.rows === 2, 'the snapshot is taken when the job starts to read')
      const again = engine.run<{ rows: number }>(jobModule('rows'), { namespace: 'default', measurement: 'a', pauseMs: 0 })
      await text(again.output)
      t.equal((await again.result).rows, 2)
      const background = engine.run<{ rows: number }>(jobModule('rows'), { namespace: 'default', measurement: 'a', pauseMs: 0 }, { background: true })
      t.equal(await text(background.output), 'a\nb\n', 'one that nobody waits for answers no differently')
      t.equal((await background.result).rows, 2)
    },
  ],
  [
    'the output of a job waits for its consumer',
    async (t, engine) => {
      const blockBytes = 1 << 16
      const job = engine.run<number>(jobModule('flood'), { blocks: 400, blockBytes })
      let expected = 0
      let settled = false
      job.result.finally(() => {
        settled = true
      })
      for await (const block of job.output) {
        if (expected === 0) {
          await setTimeout(200)
          t.notOk(settled, '25 MB do not fit into the queue')
        }
        if (new DataView(block.buffer, block.byteOffset).getInt32(0) !== expected++ || block.length !== blockBytes)
          t.fail(`block ${expected - 1} is out of place`)
      }
      t.equal(expected, 400)
      t.equal(await job.result, 400)
    },
  ],
  [
    'a job fails with its own code, in time, or when it is cancelled',
    async (t, engine) => {
      const coded = engine.run(jobModule('fail'), 'code')
      await t.rejects(text(coded.output), { code: 'PROMQL_ERROR' })
      await t.rejects(coded.result, { code: 'PROMQL_ERROR', message: /"x"/, detail: { position: 3 } })
      const fault = engine.run(jobModule('fail'), 'error')
      await t.rejects(text(fault.output), { message: /a fault of the job/ })
      await t.rejects(fault.result, { message: /a fault of the job/ })
      const slow = engine.run(jobModule('fail'), 'hang', { timeoutMs: 200, timeoutSetting: 'database.query_timeout_secs' })
      await t.rejects(Promise.all([text(slow.output), slow.result]), { code: 'QUERY_TIMEOUT', message: /database\.query_timeout_secs/ })
      const cancelled = engine.run(jobModule('fail'), 'hang')
      await setTimeout(20)
      // Handed on as a listener, as plugins do.
      const { cancel } = cancelled
      cancel()
      await t.rejects(cancelled.result)
      const controller = new AbortController()
      const aborted = engine.run(jobModule('flood'), { blocks: 1_000_000, blockBytes: 1024 }, { signal: controller.signal })
      await setTimeout(20)
      controller.abort()
      await t.rejects(aborted.result)
      await t.rejects(drain(engine.scan({ namespace: 'default', measurement: 'a' }, { signal: AbortSignal.abort() })))
    },
  ],
  [
    'jobs of a namespace that is gone end, and those of others go on',
    async (t, engine) => {
      await seed(engine)
      const gone = engine.run(jobModule('flood'), { blocks: 400, blockBytes: 1 << 16 }, { namespace: 'gone' })
      const others = engine.run<number>(jobModule('flood'), { blocks: 3, blockBytes: 8 }, { namespace: 'default' })
      await setTimeout(50)
      engine.endJobs?.('gone')
      const ended = { code: 'NOT_FOUND', message: /namespace "gone" was deleted/ }
      await t.rejects(gone.result, ended)
      await t.rejects(text(gone.output), ended)
      await drain(others.output)
      t.equal(await others.result, 3)
      const next = engine.run<number>(jobModule('flood'), { blocks: 3, blockBytes: 8 }, { namespace: 'gone' })
      await drain(next.output)
      t.equal(await next.result, 3, 'who has the name next')
    },
  ],
  ...stateRules,
  [
    'a closed engine refuses, twice closed is closed',
    async (t, engine) => {
      await seed(engine)
      t.same(engine.status(), { accepting: true })
      await engine.close()
      await engine.close()
      t.match(engine.status(), { accepting: false, reason: /closed/ })
      await t.rejects(seed(engine), { code: 'DATABASE_CLOSED' })
      await t.rejects(engine.declareField('default', 'x', { name: 'v', type: 'bool' }), { code: 'DATABASE_CLOSED' })
      await t.rejects(lines(engine, { measurement: 'a' }), { code: 'DATABASE_CLOSED' })
    },
  ],
]
