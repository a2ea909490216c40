/** Memtables whose rows take far more memory than they have bytes: a few of each of many wide tables. */
import type { WriteResult } from 'svcdb'
import t from 'tap'
import { lookUntil, until } from '../../../test/support/until.ts'
import type { EmbeddedEngine } from '../engine.ts'
import { closeAndRemove, crashCopy, NOW, openEngine, rowsOf, tempDir, writeFloat } from '../testing/harness.ts'

t.setTimeout(120_000)
const MIB = 1 << 20
const SMALL = { memtable_flush_threshold: MIB, max_memtable_memory: 4 * MIB }
const TABLES = 15
/** Of a batch of one table. */
const ROWS = 10_000
const WIDE = Object.fromEntries(Array.from({ length: 200 }, (_, i) => [`f${i}`, i + 0.5]))

const memory = (engine: EmbeddedEngine): number => (engine as unknown as { opened: { memtables: { memory: number } } }).opened.memtables.memory

/** Refused for want of memory it is sent again, as its sender is told. */
const written = (engine: EmbeddedEngine, table: number): Promise<unknown> =>
  until(`table ${table} is written`, () =>
    writeFloat(engine, `m${table}`, 'a', NOW, WIDE).catch((error) => {
      if (error.code !== 'BACKPRESSURE') throw error
      return undefined
    }),
  )

function writeMany(engine: EmbeddedEngine, time: bigint): Promise<WriteResult> {
  const batch = engine.batch('')
  const ref = engine.resolver.measurement('', 'm')
  const table = batch.table(ref)
  for (let i = 0; i < ROWS; i++) {
    const row = table.addRow(engine.resolver.series(ref, ['host', String(i)]), Number(BigInt.asIntN(32, time)), Number(time >> 32n), i)
    table.column('v', 'float64').setF64(row, i)
    table.column('w', 'float64').setF64(row, Number(time - NOW))
  }
  return engine.write(batch)
}

t.test('they are flushed before they fill the memory', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir, SMALL)
  for (let table = 0; table < TABLES; table++) await written(engine, table)
  for (let table = 0; table < TABLES; table++) t.equal((await rowsOf(engine, `m${table}`)).length, 1)
  await closeAndRemove(engine, dir)
})

t.test('the least memory that there may be takes writes', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir, { max_memtable_memory: MIB })
  for (let table = 0; table < TABLES; table++) await writeFloat(engine, `m${table}`, 'a', NOW, { v: 1 })
  await engine.flush()
  for (let table = 0; table < TABLES; table++) await writeFloat(engine, `m${table}`, 'a', NOW + 1n, { v: 2 })
  for (let table = 0; table < TABLES; table++) t.equal((await rowsOf(engine, `m${table}`)).length, 2)
  await closeAndRemove(engine, dir)
})

t.test('so are those that a start has read back', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir)
  for (let table = 0; table < TABLES; table++) await written(engine, table)
  t.ok(memory(engine) > SMALL.max_memtable_memory)
  const copy = crashCopy(dir)
  await closeAndRemove(engine, dir)
  const again = await openEngine(copy, SMALL)
  t.ok(memory(again) > SMALL.max_memtable_memory)
  await written(again, TABLES)
  for (let table = 0; table <= TABLES; table++) t.equal((await rowsOf(again, `m${table}`)).length, 1)
  await closeAndRemove(again, copy)
})

t.test('what a start has read back is in memtables of the usual size: those that are full are flushed without a write', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir)
  for (let n = 0; n < 10; n++) await writeMany(engine, NOW + BigInt(n))
  const copy = crashCopy(dir)
  await closeAndRemove(engine, dir)
  const again = await openEngine(copy, SMALL)
  t.teardown(() => closeAndRemove(again, copy))
  const { segments } = await lookUntil(
    () => again.explain({ namespace: '', measurement: 'm' }),
    ({ segments }) => segments.total >= 2,
  )
  t.ok(segments.total >= 2, `${segments.total} segments`)
})

t.test('rows that were flushed take no room any more, however many there were', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir, SMALL)
  t.teardown(() => closeAndRemove(engine, dir))
  for (let n = 0; n < 20; n++) {
    await until('there is room', () =>
      writeMany(engine, NOW + BigInt(n)).catch((error) => {
        if (error.code !== 'BACKPRESSURE') throw error
        return undefined
      }),
    )
    await engine.flush()
  }
  t.ok(memory(engine) < SMALL.max_memtable_memory / 2)
})
