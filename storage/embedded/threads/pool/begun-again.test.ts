/** A job whose snapshot holds memory that writes need is begun again while nobody has seen anything of it; its caller learns of that only when it does not help. */
import { rmSync } from 'node:fs'
import type { JobOptions, RunningJob } from 'svcdb'
import { moduleUrl } from 'svcdb/lib/modules'
import { MetricsRegistry } from 'svcdb/testkit'
import t from 'tap'
import { testContext } from '../../../conformance/index.ts'
import { EmbeddedEngine } from '../../engine.ts'
import { NOW, NOW_MS, tempDir } from '../../testing/harness.ts'
import type { Begun, BegunArgs } from '../testing/begun-job.ts'

const JOB = moduleUrl('../testing/begun-job.ts', import.meta.url)
const HELD = moduleUrl('../testing/held-job.ts', import.meta.url)
const LATE = moduleUrl('../testing/late-job.ts', import.meta.url)
const FLUSH = 1 << 20
const BATCH = 8000
const START = NOW - 3_600_000_000_000n

const dir = tempDir()
const registry = new MetricsRegistry()
const config = { data_dir: dir, query_threads: 1, memtable_flush_threshold: FLUSH, max_memtable_memory: 3 * FLUSH }
const engine = new EmbeddedEngine({ ...testContext(config, () => NOW_MS), metrics: registry.child('storage') })
await engine.open()
t.teardown(() => rmSync(dir, { recursive: true, force: true }))

let rows = 0

async function write(): Promise<void> {
  const batch = engine.batch('')
  const measurement = engine.resolver.measurement('', 'cpu')
  const series = engine.resolver.series(measurement, ['host', 'a'])
  const table = batch.table(measurement)
  for (let i = 0; i < BATCH; i++) {
    const time = START + BigInt(rows + i)
    table.column('v', 'float64').setF64(table.addRow(series, Number(BigInt.asIntN(32, time)), Number(time >> 32n), i), i)
  }
  await engine.write(batch)
  rows += BATCH
}

/** A batch, where there is room for it. */
async function load(): Promise<void> {
  await write().catch((error: { code?: string }) => {
    if (error.code !== 'BACKPRESSURE') throw error
  })
  await new Promise((resolve) => setImmediate(resolve))
}

async function metric(name: string): Promise<number> {
  return Number(new RegExp(`^svc_queries_${name}_total (\\S+)$`, 'm').exec(await registry.text())?.[1])
}

/** What jobs held has been given back. */
async function nothingHeld(): Promise<void> {
  while (!/^svc_memtable_held_bytes 0$/m.test(await registry.text())) await new Promise((resolve) => setTimeout(resolve, 20))
}

const ask = (args: Omit<BegunArgs, 'measurement'>, options: JobOptions = {}): RunningJob<Begun> =>
  engine.run<Begun>(JOB, { ...args, measurement: 'cpu' }, options)

/** Writes until jobs were stopped so often, for what they hold; then waits for this one. */
async function flooded(job: RunningJob<Begun>, stops: number): Promise<Begun | { code?: string }> {
  const outcome = job.result.catch((error: { code?: string }) => error)
  const stopped = async (): Promise<number> => (await metric('begun_again')) + (await metric('cut'))
  const before = await stopped()
  while ((await stopped()) < before + stops) await load()
  return outcome
}

/** Two who ask the same while the thread is busy; the first of them leaves. @returns the other's. */
async function leftToAnother(args: Omit<BegunArgs, 'measurement'>): Promise<RunningJob<Begun>> {
  const before = await metric('shared')
  const gate = new Int32Array(new SharedArrayBuffer(4))
  engine.run(HELD, gate).result.catch(() => {})
  const [first, second] = [ask(args, { shared: true }), ask(args, { shared: true })]
  first.cancel()
  Atomics.store(gate, 0, 1)
  Atomics.notify(gate, 0)
  t.equal(await metric('shared'), before + 1)
  return second
}

async function text(job: RunningJob<unknown>): Promise<string> {
  const parts: Uint8Array[] = []
  for await (const part of job.output) parts.push(part.slice())
  return Buffer.concat(parts).toString()
}

await write()

t.test('it is begun again, and sees what was acknowledged by then', async (t) => {
  const before = rows
  const job = ask({ name: 'slow twice', waits: 2 })
  const output = text(job)
  const outcome = (await flooded(job, 2)) as Begun
  t.equal(outcome.times, 3)
  t.ok(outcome.rows > before, `${outcome.rows} rows, of ${before} that were there when it was asked`)
  t.same(JSON.parse(await output), outcome)
  t.equal(await metric('begun_again'), 2)
  t.equal(await metric('cut'), 0)
})

t.test('not for ever', async (t) => {
  t.match(await flooded(ask({ name: 'always slow', waits: 1000 }), 4), { code: 'BACKPRESSURE' })
  t.equal(await metric('begun_again'), 2 + 3)
  t.equal(await metric('cut'), 1)
})

t.test('not once some of its output has come', async (t) => {
  const job = ask({ name: 'speaks', waits: 1, speaks: true })
  const first = await job.output[Symbol.asyncIterator]().next()
  t.equal(Buffer.from(first.value as Uint8Array).toString(), '[')
  t.match(await flooded(job, 1), { code: 'BACKPRESSURE' })
  t.equal(await metric('begun_again'), 5)
  t.equal(await metric('cut'), 2)
})

t.test('its caller leaves it then as ever', async (t) => {
  const job = ask({ name: 'left', waits: 1000 })
  const outcome = job.result.catch((error: { code?: string }) => error)
  while ((await metric('begun_again')) === 5) await load()
  job.cancel()
  t.match(await outcome, { code: 'BAD_REQUEST' })
  await nothingHeld()
})

t.test('for those who wait for a copy of its answer, too, though its own caller has left', async (t) => {
  const before = await metric('begun_again')
  t.match(await flooded(await leftToAnother({ name: 'shared', waits: 1 }), 1), { times: 2 })
  t.equal(await metric('begun_again'), before + 1)
})

t.test('those who wait for a copy are told, and its memory is given back, when it cannot go on', async (t) => {
  const cut = await metric('cut')
  t.match(await flooded(await leftToAnother({ name: 'shared, always slow', waits: 1000 }), 4), { code: 'BACKPRESSURE' })
  t.equal(await metric('cut'), cut + 1)
  for (let i = 0; i < 100; i++) await load()
  await nothingHeld()
  t.equal(await metric('cut'), cut + 1)
})

t.test('one that ends before it hears of it is answered in full', async (t) => {
  const before = await metric('begun_again')
  const gate = new Int32Array(new SharedArrayBuffer(8))
  const job = engine.run<number>(LATE, { measurement: 'cpu', gate, parts: 5 })
  const output = text(job)
  while (Atomics.load(gate, 1) === 0) await new Promise((resolve) => setTimeout(resolve, 5))
  while ((await metric('begun_again')) === before) await load()
  Atomics.store(gate, 0, 1)
  Atomics.notify(gate, 0)
  t.equal(await job.result, 5)
  t.equal(await output, '0 1 2 3 4 ')
  t.equal(Atomics.load(gate, 1), 1)
  await nothingHeld()
})

t.test('not while the database closes', async (t) => {
  const before = await metric('begun_again')
  const job = ask({ name: 'closing', waits: 1000 })
  const outcome = job.result.catch((error: { code?: string }) => error)
  while ((await metric('begun_again')) === before) await load()
  await engine.close()
  t.type(await outcome, Error)
})
