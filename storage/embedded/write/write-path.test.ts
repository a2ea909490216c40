import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { SvcError } from 'svcdb/lib/errors'
import t, { type Test } from 'tap'
import type { EmbeddedEngine } from '../engine.ts'
import { failCommits, inside } from '../testing/catalog-faults.ts'
import { closeAndRemove, crashCopy, NOW, openEngine, rowsOf, tempDir, writeFloat } from '../testing/harness.ts'
import { HeldLog } from '../testing/held-log.ts'

t.setTimeout(120_000)
const HOUR = 3_600_000_000_000n
const QUIET = { maintenance_interval_secs: 3600, compaction_fan_in: 64 }

async function heldEngine(t: Test, config: Record<string, unknown> = {}): Promise<{ engine: EmbeddedEngine; log: HeldLog; dir: string }> {
  const dir = tempDir()
  const log = new HeldLog()
  const engine = await openEngine(dir, { ...QUIET, ...config }, log.fs)
  t.teardown(() => closeAndRemove(engine, dir))
  await engine.tidy() // the pass that the start begins with has ended
  return { engine, log, dir }
}

/** What a start finds if the process is killed now. */
async function afterCrash<T>(dir: string, body: (engine: EmbeddedEngine) => Promise<T>): Promise<T> {
  const copy = crashCopy(dir)
  const engine = await openEngine(copy, QUIET)
  try {
    return await body(engine)
  } finally {
    await closeAndRemove(engine, copy)
  }
}

const codeOf = (promise: Promise<unknown>) => promise.then(() => 'done').catch(({ code }: { code: string }) => code)
const schemaOf = async (engine: EmbeddedEngine) =>
  (await engine.measurements('')).map(({ name, fields }) => [name, ...fields.map((field) => `${field.name} ${field.type}`)])

function writeInt(engine: EmbeddedEngine, measurement: string, host: string, time: bigint, field: string, value: number): Promise<unknown> {
  const batch = engine.batch('')
  const ref = engine.resolver.measurement('', measurement)
  const table = batch.table(ref)
  const row = table.addRow(engine.resolver.series(ref, ['host', host]), Number(BigInt.asIntN(32, time)), Number(time >> 32n), 0)
  table.column(field, 'int64').setPair(row, value, 0)
  return engine.write(batch)
}

t.test('a commit stores nothing of a write on its way: its numbers may be given again', async (t) => {
  const { engine, log, dir } = await heldEngine(t, { future_write_tolerance_secs: 864_000 })
  const { writer, catalog } = inside(engine)
  await writeFloat(engine, 'm', 'a', NOW, { v: 1, u: 1 })
  const before = await schemaOf(engine)
  const held = log.hold()
  const failed = [
    writeFloat(engine, 'm', 'a', NOW + 1n, { x: 5 }),
    writeFloat(engine, 'own', 'a', NOW, { x: 5, y: 6 }),
    writeFloat(engine, 'shared', 'a', NOW + 40n * HOUR, { z: 5 }),
  ].map(codeOf)
  await held
  t.same(await schemaOf(engine), before, 'nobody knows of it')
  await writer.commit()
  t.same(catalog.counters()?.newest, { '': String(NOW) }, 'nor does the window move on disk')
  await afterCrash(dir, async (again) => {
    t.same(await schemaOf(again), before, 'after a crash meanwhile')
    t.equal(inside(again).schema.tables.filter((table) => table !== undefined).length, 1)
  })
  log.fail()
  t.same(await Promise.all(failed), ['STORAGE_FULL', 'STORAGE_FULL', 'STORAGE_FULL'])
  await writeInt(engine, 'm', 'a', NOW + 2n, 'y', 42)
  const want = [`a ${NOW} v=1 u=1`, `a ${NOW + 2n} y=42`]
  t.same(await rowsOf(engine, 'm'), want)
  await writer.commit()
  await afterCrash(dir, async (again) => {
    t.same(await schemaOf(again), [['m', 'v float64', 'u float64', 'y int64']])
    t.same(await rowsOf(again, 'm'), want)
    await again.flush()
    t.same(await rowsOf(again, 'm'), want, 'flushed')
  })
})

t.test('usage counts measurements of writes on their way, which others do not see yet, and none that was only named', async (t) => {
  const { engine, log } = await heldEngine(t)
  const measurements = async () => (await engine.usage('')).measurements
  const named = engine.batch('')
  engine.resolver.measurement('', 'named')
  t.equal(await measurements(), 0)
  for (const end of ['fail', 'succeed'] as const) {
    const held = log.hold()
    const write = codeOf(writeFloat(engine, 'm', 'a', NOW, { v: 1 }))
    const declared = codeOf(engine.declareField('', 'd', { name: 'f', type: 'bool' }))
    await held
    t.same([await measurements(), await schemaOf(engine)], [2, []])
    log[end]()
    await Promise.all([write, declared])
    t.equal(await measurements(), end === 'fail' ? 0 : 2)
  }
  engine.recycle(named)
})

t.test('a write or a change that cannot be put into the log is refused, and leaves nothing behind', async (t) => {
  const { engine } = await heldEngine(t)
  const { wal, memtables } = inside(engine)
  await writeFloat(engine, 'm', 'a', NOW, { v: 1 })
  const before = [await schemaOf(engine), (await engine.usage('')).series]
  const append = wal.append.bind(wal)
  wal.append = () => {
    throw new SvcError('PAYLOAD_TOO_LARGE', 'a record of the log has at most so many bytes')
  }
  const refused = [
    writeFloat(engine, 'm', 'b', NOW + HOUR / 2n, { v: 2, x: 3 }),
    writeFloat(engine, 'other', 'a', NOW, { v: 2 }),
    engine.delete({ namespace: '', measurement: 'm' }),
    engine.drop('', 'm'),
    engine.declareField('', 'd', { name: 'f', type: 'bool' }),
  ].map(codeOf)
  t.same(await Promise.all(refused), Array(5).fill('PAYLOAD_TOO_LARGE'))
  wal.append = append
  t.same([await schemaOf(engine), (await engine.usage('')).series], before)
  t.equal(memtables.active.rows, 1)
  t.match(await writeFloat(engine, 'm', 'b', NOW + 1n, { v: 2 }), { written: 1 })
  await engine.delete({ namespace: '', measurement: 'm', matchers: [{ tag: 'host', op: '=', value: 'a' }] })
  t.same(await rowsOf(engine, 'm'), [`b ${NOW + 1n} v=2`])
  await engine.tidy()
  t.equal((await engine.usage('')).series, 1, 'and nothing is taken for being on its way')
})

t.test('who hears of a refusal finds a refused drop undone, and series back that were to be given back', async (t) => {
  const { engine, log, dir } = await heldEngine(t)
  await writeFloat(engine, 'm', 'a', NOW, { v: 1 })
  await writeFloat(engine, 'gone', 'a', NOW, { v: 1 })
  /** A write that is refused, and then written again in the same turn. */
  const persistent = (measurement: string) =>
    writeFloat(engine, measurement, 'a', NOW + 1n, { v: 2 }).catch(() => writeFloat(engine, measurement, 'a', NOW + 1n, { v: 3 }))
  let held = log.hold()
  const drop = codeOf(engine.drop('', 'm'))
  const again = persistent('m')
  await held
  log.fail()
  t.match([await drop, await again], ['STORAGE_FULL', { written: 1 }])
  t.same(await rowsOf(engine, 'm'), [`a ${NOW} v=1`, `a ${NOW + 1n} v=3`])

  held = log.hold()
  const deleted = codeOf(engine.delete({ namespace: '', measurement: 'gone' }))
  await held
  held = log.step()
  await held // the record that gives its series back
  t.equal((await engine.usage('')).series, 1)
  const back = persistent('gone')
  log.fail()
  t.match([await deleted, await back], ['done', { written: 1 }])
  await writeFloat(engine, 'gone', 'a', NOW + 1n, { v: 4 })
  t.same(await rowsOf(engine, 'gone'), [`a ${NOW + 1n} v=4`], 'one series, and the point once')
  await afterCrash(dir, async (crashed) => t.same(await rowsOf(crashed, 'gone'), [`a ${NOW + 1n} v=4`]))
})

t.test('a declaration that is refused leaves no measurement that counts', async (t) => {
  const { engine } = await heldEngine(t)
  engine.guard({
    bounds: () => ({ maxSeries: 0, maxMeasurements: 1 }),
    refusal: () => undefined,
    exceeded: () => new SvcError('RATE_LIMITED', 'one is enough'),
  })
  const { writes } = inside(engine)
  writes.refusal = new SvcError('BACKPRESSURE', 'later')
  for (const name of ['a', 'b']) t.equal(await codeOf(engine.declareField('', name, { name: 'f', type: 'bool' })), 'BACKPRESSURE')
  writes.refusal = undefined
  t.equal(await codeOf(engine.declareField('', 'c', { name: 'f', type: 'decimal' })), 'INVALID_POINT')
  t.equal(await codeOf(engine.declareField('', 'd', { name: 'f', type: 'bool' })), 'done')
})

t.test('what failed writes defined and moved is taken back, newest first', async (t) => {
  const { engine, log, dir } = await heldEngine(t, { future_write_tolerance_secs: 864_000 })
  await writeFloat(engine, 'm', 'a', NOW, { v: 1 })
  const held = log.hold()
  const failed: Promise<string>[] = []
  for (let i = 1; i <= 4; i++) {
    const time = NOW + BigInt(i) * 48n * HOUR
    failed.push(codeOf(writeFloat(engine, 'm', `h${i % 2}`, time, { [`w${i}`]: 1, v: 1 })))
    failed.push(codeOf(writeFloat(engine, 'n', `h${i % 2}`, time, { [`w${i}`]: 1, ...(i > 1 ? { v: 1 } : {}) })))
    if (i === 2) await held // the others wait for the next commit
  }
  log.fail()
  t.same(new Set(await Promise.all(failed)), new Set(['STORAGE_FULL']))
  t.match(await writeFloat(engine, 'm', 'a', NOW - 1n, { v: 1 }), { written: 1, rejected: 0 }, 'the window is where it was')
  t.same(await schemaOf(engine), [['m', 'v float64']])
  for (const field of ['w4', 'w2', 'w1']) {
    await writeFloat(engine, 'm', 'h1', NOW + 1n, { [field]: 5 })
    await writeFloat(engine, 'n', 'h0', NOW + 1n, { [field]: 5, q: 1 })
  }
  const rows = async (one: EmbeddedEngine) => [await rowsOf(one, 'm'), await rowsOf(one, 'n')]
  const want = [[`a ${NOW - 1n} v=1`, `a ${NOW} v=1`, `h1 ${NOW + 1n} w4=5 w2=5 w1=5`], [`h0 ${NOW + 1n} w4=5 q=1 w2=5 w1=5`]]
  t.same(await rows(engine), want)
  t.same(await afterCrash(dir, rows), want)
  await engine.flush()
  t.same(await rows(engine), want, 'flushed')
  t.same(await afterCrash(dir, rows), want, 'and after a restart')
})

t.test('writes that have failed are on their way no more: the window moves on disk, and series are given back', async (t) => {
  const { engine, log } = await heldEngine(t)
  const { writer, catalog } = inside(engine)
  await writeFloat(engine, 'm', 'a', NOW - HOUR, { v: 1 })
  const held = log.hold()
  const failed = codeOf(writeFloat(engine, 'm', 'a', NOW, { v: 1 }))
  await held
  log.fail()
  t.equal(await failed, 'STORAGE_FULL')
  await writeFloat(engine, 'm', 'b', NOW, { v: 1 })
  await writer.commit()
  t.same(catalog.counters()?.newest, { '': String(NOW) })
  await engine.delete({ namespace: '', measurement: 'm', matchers: [{ tag: 'host', op: '=', value: 'a' }] })
  await engine.tidy()
  t.equal((await engine.usage('')).series, 1)
})

t.test('writes that fail do not move the window on from times long past', async (t) => {
  const { engine, log } = await heldEngine(t)
  const past = NOW - 10n * 24n * HOUR
  await writeFloat(engine, 'm', 'a', past, { v: 1 })
  const held = log.hold()
  const failed = [NOW - HOUR, NOW].map((time) => codeOf(writeFloat(engine, 'm', 'a', time, { v: 2 })))
  await held
  log.fail()
  t.same(await Promise.all(failed), ['STORAGE_FULL', 'STORAGE_FULL'])
  t.match(await writeFloat(engine, 'm', 'a', past + 1n, { v: 3 }), { written: 1, rejected: 0 })
  t.match(await writeFloat(engine, 'm', 'a', NOW, { v: 4 }), { written: 1, rejected: 0 })
  t.match(await writeFloat(engine, 'm', 'a', past + 2n, { v: 5 }), { written: 0, rejected: 1 }, 'one that is stored does')
})

t.test('of many refused rows all are counted, and some are named', async (t) => {
  const { engine } = await heldEngine(t)
  const batch = engine.batch('')
  const ref = engine.resolver.measurement('', 'm')
  const table = batch.table(ref)
  const far = NOW + 1000n * HOUR
  for (let i = 0; i < 1000; i++) {
    const time = i % 10 === 0 ? NOW : far
    const row = table.addRow(engine.resolver.series(ref, ['host', String(i)]), Number(BigInt.asIntN(32, time)), Number(time >> 32n), i)
    table.column('v', 'float64').setF64(row, i)
  }
  const { written, rejected, rejections } = await engine.write(batch)
  t.same([written, rejected], [100, 900])
  t.same(
    rejections.map(({ position }) => position),
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17],
  )
})

t.test('a series is not given back while a write to it is on its way', async (t) => {
  const { engine, log, dir } = await heldEngine(t)
  for (const host of ['a', 'b']) await writeFloat(engine, 'm', host, NOW, { v: 1 })
  const held = log.hold()
  const deleted = engine.delete({ namespace: '', measurement: 'm' })
  await held
  const next = writeFloat(engine, 'm', 'a', NOW + 1n, { v: 2 })
  const heldAgain = log.step()
  await deleted
  await heldAgain
  log.succeed()
  await next
  const want = [`a ${NOW + 1n} v=2`]
  t.same(await rowsOf(engine, 'm'), want)
  await engine.tidy()
  t.same(await rowsOf(engine, 'm'), want)
  t.same(await afterCrash(dir, (again) => rowsOf(again, 'm')), want)
  // It is on its way no more, though another one is.
  const last = log.hold()
  const emptied = engine.delete({ namespace: '', measurement: 'm' })
  await last
  const other = writeFloat(engine, 'm', 'b', NOW + 2n, { v: 3 })
  const lastHeld = log.step()
  await emptied
  await lastHeld
  log.succeed()
  await other
  t.equal((await engine.usage('')).series, 1)
})

t.test('rows on their way to the log are in the share of their namespace, and those that the log refuses are in none', async (t) => {
  const { engine, log } = await heldEngine(t, { max_memtable_memory: 4 << 20, memtable_flush_threshold: 4 << 20 })
  const writeLarge = async (namespace: string, i: number): Promise<string> => {
    const batch = engine.batch(namespace)
    const ref = engine.resolver.measurement(namespace, 'm')
    const table = batch.table(ref)
    const row = table.addRow(engine.resolver.series(ref, ['host', 'a']), Number(BigInt.asIntN(32, NOW)) + i, Number(NOW >> 32n), 0)
    const text = batch.text('x'.repeat(50_000))
    table.column('s', 'string').setPair(row, text, batch.heap.length - text)
    return engine.write(batch).then(
      () => 'done',
      ({ code, message }) => `${code} ${message}`,
    )
  }
  for (const end of ['fail', 'succeed'] as const) {
    const held = log.hold()
    const writes: Promise<string>[] = []
    let refusal: string | undefined
    while (refusal === undefined && writes.length < 100) {
      const write = writeLarge('one', writes.length)
      writes.push(write)
      // What is refused is refused before the log is asked.
      refusal = await Promise.race([write, new Promise<undefined>((resolve) => setImmediate(() => setImmediate(() => resolve(undefined))))])
    }
    t.ok(writes.length > 10, `${writes.length} writes`)
    await held
    t.match(refusal, /^BACKPRESSURE rows of namespace "one" take \d+ of \d+ bytes in memory/, end)
    const other = writeLarge('other', 0)
    log[end]()
    const answers = await Promise.all([...writes.slice(0, -1), other])
    t.same([...new Set(answers.map((answer) => answer.split(' ')[0]))], [end === 'fail' ? 'STORAGE_FULL' : 'done'])
  }
})

t.test('a measurement that gets a second field: points written again are one', async (t) => {
  const { engine } = await heldEngine(t)
  const hosts = ['a', 'b', 'c']
  for (const m of ['m', 'o']) for (const host of ['a', 'b']) for (let i = 0n; i < 5n; i++) await writeFloat(engine, m, host, NOW + i, { v: 1 })
  for (const host of hosts) for (let i = 4n; i >= 0n; i--) await writeFloat(engine, 'm', host, NOW + i, { v: 2, w: 3 })
  const want = hosts.flatMap((host) => [0n, 1n, 2n, 3n, 4n].map((i) => `${host} ${NOW + i} v=2 w=3`))
  t.same(await rowsOf(engine, 'm'), want)
  await engine.flush()
  t.same(await rowsOf(engine, 'm'), want, 'flushed')
  t.equal((await rowsOf(engine, 'o')).length, 10)
})

t.test('a drop that the log refuses: the measurement goes on, for those as well who know nothing of it yet', async (t) => {
  for (const final of [false, true]) {
    const { engine, log, dir } = await heldEngine(t, { soft_delete_ttl_secs: 3600 })
    await writeFloat(engine, 'm', 'a', NOW, { v: 1, w: 1 })
    t.same(await rowsOf(engine, 'm'), [`a ${NOW} v=1 w=1`])
    const held = log.hold()
    const write = codeOf(writeFloat(engine, 'm', 'b', NOW, { v: 1, x: 1 }))
    await held
    const drop = codeOf(engine.drop('', 'm', { final }))
    const next = codeOf(writeFloat(engine, 'm', 'c', NOW, { other: 1 }))
    await log.step()
    log.fail()
    t.same(await Promise.all([write, drop, next]), ['done', 'STORAGE_FULL', 'STORAGE_FULL'])
    const want = [`a ${NOW} v=1 w=1`, `b ${NOW} v=1 x=1`]
    t.same(await rowsOf(engine, 'm'), want)
    await writeFloat(engine, 'm', 'a', NOW + 1n, { v: 3 })
    t.same(await schemaOf(engine), [['m', 'v float64', 'w float64', 'x float64']])
    t.same(await afterCrash(dir, (again) => rowsOf(again, 'm')), [want[0], `a ${NOW + 1n} v=3`, want[1]])
  }
})

t.test('a drop or a restore that is refused before it gets to the log leaves the measurement as it was', async (t) => {
  const { engine } = await heldEngine(t, { soft_delete_ttl_secs: 3600 })
  const { writes } = inside(engine)
  const refused = async (change: () => Promise<unknown>): Promise<void> => {
    writes.refusal = new SvcError('OVERLOADED', 'only a restart recovers')
    t.equal(await codeOf(change()), 'OVERLOADED')
    writes.refusal = undefined
  }
  await writeFloat(engine, 'm', 'a', NOW, { v: 1 })
  await refused(() => engine.drop('', 'm', { final: false }))
  t.same(await rowsOf(engine, 'm'), [`a ${NOW} v=1`])
  await writeFloat(engine, 'm', 'a', NOW + 1n, { v: 2 })
  await engine.drop('', 'm', { final: false })
  await refused(() => engine.restore('', 'm'))
  t.same(await schemaOf(engine), [])
  await engine.restore('', 'm')
  t.same(await rowsOf(engine, 'm'), [`a ${NOW} v=1`, `a ${NOW + 1n} v=2`])
})

t.test('changes go on in a new log file as writes do, when no write comes between them', async (t) => {
  const { engine, dir } = await heldEngine(t, { soft_delete_ttl_secs: 3600, wal_max_file_size: 65_536 })
  const name = 'm'.repeat(250)
  await writeFloat(engine, name, 'a', NOW, { v: 1 })
  const files = (): string[] => readdirSync(join(dir, 'wal'))
  t.equal(files().length, 1)
  for (let bytes = 0; bytes <= 65_536; bytes += 2 * name.length) {
    await engine.drop('', name, { final: false })
    await engine.restore('', name)
  }
  t.ok(files().length > 1)
})

t.test('a measurement whose first write and drop fail together leaves its name free', async (t) => {
  const { engine, log } = await heldEngine(t)
  const held = log.hold()
  const write = codeOf(writeFloat(engine, 'm', 'a', NOW, { v: 1, w: 1 }))
  await held
  const drop = codeOf(engine.drop('', 'm'))
  log.fail()
  t.same(await Promise.all([write, drop]), ['STORAGE_FULL', 'STORAGE_FULL'])
  engine.recycle(engine.batch(''))
  t.equal((await engine.usage('')).measurements, 0)
  t.same(await schemaOf(engine), [])
  await writeInt(engine, 'm', 'a', NOW, 'v', 1)
  t.same(await schemaOf(engine), [['m', 'v int64']])
})

t.test('a flush that finds no space is repeated, with what was defined meanwhile', async (t) => {
  const { engine, dir } = await heldEngine(t)
  await writeFloat(engine, 'm', 'a', NOW, { v: 1, w: 1 })
  const stop = failCommits(engine, 1)
  t.equal(await codeOf(engine.flush()), 'STORAGE_FULL')
  stop()
  await writeFloat(engine, 'new', 'a', NOW, { v: 1, w: 1 })
  await inside(engine).writer.commit()
  await afterCrash(dir, async (again) => {
    for (const name of ['m', 'new']) t.same(await rowsOf(again, name), [`a ${NOW} v=1 w=1`])
  })
})
