/** Whatever readers do, memory of rows stays within its limit, and nobody reads what is another's: random questions of slow clients under steady writes. */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import type { RunningJob } from 'svcdb'
import { MetricsRegistry } from 'svcdb/testkit'
import t from 'tap'
import { testContext } from '../../conformance/index.ts'
import { EmbeddedEngine } from '../engine.ts'
import { closeAndRemove, NOW, NOW_MS, tempDir } from '../testing/harness.ts'

t.setTimeout(400_000)

const SEED = Number(process.env.SVC_SEED ?? Math.floor(Math.random() * 2 ** 31))
const JOB = new URL('../testing/slow-scan-job.ts', import.meta.url)
const MIB = 1 << 20
const FLUSH = MIB
const LIMIT = 8 * FLUSH
/** A batch that is let in may begin a memtable of a few slabs. */
const SLACK = 3 * MIB
const SERIES = 200
const BATCH = 8000
const STEPS = 180
const READERS = 10
/** Rows that a question is about: the newest, and those that come meanwhile. */
const ASKED = 50_000
const START = NOW - (NOW % 1_000_000n) - 3_600_000_000_000n
const OWNERS = [
  { namespace: '', measurement: 'cpu', salt: 1 },
  { namespace: 'other', measurement: 'cpu', salt: -3 },
]

interface Asked {
  job: RunningJob<number>
  output: AsyncIterator<Uint8Array>
  atLeast: number
  outcome: Promise<number | { code?: string }>
  ended: boolean
}

t.test(`slow readers, again and again (seed ${SEED})`, async (t) => {
  let state = SEED
  const pick = (n: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0
    return ((state >>> 8) * n) >>> 24
  }
  const dir = tempDir()
  const registry = new MetricsRegistry()
  const context = testContext({ data_dir: dir, memtable_flush_threshold: FLUSH, max_memtable_memory: LIMIT }, () => NOW_MS)
  const engine = new EmbeddedEngine({ ...context, metrics: registry.child('storage') })
  await engine.open()
  t.teardown(() => closeAndRemove(engine, dir))
  const metric = async (name: string): Promise<number> => Number(new RegExp(`^svc_${name} (\\S+)$`, 'm').exec(await registry.text())?.[1])
  const { resolver } = engine
  const owners = OWNERS.map((owner) => ({ ...owner, rows: 0 }))
  const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
  const asked: Asked[] = []
  let [finished, cut, refused, exported] = [0, 0, 0, 0]

  const write = async (): Promise<void> => {
    const owner = owners[pick(owners.length)]
    for (;;) {
      const batch = engine.batch(owner.namespace)
      const measurement = resolver.measurement(owner.namespace, owner.measurement)
      const series = Array.from({ length: SERIES }, (_, i) => resolver.series(measurement, ['host', `h${i}`]))
      const table = batch.table(measurement)
      for (let i = 0; i < BATCH; i++) {
        const time = START + BigInt(owner.rows + i)
        const row = table.addRow(series[(i * 7919) % SERIES], Number(BigInt.asIntN(32, time)), Number(time >> 32n), i)
        table.column('v', 'float64').setF64(row, Number(time % 1_000_000n) * owner.salt)
      }
      try {
        await engine.write(batch)
        owner.rows += BATCH
        return
      } catch (error) {
        if ((error as { code?: string }).code !== 'BACKPRESSURE') throw error
        refused++
        await turn()
      }
    }
  }
  const ask = (): void => {
    const { namespace, measurement, salt, rows } = owners[pick(owners.length)]
    if (rows === 0) return
    const job = engine.run<number>(JOB, { namespace, measurement, salt, pauses: pick(4), start: START + BigInt(Math.max(0, rows - ASKED)) })
    const one: Asked = {
      job,
      output: job.output[Symbol.asyncIterator](),
      atLeast: Math.min(rows, ASKED),
      outcome: job.result.catch((error: { code?: string }) => error),
      ended: false,
    }
    void one.outcome.then(() => {
      one.ended = true
    })
    asked.push(one)
  }
  const end = async (one: Asked): Promise<void> => {
    asked.splice(asked.indexOf(one), 1)
    const outcome = await one.outcome
    if (typeof outcome !== 'number') {
      if (outcome.code !== 'BACKPRESSURE') throw outcome
      cut++
    } else {
      if (outcome < one.atLeast) throw new Error(`${outcome} rows were found, ${one.atLeast} had been acknowledged`)
      finished++
    }
  }
  const within = async (): Promise<void> => {
    const text = await registry.text()
    const value = (name: string): number => Number(new RegExp(`^svc_${name} (\\S+)$`, 'm').exec(text)?.[1])
    const memory = value('memtable_memory_bytes') + value('memtable_held_bytes')
    if (!(memory <= LIMIT + SLACK)) throw new Error(`${memory} bytes of rows are in memory`)
    most = Math.max(most, memory)
    mostHeld = Math.max(mostHeld, value('memtable_held_bytes'))
  }
  let [most, mostHeld] = [0, 0]
  for (let step = 0; step < STEPS; step++) {
    const what = pick(10)
    if (what < 6) await write()
    else if (what < 8 && asked.length < READERS) ask()
    else if (what === 8 && asked.length > 0) void asked[pick(asked.length)].output.next().catch(() => {})
    else if (step % 7 === 0 && owners[0].rows > 0) {
      const path = join(dir, `${step}.parquet`)
      await engine.export({ namespace: '', measurement: 'cpu', path, maxBytes: 0 })
      rmSync(path)
      exported++
    }
    for (const one of asked.filter(({ ended }) => ended)) await end(one)
    if (step % 10 === 0) await within()
  }
  for (const one of [...asked]) {
    for (;;) {
      const { done } = await one.output.next().catch(() => ({ done: true }))
      if (done) break
    }
    await end(one)
  }
  t.ok(cut > 0 && finished > 0, `${finished} readers finished, ${cut} were ended; ${refused} writes were refused for a moment, ${exported} exports`)
  t.ok(most <= LIMIT + SLACK, `at most ${most} bytes of rows were in memory, of these ${mostHeld} held by readers`)
  t.equal(await metric('queries_cut_total'), cut)
  // A job that was ended is told so before its thread has let go.
  while ((await metric('memtable_held_bytes')) > 0) await new Promise((resolve) => setTimeout(resolve, 20))
  t.equal(await metric('memtable_held_bytes'), 0, 'what nobody reads is held by nobody')
})

t.test('writes are answered later while a reader at work holds memory, and in time when it has ended', async (t) => {
  const dir = tempDir()
  const registry = new MetricsRegistry()
  const context = testContext({ data_dir: dir, memtable_flush_threshold: FLUSH, max_memtable_memory: LIMIT }, () => NOW_MS)
  const engine = new EmbeddedEngine({ ...context, metrics: registry.child('storage') })
  await engine.open()
  t.teardown(() => closeAndRemove(engine, dir))
  const slowdown = async (): Promise<number> => Number(/^svc_write_slowdown_seconds_total (\S+)$/m.exec(await registry.text())?.[1])
  const held = async (): Promise<number> => Number(/^svc_memtable_held_bytes (\S+)$/m.exec(await registry.text())?.[1])
  const { resolver } = engine
  let rows = 0
  const write = async (): Promise<void> => {
    const batch = engine.batch('')
    const measurement = resolver.measurement('', 'cpu')
    const series = resolver.series(measurement, ['host', 'a'])
    const table = batch.table(measurement)
    for (let i = 0; i < BATCH; i++, rows++) {
      const time = START + BigInt(rows)
      table.column('v', 'float64').setF64(table.addRow(series, Number(BigInt.asIntN(32, time)), Number(time >> 32n), i), Number(time % 1_000_000n))
    }
    await engine.write(batch)
  }
  await write()
  t.equal(await slowdown(), 0)
  const job = engine.run<number>(JOB, { namespace: '', measurement: 'cpu', salt: 1, pauses: 0, workMs: 600_000, start: START })
  // Rows until a memtable was flushed that the reader has.
  for (let i = 0; i < 60 && (await slowdown()) === 0; i++) {
    await write()
    if (i % 10 === 9) await engine.flush()
  }
  t.ok((await slowdown()) > 0, `${await slowdown()} s`)
  job.cancel()
  await job.result.catch(() => {})
  while ((await held()) > 0) await new Promise((resolve) => setTimeout(resolve, 20))
  const before = await slowdown()
  for (let i = 0; i < 5; i++) await write()
  t.equal(await slowdown(), before, 'nothing is held')
})
