/** Jobs, state, and what a closed engine answers. */
import { setImmediate, setTimeout } from 'node:timers/promises'
import type { StateTransaction, Storage } from 'svcdb'
import { jobModule } from './context.ts'
import { f64, lines, NOW, write } from './points.ts'
import type { Rule } from './rules.ts'

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
    'state: ordered, transactional, each owner for itself',
    async (t, engine) => {
      const state = engine.state('one')
      t.equal(await state.get('k'), undefined)
      const value = { list: [1, 'a', null, true], nested: { x: 1.5 } }
      t.equal(
        await state.transaction(async (tx) => {
          tx.put('b/2', 2)
          tx.put('b/1', value)
          tx.put('c', 'c')
          tx.put('a', null)
          tx.put('bä', 'ä')
          tx.delete('c')
          t.equal(await tx.get('c'), undefined, 'a transaction sees what it has done')
          return (await tx.list({ prefix: 'b/' })).length
        }),
        2,
      )
      value.list.push('changed later')
      t.same(await state.get('b/1'), { list: [1, 'a', null, true], nested: { x: 1.5 } })
      const keys = async (range?: Parameters<typeof state.list>[0]) => (await state.list(range)).map((e) => e.key)
      t.same(await keys(), ['a', 'b/1', 'b/2', 'bä'])
      t.same(await keys({ prefix: 'b/' }), ['b/1', 'b/2'])
      t.same(await keys({ start: 'b/1', end: 'b/2' }), ['b/1'])
      t.same(await keys({ start: 'b/2' }), ['b/2', 'bä'])
      t.same(await keys({ limit: 2 }), ['a', 'b/1'])
      t.same(await keys({ prefix: 'b', start: 'b/2', limit: 1 }), ['b/2'])
      t.same(await engine.state('two').list(), [])
      t.same(await engine.state('on').list(), [], 'a prefix of an owner is another owner')
      await engine.state('two').transaction((tx) => tx.put('a', 'two'))
      t.equal(await state.get('a'), null)
      t.equal(await engine.state('one').get('b/2'), 2)
      await t.rejects(
        state.transaction((tx) => {
          tx.put('a', 'lost')
          throw new Error('the body fails')
        }),
        /the body fails/,
      )
      t.equal(await state.get('a'), null, 'a failed transaction leaves nothing')
      const [beyond, last] = ['b/\u{1f600}', 'b/\u{10ffff}']
      await state.transaction(async (tx) => {
        tx.put(last, 'last')
        tx.put(beyond, 'beyond')
        tx.put('b/\uffee', 'before')
        t.same(
          (await tx.list({ prefix: 'b/', start: 'b/3' })).map(({ key }) => key),
          ['b/\uffee', beyond, last],
          'keys are ordered by their UTF-8, in a transaction as well',
        )
      })
      t.same(await keys({ prefix: 'b/', start: 'b/3' }), ['b/\uffee', beyond, last])
      t.same(await keys({ start: beyond }), [beyond, last, 'bä'])
      t.same(await keys({ prefix: 'b/', start: 'b/\uffee', end: last }), ['b/\uffee', beyond])
      await Promise.all(Array.from({ length: 20 }, () => state.transaction(async (tx) => tx.put('n', ((await tx.get<number>('n')) ?? 0) + 1))))
      t.equal(await state.get('n'), 20)
    },
  ],
  [
    'state: transactions that meet come one after the other, though their bodies wait',
    async (t, engine) => {
      const state = engine.state('one')
      const queue = async (turns: number) =>
        state.transaction(async (tx) => {
          const waiting = await tx.list({ prefix: 'queue/' })
          for (let i = 0; i < turns; i++) await setImmediate()
          const place = `queue/${String(waiting.length).padStart(3, '0')}`
          tx.put(place, turns)
          return place
        })
      const places = await Promise.all(Array.from({ length: 10 }, (_, i) => queue(i % 4)))
      t.equal(new Set(places).size, 10, 'what a listing does not show is seen to have come')
      t.same(
        (await state.list({ prefix: 'queue/' })).map(({ key }) => key),
        places.toSorted(),
      )
      const both = (value: number) => state.transaction((tx) => ['pair/a', 'pair/b'].forEach((key) => void tx.put(key, value)))
      await both(1)
      const read = state.transaction(async (tx) => {
        const first = await tx.get<number>('pair/a')
        for (let i = 0; i < 10; i++) await setImmediate()
        if ((await tx.get('pair/b')) !== first) throw new Error('the two are of two times')
        return first
      })
      await both(2)
      t.ok([1, 2].includes((await read) as number), 'a transaction answers of one time')
      let after: StateTransaction | undefined
      await state.transaction((tx) => {
        after = tx
      })
      await t.rejects(async () => after?.get('stock'), /it has ended/)
      t.throws(() => after?.put('stock', 2), /it has ended/)
      t.equal(await state.get('stock'), undefined)
    },
  ],
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
